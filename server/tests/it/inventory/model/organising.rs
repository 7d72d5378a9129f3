//! What the organiser changes while it sells: seats blocked and put back, places of areas, allocations and who unlocked them,
//! and the end of all holds.

use super::{Model, Owner};
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};

impl Model {
    /// Blocks what is available; what is left alone, and what it is.
    pub(in super::super) fn block(&mut self, seats: &[SeatIndex]) -> Vec<(SeatIndex, SeatState)> {
        let (mut left_alone, mut changes) = (Vec::new(), false);
        for &seat in seats {
            let at = seat.position();
            match self.owners[at] {
                _ if self.kinds[at] > 1 => left_alone.push((seat, SeatState::Blocked)),
                Owner::Nobody | Owner::Kept => {
                    (self.owners[at], self.kinds[at]) = (Owner::KeptBack, 1);
                    changes = true;
                }
                Owner::KeptBack => {}
                Owner::HeldBy(_) => left_alone.push((seat, SeatState::Held)),
                Owner::SoldTo(_) => left_alone.push((seat, SeatState::Sold)),
            }
        }
        self.seq += u64::from(changes);
        left_alone
    }

    pub(in super::super) fn unblock(&mut self, seats: &[SeatIndex]) {
        let mut changes = false;
        for &seat in seats {
            let at = seat.position();
            if self.kinds[at] == 1 {
                self.kinds[at] = 0;
                if self.owners[at] == Owner::KeptBack {
                    self.free_seat(seat);
                    changes = true;
                }
            }
        }
        self.seq += u64::from(changes);
    }

    /// Sets how many places each area has, whatever is taken of them.
    pub(in super::super) fn configure(&mut self, capacities: &[u32]) {
        let mut changes = false;
        for (at, &capacity) in capacities.iter().enumerate() {
            changes |= self.set_capacity(AreaIndex(at as u32), capacity);
        }
        self.seq += u64::from(changes);
    }

    /// What is free goes first, then what is kept for whoever waits. Whether everyone sees it.
    fn set_capacity(&mut self, area: AreaIndex, capacity: u32) -> bool {
        let at = area.position();
        let mut by = i64::from(capacity) - i64::from(self.capacities[at]);
        self.capacities[at] = capacity;
        if by < 0 {
            let of_kept = i64::from(self.kept_places[at]).min((-by - self.areas[at].max(0)).max(0));
            self.kept_places[at] -= u32::try_from(of_kept).expect("at most what is kept");
            by += of_kept;
        }
        by != 0 && self.change_area(area, by)
    }

    /// Takes places away that nobody has, or none; how many somebody has.
    pub(in super::super) fn shrink(&mut self, area: AreaIndex, capacity: u32) -> u32 {
        let at = area.position();
        let taken = i64::from(self.capacities[at]) - self.areas[at] - i64::from(self.kept_places[at]);
        if i64::from(capacity) >= taken && capacity < self.capacities[at] {
            self.seq += u64::from(self.set_capacity(area, capacity));
        }
        u32::try_from(taken).unwrap_or(0)
    }

    pub(in super::super) fn unlock_allocation(&mut self, identity: IdentityId, slot: u8) {
        self.people.entry(identity).or_default().unlocked |= 1 << slot;
    }

    /// Keeps seats for the allocation in this slot, or no longer.
    pub(in super::super) fn allocate(&mut self, slot: u8, seats: &[SeatIndex], is_kept: bool) {
        let (kind, mut changes) = (slot + 2, false);
        for &seat in seats {
            let at = seat.position();
            if is_kept && self.kinds[at] < 2 {
                self.kinds[at] = kind;
                if matches!(self.owners[at], Owner::Nobody | Owner::Kept) {
                    self.owners[at] = Owner::KeptBack;
                    changes = true;
                }
            } else if !is_kept && self.kinds[at] == kind {
                self.kinds[at] = 0;
                if self.owners[at] == Owner::KeptBack {
                    self.free_seat(seat);
                    changes = true;
                }
            }
        }
        let bit = 1 << slot;
        self.open_slots = if is_kept { self.open_slots | bit } else { self.open_slots & !bit };
        self.seq += u64::from(changes);
    }

    /// Ends these holds in one step: the event is over.
    pub(in super::super) fn end_holds(&mut self, holds: &[(IdentityId, HoldId)], now_ms: u64) {
        let mut changes = false;
        for &(identity, _) in holds {
            changes |= self.expire(identity, now_ms);
        }
        self.seq += u64::from(changes);
    }

    /// Holds that end with their event: all but those being paid.
    pub(in super::super) fn ending_holds(&self) -> Vec<(IdentityId, HoldId)> {
        let open = |(identity, person): (&IdentityId, &super::Person)| {
            let hold = person.hold.as_ref().filter(|hold| hold.lock.is_none())?;
            Some((*identity, hold.id))
        };
        self.people.iter().filter_map(open).collect()
    }
}
