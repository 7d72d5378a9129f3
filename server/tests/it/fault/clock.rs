//! Redis' clock is moved by a quarter of an hour while holds are open, and Redis is lost afterwards: no hold ends early, none
//! lives longer, and what a buyer is told of the time left is true at each moment.

use super::journal::{facts, journalled, lose_redis};
use crate::checkout::till::{Buyer, Till, key};
use crate::support::eventually;
use crate::support::redis::Redis;
use crate::support::stage::{Draft, Stage, enter_event};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const QUARTER_MS: i64 = 900_000;
/// How long a hold lives here, in ms.
const TTL_MS: u64 = 600_000;
/// A sweeper judges a jump within moments; answers are late by their way; and this machine may be busy.
const DOUBT_MS: u64 = 20_000;

/// A till on a Redis whose clock can be moved.
async fn till_with(draft: &Draft) -> Till {
    let stage = Stage::on(Redis::start_with_own_clock().await).await;
    let event = enter_event(&stage.store, draft).await.to_string();
    Till::open_on(stage, event).await
}

fn left_ms(hold: &Value) -> u64 {
    let ms = |name: &str| hold[name].as_u64().expect("a time");
    ms("expires_ms").saturating_sub(ms("server_ms"))
}

/// The hold as a new socket of its owner is told of it.
async fn told(till: &Till, buyer: Buyer) -> Value {
    let facts = facts(till).await;
    let hold = till.app.inventory.open_hold(&facts, buyer.0).await.expect("Redis answers").expect("it is open");
    serde_json::to_value(hold.to_wire(&facts, till.app.inventory.event_ms(facts.id))).expect("JSON")
}

/// Waits until a sweeper has judged where the clock is now.
async fn judged(till: &Till, ahead_ms: i64) {
    let facts = facts(till).await;
    eventually("the jump to be judged", || async {
        till.app.inventory.sweep(&facts).await.expect("Redis answers");
        let at = super::redis::command(&till.stage.redis.url(), &["TIME"]).await.into_array();
        let redis_s: i64 = at[0].as_string()?.parse().ok()?;
        let off_ms = redis_s * 1_000 - i64::try_from(till.app.inventory.event_ms(facts.id)).ok()?;
        ((off_ms - ahead_ms).abs() < 20_000).then_some(())
    })
    .await;
}

async fn a_jump_by(ahead_ms: i64) {
    let mut till = till_with(&Draft { hold_ttl_ms: TTL_MS, ..Draft::default() }).await;
    let began = Instant::now();
    let (ann, first) = till.buyer_with(&[1]).await;
    assert!(left_ms(&first) > TTL_MS - DOUBT_MS && left_ms(&first) <= TTL_MS, "{first}");
    till.stage.redis.move_clock_ms(ahead_ms);
    judged(&till, ahead_ms).await;
    let is_true = |hold: &Value, since: Instant, what: &str| {
        let passed_ms = since.elapsed().as_millis() as u64;
        let left = left_ms(hold);
        assert!(left <= TTL_MS, "{what}: longer than it lives: {left} of {hold}");
        assert!(left + passed_ms + DOUBT_MS >= TTL_MS, "{what}: {left} after {passed_ms} of {hold}");
    };
    is_true(&told(&till, ann).await, began, "an old hold");
    let later = Instant::now();
    let (bob, second) = till.buyer_with(&[5]).await;
    is_true(&second, later, "a new hold");
    // Said again by another command, and by its lock.
    let more = till.call(bob, "hold", json!({"event": till.event, "seats": [6], "key": key()})).await;
    is_true(&more["hold"], later, "one that is added to");
    journalled(&till).await;
    lose_redis(&mut till).await;
    is_true(&told(&till, ann).await, began, "an old hold after the loss");
    is_true(&told(&till, bob).await, later, "a new hold after the loss");
    let third = Instant::now();
    let (_, hold) = till.buyer_with(&[9]).await;
    is_true(&hold, third, "a hold of the new life");
    // And the clock is set right again.
    till.stage.redis.move_clock_ms(0);
    judged(&till, 0).await;
    is_true(&told(&till, ann).await, began, "an old hold when the clock is right again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_a_quarter_of_an_hour_ahead_ends_no_basket_and_shortens_none() {
    a_jump_by(QUARTER_MS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_a_quarter_of_an_hour_behind_lets_no_basket_live_longer() {
    a_jump_by(-QUARTER_MS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_redis_with_another_clock_goes_on_with_the_events_time() {
    let mut till = till_with(&Draft { hold_ttl_ms: 3_000, ..Draft::default() }).await;
    let (ann, hold) = till.buyer_with(&[1]).await;
    journalled(&till).await;
    let began = Instant::now();
    // As when a replica on another machine takes over: nobody has seen its clock jump.
    till.stage.redis.move_clock_ms(-QUARTER_MS);
    lose_redis(&mut till).await;
    // It ends, and not a quarter of an hour later.
    let facts = facts(&till).await;
    eventually("the hold to end", || async {
        let open = till.app.inventory.open_hold(&facts, ann.0).await.expect("Redis answers");
        open.is_none().then_some(())
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(60), "{hold} ended after {:?}", began.elapsed());
    let (_, next) = till.buyer_with(&[1]).await;
    assert!(left_ms(&next) <= 3_000, "{next}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_after_the_jump_does_not_take_it_for_time() {
    let till = till_with(&Draft { hold_ttl_ms: TTL_MS, ..Draft::default() }).await;
    let (ann, _) = till.buyer_with(&[1]).await;
    journalled(&till).await;
    // Its node dies, the clock is moved, and a node comes that has never seen this event.
    let event = till.event.clone();
    let Till { stage, app, .. } = till;
    app.shutdown.advance(seatwire::shutdown::Phase::Stopping);
    drop(app);
    eventually("the node to be gone", || async {
        let silent = "select count(*) from journal_writers";
        let n: i64 = sqlx::query_scalar(silent).fetch_one(stage.store.pool()).await.expect("counts");
        (n == 0).then_some(())
    })
    .await;
    stage.redis.move_clock_ms(QUARTER_MS);
    let next = Till::open_on(stage, event).await;
    judged(&next, QUARTER_MS).await;
    let left = left_ms(&told(&next, ann).await);
    assert!(left > TTL_MS - 5 * DOUBT_MS, "{left} are left");
}
