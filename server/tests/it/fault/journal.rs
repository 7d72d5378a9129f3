//! The journal of holds: what Redis knew a moment ago is in Postgres, and the next life of an event begins with it.

use crate::checkout::till::{Buyer, Till, key};
use crate::support::eventually;
use crate::support::stage::Draft;
use fred::interfaces::{ClientLike, StreamsInterface};
use fred::types::Builder;
use fred::types::config::Config;
use seatwire::catalogue::EventFacts;
use seatwire::checkout::order::OrderState;
use seatwire::inventory::{Caller, HoldOutcome};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::SeatIndex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// A client of an operator.
pub(super) async fn operator(till: &Till) -> fred::clients::Client {
    let config = Config::from_url(&till.stage.redis.url()).expect("a URL");
    let client = Builder::from_config(config).build().expect("a client");
    client.init().await.expect("Redis answers");
    client
}

/// Waits until the journal has everything the event's stream has.
pub(super) async fn journalled(till: &Till) {
    let redis = operator(till).await;
    let event: seatwire_proto::id::EventId = till.event.parse().expect("an id");
    eventually("the journal to have everything", || async {
        let row: (i32, i64, i64, bool) =
            sqlx::query_as("select epoch, seq, step, is_whole from journal_positions where event_id = $1")
                .bind(event.uuid())
                .fetch_optional(till.app.store.pool())
                .await
                .expect("reads")?;
        let (epoch, seq, step, is_whole) = row;
        let entries: Vec<(String, HashMap<fred::bytes::Bytes, fred::types::Value>)> =
            redis.xrevrange_values(format!("{{{event}}}:{epoch}:c"), "+", "-", Some(1)).await.expect("reads");
        let newest = entries.first().map_or("0-0", |(id, _)| id);
        (is_whole && newest == format!("{seq}-{step}")).then_some(())
    })
    .await;
    redis.quit().await.expect("quits");
}

pub(super) async fn facts(till: &Till) -> Arc<EventFacts> {
    let event = till.event.parse().expect("an id");
    till.app.catalogue.event(event).await.expect("reads").expect("the event")
}

/// Kills Redis, starts it empty and waits for the next life.
pub(crate) async fn lose_redis(till: &mut Till) {
    let facts = facts(till).await;
    let before = till.app.inventory.read_map(&facts).await.expect("a map").epoch;
    till.stage.redis.kill();
    till.stage.redis.restart().await;
    eventually("the next life", || async {
        till.app.inventory.read_map(&facts).await.ok().filter(|map| map.epoch > before)
    })
    .await;
}

/// The basket as the shelf has it.
async fn basket(till: &Till, buyer: Buyer) -> Option<Value> {
    let facts = facts(till).await;
    let hold = till.app.inventory.open_hold(&facts, buyer.0).await.expect("Redis answers");
    hold.map(|hold| serde_json::to_value(hold.to_wire(&facts, 0)).expect("JSON"))
}

async fn rows(till: &Till) -> i64 {
    let count = "select count(*) from journal_records";
    sqlx::query_scalar(count).fetch_one(till.app.store.pool()).await.expect("counts")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_basket_outlives_redis_with_its_time_its_prices_and_its_answers() {
    let mut till = Till::open().await;
    let buyer = Buyer(IdentityId::generate());
    let fields = json!({"event": till.event, "seats": [1, 2, 141], "key": key()});
    let first = till.call(buyer, "hold", fields.clone()).await;
    let places = json!({"event": till.event, "area": 0, "quantity": 3});
    till.call(buyer, "hold_area", places).await;
    till.call(buyer, "extend", json!({"hold": first["hold"]["id"]})).await;
    let (gone, hold) = till.buyer_with(&[5]).await;
    till.call(gone, "release", json!({"hold": hold["id"]})).await;
    let before = basket(&till, buyer).await.expect("a basket");
    assert_eq!((before["extended"].clone(), before["lines"].as_array().map(Vec::len)), (json!(true), Some(4)));
    journalled(&till).await;

    lose_redis(&mut till).await;
    assert_eq!(basket(&till, buyer).await, Some(before));
    assert_eq!(basket(&till, gone).await, None);
    let map = till.app.inventory.read_map(&facts(&till).await).await.expect("a map");
    assert_eq!((&map.states[..6], map.areas[0]), (&[0, 1, 1, 0, 0, 0][..], 47));
    // The same key: the first answer, word for word, although it is of the life before.
    let again = till.call(buyer, "hold", fields.clone()).await;
    assert_eq!((&again["hold"], &again["epoch"], &again["seq"]), (&first["hold"], &first["epoch"], &first["seq"]));
    let other = json!({"event": till.event, "seats": [7], "key": fields["key"]});
    assert_eq!(till.call(buyer, "hold", other).await["error"]["code"], "key_reused");
    // Somebody else is refused, and the owner goes on: adding, releasing, the limit of ten.
    let refused = till.call(gone, "hold", json!({"event": till.event, "seats": [2]})).await;
    assert_eq!(refused["error"]["code"], "seat_taken");
    let refused = till.call(buyer, "hold", json!({"event": till.event, "seats": [20, 21, 22, 23, 24]})).await;
    assert_eq!(refused["error"]["data"], json!({"limit": 10, "used": 6}));
    let extended = till.call(buyer, "extend", json!({"hold": first["hold"]["id"]})).await;
    assert_eq!(extended["error"]["code"], "extend_refused");
    let left = till.call(buyer, "release", json!({"hold": first["hold"]["id"], "seats": [1]})).await;
    assert_eq!(left["hold"]["lines"].as_array().map(Vec::len), Some(3), "{left}");
    // Twice is once: the next loss finds what this life has written.
    journalled(&till).await;
    let before = basket(&till, buyer).await;
    lose_redis(&mut till).await;
    assert_eq!(basket(&till, buyer).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_behind_the_copy_is_read_from_the_stream_also_what_the_map_does_not_show() {
    let mut till = Till::open().await;
    till.buyer_with(&[1]).await;
    journalled(&till).await;
    let copies = async || {
        let count = "select copy_n from journal_positions";
        sqlx::query_scalar::<_, i32>(count).fetch_one(till.app.store.pool()).await.expect("reads")
    };
    let copied = copies().await;
    // Without a key: the record alone is what the stream tells of the first; the second is then made longer.
    let (event, own) = (facts(&till).await, [IdentityId::generate(), IdentityId::generate()]);
    let caller = |identity| Caller { event: Arc::clone(&event), identity, key: None, fingerprint: [0; 32] };
    for (seat, identity) in (2..).zip(own) {
        let answer = till.app.inventory.hold(caller(identity), &[SeatIndex(seat)]).await.expect("Redis answers");
        assert!(matches!(answer.outcome, HoldOutcome::Held { .. }), "{answer:?}");
    }
    journalled(&till).await;
    let second = till.app.inventory.open_hold(&event, own[1]).await.expect("Redis answers").expect("open");
    till.app.inventory.extend(caller(own[1]), second.id).await.expect("Redis answers");
    journalled(&till).await;
    assert_eq!(copies().await, copied, "nothing was copied");
    let before = [basket(&till, Buyer(own[0])).await, basket(&till, Buyer(own[1])).await];
    assert!(before[0].is_some() && before[1].as_ref().is_some_and(|hold| hold["extended"] == true), "{before:?}");
    lose_redis(&mut till).await;
    assert_eq!([basket(&till, Buyer(own[0])).await, basket(&till, Buyer(own[1])).await], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn older_answers_that_found_no_room_in_the_record_survive_too() {
    let mut till = Till::open().await;
    let buyer = Buyer(IdentityId::generate());
    let mut asked = Vec::new();
    for seat in 0..8 {
        if seat == 1 {
            // From here on it is the stream that tells of them, no longer a copy.
            journalled(&till).await;
        }
        let fields = json!({"event": till.event, "seats": [seat], "key": key()});
        asked.push((fields.clone(), till.call(buyer, "hold", fields).await));
    }
    journalled(&till).await;
    lose_redis(&mut till).await;
    for (fields, first) in asked {
        let again = till.call(buyer, "hold", fields).await;
        assert_eq!(again["hold"], first["hold"]);
    }
    assert_eq!(basket(&till, buyer).await.expect("a basket")["lines"].as_array().map(Vec::len), Some(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_hold_stays_locked_for_its_order_and_is_sold_after_the_loss() {
    let mut till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[7, 8]).await;
    let (other, other_hold) = till.buyer_with(&[9]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    let cancelled = till.bought(other, &other_hold, "pm_card_chargeDeclined").await;
    journalled(&till).await;
    lose_redis(&mut till).await;
    let locked = basket(&till, buyer).await.expect("a basket");
    assert_eq!((&locked["id"], &locked["locked"]), (&hold["id"], &json!(true)));
    let refused = till.call(buyer, "release", json!({"hold": hold["id"]})).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["order"]), (&"hold_locked".into(), &order["id"]));
    let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
    assert_eq!(till.call(buyer, "pay", pay).await["order"]["state"], "paid");
    till.until_seat(7, 2).await;
    till.call(other, "cancel", json!({"order": cancelled["id"]})).await;
    till.until_seat(9, 0).await;
    assert_eq!((basket(&till, buyer).await, basket(&till, other).await), (None, None));
    // What was bought counts, what was cancelled does not.
    let refused = till.call(buyer, "hold", json!({"event": till.event, "seats": (20..29).collect::<Vec<_>>()})).await;
    assert_eq!(refused["error"]["data"], json!({"limit": 10, "used": 2}));
    till.buyer_with(&[9]).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_order_was_given_up_while_redis_was_away_is_over() {
    let mut till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[7, 8]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    journalled(&till).await;
    let facts = facts(&till).await;
    till.stage.redis.kill();
    eventually("the order to be cancelled", || async {
        till.call(buyer, "cancel", json!({"order": order["id"]})).await;
        (till.inner_state(&order["id"]).await == OrderState::Cancelled).then_some(())
    })
    .await;
    till.stage.redis.restart().await;
    eventually("the next life", || async {
        till.app.inventory.read_map(&facts).await.ok().filter(|map| map.epoch > 1)
    })
    .await;
    till.until_seat(7, 0).await;
    assert_eq!(basket(&till, buyer).await, None, "it was given up with its order");
    till.buyer_with(&[7, 8]).await;
    super::audit::clean(&till.stage, &till.event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_went_on_without_the_journal_is_made_good_by_a_copy() {
    let mut till = Till::open().await;
    let (buyer, _) = till.buyer_with(&[1]).await;
    let (gone, hold) = till.buyer_with(&[2]).await;
    journalled(&till).await;
    // The journal sleeps: its writer's word for it is taken away, and another "node" is alive.
    let pool = till.app.store.pool().clone();
    let sleep = "insert into journal_writers values ('00000000-0000-0000-0000-000000000001', 9000000000000000)";
    sqlx::query(sleep).execute(&pool).await.expect("writes");
    let take = "update journal_positions set writer = '00000000-0000-0000-0000-000000000001'";
    sqlx::query(take).execute(&pool).await.expect("writes");
    till.call(gone, "release", json!({"hold": hold["id"]})).await;
    till.call(buyer, "hold", json!({"event": till.event, "seats": [3]})).await;
    let redis = operator(&till).await;
    let event = &till.event;
    let _: u64 = redis.xtrim(format!("{{{event}}}:1:c"), ("MAXLEN", "=", 0)).await.expect("trims");
    till.call(buyer, "hold", json!({"event": till.event, "seats": [4]})).await;
    sqlx::query("delete from journal_writers where writer = '00000000-0000-0000-0000-000000000001'")
        .execute(&pool)
        .await
        .expect("writes");
    journalled(&till).await;
    assert!(till.app.metrics.journal_copies.get() >= 2, "the first life and the gap");
    lose_redis(&mut till).await;
    assert_eq!(basket(&till, buyer).await.expect("a basket")["lines"].as_array().map(Vec::len), Some(3));
    assert_eq!(basket(&till, gone).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_holds_that_ended_leave_the_journal() {
    let draft = Draft { hold_ttl_ms: 1_000, ..Draft::default() };
    let till = Till::open_with(&draft, &[]).await;
    let mut buyers = Vec::new();
    for seat in 0..20 {
        let buyer = Buyer(IdentityId::generate());
        // Without a key nothing is remembered but the ending.
        buyers.push(buyer);
        till.call(buyer, "hold", json!({"event": till.event, "seats": [seat]})).await;
    }
    eventually("every hold to end", || async {
        let map = till.app.inventory.read_map(&facts(&till).await).await.expect("a map");
        map.states.iter().all(|&state| state == 0).then_some(())
    })
    .await;
    journalled(&till).await;
    assert_eq!(rows(&till).await, 20, "endings and answers are told for ten minutes");
    let held = "select count(*) from journal_records where has_hold";
    let held: i64 = sqlx::query_scalar(held).fetch_one(till.app.store.pool()).await.expect("counts");
    assert_eq!(held, 0);
    // Eleven minutes later, by the event's clock.
    let redis = operator(&till).await;
    for _ in 0..14 {
        move_clock_ms(&till, &redis, 60_000).await;
        let facts = facts(&till).await;
        till.app.inventory.sweep(&facts).await.expect("Redis answers");
        till.app.inventory.sweep(&facts).await.expect("Redis answers");
    }
    eventually("the journal to be empty", || async { (rows(&till).await == 0).then_some(()) }).await;
}

/// Moves the clock as the event sees it.
async fn move_clock_ms(till: &Till, redis: &fred::clients::Client, by_ms: i64) {
    use fred::interfaces::KeysInterface;
    let key = format!("{{{}}}:1:m", till.event);
    let meta: fred::bytes::Bytes = redis.get(&key).await.expect("Redis answers");
    let skew = i64::from_le_bytes(meta[39..47].try_into().expect("eight bytes")) - by_ms;
    let bytes = fred::types::Value::from(&skew.to_le_bytes()[..]);
    let _: u64 = redis.setrange(&key, 39, bytes).await.expect("Redis answers");
}
