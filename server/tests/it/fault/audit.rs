//! `seatwire audit`: says nothing of a sound event, and names every disagreement of one that is not.

use crate::checkout::till::{Buyer, Till, checkout_of};
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use fred::interfaces::KeysInterface;
use fred::types::Value as RedisValue;
use seatwire::checkout::RefundWhat;
use seatwire::organiser::Operator;
use seatwire::store::refund::RefundLine;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;
use serde_json::json;
use std::process::Command;

/// Runs `seatwire audit`; its exit code and everything it said.
pub(super) async fn audit(stage: &Stage, event: &str) -> (Option<i32>, String) {
    let mut command = Command::new(crate::support::program());
    command.envs(crate::support::UNHURRIED);
    let redis_url = stage.elsewhere.clone().unwrap_or_else(|| stage.redis.url());
    command.args(["audit", event]).env("DATABASE_URL", &stage.database_url).env("REDIS_URL", redis_url);
    let output = tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Nothing disagrees.
pub(crate) async fn clean(stage: &Stage, event: &str) -> String {
    let (code, said) = audit(stage, event).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("everything agrees"), "{said}");
    assert!(!said.contains("compared with itself alone"), "all of it: {said}");
    said
}

async fn sale() -> Till {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    till.until_seat(1, 2).await;
    let (second, hold) = till.buyer_with(&[5]).await;
    till.bought(second, &hold, "pm_card_chargeDeclined").await;
    let (third, _) = till.buyer_with(&[7, 8]).await;
    let places = json!({"event": till.event, "area": 0, "quantity": 3});
    till.call(third, "hold_area", places.clone()).await;
    let fourth = Buyer(IdentityId::generate());
    let reply = till.call(fourth, "hold_area", places.clone()).await;
    till.bought(fourth, &reply["hold"], "pm_card_visa").await;
    let fifth = Buyer(IdentityId::generate());
    let reply = till.call(fifth, "hold_area", places).await;
    till.bought(fifth, &reply["hold"], "pm_card_chargeDeclined").await;
    till
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_event_agrees_and_what_was_compared_is_said() {
    let mut till = sale().await;
    let said = clean(&till.stage, &till.event).await;
    assert!(said.contains("epoch 1, seq"), "{said}");
    assert!(said.contains("160 seats, 1 areas, 3 holds of 5 identities, 4 orders, 5 tickets"), "{said}");
    super::journal::lose_redis(&mut till).await;
    let said = clean(&till.stage, &till.event).await;
    assert!(said.contains("epoch 2, seq") && said.contains("3 holds of 5 identities"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_disagreement_is_one_plain_line() {
    let till = sale().await;
    let pool = till.app.store.pool();
    let redis = super::journal::operator(&till).await;
    let key = |name: &str| format!("{{{}}}:1:{name}", till.event);
    let words = |word: u32| RedisValue::from(&word.to_le_bytes()[..]);
    clean(&till.stage, &till.event).await;

    // A sold seat that Redis would give away.
    let _: u64 = redis.setrange(key("s"), 4, words(0)).await.expect("writes");
    // A held seat without a hold.
    let _: u64 = redis.setrange(key("s"), 4 * 100, words(0x4000_0001)).await.expect("writes");
    // Places that are not there.
    let _: u64 = redis.setrange(key("a"), 0, words(50)).await.expect("writes");
    for sql in [
        "delete from journal_records where has_hold and ctid = (select min(ctid) from journal_records where has_hold)",
        "update identity_use set used = used + 1 where ctid = (select min(ctid) from identity_use)",
        "update tickets set state = 'void' where seat_index = 2",
    ] {
        assert_eq!(sqlx::query(sql).execute(pool).await.expect("writes").rows_affected(), 1, "{sql}");
    }
    let (code, said) = audit(&till.stage, &till.event).await;
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "seat 1 is Sold by ord_",
        "seat 100 is held by",
        "area 0: Redis has 50 places left, but 50 less 6 ordered less 3 held is 41",
        "the journal has no record",
        "places against its limit, but has",
        "seat 2 is sold to ord_",
        "disagreements",
    ] {
        assert!(said.contains(line), "{line} in\n{said}");
    }
    // Another event, and none at all.
    let (code, said) = audit(&till.stage, "evt_01m8mcxrd5e9ssj4phws5cf8xx").await;
    assert_eq!((code, said.contains("there is no event")), (Some(1), true), "{said}");
    assert_eq!(audit(&till.stage, "x").await.0, Some(64));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_nobody_has_asked_for_since_redis_was_lost_is_no_disagreement() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    {
        let node = stage.node().await;
        let (mut buyer, _) = Client::guest(&node.url).await;
        let reply = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
        let mut checkout = checkout_of(&reply["hold"], "pm_card_visa");
        checkout["key"] = "2".into();
        assert_eq!(buyer.call("checkout", checkout).await["order"]["state"], "paid");
        eventually("the outbox to be told", || async {
            let waiting = "select count(*) from outbox";
            let n: i64 = sqlx::query_scalar(waiting).fetch_one(stage.store.pool()).await.expect("counts");
            (n == 0).then_some(())
        })
        .await;
        clean(&stage, &event).await;
        node.signal("TERM");
        assert_eq!(node.ended().await, Some(0));
    }
    stage.redis.kill();
    stage.redis.restart().await;
    let (code, said) = audit(&stage, &event).await;
    assert_eq!(code, Some(0), "{said}");
    for line in ["epoch 1, seq 0", "nobody has asked for the event since", "compared with itself alone", "agrees"] {
        assert!(said.contains(line), "{line} in\n{said}");
    }
    // What Postgres says of itself still counts.
    let pool = stage.store.pool();
    sqlx::query("update tickets set state = 'void'").execute(pool).await.expect("writes");
    let (code, said) = audit(&stage, &event).await;
    assert_eq!((code, said.contains("seat 1 is sold to ord_")), (Some(1), true), "{said}");
    sqlx::query("update tickets set state = 'valid'").execute(pool).await.expect("writes");
    // The first who asks has it rebuilt, and then all of it is compared.
    let node = stage.node().await;
    let (mut viewer, _) = Client::guest(&node.url).await;
    viewer.call("subscribe", json!({"event": event})).await;
    assert!(clean(&stage, &event).await.contains("epoch 2, seq"));
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_kept_seats_that_only_one_side_knows_are_named() {
    let till = Till::open().await;
    let event = till.event.parse().expect("an id");
    let seats = vec![SeatIndex(10), SeatIndex(11)];
    till.app.organiser.block(Operator::server(), event, seats).await.expect("blocked");
    clean(&till.stage, &till.event).await;
    let redis = super::journal::operator(&till).await;
    for (seat, word) in [(10, 0u32), (20, 1), (21, 2)] {
        let word = RedisValue::from(&word.to_le_bytes()[..]);
        let _: u64 = redis.setrange(format!("{{{}}}:1:s", till.event), 4 * seat, word).await.expect("writes");
    }
    let (code, said) = audit(&till.stage, &till.event).await;
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "seat 10 is blocked in Postgres, but not in Redis",
        "seat 20 is blocked in Redis, but neither blocked nor allocated in Postgres",
        "seat 21 is kept for the waitlist, which does not know of it",
    ] {
        assert!(said.contains(line), "{line} in\n{said}");
    }
    assert!(!said.contains("seat 11 "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refunded_before_a_loss_is_not_given_back_again_after_it() {
    let mut till = Till::open().await;
    let buyer = Buyer(IdentityId::generate());
    let reply = till.call(buyer, "hold_area", json!({"event": till.event, "area": 0, "quantity": 3})).await;
    let order = till.bought(buyer, &reply["hold"], "pm_card_visa").await;
    let id: OrderId = order["id"].as_str().expect("an id").parse().expect("an id");
    let one = || RefundWhat::Lines(vec![RefundLine { line: 0, quantity: 1 }]);
    let left = async |till: &Till| {
        let facts = super::journal::facts(till).await;
        till.app.inventory.read_map(&facts).await.map_or(0, |map| map.areas[0])
    };
    till.refund(&serde_json::json!(id), one()).await.expect("refundable");
    eventually("the first place to be free", || async { (left(&till).await == 48).then_some(()) }).await;
    super::journal::lose_redis(&mut till).await;
    assert_eq!(left(&till).await, 48);
    till.refund(&serde_json::json!(id), one()).await.expect("refundable");
    eventually("the second place to be free", || async { (left(&till).await > 48).then_some(()) }).await;
    assert_eq!(left(&till).await, 49);
    clean(&till.stage, &till.event).await;
}
