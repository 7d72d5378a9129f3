//! The waitlist: what becomes free is kept for whoever waits, and becomes an offer to one of them.

use super::{LIST_MS, Model, ModelHold, Owner};
use seatwire::inventory::{HoldLine, OfferOutcome, Place, Refusal};
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};

impl Model {
    /// Kept seats, ascending.
    pub(in super::super) fn kept_seats(&self) -> Vec<SeatIndex> {
        let seats = (0..self.owners.len() as u32).map(SeatIndex);
        seats.filter(|seat| self.owners[seat.position()] == Owner::Kept).collect()
    }

    /// Begins to keep, or ends it and puts everything kept on the map.
    pub(in super::super) fn keep(&mut self, keeps: bool) {
        self.keeps = keeps;
        if !keeps {
            let areas: Vec<AreaIndex> = (0..self.areas.len() as u32).map(AreaIndex).collect();
            self.show(&self.kept_seats(), &areas);
        }
    }

    /// Puts these kept seats, then the kept places of these areas on the map: two changes.
    pub(in super::super) fn give_up(&mut self, seats: &[SeatIndex], areas: &[AreaIndex]) {
        self.show(seats, &[]);
        self.show(&[], areas);
    }

    fn show(&mut self, seats: &[SeatIndex], areas: &[AreaIndex]) {
        let (keeps, mut changes) = (std::mem::replace(&mut self.keeps, false), false);
        for &seat in seats {
            if self.owners[seat.position()] == Owner::Kept {
                self.free_seat(seat);
                changes = true;
            }
        }
        for &area in areas {
            let kept = std::mem::take(&mut self.kept_places[area.position()]);
            changes |= kept > 0 && self.change_area(area, i64::from(kept));
        }
        self.keeps = keeps;
        self.seq += u64::from(changes);
    }

    /// `expires_ms` is what the scripts gave, when they made an offer.
    pub(in super::super) fn offer(
        &mut self,
        identity: IdentityId,
        lines: &[HoldLine],
        new_id: HoldId,
        expires_ms: u64,
    ) -> OfferOutcome {
        let person = self.people.entry(identity).or_default();
        if let Some(hold) = &person.hold {
            return OfferOutcome::InTheWay(hold.record(identity));
        }
        let used = person.bought;
        let taken: Vec<SeatIndex> = lines
            .iter()
            .filter_map(|line| if let Place::Seat(seat) = line.place { Some(seat) } else { None })
            .filter(|seat| self.owners[seat.position()] != Owner::Kept)
            .collect();
        if !taken.is_empty() {
            return OfferOutcome::Refused(Refusal::SeatTaken(taken));
        }
        for line in lines {
            if let Place::Area(area) = line.place
                && self.kept_places[area.position()] < line.quantity
            {
                return OfferOutcome::Refused(Refusal::AreaFull { remaining: self.kept_places[area.position()] });
            }
        }
        if used + lines.iter().map(|line| line.quantity).sum::<u32>() > self.limit {
            return OfferOutcome::Refused(Refusal::LimitExceeded { limit: self.limit, used });
        }
        for line in lines {
            match line.place {
                Place::Seat(seat) => self.owners[seat.position()] = Owner::HeldBy(identity),
                Place::Area(area) => self.kept_places[area.position()] -= line.quantity,
            }
        }
        let hold = ModelHold {
            id: new_id,
            expires_ms,
            list: expires_ms.div_ceil(LIST_MS),
            is_extended: false,
            is_offer: true,
            lock: None,
            lines: lines.to_vec(),
        };
        let record = hold.record(identity);
        self.people.entry(identity).or_default().hold = Some(hold);
        self.seq += 1;
        OfferOutcome::Offered(record)
    }
}
