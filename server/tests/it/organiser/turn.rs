//! Whose turn it is on a list: places that had theirs, guests who are in their own way, and what orders say of an offer.

use super::crash::waiting_with;
use crate::checkout::till::{Buyer, Till};
use crate::support::eventually;
use crate::support::stage::Draft;
use futures_util::{StreamExt, stream};
use seatwire::inventory::{Caller, FoundHold, HoldOutcome};
use seatwire::organiser::Operator;
use seatwire::store::waitlist::{self, OfferFate};
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::EventState;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_joins_when_an_offer_is_over_has_a_new_place_before_the_job_has_looked() {
    let (till, event, waiter) = waiting_with(&[("SEATWIRE_OFFER_MS", "6000")]).await;
    let pool = till.stage.store.pool().clone();
    till.app.organiser.unblock(Operator::server(), event, vec![SeatIndex(1)]).await.expect("unblocked");
    let offered = async || waitlist::offered_to(&pool, event, waiter).await.ok()?;
    let first = eventually("the offer", async || offered().await).await;
    // Nobody looks at the list from here on.
    let mut other_node = seatwire::store::begin(&pool).await.expect("begins");
    waitlist::lock(&mut other_node, event).await.expect("locked");
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    eventually("the offer to be over", async || {
        let found = till.app.inventory.find_hold(&facts, waiter, first.hold).await.ok()?;
        (found == FoundHold::Ended).then_some(())
    })
    .await;
    assert_eq!(offered().await.map(|place| place.hold), Some(first.hold), "the place is still the old one");
    let join = till.call(Buyer(waiter), "waitlist_join", json!({"event": event, "quantity": 1, "key": "again"}));
    let free = async {
        let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted
                     and database = (select oid from pg_database where datname = current_database())";
        eventually("the command to wait for the list", async || {
            let n: i64 = sqlx::query_scalar(waits).fetch_one(&pool).await.ok()?;
            (n > 0).then_some(())
        })
        .await;
        other_node.rollback().await.expect("ends");
    };
    let (joined, ()) = tokio::join!(join, free);
    assert_eq!((&joined["place"]["state"], &joined["place"]["hold"]), (&json!("waiting"), &json!(null)), "{joined}");
    let second = eventually("another offer", async || offered().await.filter(|place| place.hold != first.hold)).await;
    assert_ne!(second.hold, first.hold, "the new place has a turn of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_hold_baskets_of_their_own_do_not_block_the_list_and_have_their_turn_again() {
    // More than two looks of a round, so that it takes another round as well.
    const BASKETS: u32 = 450;
    let draft = Draft {
        rows: vec![BASKETS + 1, 1],
        areas: vec![],
        blocked: vec![BASKETS, BASKETS + 1],
        has_waitlist: true,
        ..Draft::default()
    };
    let till = Till::open_with(&draft, &[("SEATWIRE_WAITLIST_KEEP_MS", "600000")]).await;
    let event: EventId = till.event.parse().expect("an id");
    let pool = till.stage.store.pool().clone();
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    let hold = |seat: u32| {
        let (facts, inventory) = (facts.clone(), till.app.inventory.clone());
        async move {
            let identity = IdentityId::generate();
            let caller = Caller { event: facts, identity, key: None, fingerprint: [0; 32] };
            let answer = inventory.hold(caller, &[SeatIndex(seat)]).await.expect("Redis answers");
            assert!(matches!(answer.outcome, HoldOutcome::Held { .. }), "{answer:?}");
            identity
        }
    };
    let holders: Vec<IdentityId> = stream::iter(0..BASKETS).map(hold).buffered(16).collect().await;
    for holder in &holders {
        waitlist::join(&pool, event, *holder, 1, &[], None, 1).await.expect("joined");
    }
    let patient = IdentityId::generate();
    waitlist::join(&pool, event, patient, 1, &[], None, 1).await.expect("joined");
    sqlx::query("update events set state = 'sold_out', has_waitlist = true").execute(&pool).await.expect("written");
    eventually("the sell-out", async || {
        let facts = till.app.catalogue.event(event).await.ok()??;
        (facts.state == EventState::SoldOut).then_some(())
    })
    .await;
    till.app.inventory.keep_for_waitlist(&facts, true).await.expect("Redis answers");
    till.app.organiser.unblock(Operator::server(), event, vec![SeatIndex(BASKETS)]).await.expect("unblocked");
    let offered = async |identity| waitlist::offered_to(&pool, event, identity).await.ok()?;
    eventually("an offer to the one who holds nothing", async || offered(patient).await).await;

    // The first gives its basket up: the seat it gives back is kept, and it is the first whom it fits.
    let first = holders[0];
    let open = till.app.inventory.open_hold(&facts, first).await.expect("Redis answers").expect("a basket");
    let released = till.call(Buyer(first), "release", json!({"hold": open.id})).await;
    assert_eq!(released["ok"], true, "{released}");
    eventually("an offer to the first", async || offered(first).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_orders_say_of_an_offer() {
    let till = Till::open().await;
    let pool = till.stage.store.pool();
    // State, captured, what it means.
    let cases = [
        ("creating", 0, OfferFate::Undecided),
        ("payable", 0, OfferFate::Undecided),
        ("confirming", 0, OfferFate::Undecided),
        ("action_required", 0, OfferFate::Undecided),
        ("processing", 0, OfferFate::Undecided),
        ("payment_unknown", 0, OfferFate::Undecided),
        ("cancelling", 0, OfferFate::Undecided),
        ("late_success", 0, OfferFate::Undecided),
        ("late_success", 100, OfferFate::Bought),
        ("released_unresolved", 0, OfferFate::NotBought),
        ("released_unresolved", 100, OfferFate::Bought),
        ("cancelled", 0, OfferFate::NotBought),
        ("paid", 100, OfferFate::Bought),
        ("fulfilled", 100, OfferFate::Bought),
        ("fulfilled", 0, OfferFate::Bought),
        ("refund_due", 100, OfferFate::Bought),
        ("partially_refunded", 100, OfferFate::Bought),
        ("refunded", 100, OfferFate::Bought),
        ("disputed", 100, OfferFate::Bought),
    ];
    for (state, captured, wanted) in cases {
        let hold = HoldId::generate();
        assert_eq!(waitlist::fate_of(pool, hold).await.expect("answers"), OfferFate::NotBought, "no order yet");
        let insert =
            "insert into orders (order_id, event_id, identity_id, hold_id, epoch, reference, command_key, state,
                 lines, seats_n, total_minor, captured_minor, currency, buyer_name, buyer_email, pay_secret,
                 provider, state_since_ms, lock_until_ms, created_ms)
             select o, id, gen_random_uuid(), $1, 1, o::text, o::text, $2, '[]', 1, $3, $3, 'EUR', 'n', 'e', 's',
                 'paysim', 1, 1, 1 from events, gen_random_uuid() o";
        sqlx::query(insert).bind(hold.uuid()).bind(state).bind(captured).execute(pool).await.expect("written");
        assert_eq!(waitlist::fate_of(pool, hold).await.expect("answers"), wanted, "{state}, {captured} captured");
    }
}
