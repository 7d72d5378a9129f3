//! Random changes by the organiser, codes that open allocations, and an event that is closed or over for a moment.

use super::{Run, SEATS};
use rand::RngExt;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{Caller, HoldOutcome, HoldRecord, Refusal, UnlockOutcome};
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::EventState;
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

    /// An allocation is closed or opened again; now and then the event is over, and goes on after all.
    pub(super) async fn organise(&mut self) {
        match self.random.random_range(0..10) {
            0..6 => self.allocate().await,
            6 => self.close().await,
            7 => self.limit().await,
            _ => self.end_holds().await,
        }
    }

    /// Another limit, also below what somebody has.
    async fn limit(&mut self) {
        let limit = self.random.random_range(1..=self.model.limit.max(6));
        self.revise(|facts| facts.rules.seats_per_identity = limit);
        // Whoever asks next brings it.
        self.shelf.position().await;
        self.note(format!("limit {limit}"));
        self.model.limit = limit;
    }

    fn revise(&mut self, change: impl FnOnce(&mut EventFacts)) {
        let facts = Arc::make_mut(&mut self.shelf.event);
        facts.revision += 1;
        change(facts);
    }

    async fn allocate(&mut self) {
        let at = self.random.random_range(0..self.shelf.event.allocations.len());
        self.revise(|facts| facts.allocations[at].is_closed ^= true);
        let event = Arc::clone(&self.shelf.event);
        self.shelf.inventory.keep_allocations(&event).await.expect("Redis answers");
        self.note(format!("allocate {} {}", event.allocations[at].slot, !event.allocations[at].is_closed));
        for allocation in &event.allocations {
            let seats: Vec<SeatIndex> = allocation.seats.iter().map(SeatIndex).collect();
            self.model.allocate(allocation.slot, &seats, !allocation.is_closed);
        }
    }

    /// Nobody begins while it is closed; what is open stays.
    async fn close(&mut self) {
        self.revise(|facts| facts.state = EventState::Closed);
        let ended = self.shelf.inventory.end_holds(&self.shelf.event, 0, 64).await.expect("Redis answers");
        self.note("closed".into());
        self.agree("holds that a close ends", &ended, &(Vec::new(), None));
        self.refuse_new().await;
        self.revise(|facts| facts.state = EventState::OnSale);
    }

    /// Whoever asks for a seat now is told that nothing is on sale.
    async fn refuse_new(&mut self) {
        let (identity, seat) = (self.person(), self.seat());
        let caller = Caller { key: None, ..self.caller(identity, "").0 };
        let answer = self.shelf.inventory.hold(caller, &[seat]).await.expect("Redis answers");
        self.agree("a hold when it is over", &answer.outcome, &HoldOutcome::Refused(Refusal::NotOnSale));
    }

    async fn end_holds(&mut self) {
        self.revise(|facts| facts.state = EventState::Cancelled);
        let event = Arc::clone(&self.shelf.event);
        let (mut next, most) = (Some(0), self.random.random_range(1..=4));
        while let Some(from) = next {
            let ended: Vec<HoldRecord>;
            (ended, next) = self.shelf.inventory.end_holds(&event, from, most).await.expect("Redis answers");
            let now_ms = self.shelf.now_ms();
            let ended: Vec<(IdentityId, HoldId)> = ended.iter().map(|hold| (hold.identity, hold.id)).collect();
            self.note(format!("over: {ended:?}"));
            let open = self.model.ending_holds();
            self.agree("holds that end with their event", &ended.iter().all(|hold| open.contains(hold)), &true);
            self.model.end_holds(&ended, now_ms);
        }
        self.agree("holds that outlive their event", &self.model.ending_holds(), &Vec::new());
        self.refuse_new().await;
        self.revise(|facts| facts.state = EventState::OnSale);
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
