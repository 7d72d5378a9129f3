//! How holds end: by time, by a sweep, lazily under somebody's hand; and what a lock keeps.

use super::shelf::{Shelf, refused, seats_of};
use crate::support::eventually;
use fred::interfaces::ClientLike;
use seatwire::inventory::{
    ChangeOutcome, HoldOutcome, HoldRecord, LockOutcome, Place, Refusal, ReleaseWhat, Revoked, Swept,
};
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use std::sync::Arc;

/// A shelf whose holds end after so many milliseconds.
async fn hasty(hold_ttl_ms: u64) -> Shelf {
    Shelf::with(|facts| facts.rules.hold_ttl_ms = hold_ttl_ms).await
}

/// Lets time pass for the event until the hold is over. A short life instead would end before its time on a busy machine.
async fn over(shelf: &Shelf, hold: &HoldRecord) {
    let client = shelf.plain_client().await;
    shelf.pass_ms(&client, (hold.expires_ms + 20).saturating_sub(shelf.now_ms())).await;
    client.quit().await.expect("quits");
}

async fn sweep(shelf: &Shelf) -> Swept {
    shelf.inventory.sweep(&shelf.event).await.expect("Redis answers")
}

#[tokio::test]
async fn a_sweep_gives_back_what_has_ended_and_only_that() {
    let shelf = hasty(10_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[1, 2]).await;
    shelf.hold_area(ann, 1, 2).await;
    let kept = shelf.held(bob, &[3]).await;
    shelf.extend(bob, kept.id).await;
    assert_eq!(sweep(&shelf).await.expired, []);
    over(&shelf, &hold).await;
    let ended = eventually("the sweep to find it", || async { sweep(&shelf).await.expired.pop() }).await;
    assert_eq!((ended.id, ended.identity, seats_of(&ended)), (hold.id, ann, vec![1, 2]));
    let (_, seq) = shelf.position().await;
    let change = shelf.published(seq).await;
    let free = |seat| (SeatIndex(seat), SeatState::Available);
    assert_eq!(change.seats, [free(1), free(2)]);
    assert_eq!(change.areas, [(AreaIndex(1), 100)]);
    assert_eq!(&shelf.map().await[..5], "00010");
    let after = sweep(&shelf).await;
    assert_eq!((after.expired.len(), after.open_holds), (0, 1));
    assert_eq!(shelf.position().await.1, seq, "an idle sweep is no change");
    // Its owner hears why, everyone else knows nothing.
    assert_eq!(shelf.extend(ann, hold.id).await, ChangeOutcome::Refused(Refusal::HoldExpired));
    assert_eq!(shelf.extend(bob, hold.id).await, ChangeOutcome::Refused(Refusal::HoldNotFound));
}

#[tokio::test]
async fn a_seat_whose_time_is_over_can_be_taken_before_any_sweep() {
    let shelf = hasty(10_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[1, 2]).await;
    assert_eq!(refused(shelf.hold(bob, &[2]).await), Refusal::SeatTaken(vec![SeatIndex(2)]));
    over(&shelf, &hold).await;
    assert_eq!(shelf.open_hold(ann).await, None);
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, ChangeOutcome::Refused(Refusal::HoldExpired));
    let bobs = shelf.held(bob, &[2]).await;
    shelf.extend(bob, bobs.id).await;
    // The sweep ends ann's hold and leaves bob his seat.
    eventually("the sweep", || async { sweep(&shelf).await.expired.pop() }).await;
    assert_eq!(&shelf.map().await[..4], "0010");
    assert_eq!(seats_of(&shelf.open_hold(bob).await.expect("open")), [2]);
}

#[tokio::test]
async fn a_new_hold_after_the_old_one_ended_is_another_one() {
    let shelf = hasty(10_000).await;
    let ann = IdentityId::generate();
    let first = shelf.held(ann, &[1, 2]).await;
    over(&shelf, &first).await;
    let second = shelf.held(ann, &[2, 3]).await;
    assert_ne!(first.id, second.id);
    assert_eq!(seats_of(&second), [2, 3]);
    assert_eq!(&shelf.map().await[..5], "00110");
    assert_eq!(shelf.extend(ann, first.id).await, ChangeOutcome::Refused(Refusal::HoldExpired));
    over(&shelf, &second).await;
    let ended = eventually("the sweep", || async { sweep(&shelf).await.expired.pop() }).await;
    assert_eq!(ended.id, second.id);
    assert_eq!(&shelf.map().await[..5], "00000");
}

#[tokio::test]
async fn places_of_ended_holds_are_there_before_any_sweep() {
    let shelf = hasty(10_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let HoldOutcome::Held { hold, .. } = shelf.hold_area(ann, 0, 4).await else { panic!("refused") };
    assert_eq!(refused(shelf.hold_area(bob, 0, 2).await), Refusal::AreaFull { remaining: 1 });
    over(&shelf, &hold).await;
    // A call looks through so many lists of holds that are due, and the next one goes on.
    eventually("the places", || async {
        matches!(shelf.hold_area(bob, 0, 2).await, HoldOutcome::Held { .. }).then_some(())
    })
    .await;
    assert_eq!(shelf.areas().await, [3, 100]);
    // Its own places count as free when the hold that had them is over.
    let cat = IdentityId::generate();
    let HoldOutcome::Held { hold, .. } = shelf.hold_area(cat, 1, 6).await else { panic!("refused") };
    over(&shelf, &hold).await;
    let HoldOutcome::Held { hold: second, .. } = shelf.hold_area(cat, 1, 6).await else { panic!("refused") };
    assert_ne!(hold.id, second.id);
    assert_eq!(shelf.areas().await[1], 94);
}

#[tokio::test]
async fn a_hold_is_extended_once() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1]).await;
    let (_, seq) = shelf.position().await;
    let ChangeOutcome::Done(Some(longer)) = shelf.extend(ann, hold.id).await else { panic!("refused") };
    assert_eq!((longer.expires_ms, longer.is_extended), (hold.expires_ms + 120_000, true));
    assert_eq!(shelf.extend(ann, hold.id).await, ChangeOutcome::Refused(Refusal::ExtendRefused { is_offer: false }));
    assert_eq!(shelf.position().await.1, seq, "the map did not change");
}

#[tokio::test]
async fn a_locked_hold_neither_ends_nor_changes_until_it_is_unlocked() {
    let shelf = hasty(10_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[1]).await;
    let (order, other) = (OrderId::generate(), OrderId::generate());
    let lock = async |order, until_ms| {
        shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers").outcome
    };
    let until_ms = hold.expires_ms + 180_000;
    let LockOutcome::Locked(locked) = lock(order, until_ms).await else { panic!("refused") };
    assert_eq!((locked.locked_by, locked.expires_ms), (Some(order), until_ms));
    assert_eq!(lock(order, until_ms).await, LockOutcome::Locked(locked.clone()));
    let LockOutcome::Locked(renewed) = lock(order, until_ms + 5).await else { panic!("refused") };
    assert_eq!(renewed.expires_ms, until_ms + 5);
    let refusal = Refusal::HoldLocked(order);
    assert_eq!(lock(other, until_ms).await, LockOutcome::Refused(refusal.clone()));
    assert_eq!(refused(shelf.hold(ann, &[2]).await), refusal);
    assert_eq!(refused(shelf.hold_area(ann, 0, 1).await), refusal);
    assert_eq!(shelf.extend(ann, hold.id).await, ChangeOutcome::Refused(refusal.clone()));
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, ChangeOutcome::Refused(refusal));
    over(&shelf, &hold).await;
    assert_eq!(sweep(&shelf).await.expired, []);
    assert_eq!(refused(shelf.hold(bob, &[1]).await), Refusal::SeatTaken(vec![SeatIndex(1)]));
    let unlocked = shelf.inventory.unlock(&shelf.event, ann, hold.id, order).await.expect("Redis answers").outcome;
    let ChangeOutcome::Done(Some(unlocked)) = unlocked else { panic!("{unlocked:?}") };
    assert_eq!(unlocked, hold, "with the time it had");
    let ended = eventually("the sweep", || async { sweep(&shelf).await.expired.pop() }).await;
    assert_eq!(ended.id, hold.id);
}

#[tokio::test]
async fn holds_near_their_end_are_named_once_for_each_warning() {
    // A minute and a little: the first warning is due at once, the second is far away.
    let shelf = hasty(60_400).await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1]).await;
    let warned = eventually("the warning", || async { sweep(&shelf).await.expiring.pop() }).await;
    assert_eq!(warned, hold);
    assert_eq!(sweep(&shelf).await, Swept { expired: vec![], expiring: vec![], open_holds: 1 });
}

#[tokio::test]
async fn a_thousand_holds_that_end_together_are_all_given_back() {
    let shelf = Shelf::with(|facts| {
        facts.seat_tiers = vec![0; 3000];
        facts.sections.truncate(1);
        facts.sections[0].end = SeatIndex(3000);
        facts.rules.hold_ttl_ms = 60_000;
    })
    .await;
    let shelf = Arc::new(shelf);
    let mut buyers = tokio::task::JoinSet::new();
    for n in 0..1000 {
        let shelf = Arc::clone(&shelf);
        buyers.spawn(async move { shelf.held(IdentityId::generate(), &[100 + 2 * n, 101 + 2 * n]).await });
    }
    let holds = buyers.join_all().await;
    let last = holds.iter().max_by_key(|hold| hold.expires_ms).expect("a thousand");
    over(&shelf, last).await;
    let mut ids: Vec<_> = holds.iter().map(|hold| hold.id).collect();
    let mut ended = Vec::new();
    while ended.len() < 1000 {
        ended.extend(sweep(&shelf).await.expired.iter().map(|hold| hold.id));
        tokio::task::yield_now().await;
    }
    ids.sort_unstable();
    ended.sort_unstable();
    assert_eq!(ids, ended);
    assert!(!shelf.map().await.contains('1'));
}

#[tokio::test]
async fn a_paid_order_is_sold_once_and_a_refund_frees_it_once() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[1, 2]).await;
    shelf.hold_area(ann, 0, 2).await;
    let order = OrderId::generate();
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, u64::from(u32::MAX)).await.expect("Redis answers");
    let seat = |seat| (Place::Seat(SeatIndex(seat)), 1);
    let floor = |quantity| (Place::Area(AreaIndex(0)), quantity);
    let all = [seat(1), seat(2), floor(2)];
    for _ in 0..2 {
        let sold = shelf.inventory.sell(&shelf.event, order, ann, &all).await.expect("Redis answers");
        assert_eq!((sold.outcome.hold, sold.outcome.revoked), (None, vec![]));
        assert_eq!(sold.position.seq, 3);
    }
    let change = shelf.published(3).await;
    assert_eq!(change.seats, [(SeatIndex(1), SeatState::Sold), (SeatIndex(2), SeatState::Sold)]);
    assert_eq!((&shelf.map().await[..4], shelf.areas().await[0]), ("0220", 3));
    assert_eq!(shelf.open_hold(ann).await, None);
    assert_eq!(refused(shelf.hold(bob, &[1]).await), Refusal::SeatTaken(vec![SeatIndex(1)]));

    let free = async |places: &[(Place, u32)]| {
        shelf.inventory.free(&shelf.event, order, ann, places).await.expect("Redis answers").position.seq
    };
    assert_eq!(free(&[seat(1), floor(1)]).await, 4);
    assert_eq!((&shelf.map().await[..4], shelf.areas().await[0]), ("0020", 4));
    // Bob buys the seat; saying the refund again must not take it from him.
    let bobs = shelf.held(bob, &[1]).await;
    assert_eq!(free(&[seat(1), floor(1)]).await, 5);
    let second = OrderId::generate();
    shelf.inventory.lock(&shelf.event, bob, bobs.id, second, u64::from(u32::MAX)).await.expect("Redis answers");
    shelf.inventory.sell(&shelf.event, second, bob, &[seat(1)]).await.expect("Redis answers");
    free(&all).await;
    free(&[seat(1), floor(1)]).await;
    assert_eq!((&shelf.map().await[..4], shelf.areas().await[0]), ("0200", 5));
    // Everything is given back: the limit is whole again.
    shelf.held(ann, &[10, 11, 12, 13, 14, 15]).await;
}

#[tokio::test]
async fn a_cancelled_checkout_frees_its_seats() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1]).await;
    let order = OrderId::generate();
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, u64::from(u32::MAX)).await.expect("Redis answers");
    let places = [(Place::Seat(SeatIndex(1)), 1)];
    for _ in 0..2 {
        let freed = shelf.inventory.free(&shelf.event, order, ann, &places).await.expect("Redis answers");
        assert_eq!(freed.outcome, ChangeOutcome::Done(None));
    }
    assert_eq!((&shelf.map().await[..3], shelf.position().await.1), ("000", 2));
    shelf.held(ann, &[1, 2, 3, 4, 5, 6]).await;
}

#[tokio::test]
async fn a_late_success_takes_the_seat_from_whoever_holds_it() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let order = OrderId::generate();
    let hold = shelf.held(ann, &[1]).await;
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, u64::from(u32::MAX)).await.expect("Redis answers");
    let places = [(Place::Seat(SeatIndex(1)), 1)];
    shelf.inventory.free(&shelf.event, order, ann, &places).await.expect("Redis answers");
    let bobs = shelf.held(bob, &[1, 2]).await;
    let sold = shelf.inventory.sell(&shelf.event, order, ann, &places).await.expect("Redis answers");
    let [Revoked { was, now: Some(rest) }] = &sold.outcome.revoked[..] else { panic!("{sold:?}") };
    assert_eq!((was, rest.identity, rest.id, seats_of(rest)), (&bobs, bob, bobs.id, vec![2]));
    assert_eq!(shelf.open_hold(bob).await.as_ref(), Some(rest));
    assert_eq!(&shelf.map().await[..4], "0210");
}

#[tokio::test]
async fn a_late_success_that_takes_all_of_a_basket_says_what_it_was() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let order = OrderId::generate();
    let hold = shelf.held(ann, &[1, 2]).await;
    shelf.inventory.lock(&shelf.event, ann, hold.id, order, u64::from(u32::MAX)).await.expect("Redis answers");
    let places = [1, 2].map(|seat| (Place::Seat(SeatIndex(seat)), 1));
    shelf.inventory.free(&shelf.event, order, ann, &places).await.expect("Redis answers");
    let bobs = shelf.held(bob, &[1, 2]).await;
    let sold = shelf.inventory.sell(&shelf.event, order, ann, &places).await.expect("Redis answers");
    assert_eq!(sold.outcome.revoked, [Revoked { was: bobs, now: None }]);
    assert_eq!(shelf.open_hold(bob).await, None);
    assert_eq!(&shelf.map().await[..4], "0220");
}

#[tokio::test]
async fn a_jump_of_the_clock_ends_no_hold_and_makes_none_immortal() {
    let shelf = hasty(100_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[1]).await;
    assert_eq!(sweep(&shelf).await.open_holds, 1);
    // Redis' clock goes ahead by a quarter of an hour: for the event, its high-water mark lies that far back.
    shelf.move_clock_ms(900_000).await;
    assert_eq!(refused(shelf.hold(bob, &[1]).await), Refusal::SeatTaken(vec![SeatIndex(1)]), "expiry stands still");
    assert_eq!(sweep(&shelf).await.expired, []);
    assert_eq!(refused(shelf.hold(bob, &[1]).await), Refusal::SeatTaken(vec![SeatIndex(1)]), "and goes on as before");
    assert_eq!(shelf.open_hold(ann).await.as_ref(), Some(&hold));
    // And back again.
    shelf.move_clock_ms(-900_000).await;
    assert_eq!(sweep(&shelf).await.expired, []);
    assert_eq!(shelf.open_hold(ann).await, Some(hold));
}

#[tokio::test]
async fn a_hold_that_ended_while_nobody_swept_ends_with_the_first_sweep() {
    let shelf = hasty(100_000).await;
    let hold = shelf.held(IdentityId::generate(), &[1]).await;
    // A node that comes later has no stopwatch to contradict the clock, nor has the journal.
    shelf.move_clock_ms(900_000).await;
    let expired = shelf.another_node().await.sweep(&shelf.event).await.expect("Redis answers").expired;
    assert_eq!(expired.iter().map(|ended| ended.id).collect::<Vec<_>>(), [hold.id]);
}

#[tokio::test]
async fn a_cancelled_checkout_told_twice_gives_places_and_limit_back_once() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    // Something bought before, which the second telling must not give back.
    let first = shelf.held(ann, &[1, 2]).await;
    let paid = OrderId::generate();
    let seats = [(Place::Seat(SeatIndex(1)), 1), (Place::Seat(SeatIndex(2)), 1)];
    shelf.inventory.lock(&shelf.event, ann, first.id, paid, u64::from(u32::MAX)).await.expect("Redis answers");
    shelf.inventory.sell(&shelf.event, paid, ann, &seats).await.expect("Redis answers");

    let HoldOutcome::Held { hold, .. } = shelf.hold_area(ann, 0, 2).await else { panic!("refused") };
    let given_up = OrderId::generate();
    let places = [(Place::Area(AreaIndex(0)), 2)];
    shelf.inventory.lock(&shelf.event, ann, hold.id, given_up, u64::from(u32::MAX)).await.expect("Redis answers");
    for _ in 0..3 {
        shelf.inventory.free(&shelf.event, given_up, ann, &places).await.expect("Redis answers");
    }
    assert_eq!(shelf.areas().await[0], 5, "all of the area, and no more");
    let refusal = refused(shelf.hold(ann, &[10, 11, 12, 13, 14]).await);
    assert_eq!(refusal, Refusal::LimitExceeded { limit: 6, used: 2 }, "what was bought still counts");
}

#[tokio::test]
async fn a_hold_that_is_over_under_its_owners_own_hand_is_swept_all_the_same() {
    let shelf = hasty(10_000).await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[0]).await;
    shelf.move_clock_ms(20_000).await;
    // Looks for places of holds that are due on its way, passes over the caller's own, and refuses.
    let full = HoldOutcome::Refused(Refusal::AreaFull { remaining: 5 });
    assert_eq!(shelf.hold_area(ann, 0, 6).await, full);
    let ended =
        eventually("a sweep to end it", || async { sweep(&shelf).await.expired.first().map(|hold| hold.id) }).await;
    assert_eq!((ended, &shelf.map().await[..1]), (hold.id, "0"));
}

#[tokio::test]
async fn the_time_of_an_event_never_goes_back() {
    let shelf = hasty(100_000).await;
    let first = shelf.held(IdentityId::generate(), &[1]).await;
    shelf.move_clock_ms(-60_000).await;
    let second = shelf.held(IdentityId::generate(), &[2]).await;
    assert!(second.expires_ms >= first.expires_ms, "{} and then {}", first.expires_ms, second.expires_ms);
}

#[tokio::test]
async fn places_are_anybodys_from_the_moment_a_hold_of_them_is_over() {
    let shelf = Shelf::with(|facts| facts.rules.hold_ttl_ms = 1_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let HoldOutcome::Held { hold, .. } = shelf.hold_area(ann, 0, 5).await else { panic!("refused") };
    // Nobody sweeps here; whoever is refused is refused before that moment, by the event's own time.
    let got = eventually("the places", || async {
        let answer = shelf.inventory.hold_area(shelf.caller(bob), AreaIndex(0), 5).await.expect("Redis answers");
        match answer.outcome {
            HoldOutcome::Refused(refusal) => {
                assert_eq!(refusal, Refusal::AreaFull { remaining: 0 });
                assert!(answer.server_ms < hold.expires_ms, "refused at {} after {hold:?}", answer.server_ms);
                None
            }
            HoldOutcome::Held { hold, .. } => Some(hold),
        }
    })
    .await;
    assert_eq!(got.identity, bob);
}

#[tokio::test]
async fn places_behind_more_ended_holds_than_one_call_ends_are_found() {
    let shelf = Shelf::with(|facts| facts.areas[1].capacity = 200).await;
    let client = shelf.plain_client().await;
    for _ in 0..100 {
        shelf.hold_area(IdentityId::generate(), 1, 1).await;
    }
    let last = IdentityId::generate();
    let HoldOutcome::Held { hold, .. } = shelf.hold_area(last, 0, 5).await else { panic!("refused") };
    shelf.pass_ms(&client, hold.expires_ms + 300 - shelf.now_ms()).await;
    let bob = IdentityId::generate();
    let outcome = shelf.hold_area(bob, 0, 5).await;
    assert!(matches!(outcome, HoldOutcome::Held { .. }), "{outcome:?}");
    client.quit().await.expect("quits");
}
