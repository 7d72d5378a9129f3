//! Random turns of the waitlist: what becomes free is kept or not, given up, or offered to somebody.

use super::{Run, SEATS};
use rand::RngExt;
use seatwire::inventory::{HoldLine, NewOffer, OfferOutcome, Place};
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};

impl Run {
    pub(super) async fn wait(&mut self, identity: IdentityId) {
        match self.random.random_range(0..10) {
            0..3 => self.keep().await,
            3..5 => self.give_up().await,
            _ => {
                // Mostly to somebody without a basket, or most offers would find one in the way.
                let has_hold =
                    |person: &IdentityId| self.model.people.get(person).is_some_and(|person| person.hold.is_some());
                let without = self.people.iter().copied().find(|person| !has_hold(person));
                let identity = without.filter(|_| self.random.random_bool(0.7)).unwrap_or(identity);
                self.offer(identity).await;
                if self.random.random_bool(0.2) {
                    self.extend(identity).await;
                }
            }
        }
    }

    /// Off more often than on, or nothing would be left for everyone.
    async fn keep(&mut self) {
        let keeps = self.random.random_bool(0.4);
        let inventory = &self.shelf.inventory;
        let is_more = inventory.keep_for_waitlist(&self.shelf.event, keeps).await.expect("Redis answers");
        self.note(format!("keep {keeps}"));
        self.agree("more is kept than one call shows", &is_more, &false);
        self.model.keep(keeps);
    }

    async fn give_up(&mut self) {
        let mut seats: Vec<SeatIndex> = self.model.kept_seats();
        seats.retain(|_| self.random.random_bool(0.5));
        if self.random.random_bool(0.2) {
            let seat = self.seat();
            if !seats.contains(&seat) {
                seats.push(seat);
            }
        }
        let areas: Vec<AreaIndex> = (0..2).map(AreaIndex).filter(|_| self.random.random_bool(0.3)).collect();
        self.shelf.inventory.give_up_kept(&self.shelf.event, &seats, &areas).await.expect("Redis answers");
        self.note(format!("give up {seats:?} {areas:?}"));
        self.model.give_up(&seats, &areas);
    }

    async fn offer(&mut self, identity: IdentityId) {
        let mut seats = self.model.kept_seats();
        while seats.len() > self.random.random_range(1..=3) {
            let at = self.random.random_range(0..seats.len());
            seats.remove(at);
        }
        if self.random.random_bool(0.1) {
            let seat = SeatIndex(self.random.random_range(0..SEATS));
            if !seats.contains(&seat) {
                seats.push(seat);
            }
        }
        let mut areas: Vec<(AreaIndex, u32)> = Vec::new();
        for area in 0..2 {
            let kept = self.model.kept_places[area as usize];
            if kept > 0 && self.random.random_bool(0.5) || self.random.random_bool(0.05) {
                areas.push((AreaIndex(area), self.random.random_range(1..=kept.clamp(1, 3))));
            }
        }
        if seats.is_empty() && areas.is_empty() {
            return;
        }
        let mut lines: Vec<HoldLine> = seats.iter().map(|&seat| self.line(Place::Seat(seat), 1)).collect();
        lines.extend(areas.iter().map(|&(area, quantity)| self.line(Place::Area(area), quantity)));
        let life_ms = self.random.random_range(20_000..90_000);
        let offer = NewOffer { life_ms, seats, areas };
        let before_ms = self.shelf.now_ms();
        let outcome = self.shelf.inventory.offer(&self.shelf.event, identity, &offer).await.expect("Redis answers");
        self.note(format!("{identity} is offered {offer:?}"));
        let (new_id, expires_ms) = match &outcome {
            OfferOutcome::Offered(hold) => (hold.id, hold.expires_ms),
            OfferOutcome::InTheWay(_) | OfferOutcome::Refused(_) => (HoldId::generate(), 0),
        };
        let expected = self.model.offer(identity, &lines, new_id, expires_ms);
        self.agree("an offer", &outcome, &expected);
        if let OfferOutcome::Offered(hold) = outcome {
            let now_ms = self.shelf.now_ms();
            let (first_ms, last_ms) = (before_ms - super::DOUBT_MS, now_ms + super::DOUBT_MS);
            let has_its_time = (first_ms..=last_ms).contains(&(hold.expires_ms - u64::from(life_ms)));
            self.agree("whether an offer has its time", &has_its_time, &true);
            self.holds.push((identity, hold.id));
        }
    }
}
