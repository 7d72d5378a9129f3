//! Random changes by the organiser, and codes that open allocations.

use super::{Run, SEATS};
use rand::RngExt;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{Caller, UnlockOutcome};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use std::sync::Arc;

/// Most places of the areas: few enough to be full now and then.
const MOST: [u32; 2] = [12, 60];

impl Run {
    pub(super) async fn block(&mut self) {
        let first = self.random.random_range(0..SEATS - 3);
        let seats: Vec<SeatIndex> = (first..first + self.random.random_range(1..=3)).map(SeatIndex).collect();
        // More is put back than taken out, or nothing would be left to hold.
        if self.random.random_bool(0.35) {
            let answer = self.shelf.inventory.block(&self.shelf.event, &seats).await.expect("Redis answers");
            self.note(format!("block {seats:?}"));
            let expected = self.model.block(&seats);
            self.agree("what a block left alone", &answer.outcome, &expected);
            self.agree("the seq", &answer.position.seq, &self.model.seq);
        } else {
            self.shelf.inventory.unblock(&self.shelf.event, &seats).await.expect("Redis answers");
            self.note(format!("unblock {seats:?}"));
            self.model.unblock(&seats);
        }
    }

    pub(super) async fn resize(&mut self) {
        if self.random.random_bool(0.5) {
            let area = self.random.random_range(0..2);
            let capacity = self.random.random_range(0..=MOST[area as usize]);
            let answer = self.shelf.inventory.shrink_area(&self.shelf.event, AreaIndex(area), capacity).await;
            let answer = answer.expect("Redis answers");
            self.note(format!("shrink {area} {capacity}"));
            let expected = self.model.shrink(AreaIndex(area), capacity);
            self.agree("places somebody has", &answer.outcome, &expected);
            self.agree("the seq", &answer.position.seq, &self.model.seq);
        } else {
            let capacities = MOST.map(|most| self.random.random_range(most / 2..=most));
            let mut facts = EventFacts::clone(&self.shelf.event);
            for (area, capacity) in facts.areas.iter_mut().zip(capacities) {
                area.capacity = capacity;
            }
            self.shelf.inventory.configure(&Arc::new(facts)).await.expect("Redis answers");
            self.note(format!("configure {capacities:?}"));
            self.model.configure(&capacities);
        }
    }

    pub(super) async fn unlock_allocation(&mut self, identity: IdentityId) {
        let at = self.random.random_range(0..self.shelf.event.allocations.len());
        let (caller, _) = self.caller(identity, "unlock");
        let caller = Caller { key: None, ..caller };
        let allocation = &self.shelf.event.allocations[at];
        let slot = allocation.slot;
        let answer = self.shelf.inventory.unlock_allocation(&caller, Some(allocation)).await.expect("Redis answers");
        self.note(format!("{identity} unlocks {slot}"));
        self.agree("an allocation", &answer.outcome, &UnlockOutcome::Unlocked { slot });
        self.model.unlock_allocation(identity, slot);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
    }
}
