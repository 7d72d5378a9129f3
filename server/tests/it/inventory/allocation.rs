//! Seats kept for those who have a code: state before, call, outcome, state after, published.

use super::shelf::{Shelf, allocation, facts, indices, refused, seats_of};
use seatwire::catalogue::{AllocationFacts, EventFacts, Run, SeatShape};
use seatwire::inventory::{
    Answer, BestTry, Block, Caller, ChangeOutcome, HoldOutcome, Looked, NewOffer, OfferOutcome, Refusal, ReleaseRules,
    ReleaseWhat, UnlockOutcome,
};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::{SeatIndex, SeatState};
use seatwire_proto::server::{EventState, OrphanRule};
use std::sync::Arc;

/// Seats 10 to 13 are kept by the allocation in slot 3, and 14 by the one in slot 4.
fn allocated() -> EventFacts {
    let facts = facts();
    EventFacts { allocations: vec![allocation(facts.id, 3, 10..14), allocation(facts.id, 4, 14..15)], ..facts }
}

async fn shelf() -> Shelf {
    Shelf::of(allocated(), &[]).await
}

impl Shelf {
    async fn unlock(&self, caller: Caller, slot: Option<usize>) -> Answer<UnlockOutcome> {
        let allocation = slot.map(|at| &self.event.allocations[at]);
        self.inventory.unlock_allocation(&caller, allocation).await.expect("Redis answers")
    }

    /// The same event as the organiser has it now.
    fn changed(&self, change: impl FnOnce(&mut EventFacts)) -> Arc<EventFacts> {
        let mut facts = EventFacts { revision: self.event.revision + 1, ..EventFacts::clone(&self.event) };
        change(&mut facts);
        Arc::new(facts)
    }
}

#[tokio::test]
async fn what_is_kept_is_blocked_to_everyone_but_those_who_unlocked_it() {
    let shelf = shelf().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    assert_eq!(&shelf.map().await[9..16], "0333330");
    assert_eq!(refused(shelf.hold(ann, &[10]).await), Refusal::SeatTaken(indices(&[10])));
    let answer = shelf.unlock(shelf.caller(ann), Some(0)).await;
    assert_eq!(answer.outcome, UnlockOutcome::Unlocked { slot: 3 });
    assert_eq!(shelf.position().await, (1, 0), "the map does not change");
    let hold = shelf.held(ann, &[9, 10]).await;
    assert_eq!(seats_of(&hold), [9, 10]);
    // The code itself told nobody anything: the first change is the hold, and says nothing of the other unlocked seats.
    let change = shelf.published(1).await;
    assert_eq!(change.seats, [(SeatIndex(9), SeatState::Held), (SeatIndex(10), SeatState::Held)]);
    assert!(shelf.heard.lock().iter().all(|message| message.seats.is_empty() || message.seq > 0));
    assert_eq!(refused(shelf.hold(ann, &[14]).await), Refusal::SeatTaken(indices(&[14])), "another allocation");
    assert_eq!(refused(shelf.hold(bob, &[11]).await), Refusal::SeatTaken(indices(&[11])));
    // Given back it is blocked again, and available to her.
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    let change = shelf.published(2).await;
    assert!(change.seats.contains(&(SeatIndex(10), SeatState::Blocked)), "{change:?}");
    assert!(change.seats.contains(&(SeatIndex(9), SeatState::Available)), "{change:?}");
    shelf.held(ann, &[10, 11]).await;
}

#[tokio::test]
async fn an_allocation_takes_what_is_kept_for_the_waitlist_and_gives_it_back() {
    let mut facts = allocated();
    facts.allocations[0].is_closed = true;
    let shelf = Shelf::of(facts, &[]).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[10]).await;
    shelf.inventory.keep_for_waitlist(&shelf.event, true).await.expect("Redis answers");
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    let kept = async || -> Vec<u32> {
        let kept = shelf.inventory.kept(&shelf.event).await.expect("Redis answers");
        kept.seats.iter().map(|(seat, _)| seat.0).collect()
    };
    let available = async || shelf.inventory.stock(&shelf.event).await.expect("Redis answers").available;
    assert_eq!((&shelf.map().await[9..16], kept().await, available().await), ("0100030", vec![10], 37));

    let opened = shelf.changed(|facts| facts.allocations[0].is_closed = false);
    shelf.inventory.keep_allocations(&opened).await.expect("Redis answers");
    assert_eq!((&shelf.map().await[9..16], kept().await, available().await), ("0333330", vec![], 34));
    let (_, seq) = shelf.position().await;
    assert!(shelf.published(seq).await.seats.contains(&(SeatIndex(10), SeatState::Blocked)));
    let offer = NewOffer { life_ms: 60_000, seats: indices(&[10]), areas: Vec::new() };
    let outcome = shelf.inventory.offer(&opened, bob, &offer).await.expect("Redis answers");
    assert_eq!(outcome, OfferOutcome::Refused(Refusal::SeatTaken(indices(&[10]))), "not the waitlist's any more");
    shelf.unlock(Caller { event: Arc::clone(&opened), ..shelf.caller(ann) }, Some(0)).await;
    let caller = Caller { event: Arc::clone(&opened), ..shelf.caller(ann) };
    let outcome = shelf.try_hold(caller, &[10]).await.expect("Redis answers").outcome;
    assert!(matches!(outcome, HoldOutcome::Held { .. }), "{outcome:?}");

    let closed = shelf.changed(|facts| {
        facts.revision += 1;
        facts.allocations[0].is_closed = true;
    });
    shelf.inventory.keep_allocations(&closed).await.expect("Redis answers");
    assert_eq!((&shelf.map().await[9..16], kept().await), ("0111130", vec![11, 12, 13]), "for those who wait");
}

#[tokio::test]
async fn a_wrong_code_is_remembered_like_any_answer_and_so_is_a_right_one() {
    let shelf = shelf().await;
    let ann = IdentityId::generate();
    let first = shelf.unlock(shelf.keyed(ann, "wrong", 1), None).await;
    assert_eq!(first.outcome, UnlockOutcome::Refused(Refusal::CodeInvalid));
    let again = shelf.unlock(shelf.keyed(ann, "wrong", 1), Some(0)).await;
    assert_eq!((again.outcome, again.is_replayed), (first.outcome, true));
    let reused = shelf.unlock(shelf.keyed(ann, "wrong", 2), Some(0)).await;
    assert_eq!(reused.outcome, UnlockOutcome::Refused(Refusal::KeyReused));
    let right = shelf.unlock(shelf.keyed(ann, "right", 1), Some(1)).await;
    let again = shelf.unlock(shelf.keyed(ann, "right", 1), Some(0)).await;
    assert_eq!((&again.outcome, again.is_replayed), (&right.outcome, true));
    assert_eq!(right.outcome, UnlockOutcome::Unlocked { slot: 4 });
    shelf.held(ann, &[14]).await;
}

#[tokio::test]
async fn in_a_presale_only_those_who_unlocked_something_that_is_open_may_buy() {
    let shelf = shelf().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.unlock(shelf.caller(ann), Some(0)).await;
    let presale = shelf.changed(|facts| facts.state = EventState::Presale);
    let ask = async |event: &Arc<EventFacts>, identity, seats: &[u32]| {
        let caller = Caller { event: Arc::clone(event), ..shelf.caller(identity) };
        shelf.try_hold(caller, seats).await.expect("Redis answers").outcome
    };
    assert_eq!(refused(ask(&presale, bob, &[1]).await), Refusal::NotOnSale);
    assert!(matches!(ask(&presale, ann, &[10]).await, HoldOutcome::Held { .. }));
    let over = shelf.changed(|facts| {
        facts.revision += 1;
        facts.state = EventState::Presale;
        facts.allocations[0].until_ms = 1;
    });
    assert_eq!(refused(ask(&over, ann, &[11]).await), Refusal::NotOnSale);
    let on_sale = shelf.changed(|facts| {
        facts.revision += 2;
        facts.allocations[0].until_ms = 1;
    });
    assert_eq!(refused(ask(&on_sale, ann, &[11]).await), Refusal::SeatTaken(indices(&[11])));
}

#[tokio::test]
async fn best_seats_tell_the_node_what_the_caller_has_unlocked() {
    let shelf = shelf().await;
    let ann = IdentityId::generate();
    shelf.unlock(shelf.caller(ann), Some(0)).await;
    let block = |seats: &[u32]| Block { seats: indices(seats), is_together: true, orphans: Vec::new() };
    let ask = async |blocks: &[Block], seq: u64, opened: u32| {
        let nothing = Some(seatwire::inventory::Nothing::SoldOut);
        let looked = Looked { seq, opened };
        shelf.inventory.hold_best(&shelf.caller(ann), blocks, looked, nothing).await.expect("Redis answers")
    };
    assert_eq!(ask(&[], 0, 0).await, BestTry::Missed { seq: 0, opened: 8, most_together: 0 });
    assert_eq!(ask(&[block(&[13, 14])], 0, 8).await.outcome_name(), "sold_out");
    assert_eq!(ask(&[block(&[13, 14]), block(&[12, 13])], 0, 8).await.outcome_name(), "held");
    assert_eq!(&shelf.map().await[9..16], "0331130");
    // The counter of available seats was not touched: the rest can be held and is then gone.
    assert_eq!(ask(&[], 1, 8).await.outcome_name(), "sold_out");
}

trait OutcomeName {
    fn outcome_name(&self) -> &'static str;
}

impl OutcomeName for BestTry {
    fn outcome_name(&self) -> &'static str {
        match self {
            BestTry::Missed { .. } => "missed",
            BestTry::Answered(answer) => match &answer.outcome {
                HoldOutcome::Held { .. } => "held",
                HoldOutcome::Refused(Refusal::SoldOut) => "sold_out",
                HoldOutcome::Refused(_) => "refused",
            },
        }
    }
}

#[tokio::test]
async fn an_allocation_is_kept_and_given_up_while_the_event_sells() {
    let shelf = Shelf::of(EventFacts { blocked: Default::default(), ..facts() }, &[]).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[10]).await;
    let with = |is_closed: bool, revision: u64| {
        let mut facts = EventFacts { revision, ..EventFacts::clone(&shelf.event) };
        facts.allocations = vec![AllocationFacts { is_closed, ..allocation(facts.id, 0, 10..12) }];
        Arc::new(facts)
    };
    for _ in 0..2 {
        shelf.inventory.keep_allocations(&with(false, 2)).await.expect("Redis answers");
        assert_eq!((&shelf.map().await[9..13], shelf.position().await.1), ("0130", 2), "twice is once");
    }
    assert_eq!(shelf.published(2).await.seats, [(SeatIndex(11), SeatState::Blocked)]);
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    assert_eq!(&shelf.map().await[9..13], "0330", "what was held is kept once it is free");
    let other = shelf.another_node().await;
    for _ in 0..2 {
        other.keep_allocations(&with(true, 3)).await.expect("Redis answers");
        assert_eq!((&shelf.map().await[9..13], shelf.position().await.1), ("0000", 4));
    }
    shelf.held(bob, &[10, 11]).await;
}

#[tokio::test]
async fn guesses_are_counted_for_all_nodes_and_an_answer_given_again_is_none() {
    let shelf = shelf().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let other = shelf.another_node().await;
    let invalid = UnlockOutcome::Refused(Refusal::CodeInvalid);
    for n in 0..4 {
        let caller = shelf.keyed(ann, &format!("k{n}"), 1);
        for is_replayed in [false, true, true] {
            let node = if n % 2 == 0 { &shelf.inventory } else { &other };
            let answer = node.unlock_allocation(&caller, None).await.expect("Redis answers");
            assert_eq!((answer.outcome, answer.is_replayed), (invalid.clone(), is_replayed), "{n}");
        }
    }
    // The same key with another body is none either.
    assert_eq!(shelf.unlock(shelf.keyed(ann, "k0", 2), None).await.outcome, UnlockOutcome::Refused(Refusal::KeyReused));
    assert_eq!(shelf.unlock(shelf.caller(ann), None).await.outcome, invalid, "the fifth");
    let caller = shelf.keyed(ann, "k5", 1);
    let right = Some(&shelf.event.allocations[0]);
    let answer = other.unlock_allocation(&caller, right).await.expect("Redis answers");
    let UnlockOutcome::Refused(Refusal::Guessed { retry_after_ms }) = answer.outcome else {
        panic!("the right code is not listened to either: {answer:?}")
    };
    assert!((60_000..=120_000).contains(&retry_after_ms), "{retry_after_ms}");
    let again = shelf.unlock(shelf.keyed(ann, "k3", 1), None).await;
    assert!(again.is_replayed && again.outcome == invalid, "what was answered is answered: {again:?}");
    assert_eq!(shelf.unlock(shelf.caller(bob), Some(0)).await.outcome, UnlockOutcome::Unlocked { slot: 3 });
    assert_eq!(shelf.position().await, (1, 0), "the map knows nothing of it");
    // Not remembered: after its time the same key is decided anew.
    shelf.move_clock_ms(i64::from(retry_after_ms)).await;
    let answer = other.unlock_allocation(&caller, right).await.expect("Redis answers");
    assert_eq!((answer.outcome, answer.is_replayed), (UnlockOutcome::Unlocked { slot: 3 }, false));
}

#[tokio::test]
async fn a_seat_given_back_to_its_allocation_is_nobodys_and_so_not_left_alone() {
    let mut facts = facts();
    facts.rules.orphans = OrphanRule::Strict;
    facts.allocations = vec![allocation(facts.id, 0, 10..14)];
    let shelf = Shelf::of(facts, &[]).await;
    let ann = IdentityId::generate();
    shelf.unlock(shelf.caller(ann), Some(0)).await;
    let hold = shelf.held(ann, &[4, 5, 6, 11, 12, 13]).await;
    let shape = SeatShape { runs: vec![Run { first: 0, len: 30 }], ..SeatShape::default() };
    // Each stands between two that stay.
    let ask = async |seat: u32| {
        let rules = ReleaseRules::of(&shelf.event, &shape, &indices(&[seat]));
        let what = ReleaseWhat::Parts { seats: indices(&[seat]), areas: Vec::new() };
        let answer = shelf.inventory.release_by_rules(shelf.caller(ann), hold.id, what, &rules).await;
        answer.expect("Redis answers").outcome
    };
    assert_eq!(ask(5).await, ChangeOutcome::Refused(Refusal::OrphanSeat(indices(&[5]))));
    let ChangeOutcome::Done(Some(rest)) = ask(12).await else { panic!("nobody can be left with it") };
    assert_eq!((seats_of(&rest), &shelf.map().await[4..14]), (vec![4, 5, 6, 11, 13], "1110003131"));
}

#[tokio::test]
async fn a_seat_of_an_allocation_whose_hold_has_just_ended_is_not_a_strangers_to_take() {
    let mut facts = allocated();
    facts.rules.hold_ttl_ms = 10_000;
    let shelf = Shelf::of(facts, &[]).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.unlock(shelf.caller(ann), Some(0)).await;
    shelf.held(ann, &[9, 10]).await;
    shelf.move_clock_ms(20_000).await;
    // Nobody has swept: both seats still carry her name.
    assert_eq!(refused(shelf.hold(bob, &[9, 10]).await), Refusal::SeatTaken(indices(&[10])));
    // Nor are they hers any more once the allocation is closed to her.
    let closed = shelf.changed(|facts| facts.allocations[0].until_ms = 1);
    let caller = Caller { event: closed, ..shelf.caller(ann) };
    let again = shelf.try_hold(caller, &[10]).await.expect("Redis answers").outcome;
    assert_eq!(refused(again), Refusal::SeatTaken(indices(&[10])));
    shelf.held(ann, &[10]).await;
    shelf.held(bob, &[9]).await;
}
