//! Taking seats and giving them back.

use super::shelf::{Shelf, indices, refused, seats_of};
use fred::interfaces::ClientLike;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{Answer, Caller, ChangeOutcome, HoldOutcome, LockOutcome, Place, Refusal, ReleaseWhat};
use seatwire_proto::client::AreaQuantity;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use seatwire_proto::server::{EventState, SalesMode};
use std::sync::Arc;

#[tokio::test]
async fn a_hold_is_seen_by_everyone_and_its_release_too() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    assert_eq!(shelf.map().await, "0000000000000000000000000000030000000000");
    assert_eq!(shelf.position().await, (1, 0));

    let hold = shelf.held(ann, &[3, 4]).await;
    assert_eq!(seats_of(&hold), [3, 4]);
    assert_eq!((hold.lines[0].price_minor, hold.lines[0].fee_minor, hold.lines[0].quantity), (4500, 250, 1));
    assert_eq!(shelf.position().await, (1, 1));
    let change = shelf.published(1).await;
    assert_eq!(change.seats, [(SeatIndex(3), SeatState::Held), (SeatIndex(4), SeatState::Held)]);
    assert_eq!(shelf.map().await, "0001100000000000000000000000030000000000");
    assert_eq!(shelf.open_hold(ann).await.as_ref(), Some(&hold));

    let outcome = shelf.release(ann, hold.id, ReleaseWhat::Parts { seats: indices(&[3]), areas: vec![] }).await;
    let ChangeOutcome::Done(Some(rest)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(seats_of(&rest), [4]);
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, ChangeOutcome::Done(None));
    assert_eq!(shelf.published(3).await.seats, [(SeatIndex(4), SeatState::Available)]);
    assert_eq!(shelf.map().await, "0000000000000000000000000000030000000000");
    assert_eq!(shelf.position().await, (1, 3));
    let since = shelf.inventory.changes_since(&shelf.event, 1, 1).await.expect("Redis answers").expect("all there");
    assert_eq!(since.iter().map(|change| change.seq).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn a_hundred_racing_buyers_of_one_seat_get_exactly_one_hold() {
    let shelf = Arc::new(Shelf::new().await);
    let other = shelf.another_node().await;
    let mut racers = tokio::task::JoinSet::new();
    for n in 0..100 {
        let (shelf, other) = (shelf.clone(), other.clone());
        racers.spawn(async move {
            let node = if n % 2 == 0 { &shelf.inventory } else { &other };
            node.hold(shelf.caller(IdentityId::generate()), &indices(&[12])).await.expect("Redis answers").outcome
        });
    }
    let outcomes = racers.join_all().await;
    let winners = outcomes.iter().filter(|outcome| matches!(outcome, HoldOutcome::Held { .. })).count();
    assert_eq!(winners, 1);
    for outcome in outcomes {
        if let HoldOutcome::Refused(refusal) = outcome {
            assert_eq!(refusal, Refusal::SeatTaken(indices(&[12])));
        }
    }
}

#[tokio::test]
async fn all_seats_or_none() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[5]).await;
    assert_eq!(refused(shelf.hold(bob, &[4, 5, 29]).await), Refusal::SeatTaken(indices(&[5, 29])));
    assert_eq!(shelf.open_hold(bob).await, None);
    assert_eq!(&shelf.map().await[..7], "0000010");
}

#[tokio::test]
async fn refusals_come_in_the_stated_order() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let order = OrderId::generate();
    let hold = shelf.held(ann, &[0, 1, 2, 3, 4]).await;
    shelf.held(bob, &[10]).await;
    let until_ms = shelf.now_ms() + 100_000;
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers");
    let ask = async |facts: &EventFacts, identity| {
        let caller = Caller { event: Arc::new(facts.clone()), ..shelf.caller(identity) };
        // Seat 30 sells best available only, 10 is taken, and seven are too many: each call breaks all of it.
        refused(shelf.try_hold(caller, &[30, 10, 11, 12, 13, 14, 15]).await.expect("Redis answers").outcome)
    };
    let mut facts = EventFacts { revision: 2, state: EventState::Paused, has_waiting_room: true, ..facts_of(&shelf) };
    assert_eq!(ask(&facts, ann).await, Refusal::AdmissionRequired);
    facts.has_waiting_room = false;
    for (state, refusal) in [
        (EventState::Paused, Refusal::Paused),
        // Sold out is a fact and no gate: with seats left it is on sale.
        (EventState::SoldOut, Refusal::HoldLocked(order)),
        (EventState::Scheduled, Refusal::NotOnSale),
        (EventState::Presale, Refusal::NotOnSale),
        (EventState::Closed, Refusal::NotOnSale),
        (EventState::Cancelled, Refusal::NotOnSale),
        (EventState::OnSale, Refusal::HoldLocked(order)),
    ] {
        facts.revision += 1;
        facts.state = state;
        assert_eq!(ask(&facts, ann).await, refusal, "{state:?}");
    }
    let cat = IdentityId::generate();
    assert_eq!(ask(&facts, cat).await, Refusal::ModeNotAllowed);
    facts.sections[1].sales_mode = SalesMode::PickSeat;
    assert_eq!(ask(&facts, cat).await, Refusal::SeatTaken(indices(&[10])));
    let caller = Caller { event: Arc::new(facts.clone()), ..shelf.caller(cat) };
    let answer = shelf.try_hold(caller, &[11, 12, 13, 14, 15, 16, 17]).await.expect("Redis answers");
    assert_eq!(refused(answer.outcome), Refusal::LimitExceeded { limit: 6, used: 0 });
    assert_eq!(shelf.position().await, (1, 2), "refusals change nothing");
}

#[tokio::test]
async fn an_older_copy_of_the_facts_does_not_undo_what_the_organiser_did() {
    let shelf = Shelf::new().await;
    let paused = EventFacts { revision: 2, state: EventState::Paused, ..facts_of(&shelf) };
    let caller = Caller { event: Arc::new(paused), ..shelf.caller(IdentityId::generate()) };
    assert_eq!(refused(shelf.try_hold(caller, &[1]).await.expect("Redis answers").outcome), Refusal::Paused);
    // A node that has not heard yet still says "on sale" with revision 1.
    assert_eq!(refused(shelf.hold(IdentityId::generate(), &[1]).await), Refusal::Paused);
}

#[tokio::test]
async fn ones_own_seats_again_are_a_no_op_and_the_clock_stays() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let first = shelf.held(ann, &[1, 2]).await;
    let answer = shelf.try_hold(shelf.caller(ann), &[2, 1]).await.expect("Redis answers");
    let HoldOutcome::Held { hold, added, .. } = answer.outcome else { panic!("refused") };
    assert_eq!((hold, added), (first.clone(), vec![]));
    assert_eq!(answer.position.seq, 1);

    let answer = shelf.try_hold(shelf.caller(ann), &[2, 3]).await.expect("Redis answers");
    let HoldOutcome::Held { hold, added, .. } = answer.outcome else { panic!("refused") };
    assert_eq!(added, indices(&[3]));
    assert_eq!(seats_of(&hold), [1, 2, 3]);
    assert_eq!((hold.id, hold.expires_ms), (first.id, first.expires_ms));
    assert_eq!(shelf.published(2).await.seats, [(SeatIndex(3), SeatState::Held)]);
}

#[tokio::test]
async fn a_line_keeps_the_price_of_its_time() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[1]).await;
    let mut facts = EventFacts { revision: 2, ..facts_of(&shelf) };
    facts.price_tiers[0].price_minor = 9900;
    let caller = Caller { event: Arc::new(facts), ..shelf.caller(ann) };
    let HoldOutcome::Held { hold, .. } = shelf.try_hold(caller, &[2]).await.expect("Redis answers").outcome else {
        panic!("refused")
    };
    assert_eq!(hold.lines.iter().map(|line| line.price_minor).collect::<Vec<_>>(), [4500, 9900]);
    let outcome = shelf.release(ann, hold.id, ReleaseWhat::Parts { seats: indices(&[1]), areas: vec![] }).await;
    let ChangeOutcome::Done(Some(rest)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(rest.lines[0].price_minor, 9900);
}

#[tokio::test]
async fn the_limit_counts_seats_places_and_what_was_bought() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1, 2]).await;
    assert!(matches!(shelf.hold_area(ann, 1, 3).await, HoldOutcome::Held { .. }));
    assert_eq!(refused(shelf.hold(ann, &[3, 4]).await), Refusal::LimitExceeded { limit: 6, used: 5 });
    assert_eq!(refused(shelf.hold_area(ann, 1, 2).await), Refusal::LimitExceeded { limit: 6, used: 5 });
    let order = OrderId::generate();
    let until_ms = shelf.now_ms() + 100_000;
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers");
    let places = [(Place::Seat(SeatIndex(1)), 1), (Place::Seat(SeatIndex(2)), 1), (Place::Area(AreaIndex(1)), 3)];
    shelf.inventory.sell(&shelf.event, order, ann, &places).await.expect("Redis answers");
    assert_eq!(refused(shelf.hold(ann, &[3, 4]).await), Refusal::LimitExceeded { limit: 6, used: 5 });
    shelf.held(ann, &[3]).await;
}

#[tokio::test]
async fn places_of_an_area_are_refused_in_the_stated_order() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let caller = |event: &Arc<EventFacts>, body: u8| Caller { event: Arc::clone(event), ..shelf.keyed(ann, "k", body) };
    let ask = async |caller: Caller, area: u32, quantity: u32| {
        shelf.inventory.hold_area(caller, AreaIndex(area), quantity).await.expect("Redis answers").outcome
    };
    assert!(matches!(shelf.hold_area(bob, 0, 4).await, HoldOutcome::Held { .. }));
    let HoldOutcome::Held { hold, .. } = ask(caller(&shelf.event, 1), 1, 5).await else { panic!("refused") };
    // From the last reason to the first; each next one while all before it hold too.
    let position = shelf.position().await;
    assert_eq!(refused(shelf.hold_area(ann, 1, 2).await), Refusal::LimitExceeded { limit: 6, used: 5 });
    assert_eq!(refused(shelf.hold_area(ann, 0, 2).await), Refusal::AreaFull { remaining: 1 });
    assert_eq!((shelf.position().await, shelf.areas().await), (position, vec![1, 95]), "refusals change nothing");
    let order = OrderId::generate();
    let until_ms = shelf.now_ms() + 100_000;
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers");
    assert_eq!(refused(shelf.hold_area(ann, 0, 2).await), Refusal::HoldLocked(order));
    let mut paused = EventFacts::clone(&shelf.event);
    (paused.revision, paused.state) = (paused.revision + 1, EventState::Paused);
    let paused = Arc::new(paused);
    let without_key = Caller { key: None, ..caller(&paused, 1) };
    assert_eq!(refused(ask(without_key, 0, 2).await), Refusal::Paused);
    assert_eq!(refused(ask(caller(&paused, 2), 0, 2).await), Refusal::KeyReused);
    assert!(matches!(ask(caller(&paused, 1), 1, 5).await, HoldOutcome::Held { .. }), "the first answer of its key");
    assert_eq!(shelf.areas().await, [1, 95]);
}

#[tokio::test]
async fn an_area_is_never_oversold() {
    let shelf = Arc::new(Shelf::new().await);
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let shelf = Arc::clone(&shelf);
        racers.spawn(async move { shelf.hold_area(IdentityId::generate(), 0, 2).await });
    }
    let outcomes = racers.join_all().await;
    let winners = outcomes.iter().filter(|outcome| matches!(outcome, HoldOutcome::Held { .. })).count();
    assert_eq!(winners, 2);
    assert!(outcomes.contains(&HoldOutcome::Refused(Refusal::AreaFull { remaining: 1 })));
    assert_eq!(shelf.areas().await, [1, 100]);
    assert_eq!(shelf.published(2).await.areas, [(AreaIndex(0), 1)]);
}

#[tokio::test]
async fn parts_of_a_hold_are_given_back_and_what_is_not_in_it_is_named() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1, 2]).await;
    shelf.hold_area(ann, 1, 3).await;
    let parts = |seats: &[u32], areas: &[(u32, u32)]| ReleaseWhat::Parts {
        seats: indices(seats),
        areas: areas.iter().map(|&(area, quantity)| AreaQuantity { area: AreaIndex(area), quantity }).collect(),
    };
    for (what, is_area, position) in
        [(parts(&[1, 7], &[]), false, 1), (parts(&[1], &[(0, 1)]), true, 0), (parts(&[], &[(1, 4)]), true, 0)]
    {
        let refusal = Refusal::NotInHold { is_area, position };
        assert_eq!(shelf.release(ann, hold.id, what).await, ChangeOutcome::Refused(refusal));
    }
    assert_eq!(shelf.areas().await, [5, 97]);
    let outcome = shelf.release(ann, hold.id, parts(&[1], &[(1, 2)])).await;
    let ChangeOutcome::Done(Some(rest)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((seats_of(&rest), rest.lines[1].quantity), (vec![2], 1));
    assert_eq!(shelf.areas().await, [5, 99]);
    let change = shelf.published(3).await;
    assert_eq!(change.seats, [(SeatIndex(1), SeatState::Available)]);
    assert_eq!(change.areas, [(AreaIndex(1), 99)]);
    assert_eq!(shelf.release(ann, hold.id, parts(&[2], &[(1, 1)])).await, ChangeOutcome::Done(None));
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, ChangeOutcome::Refused(Refusal::HoldNotFound));
}

#[tokio::test]
async fn another_ones_hold_cannot_be_touched() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[1]).await;
    let not_found = ChangeOutcome::Refused(Refusal::HoldNotFound);
    assert_eq!(shelf.release(bob, hold.id, ReleaseWhat::All).await, not_found);
    assert_eq!(shelf.extend(bob, hold.id).await, not_found);
    let locked = shelf.inventory.lock(&shelf.event, bob, hold.id, OrderId::generate(), u64::from(u32::MAX)).await;
    assert_eq!(locked.expect("Redis answers").outcome, LockOutcome::Refused(Refusal::HoldNotFound));
    assert_eq!(shelf.open_hold(ann).await, Some(hold));
}

#[tokio::test]
async fn the_first_answer_of_a_key_is_given_again_and_another_body_is_refused() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let first = shelf.try_hold(shelf.keyed(ann, "one", 1), &[1]).await.expect("Redis answers");
    assert!(!first.is_replayed);
    // Later commands change the hold; the first answer stays as it was, on every node.
    shelf.try_hold(shelf.keyed(ann, "two", 2), &[2]).await.expect("Redis answers");
    let other = shelf.another_node().await;
    let again = other.hold(shelf.keyed(ann, "one", 1), &indices(&[1])).await.expect("Redis answers");
    assert_eq!(again, Answer { is_replayed: true, ..first.clone() });
    let reused = shelf.try_hold(shelf.keyed(ann, "one", 9), &[3]).await.expect("Redis answers");
    assert_eq!(refused(reused.outcome), Refusal::KeyReused);
    // The same key of somebody else is another key.
    let taken = shelf.try_hold(shelf.keyed(bob, "one", 1), &[1]).await.expect("Redis answers");
    assert_eq!(refused(taken.outcome.clone()), Refusal::SeatTaken(indices(&[1])));
    let hold = shelf.open_hold(ann).await.expect("held");
    shelf.inventory.release(shelf.keyed(ann, "three", 3), hold.id, ReleaseWhat::All).await.expect("Redis answers");
    // A refusal is remembered as well: the seat is free now, the answer stays.
    let again = shelf.try_hold(shelf.keyed(bob, "one", 1), &[1]).await.expect("Redis answers");
    assert_eq!(again, Answer { is_replayed: true, ..taken });
    // More answers than an identity's record keeps are found as well.
    for n in 0..12 {
        shelf.try_hold(shelf.keyed(ann, &format!("more {n}"), 4), &[4 + n % 3]).await.expect("Redis answers");
    }
    let again = shelf.try_hold(shelf.keyed(ann, "one", 1), &[1]).await.expect("Redis answers");
    assert_eq!(again, Answer { is_replayed: true, ..first });
    let reused = shelf.try_hold(shelf.keyed(ann, "more 3", 5), &[3]).await.expect("Redis answers");
    assert_eq!(refused(reused.outcome), Refusal::KeyReused);
}

#[tokio::test]
async fn what_is_not_remembered_is_decided_anew() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1]).await;
    let what = ReleaseWhat::Parts { seats: indices(&[2]), areas: vec![] };
    for _ in 0..2 {
        let answer = shelf.inventory.release(shelf.keyed(ann, "k", 1), hold.id, what.clone()).await;
        let answer = answer.expect("Redis answers");
        assert_eq!(answer.outcome, ChangeOutcome::Refused(Refusal::NotInHold { is_area: false, position: 0 }));
        assert!(!answer.is_replayed);
    }
    let closed = EventFacts { revision: 2, has_waiting_room: true, ..facts_of(&shelf) };
    let caller = Caller { event: Arc::new(closed), ..shelf.keyed(ann, "w", 1) };
    let answer = shelf.try_hold(caller.clone(), &[2]).await.expect("Redis answers");
    assert_eq!(refused(answer.outcome), Refusal::AdmissionRequired);
    assert!(!shelf.try_hold(caller, &[2]).await.expect("Redis answers").is_replayed);
}

fn facts_of(shelf: &Shelf) -> EventFacts {
    EventFacts::clone(&shelf.event)
}

#[tokio::test]
async fn only_seats_that_are_added_must_not_be_picked_where_best_available_is_sold() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let best = seatwire::inventory::Block { seats: indices(&[30, 31]), is_together: true, orphans: Vec::new() };
    let looked = seatwire::inventory::Looked { seq: 0, opened: 0 };
    shelf.inventory.hold_best(&shelf.caller(ann), &[best], looked, None).await.expect("Redis answers");
    let (_, before) = shelf.position().await;
    // Seats named; whether the command is done, the basket then.
    type Case<'a> = (&'a [u32], bool, &'a [u32]);
    let cases: [Case<'_>; 6] = [
        (&[30], true, &[30, 31]),
        (&[31, 30], true, &[30, 31]),
        (&[30, 32], false, &[30, 31]),
        (&[32], false, &[30, 31]),
        (&[30, 5], true, &[30, 31, 5]),
        (&[5, 30, 31], true, &[30, 31, 5]),
    ];
    for (seats, is_done, basket) in cases {
        match shelf.hold(ann, seats).await {
            HoldOutcome::Held { hold, .. } => assert!(is_done && seats_of(&hold) == basket, "{seats:?}: {hold:?}"),
            refused => assert!(!is_done && refused == HoldOutcome::Refused(Refusal::ModeNotAllowed), "{seats:?}"),
        }
    }
    assert_eq!(shelf.position().await.1, before + 1, "only seat 5 changed the map: {}", shelf.map().await);
    let bob = IdentityId::generate();
    assert_eq!(refused(shelf.hold(bob, &[30]).await), Refusal::ModeNotAllowed, "somebody else's seats are not his");
    // Of a hold that is over nothing is one's own.
    let client = shelf.plain_client().await;
    shelf.pass_ms(&client, 700_000).await;
    client.quit().await.expect("quits");
    shelf.inventory.sweep(&shelf.event).await.expect("Redis answers");
    assert_eq!(refused(shelf.hold(ann, &[30]).await), Refusal::ModeNotAllowed);
}

#[tokio::test]
async fn a_seat_of_ones_own_again_is_nothing_more_also_where_the_limit_was_lowered_meanwhile() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1, 2, 3, 4]).await;
    let mut facts = EventFacts { revision: 2, ..facts_of(&shelf) };
    facts.rules.seats_per_identity = 2;
    let lowered = Arc::new(facts);
    let ask = async |seats: &[u32]| {
        let caller = Caller { event: Arc::clone(&lowered), ..shelf.caller(ann) };
        shelf.try_hold(caller, seats).await.expect("Redis answers").outcome
    };
    assert_eq!(ask(&[2, 3]).await, HoldOutcome::Held { hold, added: Vec::new(), is_together: false });
    assert_eq!(refused(ask(&[2, 5]).await), Refusal::LimitExceeded { limit: 2, used: 4 });
}
