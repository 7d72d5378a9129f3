//! `seatwire audit`: says nothing of a sound event, and names every disagreement of one that is not.

use crate::checkout::till::{Buyer, Till, checkout_of};
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use fred::interfaces::{ClientLike, HashesInterface, KeysInterface};
use fred::types::{ClusterHash, CustomCommand, Value as RedisValue};
use seatwire::checkout::RefundWhat;
use seatwire::organiser::Operator;
use seatwire::store::refund::RefundLine;
use seatwire::store::waitlist;
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

/// Redis' keys of this event's first life whose names begin so.
async fn keys(redis: &fred::clients::Client, till: &Till, name: &str) -> Vec<String> {
    let command = CustomCommand::new_static("KEYS", ClusterHash::Random, false);
    let pattern = RedisValue::from(format!("{{{}}}:1:{name}*", till.event));
    redis.custom(command, vec![pattern]).await.expect("Redis answers")
}

/// A basket of somebody with more answers than a record keeps.
async fn talkative(till: &Till) -> serde_json::Value {
    let buyer = Buyer(IdentityId::generate());
    let mut hold = serde_json::Value::Null;
    for seat in 20..26 {
        let reply = till.call(buyer, "hold", json!({"event": till.event, "seats": [seat]})).await;
        assert_eq!(reply["ok"], true, "{reply}");
        hold = reply["hold"].clone();
    }
    hold
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_life_keeps_beside_its_places_is_compared_too() {
    let till = sale().await;
    let hold = talkative(&till).await;
    let (refunded, basket) = till.buyer_with(&[30, 31]).await;
    let refunded = till.bought(refunded, &basket, "pm_card_visa").await;
    let one = RefundWhat::Lines(vec![RefundLine { line: 0, quantity: 1 }]);
    till.refund(&refunded["id"], one).await.expect("refundable");
    let (buyer, basket) = till.buyer_with(&[40]).await;
    let bought = till.bought(buyer, &basket, "pm_card_visa").await;
    for (seat, state) in [(30, 0), (31, 2), (40, 2)] {
        till.until_seat(seat, state).await;
    }
    // Somebody who has nothing, and will be forgotten.
    let (idle, basket) = till.buyer_with(&[50]).await;
    till.call(idle, "release", json!({"hold": basket["id"]})).await;
    clean(&till.stage, &till.event).await;

    let redis = super::journal::operator(&till).await;
    let key = |name: &str| format!("{{{}}}:1:{name}", till.event);
    let id = |order: &serde_json::Value| order["id"].as_str().expect("an id").parse::<OrderId>().expect("an id");
    for name in ["x", "f", "r", "c"] {
        let found = keys(&redis, &till, name).await;
        assert!(!found.is_empty(), "{name}");
        let _: u64 = redis.del(found).await.expect("deletes");
    }
    let _: u64 =
        redis.hdel(key("o"), vec![fred::types::Key::from(&id(&bought).uuid().as_bytes()[..])]).await.expect("deletes");
    let (reserved, sold) = (OrderId::generate(), OrderId::generate());
    for (order, state) in [(id(&refunded), 2u8), (reserved, 1), (sold, 2)] {
        let fields = vec![(fred::types::Key::from(&order.uuid().as_bytes()[..]), RedisValue::from(&[state, 0, 0][..]))];
        let _: u64 = redis.hset(key("o"), fields).await.expect("writes");
    }
    // State paused, keeps for the waitlist, limit, life of a hold, next number.
    for (at, bytes) in [
        (1, vec![3]),
        (2, vec![2]),
        (15, 9_999u32.to_le_bytes().to_vec()),
        (19, 1u32.to_le_bytes().to_vec()),
        (51, 1u32.to_le_bytes().to_vec()),
    ] {
        let _: u64 = redis.setrange(key("m"), at, RedisValue::from(&bytes[..])).await.expect("writes");
    }
    let _: u64 = redis.setrange(key("k"), 60, RedisValue::from(&[1u8][..])).await.expect("writes");
    let sql = "update orders set lines = jsonb_set(lines, '{0,fee_minor}', '1') where lines @> '[{\"seat\": 5}]'";
    let changed = sqlx::query(sql).execute(till.app.store.pool()).await.expect("writes");
    assert_eq!(changed.rows_affected(), 1);

    let (code, said) = audit(&till.stage, &till.event).await;
    assert_eq!(code, Some(1), "{said}");
    let hold = hold["id"].as_str().expect("an id");
    for line in [
        format!("{hold} stands in no list of holds that end"),
        format!("{} stands in no list of identities to forget", idle.0),
        "got an answer that is in the journal, but not in Redis".into(),
        "the stream of changes ends before the map does".into(),
        format!("{} is sold in Postgres, Redis does not know of it", id(&bought)),
        format!("{} has given back other places in Postgres than in Redis", id(&refunded)),
        format!("{reserved} is reserved in Redis, but not in Postgres"),
        format!("{sold} is sold in Redis, but not in Postgres"),
        "the event is OnSale in Postgres, but Paused in Redis".into(),
        "Redis keeps what becomes free for the waitlist, on which nobody is".into(),
        "the limit is 10 in Postgres, but 9999 in Redis".into(),
        "a hold lives 600000 ms in Postgres, but 1 in Redis".into(),
        "which is still to be given out".into(),
        "seat 60 is of kind 1 in Redis, 0 in Postgres, once it is free".into(),
        "has other places or prices than ord_".into(),
    ] {
        assert!(said.contains(&line), "{line} in\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_ahead_of_the_clock_and_answers_of_one_side_are_named() {
    let till = Till::open().await;
    let hold = talkative(&till).await;
    super::journal::journalled(&till).await;
    clean(&till.stage, &till.event).await;
    let redis = super::journal::operator(&till).await;
    let meta = format!("{{{}}}:1:m", till.event);
    // Seven hours of lists, and of minutes.
    for (at, by) in [(59, 100_000u64), (71, 420), (83, 100_000), (95, 100_000)] {
        let bytes: fred::bytes::Bytes = redis.getrange(&meta, at, at + 7).await.expect("reads");
        let ahead = u64::from_le_bytes(bytes[..].try_into().expect("eight bytes")) + by;
        let _: u64 =
            redis.setrange(&meta, at as u32, RedisValue::from(&ahead.to_le_bytes()[..])).await.expect("writes");
    }
    let pool = till.app.store.pool();
    for (sql, n) in [
        ("delete from journal_answers where ctid = (select min(ctid) from journal_answers)", 1),
        ("update journal_answers set answer = answer || '\\x00'", 1),
    ] {
        assert_eq!(sqlx::query(sql).execute(pool).await.expect("writes").rows_affected(), n, "{sql}");
    }
    // Nobody looks at the list meanwhile, which would begin to keep.
    let event = till.event.parse().expect("an id");
    let mut other_node = seatwire::store::begin(pool).await.expect("begins");
    waitlist::lock(&mut other_node, event).await.expect("locked");
    sqlx::query("update events set has_waitlist = true").execute(pool).await.expect("writes");
    waitlist::join(pool, event, IdentityId::generate(), 1, &[], None, 1).await.expect("joined");
    let (code, said) = audit(&till.stage, &till.event).await;
    assert_eq!(code, Some(1), "{said}");
    let hold = hold["id"].as_str().expect("an id");
    for line in [
        "the cursor of holds that end is ahead of the clock",
        "the cursor of holds with a minute left is ahead of the clock",
        "the cursor of holds with a moment left is ahead of the clock",
        "the cursor of identities to forget is ahead of the clock",
        &format!("{hold} stands in no list of holds that end"),
        "got an answer that the journal does not have",
        "got another answer in the journal than in Redis",
        "somebody is on the waitlist, but Redis keeps nothing for it",
    ] {
        assert!(said.contains(line), "{line} in\n{said}");
    }
    other_node.rollback().await.expect("ends");
}
