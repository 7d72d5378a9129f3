//! The inventory as one would write it without Redis: plain collections, one rule after the other. The scripts are tried
//! against it by random operations (`differential`). Here is who has what; the rest is what changes it.

mod ending;
mod organising;
mod taking;
mod waiting;

use seatwire::inventory::{HoldLine, HoldRecord, Place, Refusal};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use std::collections::HashMap;

/// Areas, and places of each.
pub(super) type AreaPlaces = Vec<(AreaIndex, u32)>;

pub(super) const KEEP_MS: u64 = 600_000;
const LIST_MS: u64 = 250;

/// Seats in a row.
pub(super) const ROW: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    KeptBack,
    /// Kept for whoever waits.
    Kept,
    HeldBy(IdentityId),
    SoldTo(IdentityId),
}

#[derive(Debug, Clone)]
pub(super) struct ModelHold {
    pub(super) id: HoldId,
    pub(super) expires_ms: u64,
    /// The list of holds that end together, a quarter of a second wide, that names it; not before that one is it ended.
    list: u64,
    is_extended: bool,
    is_offer: bool,
    lock: Option<(OrderId, u64)>,
    lines: Vec<HoldLine>,
}

impl ModelHold {
    fn is_over(&self, now_ms: u64) -> bool {
        self.lock.is_none() && self.expires_ms <= now_ms
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.is_over(now_ms) && self.list <= now_ms / LIST_MS
    }

    fn seats(&self) -> Vec<SeatIndex> {
        self.lines
            .iter()
            .filter_map(|line| if let Place::Seat(seat) = line.place { Some(seat) } else { None })
            .collect()
    }

    fn areas(&self) -> Vec<(AreaIndex, u32)> {
        let area =
            |line: &HoldLine| if let Place::Area(area) = line.place { Some((area, line.quantity)) } else { None };
        self.lines.iter().filter_map(area).collect()
    }

    fn size(&self) -> u32 {
        self.lines.iter().map(|line| line.quantity).sum()
    }

    pub(super) fn record(&self, identity: IdentityId) -> HoldRecord {
        // Seats in the order they were added, then areas.
        let (seats, areas): (Vec<_>, Vec<_>) = self.lines.iter().partition(|line| matches!(line.place, Place::Seat(_)));
        HoldRecord {
            id: self.id,
            identity,
            expires_ms: self.lock.map_or(self.expires_ms, |(_, until_ms)| until_ms),
            is_extended: self.is_extended,
            locked_by: self.lock.map(|(order, _)| order),
            is_offer: self.is_offer,
            lines: seats.into_iter().chain(areas).copied().collect(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Person {
    pub(super) hold: Option<ModelHold>,
    ended: Vec<(HoldId, u64)>,
    bought: u32,
    /// Slots of allocations, as bits.
    pub(super) unlocked: u32,
}

impl Person {
    /// Whether there is a hold whose time is over.
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_over(now_ms))
    }

    /// Whether a sweep at this moment must have ended the hold.
    pub(super) fn must_have_ended(&self, at_ms: u64) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.is_due(at_ms))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Sold,
    Freed,
}

pub(super) struct Model {
    pub(super) owners: Vec<Owner>,
    /// 0 open, 1 blocked, from 2 on kept by the allocation in that slot plus two.
    kinds: Vec<u8>,
    pub(super) capacities: Vec<u32>,
    /// What is left; a late success may take more than that, which is made good by what comes back first.
    areas: Vec<i64>,
    /// Whether what becomes free is kept for whoever waits.
    pub(super) keeps: bool,
    /// Places kept, by area.
    pub(super) kept_places: Vec<u32>,
    /// Allocations whose seats may be had now, by slot, as bits.
    pub(super) open_slots: u32,
    pub(super) people: HashMap<IdentityId, Person>,
    orders: HashMap<OrderId, (Known, Vec<(Place, u32)>)>,
    pub(super) limit: u32,
    pub(super) ttl_ms: u64,
    pub(super) seq: u64,
}

impl Model {
    pub(super) fn new(kinds: Vec<u8>, areas: Vec<u32>, limit: u32, ttl_ms: u64) -> Self {
        let owner = |kind: &u8| if *kind == 0 { Owner::Nobody } else { Owner::KeptBack };
        let owners = kinds.iter().map(owner).collect();
        Self {
            owners,
            kinds,
            areas: areas.iter().copied().map(i64::from).collect(),
            keeps: false,
            kept_places: vec![0; areas.len()],
            open_slots: u32::MAX,
            capacities: areas,
            people: HashMap::new(),
            orders: HashMap::new(),
            limit,
            ttl_ms,
            seq: 0,
        }
    }

    /// The map as digits.
    pub(super) fn map(&self) -> String {
        let digit = |owner: &Owner| match owner {
            Owner::Nobody => '0',
            Owner::HeldBy(_) | Owner::Kept => '1',
            Owner::SoldTo(_) => '2',
            Owner::KeptBack => '3',
        };
        self.owners.iter().map(digit).collect()
    }

    /// Places left, as everyone sees them.
    pub(super) fn areas(&self) -> Vec<u32> {
        self.areas.iter().map(|&left| u32::try_from(left).unwrap_or(0)).collect()
    }

    pub(super) fn open_hold(&self, identity: IdentityId, now_ms: u64) -> Option<HoldRecord> {
        let hold = self.people.get(&identity)?.hold.as_ref().filter(|hold| !hold.is_over(now_ms))?;
        Some(hold.record(identity))
    }

    fn free_seat(&mut self, seat: SeatIndex) {
        self.owners[seat.position()] = match self.kinds[seat.position()] {
            0 if self.keeps => Owner::Kept,
            0 => Owner::Nobody,
            _ => Owner::KeptBack,
        };
    }

    /// More or fewer places of an area are left; whether everyone sees it.
    fn change_area(&mut self, area: AreaIndex, by: i64) -> bool {
        let mut left = self.areas[area.position()] + by;
        if by > 0 && self.keeps && left > 0 {
            let kept = by.min(left);
            self.kept_places[area.position()] += u32::try_from(kept).expect("above nothing");
            if kept == by {
                return false;
            }
            left -= kept;
        }
        self.areas[area.position()] = left;
        true
    }

    /// What this identity has unlocked and is open now.
    pub(super) fn unlocked(&self, identity: IdentityId) -> u32 {
        self.people.get(&identity).map_or(0, |person| person.unlocked & self.open_slots)
    }

    /// Whether a seat that nobody has would be this identity's to take.
    fn may_have(&self, identity: IdentityId, seat: SeatIndex) -> bool {
        match self.kinds[seat.position()] {
            0 => true,
            1 => false,
            kind => self.unlocked(identity) >> (kind - 2) & 1 == 1,
        }
    }

    /// Gives back what a hold has; whether the map changed.
    fn give_back(&mut self, identity: IdentityId, hold: &ModelHold) -> bool {
        let mut changes = false;
        for seat in hold.seats() {
            if self.owners[seat.position()] == Owner::HeldBy(identity) {
                self.free_seat(seat);
                changes = true;
            }
        }
        for (area, quantity) in hold.areas() {
            changes |= self.change_area(area, i64::from(quantity));
        }
        changes
    }

    /// Ends a hold whose time is over; whether the map changed.
    pub(super) fn expire(&mut self, identity: IdentityId, now_ms: u64) -> bool {
        let Some(hold) = self.people.get_mut(&identity).and_then(|person| person.hold.take()) else { return false };
        let changes = self.give_back(identity, &hold);
        let person = self.people.entry(identity).or_default();
        if person.ended.len() > 3 {
            person.ended.remove(0);
        }
        person.ended.retain(|&(_, ended_ms)| ended_ms + KEEP_MS > now_ms);
        person.ended.push((hold.id, now_ms));
        changes
    }

    /// Ends what is over, as a script does on its way; the caller's own hold is left to the next list. Whether the map changed.
    pub(super) fn expire_due(&mut self, caller: IdentityId, now_ms: u64) -> bool {
        let over: Vec<IdentityId> =
            self.people.iter().filter(|(_, person)| person.is_over(now_ms)).map(|(identity, _)| *identity).collect();
        let mut changes = false;
        for identity in over {
            if identity == caller {
                let own = self.people.get_mut(&identity).and_then(|person| person.hold.as_mut());
                if let Some(hold) = own.filter(|hold| hold.is_due(now_ms)) {
                    hold.list = now_ms / LIST_MS + 1;
                }
            } else {
                changes |= self.expire(identity, now_ms);
            }
        }
        changes
    }

    /// What every verb that adds looks at first: places used.
    pub(super) fn may_add(&self, identity: IdentityId, now_ms: u64) -> Result<u32, Refusal> {
        let Some(person) = self.people.get(&identity) else { return Ok(0) };
        match &person.hold {
            Some(ModelHold { lock: Some((order, _)), .. }) => Err(Refusal::HoldLocked(*order)),
            Some(hold) if !hold.is_over(now_ms) => Ok(person.bought + hold.size()),
            _ => Ok(person.bought),
        }
    }
}
