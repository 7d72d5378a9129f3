//! The scripts behind best seats, and the rules of a choice: state before, call, outcome, state after, published.

use super::shelf::{Shelf, indices, refused, seats_of};
use seatwire::catalogue::{EventFacts, Run as SeatRun, SeatShape};
use seatwire::inventory::{BestTry, Block, HoldOutcome, Looked, Nothing, OrphanCheck, Refusal, SeatRules, Stretches};
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{SeatIndex, SeatState};
use seatwire_proto::server::{EventState, OrphanRule};
use std::sync::Arc;

fn block(seats: &[u32]) -> Block {
    Block { seats: indices(seats), is_together: true, orphans: Vec::new() }
}

impl Shelf {
    async fn best(&self, identity: IdentityId, blocks: &[Block]) -> BestTry {
        let looked = Looked { seq: self.position().await.1, opened: 0 };
        self.inventory.hold_best(&self.caller(identity), blocks, looked, None).await.expect("Redis answers")
    }

    async fn nothing(&self, identity: IdentityId, seq: u64, nothing: Nothing) -> BestTry {
        let looked = Looked { seq, opened: 0 };
        self.inventory.hold_best(&self.caller(identity), &[], looked, Some(nothing)).await.expect("Redis answers")
    }

    async fn scan(&self, identity: IdentityId, wanted: u16, takes_any: bool, parts: &[(u32, u16)]) -> BestTry {
        let part = Stretches { stretches: parts.to_vec(), ..Stretches::default() };
        let caller = self.caller(identity);
        self.inventory.hold_scanned(&caller, wanted, takes_any, &part, Some(0)).await.expect("Redis answers")
    }
}

fn outcome(tried: BestTry) -> HoldOutcome {
    match tried {
        BestTry::Answered(answer) => answer.outcome,
        BestTry::Missed { .. } => panic!("missed"),
    }
}

fn held(tried: BestTry) -> (Vec<u32>, Vec<u32>, bool) {
    match outcome(tried) {
        HoldOutcome::Held { hold, added, is_together } => {
            (seats_of(&hold), added.iter().map(|seat| seat.0).collect(), is_together)
        }
        HoldOutcome::Refused(refusal) => panic!("refused: {refusal:?}"),
    }
}

#[tokio::test]
async fn the_first_block_that_is_wholly_free_is_taken_in_one_call() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[3]).await;
    let tried = shelf.best(bob, &[block(&[2, 3]), block(&[4, 5]), block(&[6, 7])]).await;
    assert_eq!(held(tried), (vec![4, 5], vec![4, 5], true));
    assert_eq!(&shelf.map().await[..10], "0001110000");
    let change = shelf.published(2).await;
    assert_eq!(change.seats, [(SeatIndex(4), SeatState::Held), (SeatIndex(5), SeatState::Held)]);
    // It adds to the one open hold, at the price of its tier.
    let tried = shelf.best(bob, &[Block { is_together: false, ..block(&[8, 30]) }]).await;
    assert_eq!(held(tried), (vec![4, 5, 8, 30], vec![8, 30], false));
    let hold = shelf.open_hold(bob).await.expect("held");
    assert_eq!(hold.lines.iter().map(|line| line.price_minor).collect::<Vec<_>>(), [4500, 4500, 4500, 2000]);
}

#[tokio::test]
async fn a_miss_changes_nothing_and_is_not_remembered() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[3]).await;
    let caller = shelf.keyed(bob, "k", 1);
    let looked = Looked { seq: 1, opened: 0 };
    let blocks = [block(&[3, 4]), block(&[28, 29])];
    let tried = shelf.inventory.hold_best(&caller, &blocks, looked, None).await.expect("Redis answers");
    assert_eq!(tried, BestTry::Missed { seq: 1, opened: 0, most_together: 0 });
    assert_eq!((shelf.open_hold(bob).await, shelf.position().await), (None, (1, 1)));
    let tried = shelf.inventory.hold_best(&caller, &[block(&[6, 7])], looked, None).await.expect("Redis answers");
    let BestTry::Answered(first) = tried else { panic!("missed") };
    // What was decided is remembered, whatever blocks come with the same key.
    let again = shelf.inventory.hold_best(&caller, &blocks, looked, None).await.expect("Redis answers");
    let BestTry::Answered(again) = again else { panic!("missed") };
    assert!(again.is_replayed);
    assert_eq!(again.outcome, first.outcome);
}

#[tokio::test]
async fn nothing_left_is_only_said_of_the_map_as_it_is() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[3]).await;
    let nothing = Nothing::NotEnough { most_together: 4 };
    assert_eq!(shelf.nothing(bob, 0, nothing).await, BestTry::Missed { seq: 1, opened: 0, most_together: 0 });
    assert_eq!(refused(outcome(shelf.nothing(bob, 1, nothing).await)), Refusal::NotEnough { most_together: 4 });
    assert_eq!(refused(outcome(shelf.nothing(bob, 1, Nothing::SoldOut).await)), Refusal::SoldOut);
    // Without a sweeper nobody knows what may be due: such a look decides nothing.
    shelf.move_clock_ms(25_000).await;
    assert_eq!(shelf.nothing(bob, 1, Nothing::SoldOut).await, BestTry::Missed { seq: 1, opened: 0, most_together: 0 });
    shelf.inventory.sweep(&shelf.event).await.expect("Redis answers");
    assert_eq!(refused(outcome(shelf.nothing(bob, 1, Nothing::SoldOut).await)), Refusal::SoldOut);
    assert_eq!(shelf.open_hold(ann).await, Some(hold));
}

#[tokio::test]
async fn what_is_due_is_ended_before_a_scan_and_a_map_with_due_holds_decides_nothing() {
    let shelf = Shelf::with(|facts| facts.rules.hold_ttl_ms = 10_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[3, 4]).await;
    shelf.move_clock_ms(20_000).await;
    assert_eq!(shelf.nothing(bob, 1, Nothing::SoldOut).await, BestTry::Missed { seq: 1, opened: 0, most_together: 0 });
    let (hold, added, is_together) = held(shelf.scan(bob, 2, false, &[(3, 2)]).await);
    assert_eq!((hold, added, is_together), (vec![3, 4], vec![3, 4], true));
    assert_eq!(shelf.open_hold(ann).await, None);
    let change = shelf.published(2).await;
    assert_eq!(change.seats.last(), Some(&(SeatIndex(4), SeatState::Held)));
}

#[tokio::test]
async fn a_scan_finds_the_one_block_left_and_any_seats_where_any_will_do() {
    let shelf = Shelf::with(|facts| facts.rules.seats_per_identity = 40).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    // Free: 5, 11 and 12, 20, 39; runs of ten.
    let all_but: Vec<u32> = (0..40).filter(|seat| ![5, 11, 12, 20, 29, 39].contains(seat) && *seat < 30).collect();
    shelf.held(ann, &all_but).await;
    let rows = [(0, 10), (10, 10), (20, 9)];
    let tried = shelf.scan(bob, 3, false, &rows).await;
    assert_eq!(refused(outcome(tried)), Refusal::NotEnough { most_together: 2 }, "11 and 12");
    let (_, added, is_together) = held(shelf.scan(bob, 2, false, &rows).await);
    assert_eq!((added, is_together), (vec![11, 12], true));
    let (hold, added, is_together) = held(shelf.scan(bob, 2, true, &rows).await);
    assert_eq!((hold, added, is_together), (vec![11, 12, 5, 20], vec![5, 20], false));
    // Touching indices of two rows are no block.
    let tried = shelf.scan(ann, 2, false, &[(38, 1), (39, 1)]).await;
    assert_eq!(refused(outcome(tried)), Refusal::NotEnough { most_together: 1 });
    // What is told is what was seen: in these stretches, or before them; with nothing free it is sold out.
    let look = async |parts: &[(u32, u16)], most_before| {
        let part = Stretches { stretches: parts.to_vec(), ..Stretches::default() };
        let tried = shelf.inventory.hold_scanned(&shelf.caller(bob), 20, false, &part, most_before).await;
        tried.expect("Redis answers")
    };
    let missed = BestTry::Missed { seq: shelf.position().await.1, opened: 0, most_together: 9 };
    assert_eq!(look(&[(0, 20), (30, 9)], None).await, missed);
    for (parts, most_before, told) in [
        (&[(0, 20), (30, 3)][..], 7, Refusal::NotEnough { most_together: 7 }),
        (&[(0, 20), (30, 9)], 7, Refusal::NotEnough { most_together: 9 }),
        (&[(0, 20)], 0, Refusal::SoldOut),
        (&[], 0, Refusal::SoldOut),
    ] {
        assert_eq!(refused(outcome(look(parts, Some(most_before)).await)), told, "{parts:?}");
    }
}

#[tokio::test]
async fn a_scan_under_a_strict_rule_leaves_no_single_seat_but_in_a_run_nearly_sold_out() {
    let shelf = Shelf::with(|facts| {
        facts.rules.orphans = OrphanRule::Strict;
        facts.rules.seats_per_identity = 40;
    })
    .await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    // Free: 3 to 5 and 8 of the first run, 13 to 15 of the second.
    let is_kept = |seat: &u32| [3, 4, 5, 8, 13, 14, 15].contains(seat);
    shelf.held(ann, &(0..20).filter(|seat| !is_kept(seat)).collect::<Vec<_>>()).await;
    let refused_in = async |parts: &[(u32, u16)]| refused(outcome(shelf.scan(bob, 2, false, parts).await));
    assert_eq!(refused_in(&[(0, 10)]).await, Refusal::NotEnough { most_together: 3 }, "two would stay of ten");
    let (_, added, _) = held(shelf.scan(bob, 2, false, &[(0, 10), (10, 10)]).await);
    assert_eq!(added, [13, 14], "one of ten may stay");
}

#[tokio::test]
async fn refusals_of_best_seats_come_in_the_stated_order() {
    for scans in [false, true] {
        let shelf = Shelf::new().await;
        let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
        let order = OrderId::generate();
        let hold = shelf.held(ann, &[0, 1, 2, 3, 4]).await;
        let until_ms = shelf.now_ms() + 100_000;
        shelf.inventory.lock(&shelf.event, ann, hold.id, order, until_ms).await.expect("Redis answers");
        let ask = async |facts: &EventFacts, identity, seats: &[u32]| {
            let caller = seatwire::inventory::Caller { event: Arc::new(facts.clone()), ..shelf.caller(identity) };
            let nothing = Some(Nothing::SoldOut);
            let tried = if scans {
                let part = Stretches { stretches: vec![(seats[0], seats.len() as u16)], ..Stretches::default() };
                shelf.inventory.hold_scanned(&caller, seats.len() as u16, false, &part, Some(0)).await
            } else {
                let looked = Looked { seq: shelf.position().await.1, opened: 0 };
                shelf.inventory.hold_best(&caller, &[block(seats)], looked, nothing).await
            };
            refused(outcome(tried.expect("Redis answers")))
        };
        let taken_and_too_many: Vec<u32> = (4..11).collect();
        let mut facts = EventFacts {
            revision: 2,
            state: EventState::Paused,
            has_waiting_room: true,
            ..EventFacts::clone(&shelf.event)
        };
        assert_eq!(ask(&facts, ann, &taken_and_too_many).await, Refusal::AdmissionRequired);
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
            assert_eq!(ask(&facts, ann, &taken_and_too_many).await, refusal, "{state:?}");
        }
        let told = if scans { Refusal::NotEnough { most_together: 6 } } else { Refusal::SoldOut };
        assert_eq!(ask(&facts, bob, &taken_and_too_many).await, told, "as was seen, or as the caller said");
        let too_many: Vec<u32> = (11..18).collect();
        assert_eq!(ask(&facts, bob, &too_many).await, Refusal::LimitExceeded { limit: 6, used: 0 });
        assert_eq!(shelf.position().await, (1, 1), "refusals change nothing");
    }
}

/// The rules of a choice in one row from seat 0 to 9, as the plan would give them.
fn beside(seats: &[u32]) -> SeatRules {
    let chosen = |seat: &u32| seats.contains(seat);
    let in_row = |seat: &u32| *seat < 10;
    let mut orphans = Vec::new();
    for &seat in seats {
        for (next, beyond) in [(seat.wrapping_sub(1), seat.wrapping_sub(2)), (seat + 1, seat + 2)] {
            if in_row(&next) && !chosen(&next) {
                let beyond = Some(beyond).filter(|seat| in_row(seat) && !chosen(seat));
                orphans.push(OrphanCheck { seat: next, beyond, first: 0, len: 10 });
            }
        }
    }
    SeatRules { orphans, ..SeatRules::default() }
}

/// Taken before, choice, what lenient forbids, what strict forbids.
type Case = (&'static [u32], &'static [u32], &'static [u32], &'static [u32]);

#[tokio::test]
async fn a_single_seat_is_left_only_where_the_rule_allows_it() {
    let cases: &[Case] = &[
        (&[], &[0, 1], &[], &[]),
        (&[], &[1, 2], &[0], &[0]),
        (&[], &[0, 2], &[1], &[1]),
        (&[4], &[2], &[3], &[3]),
        (&[4], &[3], &[], &[]),
        // Two of three: lenient sees that it cannot be avoided, strict does not care while others are free.
        (&[3], &[0, 1], &[], &[2]),
        (&[3], &[1, 2], &[], &[0]),
        (&[3], &[0, 2], &[], &[1]),
        // The row is nearly sold out: one seat in ten may be left.
        (&[3, 4, 5, 6, 7, 8, 9], &[0, 1], &[], &[]),
        (&[3, 4, 5, 6, 7, 8], &[0, 1], &[], &[2]),
        // Two at once.
        (&[5], &[1, 3], &[0, 2, 4], &[0, 2, 4]),
    ];
    for rule in [OrphanRule::Off, OrphanRule::Lenient, OrphanRule::Strict] {
        for (number, (before, choice, lenient, strict)) in cases.iter().enumerate() {
            let shelf = Shelf::with(|facts| {
                facts.rules.orphans = rule;
                facts.rules.seats_per_identity = 20;
            })
            .await;
            if !before.is_empty() {
                shelf.held(IdentityId::generate(), before).await;
            }
            let ann = IdentityId::generate();
            let rules = if rule == OrphanRule::Off { SeatRules::default() } else { beside(choice) };
            let left = match rule {
                OrphanRule::Off => &[][..],
                OrphanRule::Lenient => lenient,
                OrphanRule::Strict => strict,
            };
            let answer = shelf.inventory.hold_by_rules(shelf.caller(ann), &indices(choice), &rules).await;
            let outcome = answer.expect("Redis answers").outcome;
            let tried = shelf.another_best(choice, &rules).await;
            if left.is_empty() {
                assert!(matches!(outcome, HoldOutcome::Held { .. }), "{rule:?} case {number}: {outcome:?}");
            } else {
                let mut found = match refused(outcome) {
                    Refusal::OrphanSeat(seats) => seats,
                    other => panic!("{rule:?} case {number}: {other:?}"),
                };
                found.sort_unstable();
                found.dedup();
                assert_eq!(found, indices(left), "{rule:?} case {number}");
                // A block of the same seats is passed over.
                assert!(matches!(tried, BestTry::Missed { .. }), "{rule:?} case {number}: {tried:?}");
            }
        }
    }
}

impl Shelf {
    /// The same choice as a block of somebody else.
    async fn another_best(&self, seats: &[u32], rules: &SeatRules) -> BestTry {
        let block = Block { orphans: rules.orphans.clone(), ..block(seats) };
        self.best(IdentityId::generate(), &[block]).await
    }
}

#[tokio::test]
async fn a_long_run_that_is_nearly_sold_out_may_keep_a_tenth_of_its_seats_as_single_ones() {
    let shelf = Shelf::with(|facts| {
        facts.rules.orphans = OrphanRule::Strict;
        facts.rules.seats_per_identity = 20;
    })
    .await;
    let shape = SeatShape { runs: vec![SeatRun { first: 0, len: 20 }], ..SeatShape::default() };
    shelf.held(IdentityId::generate(), &(5..20).collect::<Vec<_>>()).await;
    let hold = async |seats: &[u32]| {
        let caller = shelf.caller(IdentityId::generate());
        let rules = SeatRules::of(&caller.event, &shape, &indices(seats));
        shelf.inventory.hold_by_rules(caller, &indices(seats), &rules).await.expect("Redis answers").outcome
    };
    // Three of the five that are free would be left, each by itself.
    let mut left = match refused(hold(&[1, 3]).await) {
        Refusal::OrphanSeat(seats) => seats,
        other => panic!("{other:?}"),
    };
    left.sort_unstable();
    left.dedup();
    assert_eq!(left, indices(&[0, 2, 4]));
    // Two of twenty are a tenth.
    shelf.held(IdentityId::generate(), &[4]).await;
    let held = hold(&[1, 2]).await;
    assert!(matches!(held, HoldOutcome::Held { .. }), "{held:?}");
}

#[tokio::test]
async fn a_companion_seat_goes_with_an_accessible_seat_of_the_same_hold() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    // Seat 0 is for a wheelchair, seat 1 beside it for the companion.
    let rules = SeatRules { beside: vec![vec![0]], ..SeatRules::default() };
    let hold = async |identity, seats: &[u32], rules: &SeatRules| {
        let answer = shelf.inventory.hold_by_rules(shelf.caller(identity), &indices(seats), rules).await;
        answer.expect("Redis answers").outcome
    };
    assert_eq!(refused(hold(ann, &[1], &rules).await), Refusal::CompanionRule);
    shelf.held(bob, &[0]).await;
    assert_eq!(refused(hold(ann, &[1], &rules).await), Refusal::CompanionRule, "somebody else's does not count");
    assert!(matches!(hold(bob, &[1], &rules).await, HoldOutcome::Held { .. }));
    // Before it come what is taken and the limit.
    assert_eq!(refused(hold(ann, &[0, 1], &rules).await), Refusal::SeatTaken(indices(&[0, 1])));
    assert_eq!(refused(hold(ann, &[2, 3, 4, 5, 6, 7, 8], &rules).await), Refusal::LimitExceeded { limit: 6, used: 0 });
}

#[tokio::test]
async fn the_rules_come_last_companion_before_orphan() {
    let shelf = Shelf::with(|facts| facts.rules.orphans = OrphanRule::Strict).await;
    let ann = IdentityId::generate();
    let rules = SeatRules { beside: vec![vec![9]], ..beside(&[1]) };
    let answer = shelf.inventory.hold_by_rules(shelf.caller(ann), &indices(&[1]), &rules).await;
    assert_eq!(refused(answer.expect("Redis answers").outcome), Refusal::CompanionRule);
    let answer = shelf.inventory.hold_by_rules(shelf.caller(ann), &indices(&[1]), &beside(&[1])).await;
    assert_eq!(refused(answer.expect("Redis answers").outcome), Refusal::OrphanSeat(indices(&[0])));
    // Seats for wheelchair users may be picked where everything else sells best available only.
    let rules = SeatRules { picked: [30].into_iter().collect(), ..SeatRules::default() };
    let answer = shelf.inventory.hold_by_rules(shelf.caller(ann), &indices(&[30, 31]), &rules).await;
    assert_eq!(refused(answer.expect("Redis answers").outcome), Refusal::ModeNotAllowed);
    let answer = shelf.inventory.hold_by_rules(shelf.caller(ann), &indices(&[30]), &rules).await;
    assert!(matches!(answer.expect("Redis answers").outcome, HoldOutcome::Held { .. }));
}
