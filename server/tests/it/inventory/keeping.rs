//! What a life keeps and what it forgets: why a seat is kept back, what an identity bought and unlocked, a clock that was
//! corrected; and that "sold out" is a fact and no gate.

use super::shelf::{Shelf, allocation, indices, refused};
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{CopyCursor, HoldOutcome, Place, Refusal, ReleaseWhat};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::EventState;
use std::collections::BTreeSet;
use std::sync::Arc;

const SLOT: u8 = 3;

fn seat(index: u32) -> [(Place, u32); 1] {
    [(Place::Seat(SeatIndex(index)), 1)]
}

impl Shelf {
    async fn sweep_all(&self, times: usize) -> Vec<HoldId> {
        let mut ended = Vec::new();
        for _ in 0..times {
            let swept = self.inventory.sweep(&self.event).await.expect("Redis answers");
            ended.extend(swept.expired.iter().map(|hold| hold.id));
        }
        ended
    }

    /// Identities that have a record.
    async fn known(&self) -> BTreeSet<IdentityId> {
        let (mut known, mut cursor) = (BTreeSet::new(), Some(CopyCursor::default()));
        while let Some(from) = cursor {
            let part = self.inventory.journal_copy(&self.event, &from).await.expect("Redis answers");
            known.extend(part.records.iter().map(|record| record.identity));
            cursor = part.next;
        }
        known
    }
}

#[tokio::test]
async fn a_seat_that_was_put_back_is_for_everyone_and_an_allocation_keeps_its_own() {
    let shelf = Shelf::with(|facts| facts.allocations = vec![allocation(facts.id, SLOT, 3..6)]).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    assert_eq!(&shelf.map().await[..7], "0003330");
    // What is done; the first seven seats after it.
    let unblock = async |seats: &[u32]| {
        shelf.inventory.unblock(&shelf.event, &indices(seats)).await.expect("Redis answers");
    };
    shelf.inventory.block(&shelf.event, &indices(&[0, 1])).await.expect("Redis answers");
    assert_eq!(&shelf.map().await[..7], "3303330");
    unblock(&[0, 3, 6]).await;
    assert_eq!(&shelf.map().await[..7], "0303330", "an allocation is no block, and a free seat stays free");
    let hold = shelf.held(ann, &[0]).await.id;
    unblock(&[0]).await;
    assert_eq!(&shelf.map().await[..7], "1303330", "somebody has it");
    shelf.release(ann, hold, ReleaseWhat::All).await;
    assert_eq!(&shelf.map().await[..7], "0303330", "not blocked any more");

    // Sold while it was blocked (a late success), put back meanwhile, and then refunded.
    let order = OrderId::generate();
    shelf.inventory.sell(&shelf.event, order, bob, &seat(1)).await.expect("Redis answers");
    unblock(&[1]).await;
    assert_eq!(&shelf.map().await[..7], "0203330", "sold stays sold");
    shelf.inventory.free(&shelf.event, order, bob, &seat(1)).await.expect("Redis answers");
    assert_eq!(&shelf.map().await[..7], "0003330");
    let taken = refused(shelf.hold(ann, &[3]).await);
    assert_eq!(taken, Refusal::SeatTaken(indices(&[3])), "the allocation's is still its own");
}

#[tokio::test]
async fn what_was_bought_and_unlocked_is_never_forgotten_and_everything_else_is() {
    let shelf = Shelf::with(|facts| {
        facts.rules.hold_ttl_ms = 100_000;
        facts.allocations = vec![allocation(facts.id, SLOT, 3..6)];
    })
    .await;
    let [ann, bob, cat, dan] = std::array::from_fn(|_| IdentityId::generate());
    let caller = shelf.caller(ann);
    let unlocked = shelf.inventory.unlock_allocation(&caller, Some(&shelf.event.allocations[0])).await;
    unlocked.expect("Redis answers");
    let places = [(Place::Area(AreaIndex(1)), 6)];
    shelf.inventory.sell(&shelf.event, OrderId::generate(), bob, &places).await.expect("Redis answers");
    shelf.held(cat, &[10]).await;
    assert_eq!(shelf.hold_area(dan, 0, 9).await, HoldOutcome::Refused(Refusal::AreaFull { remaining: 5 }));
    shelf.try_hold(shelf.keyed(dan, "k", 1), &[10]).await.expect("Redis answers");
    assert_eq!(shelf.known().await, [ann, cat, dan].into(), "with an unlocked allocation, a hold, an answer");
    // A quarter of an hour, in steps the clock may take; what is due is looked at a minute at a time.
    let client = shelf.plain_client().await;
    let mut ended_n = 0;
    for _ in 0..60 {
        shelf.pass_ms(&client, 20_000).await;
        ended_n += shelf.sweep_all(2).await.len();
    }
    assert_eq!(ended_n, 1);
    assert_eq!(shelf.known().await, [ann].into(), "nobody needs the others any more");
    shelf.held(ann, &[3]).await;
    let refusal = refused(shelf.hold(bob, &[11]).await);
    assert_eq!(refusal, Refusal::LimitExceeded { limit: 6, used: 6 }, "what was bought counts for ever");
}

#[tokio::test]
async fn an_answer_given_just_after_the_others_were_forgotten_is_forgotten_in_its_time() {
    let shelf = Shelf::new().await;
    let bob = IdentityId::generate();
    shelf.inventory.sell(&shelf.event, OrderId::generate(), bob, &seat(1)).await.expect("Redis answers");
    let client = shelf.plain_client().await;
    // Twice the same: what was bought stays, so nothing but the answer can be forgotten.
    for key in ["first", "second"] {
        shelf.try_hold(shelf.keyed(bob, key, 1), &[1]).await.expect("Redis answers");
        assert_eq!(shelf.known().await, [bob].into(), "{key}");
        let mut steps = 0;
        while !shelf.known().await.is_empty() {
            steps += 1;
            assert!(steps < 60, "twenty minutes after the {key} answer it is still kept");
            shelf.pass_ms(&client, 20_000).await;
            shelf.sweep_all(2).await;
        }
        assert!(steps >= 30, "{key}: ten minutes at least, not {steps} times twenty seconds");
    }
}

#[tokio::test]
async fn after_a_clock_was_corrected_holds_end_in_their_time_either_way() {
    for jump_ms in [900_000, -900_000] {
        let shelf = Shelf::with(|facts| facts.rules.hold_ttl_ms = 55_000).await;
        let ann = IdentityId::generate();
        let hold = shelf.held(ann, &[1]).await;
        shelf.sweep_all(1).await;
        shelf.move_clock_ms(jump_ms).await;
        assert_eq!(shelf.sweep_all(2).await, [], "{jump_ms}");
        // Time goes on from where it stood, as far as a clock may go between two sweeps.
        let mut ended = Vec::new();
        for passed_s in [20, 40, 60] {
            shelf.move_clock_ms(20_000).await;
            ended.extend(shelf.sweep_all(1).await);
            let wanted: &[HoldId] = if passed_s > 55 { &[hold.id] } else { &[] };
            assert_eq!(ended, wanted, "{passed_s} s after a jump of {jump_ms} ms");
        }
    }
}

#[tokio::test]
async fn sold_out_is_a_fact_and_no_gate_unless_somebody_waits() {
    let shelf = Shelf::with(|facts| facts.state = EventState::SoldOut).await;
    let [ann, bob] = std::array::from_fn(|_| IdentityId::generate());
    let hold = async |identity, seats: &[u32]| match shelf.hold(identity, seats).await {
        HoldOutcome::Held { hold, .. } => Ok(hold.id),
        HoldOutcome::Refused(refusal) => Err(refusal),
    };
    // Somebody has all but four seats; whether the event is said to be sold out too early: what there is is sold.
    let most: Vec<(Place, u32)> = (4..40).filter(|&index| index != 29).flat_map(seat).collect();
    shelf
        .inventory
        .sell(&shelf.event, OrderId::generate(), IdentityId::generate(), &most)
        .await
        .expect("Redis answers");
    let id = hold(ann, &[0, 1, 2, 3]).await.expect("all there is");
    assert_eq!(hold(bob, &[1]).await, Err(Refusal::SoldOut), "before which seat it was");
    assert_eq!(shelf.hold_area(bob, 0, 1).await, HoldOutcome::Refused(Refusal::SoldOut));
    let some = |seats: &[u32]| ReleaseWhat::Parts { seats: indices(seats), areas: Vec::new() };
    shelf.release(ann, id, some(&[1, 2])).await;
    assert_eq!(hold(bob, &[3]).await, Err(Refusal::SeatTaken(indices(&[3]))), "there is something again");
    hold(bob, &[1]).await.expect("is free");
    // From now on what comes back is for those who wait, and so is what was there.
    shelf.inventory.keep_for_waitlist(&shelf.event, true).await.expect("Redis answers");
    assert_eq!(hold(bob, &[2]).await, Err(Refusal::SoldOut));
    shelf.inventory.keep_for_waitlist(&shelf.event, false).await.expect("Redis answers");
    hold(bob, &[2]).await.expect("nobody waits any more");
    // Another word of the organiser's is a gate.
    let revision = shelf.event.revision + 1;
    let paused = EventFacts { revision, state: EventState::Paused, ..EventFacts::clone(&shelf.event) };
    shelf.inventory.configure(&Arc::new(paused)).await.expect("Redis answers");
    shelf.release(ann, id, some(&[0])).await;
    assert_eq!(hold(bob, &[0]).await, Err(Refusal::Paused));
}
