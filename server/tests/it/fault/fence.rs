//! What stands between two stores that are never written together: the fence of the epoch, the direction of the outbox, and
//! the limit inside the script. Each of these tests catches one of the bugs in `tests/planted`.

use super::audit::clean;
use super::journal::{facts, journalled, lose_redis};
use crate::checkout::till::{Till, checkout_of, key};
use crate::support::eventually;
use futures_util::future::join_all;
use seatwire::inventory::{Caller, HoldOutcome, Refusal};
use seatwire::store::epoch;
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::SeatIndex;
use serde_json::json;

async fn count(till: &Till, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(till.stage.store.pool()).await.expect("counts")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_of_an_old_life_does_not_commit_after_a_rebuild_read_the_truth() {
    let mut till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    journalled(&till).await;
    let event = till.event.parse().expect("an id");
    // A rebuild has the fence while the checkout has the hold's lock and comes to it.
    let mut rebuild = seatwire::store::begin(till.stage.store.pool()).await.expect("begins");
    epoch::lock_exclusive(&mut rebuild, event).await.expect("locks");
    let mut fields = checkout_of(&hold, "pm_card_visa");
    fields["key"] = key().into();
    let checkout = till.call(buyer, "checkout", fields.clone());
    let overtake = async {
        eventually("the checkout to come to the fence", || async {
            let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
                             and database = (select oid from pg_database where datname = current_database())";
            (count(&till, waiting).await == 1).then_some(())
        })
        .await;
        epoch::begin_next(&mut *rebuild, event).await.expect("begins the next");
        rebuild.commit().await.expect("commits");
    };
    let (reply, ()) = tokio::join!(checkout, overtake);
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["retry"]),
        (&"unavailable".into(), &"after".into()),
        "{reply}"
    );
    assert_eq!(count(&till, "select count(*) from taken_seats").await, 0);
    assert_eq!(count(&till, "select count(*) from orders").await, 0);
    assert_eq!(till.ledger().await["intents"], json!([]), "nobody was asked for money");
    // The basket is still there in the next life, and the same key goes on.
    lose_redis(&mut till).await;
    let paid = eventually("the same key to go on", || async {
        till.clock.advance_ms(500);
        let reply = till.call(buyer, "checkout", fields.clone()).await;
        (reply["ok"] == true).then_some(reply)
    })
    .await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    till.until_seat(1, 2).await;
    till.check_books().await;
    clean(&till.stage, &till.event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seats_are_free_on_the_shelf_only_after_the_ledger_has_committed_it() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    // Every commit that cancels an order fails, at the commit itself.
    for sql in [
        "create function refuse_cancelled() returns trigger language plpgsql as $$
         begin raise exception 'not now' using errcode = '40001'; end $$",
        "create constraint trigger refuse_cancelled after update on orders deferrable initially deferred
         for each row when (new.state = 'cancelled') execute function refuse_cancelled()",
    ] {
        sqlx::query(sql).execute(till.stage.store.pool()).await.expect("runs");
    }
    let reply = till.call(buyer, "cancel", json!({"order": order["id"]})).await;
    assert_ne!(reply["order"]["state"], "cancelled", "{reply}");
    // Whoever tries meanwhile is refused: the ledger still has the seat.
    assert_eq!(count(&till, "select count(*) from taken_seats where state = 'reserved'").await, 1);
    let facts = facts(&till).await;
    for _ in 0..20 {
        let caller = Caller { event: facts.clone(), identity: IdentityId::generate(), key: None, fingerprint: [0; 32] };
        let answer = till.app.inventory.hold(caller, &[SeatIndex(1)]).await.expect("Redis answers");
        assert_eq!(answer.outcome, HoldOutcome::Refused(Refusal::SeatTaken(vec![SeatIndex(1)])));
    }
    sqlx::query("drop trigger refuse_cancelled on orders").execute(till.stage.store.pool()).await.expect("runs");
    till.until(buyer, &order["id"], "cancelled").await;
    till.until_seat(1, 0).await;
    clean(&till.stage, &till.event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_of_a_sale_before_the_ledger_has_committed_it() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    // Every commit that sells an order fails, at the commit itself.
    for sql in [
        "create function refuse_sold() returns trigger language plpgsql as $$
         begin raise exception 'not now' using errcode = '40001'; end $$",
        "create constraint trigger refuse_sold after update on orders deferrable initially deferred
         for each row when (new.state in ('paid', 'fulfilled')) execute function refuse_sold()",
    ] {
        sqlx::query(sql).execute(till.stage.store.pool()).await.expect("runs");
    }
    let reply = till.checkout(buyer, &hold, "pm_card_visa").await;
    assert_ne!(reply["order"]["state"], "paid", "told what is not so: {reply}");
    assert_eq!(till.seat(1).await, 1, "viewers are not told either");
    assert_eq!(count(&till, "select count(*) from orders where state in ('paid', 'fulfilled')").await, 0);
    assert_eq!(count(&till, "select count(*) from tickets").await, 0);
    sqlx::query("drop trigger refuse_sold on orders").execute(till.stage.store.pool()).await.expect("runs");
    let orders = till.app.checkout.orders(buyer.0, None, 10).await.expect("reads");
    let id = json!(orders.first().expect("the order"))["id"].clone();
    till.until(buyer, &id, "paid").await;
    assert_eq!(till.money(&id).await, (vec![4750], 0), "charged once");
    till.until_seat(1, 2).await;
    till.check_books().await;
    clean(&till.stage, &till.event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_identity_at_many_doors_at_once_never_has_more_than_its_limit() {
    let till = Till::open().await;
    let facts = facts(&till).await;
    for turn in 0..10u32 {
        let identity = IdentityId::generate();
        let doors = (0..15).map(|door| {
            let caller = Caller { event: facts.clone(), identity, key: None, fingerprint: [0; 32] };
            let seat = SeatIndex(turn * 15 + door);
            let inventory = till.app.inventory.clone();
            tokio::spawn(async move { inventory.hold(caller, &[seat]).await })
        });
        let answers = join_all(doors).await;
        let held = answers.into_iter().filter(|answer| {
            let answer = answer.as_ref().expect("ends").as_ref().expect("Redis answers");
            matches!(answer.outcome, HoldOutcome::Held { .. })
        });
        assert_eq!(held.count(), 10, "ten seats, not one more");
    }
    clean(&till.stage, &till.event).await;
}
