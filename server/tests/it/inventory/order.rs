//! The order of refusals of the verbs that name a hold, and the scripts of a rebuild, each alone: what was, what was asked, what
//! came back, what is, what was published.

use super::shelf::{Shelf, indices};
use fred::bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::{ClusterHash, CustomCommand, Value};
use seatwire::catalogue::{Run, SeatShape};
use seatwire::inventory::{ChangeOutcome, LockOutcome, Place, Refusal, ReleaseRules, ReleaseWhat};
use seatwire_proto::client::AreaQuantity;
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use seatwire_proto::server::OrphanRule;

/// What a verb was refused with.
fn refusal(outcome: ChangeOutcome) -> Refusal {
    match outcome {
        ChangeOutcome::Refused(refusal) => refusal,
        ChangeOutcome::Done(hold) => panic!("done: {hold:?}"),
    }
}

fn parts(seats: &[u32], areas: &[(u32, u32)]) -> ReleaseWhat {
    let areas = areas.iter().map(|&(area, quantity)| AreaQuantity { area: AreaIndex(area), quantity });
    ReleaseWhat::Parts { seats: indices(seats), areas: areas.collect() }
}

/// A shelf under the strict rule whose row has a wheelchair seat, 0, and its companion seat, 1.
async fn strict() -> (Shelf, SeatShape) {
    let shelf = Shelf::with(|facts| {
        facts.rules.orphans = OrphanRule::Strict;
        facts.rules.hold_ttl_ms = 10_000;
    })
    .await;
    let shape = SeatShape {
        runs: vec![Run { first: 0, len: 30 }],
        special: [0, 1].into_iter().collect(),
        companion: [1].into_iter().collect(),
        ..SeatShape::default()
    };
    (shelf, shape)
}

#[tokio::test]
async fn refusals_of_what_names_a_hold_come_in_the_stated_order_and_change_nothing() {
    let (shelf, shape) = strict().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let (order, other) = (OrderId::generate(), OrderId::generate());
    let until_ms = shelf.now_ms() + 1_000_000;
    let hold = shelf.held(ann, &[0, 1, 4, 5, 6]).await;
    shelf.hold_area(ann, 1, 1).await;
    let lapsed = shelf.held(bob, &[20]).await;
    let release = async |who, id: HoldId, what: ReleaseWhat| {
        let seats = if let ReleaseWhat::Parts { seats, .. } = &what { seats.clone() } else { Vec::new() };
        let rules = ReleaseRules::of(&shelf.event, &shape, &seats);
        let answer = shelf.inventory.release_by_rules(shelf.caller(who), id, what, &rules).await;
        answer.expect("Redis answers").outcome
    };
    let lock = async |who, id, order| {
        let answer = shelf.inventory.lock(&shelf.event, who, id, order, until_ms).await;
        match answer.expect("Redis answers").outcome {
            LockOutcome::Refused(refusal) => refusal,
            LockOutcome::Locked(hold) => panic!("locked: {hold:?}"),
        }
    };
    let unlock = async |who, id, order| {
        refusal(shelf.inventory.unlock(&shelf.event, who, id, order).await.expect("Redis answers").outcome)
    };
    let not_in_hold = |is_area, position| Refusal::NotInHold { is_area, position };
    let stands = async |wanted: (u32, u64)| assert_eq!(shelf.position().await, wanted, "refusals publish nothing");
    let at = shelf.position().await;

    // Open: what is not in it, then companions, then single seats; each of these calls breaks all that come later.
    assert_eq!(refusal(release(ann, hold.id, parts(&[0, 5, 7], &[(1, 2)])).await), not_in_hold(false, 2));
    assert_eq!(refusal(release(ann, hold.id, parts(&[0, 5], &[(1, 2)])).await), not_in_hold(true, 0));
    assert_eq!(refusal(release(ann, hold.id, parts(&[0, 5], &[])).await), Refusal::CompanionRule);
    assert_eq!(refusal(release(ann, hold.id, parts(&[5], &[])).await), Refusal::OrphanSeat(indices(&[5])));
    assert!(matches!(shelf.extend(ann, hold.id).await, ChangeOutcome::Done(Some(_))));
    assert_eq!(refusal(shelf.extend(ann, hold.id).await), Refusal::ExtendRefused { is_offer: false }, "once");
    stands(at).await;

    // Locked: that comes before whatever else is wrong.
    let locked = shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers");
    assert!(matches!(locked.outcome, LockOutcome::Locked(_)));
    let is_locked = Refusal::HoldLocked(order);
    assert_eq!(refusal(release(ann, hold.id, ReleaseWhat::All).await), is_locked);
    assert_eq!(refusal(release(ann, hold.id, parts(&[0, 5, 7], &[(1, 2)])).await), is_locked);
    assert_eq!(refusal(shelf.extend(ann, hold.id).await), is_locked, "also where it was extended already");
    assert_eq!(lock(ann, hold.id, other).await, is_locked);
    assert_eq!(unlock(ann, hold.id, other).await, is_locked);
    stands(at).await;

    // Somebody else's, then one that is over; both before everything else.
    assert_eq!(refusal(release(bob, hold.id, parts(&[7], &[])).await), Refusal::HoldNotFound);
    assert_eq!(refusal(shelf.extend(bob, hold.id).await), Refusal::HoldNotFound);
    assert_eq!(lock(bob, hold.id, other).await, Refusal::HoldNotFound);
    assert_eq!(unlock(bob, hold.id, other).await, Refusal::HoldNotFound);
    shelf.move_clock_ms(20_000).await;
    assert_eq!(refusal(release(bob, lapsed.id, parts(&[7], &[])).await), Refusal::HoldExpired);
    assert_eq!(refusal(shelf.extend(bob, lapsed.id).await), Refusal::HoldExpired);
    assert_eq!(lock(bob, lapsed.id, other).await, Refusal::HoldExpired);
    assert_eq!(unlock(bob, lapsed.id, other).await, Refusal::HoldExpired);
    stands(at).await;
    assert_eq!(&shelf.map().await[..21], "110011100000000000001", "nothing has moved");
}

#[tokio::test]
async fn an_order_is_settled_as_postgres_says_and_published_once() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let order = OrderId::generate();
    let places = [(Place::Seat(SeatIndex(1)), 1), (Place::Area(AreaIndex(0)), 2)];
    let hold = shelf.held(ann, &[1]).await;
    shelf.hold_area(ann, 0, 2).await;
    let until_ms = shelf.now_ms() + 1_000_000;
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers");
    let (_, seq) = shelf.position().await;
    // Verb; how many changes were published by then; map and what is left of the area.
    let table =
        [("sell", 1, "02", 3), ("sell", 1, "02", 3), ("free", 2, "00", 5), ("free", 2, "00", 5), ("sell", 2, "00", 5)];
    for (verb, published, map, left) in table {
        let inventory = &shelf.inventory;
        if verb == "sell" {
            inventory.sell(&shelf.event, order, ann, &places).await.expect("Redis answers");
        } else {
            inventory.free(&shelf.event, order, ann, &places).await.expect("Redis answers");
        }
        assert_eq!((&shelf.map().await[..2], shelf.areas().await[0]), (map, left), "{verb}");
        assert_eq!(shelf.position().await.1, seq + published, "{verb}");
    }
    assert_eq!(shelf.published(seq + 1).await.seats, [(SeatIndex(1), SeatState::Sold)]);
    let freed = shelf.published(seq + 2).await;
    assert_eq!(
        (&freed.seats[..], &freed.areas[..]),
        (&[(SeatIndex(1), SeatState::Available)][..], &[(AreaIndex(0), 5)][..])
    );
    // What is free is anybody's: a refund told late takes nothing from them.
    shelf.held(bob, &[1]).await;
    shelf.inventory.free(&shelf.event, order, ann, &places).await.expect("Redis answers");
    assert_eq!(&shelf.map().await[..2], "01");
}

/// A script of a rebuild as it is sent, alone.
async fn eval(client: &fred::clients::Client, text: &str, keys: &[&str], args: &[&str]) -> Value {
    let mut values: Vec<Value> = vec![format!("local PUBLISH = 'PUBLISH'\n{text}").into(), (keys.len() as i64).into()];
    values.extend(keys.iter().chain(args).map(|&word| Value::from(word)));
    client.custom(CustomCommand::new_static("EVAL", ClusterHash::Offset(2), false), values).await.expect("runs")
}

fn word(reply: &Value) -> String {
    match reply {
        Value::Array(parts) => parts[0].as_string().expect("a word"),
        other => panic!("no list: {other:?}"),
    }
}

#[tokio::test]
async fn a_life_is_begun_filled_and_opened_once_whatever_is_said_twice_or_comes_late() {
    const BEGIN: &str = include_str!("../../../src/inventory/lua/begin.lua");
    const FILL: &str = include_str!("../../../src/inventory/lua/fill.lua");
    const OPEN: &str = include_str!("../../../src/inventory/lua/open.lua");
    let shelf = Shelf::new().await;
    let client = shelf.plain_client().await;
    let key = |name: &str| format!("{{{}}}:{name}", shelf.event.id);
    let (old, new, newest) = (key("7:m"), key("8:m"), key("epoch"));
    let seats = key("8:s");
    let begin = async |epoch: &str| word(&eval(&client, BEGIN, &[&old, &newest], &[epoch, "1700000000000"]).await);
    let fill = async |value: &str| eval(&client, FILL, &[&new], &["MSET", &seats, value]).await.as_i64();
    let meta = "m".repeat(120);
    let open = async |epoch: &str| word(&eval(&client, OPEN, &[&new, &newest], &[epoch, &meta, "1", "0"]).await);
    let read = async |key: &str| client.get::<Option<Bytes>, _>(key).await.expect("reads");

    let () = client.set(&old, "the life before", None, None, false).await.expect("writes");
    assert_eq!((begin("8").await, begin("8").await), ("begun".into(), "begun".into()), "twice is once");
    assert_eq!((read(&old).await, read(&newest).await.as_deref()), (None, Some(&b"8"[..])));
    assert_eq!((fill("one").await, fill("two").await), (Some(1), Some(1)), "as often as it is said");
    assert_eq!(open("8").await, "opened");
    // Buyers have been there: what is said again, or comes late, changes nothing.
    let () = client.set(&seats, "theirs", None, None, false).await.expect("writes");
    let () = client.setrange(&new, 0, "theirs").await.expect("writes");
    assert_eq!((open("8").await, fill("late").await), ("opened".into(), Some(0)));
    assert_eq!(read(&seats).await.as_deref(), Some(&b"theirs"[..]));
    assert!(read(&new).await.is_some_and(|meta| meta.starts_with(b"theirs")));
    // A newer life has begun: an older one neither begins nor opens.
    assert_eq!(begin("9").await, "begun");
    assert_eq!((begin("8").await, open("8").await), ("overtaken".into(), "overtaken".into()));
    assert_eq!(read(&newest).await.as_deref(), Some(&b"9"[..]));
}
