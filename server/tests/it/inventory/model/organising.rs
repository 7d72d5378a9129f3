//! What the organiser changes while it sells: seats blocked and put back, places of areas; and allocations that are unlocked.

use super::{Model, Owner};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};

impl Model {
    /// Blocks what is available; what is left alone, and what it is.
    pub(in super::super) fn block(&mut self, seats: &[SeatIndex]) -> Vec<(SeatIndex, SeatState)> {
        let (mut left_alone, mut changes) = (Vec::new(), false);
        for &seat in seats {
            let at = seat.position();
            match self.owners[at] {
                _ if self.kinds[at] > 1 => left_alone.push((seat, SeatState::Blocked)),
                Owner::Nobody => {
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
                    self.owners[at] = Owner::Nobody;
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
            self.areas[at] += i64::from(capacity) - i64::from(self.capacities[at]);
            changes |= capacity != self.capacities[at];
            self.capacities[at] = capacity;
        }
        self.seq += u64::from(changes);
    }

    /// Takes places away that nobody has, or none; how many somebody has.
    pub(in super::super) fn shrink(&mut self, area: AreaIndex, capacity: u32) -> u32 {
        let at = area.position();
        let taken = i64::from(self.capacities[at]) - self.areas[at];
        if i64::from(capacity) >= taken && capacity < self.capacities[at] {
            self.areas[at] -= i64::from(self.capacities[at] - capacity);
            self.capacities[at] = capacity;
            self.seq += 1;
        }
        u32::try_from(taken).unwrap_or(0)
    }

    pub(in super::super) fn unlock_allocation(&mut self, identity: IdentityId, slot: u8) {
        self.people.entry(identity).or_default().unlocked |= 1 << slot;
    }
}
