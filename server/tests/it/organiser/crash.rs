//! Changes and offers that a crash cut in two: the next look puts them right.

use crate::checkout::till::Till;
use crate::support::eventually;
use crate::support::stage::Draft;
use seatwire::inventory::{InventoryError, NewOffer, OfferOutcome};
use seatwire::organiser::{Operator, OrganiserError};
use seatwire::store::{event_change, waitlist};
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::EventState;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_never_reached_postgres_is_taken_back() {
    let till = Till::open().await;
    let event: EventId = till.event.parse().expect("an id");
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    // What `block` does before its transaction commits, and then the node dies.
    event_change::owe(till.stage.store.pool(), event).await.expect("written");
    till.app.inventory.block(&facts, &[SeatIndex(4), SeatIndex(5)]).await.expect("Redis answers");
    eventually("the job to take the blocks back", async || {
        let map = till.app.inventory.read_map(&facts).await.ok()?;
        (map.states[4..6] == [0, 0]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_whose_commit_fails_is_refused_and_taken_back() {
    let till = Till::open().await;
    let event: EventId = till.event.parse().expect("an id");
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
        create trigger refuse before insert on admin_log execute function refuse();";
    sqlx::raw_sql(refuse).execute(till.stage.store.pool()).await.expect("written");
    let seats = vec![SeatIndex(4), SeatIndex(5)];
    assert!(till.app.organiser.block(Operator::server(), event, seats).await.is_err());
    eventually("the blocks to be taken back", async || {
        let map = till.app.inventory.read_map(&facts).await.ok()?;
        (map.states[4..6] == [0, 0]).then_some(())
    })
    .await;
    let behind = eventually("nothing to be owed", async || {
        let behind = event_change::behind(till.stage.store.pool(), 10).await.ok()?;
        behind.is_empty().then_some(behind)
    })
    .await;
    assert_eq!(behind, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_meets_the_life_before_a_rebuild_is_refused_and_taken_back() {
    let till = Till::open().await;
    let event: EventId = till.event.parse().expect("an id");
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    till.app.inventory.open(&facts).await.expect("Redis answers");
    // What another node commits when it saw that Redis was lost: a rebuild reads the truth behind this, so what is blocked
    // in the life before would be known to Postgres alone.
    let pool = till.stage.store.pool();
    sqlx::query("update event_epochs set epoch = epoch + 1").execute(pool).await.expect("written");
    let answer = till.app.organiser.block(Operator::server(), event, vec![SeatIndex(4), SeatIndex(5)]).await;
    assert!(matches!(answer, Err(OrganiserError::Inventory(InventoryError::Unavailable(_)))), "{answer:?}");
    let facts = till.app.catalogue.refresh(event).await.expect("answers").expect("is there");
    assert!(facts.blocked.is_empty(), "nothing was written");
    eventually("the blocks to be taken back", async || {
        let map = till.app.inventory.read_map(&facts).await.ok()?;
        (map.states[4..6] == [0, 0]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_never_told_is_told_by_the_job() {
    let till = Till::open_with(&Draft { blocked: vec![4], ..Draft::default() }, &[]).await;
    let event: EventId = till.event.parse().expect("an id");
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    assert_eq!(till.app.inventory.read_map(&facts).await.expect("Redis answers").states[4], 3);
    // What `unblock` commits, and then the node dies.
    sqlx::query("update events set blocked = ''").execute(till.stage.store.pool()).await.expect("written");
    eventually("the shelf to hear of it", async || {
        let map = till.app.inventory.read_map(&facts).await.ok()?;
        (map.states[4] == 0).then_some(())
    })
    .await;
    till.until_seat(4, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_that_was_never_told_ends_the_holds_all_the_same() {
    let till = Till::open().await;
    let (buyer, _) = till.buyer_with(&[1]).await;
    let cancel = "update events set state = 'cancelled'";
    sqlx::query(cancel).execute(till.stage.store.pool()).await.expect("written");
    eventually("the hold to end", async || {
        let reply = till.call(buyer, "hold", json!({"event": till.event, "seats": [2]})).await;
        let facts = till.app.catalogue.event(till.event.parse().ok()?).await.ok()??;
        let open = till.app.inventory.open_hold(&facts, buyer.0).await.ok()?;
        (reply["error"]["code"] == "not_on_sale" && open.is_none()).then_some(())
    })
    .await;
    till.until_seat(1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_are_over_when_the_cancellation_is_answered_however_many_there_are() {
    let till = Till::open().await;
    let event: EventId = till.event.parse().expect("an id");
    // More than one call of the script ends.
    let mut buyers = Vec::new();
    for seat in 0..70 {
        buyers.push(till.buyer_with(&[seat]).await.0);
    }
    let cancelled = till.app.organiser.set_state(Operator::server(), event, EventState::Cancelled, None).await;
    let facts = cancelled.expect("the stores answer");
    // The job would do it later.
    let stock = till.app.inventory.stock(&facts).await.expect("Redis answers");
    assert_eq!((stock.open_holds, stock.available), (0, 160));
    for buyer in buyers {
        assert_eq!(till.app.inventory.open_hold(&facts, buyer.0).await.expect("Redis answers"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_was_never_written_down_is_found_and_is_still_one() {
    let draft = Draft { rows: vec![1, 1], areas: vec![], blocked: vec![1], has_waitlist: true, ..Draft::default() };
    let till = Till::open_with(&draft, &[]).await;
    let event: EventId = till.event.parse().expect("an id");
    let (buyer, hold) = till.buyer_with(&[0]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    let facts = eventually("the sell-out", async || {
        let facts = till.app.catalogue.event(event).await.ok()??;
        (facts.state == EventState::SoldOut).then_some(facts)
    })
    .await;
    let pool = till.stage.store.pool();
    let waiter = IdentityId::generate();
    // Nobody makes offers meanwhile: the list is locked as another node would.
    let mut other_node = seatwire::store::begin(pool).await.expect("begins");
    waitlist::lock(&mut other_node, event).await.expect("locked");
    waitlist::join(pool, event, waiter, 1, &[], None, 1).await.expect("joined");
    till.app.inventory.keep_for_waitlist(&facts, true).await.expect("Redis answers");
    till.app.organiser.unblock(Operator::server(), event, vec![SeatIndex(1)]).await.expect("unblocked");
    let offer = NewOffer { life_ms: 600_000, seats: vec![SeatIndex(1)], areas: Vec::new() };
    let OfferOutcome::Offered(offered) = till.app.inventory.offer(&facts, waiter, &offer).await.expect("Redis answers")
    else {
        panic!("the seat is kept")
    };
    other_node.rollback().await.expect("the other node dies");
    let place = eventually("the offer to be found", async || {
        let place = waitlist::find(pool, event, waiter).await.ok()??;
        place.hold.is_some().then_some(place)
    })
    .await;
    assert_eq!(place.hold, Some(offered.id), "the same one");
}

/// A sold-out event of two seats, the second blocked, and somebody who waits for one.
async fn waiting() -> (Till, EventId, IdentityId) {
    waiting_with(&[]).await
}

pub(super) async fn waiting_with(settings: &[(&str, &str)]) -> (Till, EventId, IdentityId) {
    let draft = Draft { rows: vec![1, 1], areas: vec![], blocked: vec![1], has_waitlist: true, ..Draft::default() };
    let till = Till::open_with(&draft, settings).await;
    let event: EventId = till.event.parse().expect("an id");
    let (buyer, hold) = till.buyer_with(&[0]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    let waiter = IdentityId::generate();
    let facts = eventually("the sell-out", async || {
        let facts = till.app.catalogue.event(event).await.ok()??;
        (facts.state == EventState::SoldOut).then_some(facts)
    })
    .await;
    waitlist::join(till.stage.store.pool(), event, waiter, 1, &[], None, 1).await.expect("joined");
    till.app.inventory.keep_for_waitlist(&facts, true).await.expect("Redis answers");
    (till, event, waiter)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_lost_with_redis_is_made_again_and_nobody_is_faster() {
    let (mut till, event, waiter) = waiting().await;
    let pool = till.stage.store.pool().clone();
    till.app.organiser.unblock(Operator::server(), event, vec![SeatIndex(1)]).await.expect("unblocked");
    let offered = async || waitlist::find(&pool, event, waiter).await.ok()??.hold;
    let first = eventually("the offer", async || offered().await).await;
    eventually("the journal", async || {
        let count = "select count(*) from journal_records where has_hold";
        let written: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.ok()?;
        (written == 1).then_some(())
    })
    .await;
    till.stage.redis.kill();
    // As if it had been written a moment later.
    sqlx::query("delete from journal_records where has_hold").execute(&pool).await.expect("written");
    till.stage.redis.restart().await;
    let second = eventually("another offer", async || offered().await.filter(|hold| *hold != first)).await;
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    let open = till.app.inventory.open_hold(&facts, waiter).await.expect("Redis answers").expect("open");
    assert_eq!((open.id, open.is_offer), (second, true));

    // Lost again, but with its turn over before: given back in the life it was made in.
    let release = till.call(crate::checkout::till::Buyer(waiter), "release", json!({"hold": second})).await;
    assert_eq!(release["ok"], true, "{release}");
    eventually("the place to be over", async || {
        waitlist::find(&pool, event, waiter).await.ok()?.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_survives_the_loss_of_redis_has_one_turn() {
    let (mut till, event, waiter) = waiting().await;
    let pool = till.stage.store.pool().clone();
    till.app.organiser.unblock(Operator::server(), event, vec![SeatIndex(1)]).await.expect("unblocked");
    let place = async || waitlist::find(&pool, event, waiter).await.ok()?;
    let hold = eventually("the offer", async || place().await?.hold).await;
    eventually("the journal", async || {
        let count = "select count(*) from journal_records where has_hold";
        let written: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.ok()?;
        (written == 1).then_some(())
    })
    .await;
    crate::fault::journal::lose_redis(&mut till).await;
    let epoch = async || waitlist::offered(&pool, event, 1).await.ok()?.first()?.epoch;
    eventually("the offer to be seen in the new life", async || (epoch().await? == 2).then_some(())).await;
    assert_eq!(place().await.and_then(|place| place.hold), Some(hold));
    let release = till.call(crate::checkout::till::Buyer(waiter), "release", json!({"hold": hold})).await;
    assert_eq!(release["ok"], true, "{release}");
    eventually("the place to be over", async || {
        waitlist::find(&pool, event, waiter).await.ok()?.is_none().then_some(())
    })
    .await;
}
