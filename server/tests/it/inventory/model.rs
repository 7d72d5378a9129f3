//! The inventory as one would write it without Redis: plain collections, one rule after the other. The scripts are tried
//! against it by random operations (`differential`).

use seatwire::inventory::{ChangeOutcome, HoldLine, HoldOutcome, HoldRecord, LockOutcome, Place, Refusal};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::OrphanRule;
use std::collections::HashMap;

/// Areas, and places of each.
pub(super) type AreaPlaces = Vec<(AreaIndex, u32)>;
type AreaSlice = [(AreaIndex, u32)];

pub(super) const KEEP_MS: u64 = 600_000;
const EXTENSION_MS: u64 = 120_000;
const LIST_MS: u64 = 250;

/// Seats in a row.
pub(super) const ROW: u32 = 10;

fn seat_of(line: &HoldLine) -> SeatIndex {
    if let Place::Seat(seat) = line.place { seat } else { unreachable!("a line of a seat") }
}

fn seats_of(lines: &[HoldLine]) -> Vec<SeatIndex> {
    lines.iter().map(seat_of).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    KeptBack,
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

    fn record(&self, identity: IdentityId) -> HoldRecord {
        // Seats in the order they were added, then areas.
        let (seats, areas): (Vec<_>, Vec<_>) = self.lines.iter().partition(|line| matches!(line.place, Place::Seat(_)));
        HoldRecord {
            id: self.id,
            identity,
            expires_ms: self.lock.map_or(self.expires_ms, |(_, until_ms)| until_ms),
            is_extended: self.is_extended,
            locked_by: self.lock.map(|(order, _)| order),
            is_offer: false,
            lines: seats.into_iter().chain(areas).copied().collect(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Person {
    pub(super) hold: Option<ModelHold>,
    ended: Vec<(HoldId, u64)>,
    bought: u32,
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
    kept_back: Vec<bool>,
    /// What is left; a late success may take more than that, which is made good by what comes back first.
    areas: Vec<i64>,
    pub(super) people: HashMap<IdentityId, Person>,
    orders: HashMap<OrderId, (Known, Vec<(Place, u32)>)>,
    pub(super) limit: u32,
    pub(super) ttl_ms: u64,
    pub(super) seq: u64,
}

impl Model {
    pub(super) fn new(kept_back: Vec<bool>, areas: Vec<u32>, limit: u32, ttl_ms: u64) -> Self {
        let owner = |kept: &bool| if *kept { Owner::KeptBack } else { Owner::Nobody };
        let owners = kept_back.iter().map(owner).collect();
        Self {
            owners,
            kept_back,
            areas: areas.into_iter().map(i64::from).collect(),
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
            Owner::HeldBy(_) => '1',
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
        self.owners[seat.position()] = if self.kept_back[seat.position()] { Owner::KeptBack } else { Owner::Nobody };
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
            self.areas[area.position()] += i64::from(quantity);
            changes = true;
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

    /// Ends what is due, as a script does on its way; the caller's own hold is left to the next list. Whether the map changed.
    pub(super) fn expire_due(&mut self, caller: IdentityId, now_ms: u64) -> bool {
        let is_due = |person: &Person| person.hold.as_ref().is_some_and(|hold| hold.is_due(now_ms));
        let due: Vec<IdentityId> =
            self.people.iter().filter(|(_, person)| is_due(person)).map(|(identity, _)| *identity).collect();
        let mut changes = false;
        for identity in due {
            if identity == caller {
                if let Some(hold) = self.people.get_mut(&identity).and_then(|person| person.hold.as_mut()) {
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

    fn begin(&mut self, identity: IdentityId, new_id: HoldId, now_ms: u64) -> &mut ModelHold {
        let is_over = |person: &Person| person.hold.as_ref().is_some_and(|hold| hold.is_over(now_ms));
        if self.people.get(&identity).is_some_and(is_over) {
            self.expire(identity, now_ms);
        }
        let expires_ms = now_ms + self.ttl_ms;
        let hold = ModelHold {
            id: new_id,
            expires_ms,
            list: expires_ms.div_ceil(LIST_MS),
            is_extended: false,
            lock: None,
            lines: Vec::new(),
        };
        self.people.entry(identity).or_default().hold.get_or_insert(hold)
    }

    fn may_take(&self, identity: IdentityId, seat: SeatIndex, now_ms: u64) -> bool {
        match self.owners[seat.position()] {
            Owner::Nobody => true,
            Owner::KeptBack | Owner::SoldTo(_) => false,
            Owner::HeldBy(other) => {
                let hold = self.people.get(&other).and_then(|person| person.hold.as_ref());
                other == identity || hold.is_some_and(|hold| hold.is_over(now_ms))
            }
        }
    }

    /// `new_id` is the id the scripts gave, when they made a hold.
    pub(super) fn hold(
        &mut self,
        identity: IdentityId,
        lines: &[HoldLine],
        rule: OrphanRule,
        new_id: HoldId,
        now_ms: u64,
    ) -> HoldOutcome {
        let used = match self.may_add(identity, now_ms) {
            Ok(used) => used,
            Err(refusal) => return HoldOutcome::Refused(refusal),
        };
        let taken: Vec<SeatIndex> =
            lines.iter().map(seat_of).filter(|&seat| !self.may_take(identity, seat, now_ms)).collect();
        if !taken.is_empty() {
            return HoldOutcome::Refused(Refusal::SeatTaken(taken));
        }
        let live = self.people.get(&identity).and_then(|person| person.hold.as_ref());
        let mine = live.filter(|hold| !hold.is_over(now_ms)).map(ModelHold::seats).unwrap_or_default();
        let added: Vec<HoldLine> = lines.iter().filter(|line| !mine.contains(&seat_of(line))).copied().collect();
        if used + added.len() as u32 > self.limit {
            return HoldOutcome::Refused(Refusal::LimitExceeded { limit: self.limit, used });
        }
        let added_seats: Vec<SeatIndex> = added.iter().map(seat_of).collect();
        let orphans = self.orphans(&added_seats, rule);
        if !orphans.is_empty() {
            return HoldOutcome::Refused(Refusal::OrphanSeat(orphans));
        }
        let hold = self.begin(identity, new_id, now_ms);
        hold.lines.extend(&added);
        let record = hold.record(identity);
        for seat in &added_seats {
            self.owners[seat.position()] = Owner::HeldBy(identity);
        }
        self.seq += u64::from(!added.is_empty());
        HoldOutcome::Held { hold: record, added: added_seats, is_together: false }
    }

    /// Takes the first of some blocks of equal size whose seats are all nobody's; `None`: no block was free.
    pub(super) fn hold_best(
        &mut self,
        identity: IdentityId,
        blocks: &[Vec<HoldLine>],
        is_together: bool,
        rule: OrphanRule,
        new_id: HoldId,
        now_ms: u64,
    ) -> Option<HoldOutcome> {
        let used = match self.may_add(identity, now_ms) {
            Ok(used) => used,
            Err(refusal) => return Some(HoldOutcome::Refused(refusal)),
        };
        let is_free = |seat: &SeatIndex| self.owners[seat.position()] == Owner::Nobody;
        let block = blocks.iter().find(|block| {
            let seats = seats_of(block);
            seats.iter().all(is_free) && self.orphans(&seats, rule).is_empty()
        })?;
        if used + block.len() as u32 > self.limit {
            return Some(HoldOutcome::Refused(Refusal::LimitExceeded { limit: self.limit, used }));
        }
        let added = seats_of(block);
        let hold = self.begin(identity, new_id, now_ms);
        hold.lines.extend(block);
        let record = hold.record(identity);
        for seat in &added {
            self.owners[seat.position()] = Owner::HeldBy(identity);
        }
        self.seq += 1;
        Some(HoldOutcome::Held { hold: record, added, is_together })
    }

    /// The first block, or with `takes_any` the first seats, that are nobody's, in the order of the stretches.
    pub(super) fn find(&self, stretches: &[(u32, u16)], wanted: usize, takes_any: bool) -> Option<Vec<SeatIndex>> {
        let mut found: Vec<SeatIndex> = Vec::new();
        for &(first, len) in stretches {
            if !takes_any {
                found.clear();
            }
            for seat in first..first + u32::from(len) {
                if self.owners[seat as usize] == Owner::Nobody {
                    found.push(SeatIndex(seat));
                } else if !takes_any {
                    found.clear();
                }
                if found.len() == wanted {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Single seats that taking these would leave against the rule, in rows of ten.
    pub(super) fn orphans(&self, chosen: &[SeatIndex], rule: OrphanRule) -> Vec<SeatIndex> {
        let mut found = Vec::new();
        if rule == OrphanRule::Off {
            return found;
        }
        for row in 0..self.owners.len() as u32 / ROW {
            let seats = row * ROW..(row + 1) * ROW;
            let is_chosen = |seat: u32| chosen.contains(&SeatIndex(seat));
            let is_nobodys = |seat: u32| seats.contains(&seat) && self.owners[seat as usize] == Owner::Nobody;
            let is_left = |seat: u32| is_nobodys(seat) && !is_chosen(seat);
            let left_n = seats.clone().filter(|&seat| is_left(seat)).count();
            for seat in seats.clone().filter(|&seat| is_left(seat)) {
                let (before, after) = (seat.wrapping_sub(1), seat + 1);
                let is_beside = [before, after].iter().any(|&next| seats.contains(&next) && is_chosen(next));
                if !is_beside || is_left(before) || is_left(after) {
                    continue;
                }
                let is_allowed = match rule {
                    OrphanRule::Strict => left_n <= 1,
                    _ => {
                        let mut around = vec![seat];
                        let (mut from, mut to) = (before, after);
                        while is_nobodys(from) || (seats.contains(&from) && is_chosen(from)) {
                            around.push(from);
                            from = from.wrapping_sub(1);
                        }
                        while is_nobodys(to) || (seats.contains(&to) && is_chosen(to)) {
                            around.push(to);
                            to += 1;
                        }
                        around.iter().filter(|&&seat| is_left(seat)).count() == 1
                    }
                };
                if !is_allowed {
                    found.push(SeatIndex(seat));
                }
            }
        }
        found
    }

    pub(super) fn hold_area(
        &mut self,
        identity: IdentityId,
        line: HoldLine,
        new_id: HoldId,
        now_ms: u64,
    ) -> HoldOutcome {
        let Place::Area(area) = line.place else { unreachable!() };
        let used = match self.may_add(identity, now_ms) {
            Ok(used) => used,
            Err(refusal) => return HoldOutcome::Refused(refusal),
        };
        let old = self.people.get(&identity).and_then(|person| person.hold.as_ref());
        let own: u32 = old
            .filter(|hold| hold.is_over(now_ms))
            .map(|hold| hold.areas().iter().filter(|(other, _)| *other == area).map(|(_, n)| n).sum())
            .unwrap_or(0);
        let remaining = u32::try_from(self.areas[area.position()] + i64::from(own)).unwrap_or(0);
        let mut remaining = remaining;
        let mut changes = false;
        if remaining < line.quantity {
            changes = self.expire_due(identity, now_ms);
            remaining = u32::try_from(self.areas[area.position()] + i64::from(own)).unwrap_or(0);
        }
        if remaining < line.quantity || used + line.quantity > self.limit {
            self.seq += u64::from(changes);
        }
        if remaining < line.quantity {
            return HoldOutcome::Refused(Refusal::AreaFull { remaining });
        }
        if used + line.quantity > self.limit {
            return HoldOutcome::Refused(Refusal::LimitExceeded { limit: self.limit, used });
        }
        let hold = self.begin(identity, new_id, now_ms);
        let same = |known: &&mut HoldLine| HoldLine { quantity: line.quantity, ..**known } == line;
        match hold.lines.iter_mut().find(same) {
            Some(known) => known.quantity += line.quantity,
            None => hold.lines.push(line),
        }
        let record = hold.record(identity);
        self.areas[area.position()] -= i64::from(line.quantity);
        self.seq += 1;
        HoldOutcome::Held { hold: record, added: Vec::new(), is_together: true }
    }

    fn owned(&mut self, identity: IdentityId, id: HoldId, now_ms: u64) -> Result<&mut ModelHold, Refusal> {
        let Some(person) = self.people.get_mut(&identity) else { return Err(Refusal::HoldNotFound) };
        if person.ended.iter().any(|&(ended, ended_ms)| ended == id && ended_ms + KEEP_MS > now_ms) {
            return Err(Refusal::HoldExpired);
        }
        match &mut person.hold {
            Some(hold) if hold.id == id && hold.is_over(now_ms) => Err(Refusal::HoldExpired),
            Some(hold) if hold.id == id => Ok(hold),
            _ => Err(Refusal::HoldNotFound),
        }
    }

    pub(super) fn extend(&mut self, identity: IdentityId, id: HoldId, now_ms: u64) -> ChangeOutcome {
        match self.owned(identity, id, now_ms) {
            Err(refusal) => ChangeOutcome::Refused(refusal),
            Ok(ModelHold { lock: Some((order, _)), .. }) => ChangeOutcome::Refused(Refusal::HoldLocked(*order)),
            Ok(hold) if hold.is_extended => ChangeOutcome::Refused(Refusal::ExtendRefused),
            Ok(hold) => {
                hold.is_extended = true;
                hold.expires_ms += EXTENSION_MS;
                hold.list = hold.expires_ms.div_ceil(LIST_MS);
                ChangeOutcome::Done(Some(hold.record(identity)))
            }
        }
    }

    /// `None` releases all.
    pub(super) fn release(
        &mut self,
        identity: IdentityId,
        id: HoldId,
        parts: Option<(&[SeatIndex], &AreaSlice)>,
        now_ms: u64,
    ) -> ChangeOutcome {
        let hold = match self.owned(identity, id, now_ms) {
            Err(refusal) => return ChangeOutcome::Refused(refusal),
            Ok(ModelHold { lock: Some((order, _)), .. }) => {
                return ChangeOutcome::Refused(Refusal::HoldLocked(*order));
            }
            Ok(hold) => hold,
        };
        let whole = hold.clone();
        let mut rest = hold.clone();
        let mut gone = ModelHold { lines: Vec::new(), ..hold.clone() };
        if let Some((seats, areas)) = parts {
            for (position, seat) in seats.iter().enumerate() {
                if !whole.seats().contains(seat) {
                    return ChangeOutcome::Refused(Refusal::NotInHold { is_area: false, position });
                }
                rest.lines.retain(|line| line.place != Place::Seat(*seat));
                gone.lines.extend(whole.lines.iter().filter(|line| line.place == Place::Seat(*seat)));
            }
            for (position, &(area, quantity)) in areas.iter().enumerate() {
                let mut left = quantity;
                for line in rest.lines.iter_mut().rev().filter(|line| line.place == Place::Area(area)) {
                    let n = left.min(line.quantity);
                    line.quantity -= n;
                    left -= n;
                }
                if left > 0 {
                    return ChangeOutcome::Refused(Refusal::NotInHold { is_area: true, position });
                }
                let line = whole.lines.iter().find(|line| line.place == Place::Area(area)).expect("was found");
                gone.lines.push(HoldLine { quantity, ..*line });
            }
            rest.lines.retain(|line| line.quantity > 0);
        } else {
            gone = whole;
            rest.lines.clear();
        }
        self.give_back(identity, &gone);
        self.seq += 1;
        let person = self.people.get_mut(&identity).expect("owns a hold");
        person.hold = (!rest.lines.is_empty()).then_some(rest);
        ChangeOutcome::Done(person.hold.as_ref().map(|hold| hold.record(identity)))
    }

    pub(super) fn lock(
        &mut self,
        identity: IdentityId,
        id: HoldId,
        order: OrderId,
        until_ms: u64,
        now_ms: u64,
    ) -> LockOutcome {
        match self.owned(identity, id, now_ms) {
            Err(refusal) => LockOutcome::Refused(refusal),
            Ok(ModelHold { lock: Some((other, _)), .. }) if *other != order => {
                LockOutcome::Refused(Refusal::HoldLocked(*other))
            }
            Ok(hold) => {
                let until_ms = hold.lock.map_or(until_ms, |(_, before_ms)| before_ms.max(until_ms));
                hold.lock = Some((order, until_ms));
                LockOutcome::Locked(hold.record(identity))
            }
        }
    }

    pub(super) fn unlock(&mut self, identity: IdentityId, id: HoldId, order: OrderId, now_ms: u64) -> ChangeOutcome {
        match self.owned(identity, id, now_ms) {
            Err(refusal) => ChangeOutcome::Refused(refusal),
            Ok(ModelHold { lock: Some((other, _)), .. }) if *other != order => {
                ChangeOutcome::Refused(Refusal::HoldLocked(*other))
            }
            Ok(hold) => {
                if hold.lock.take().is_some() {
                    hold.list = hold.expires_ms.div_ceil(LIST_MS).max(now_ms / LIST_MS + 1);
                }
                ChangeOutcome::Done(Some(hold.record(identity)))
            }
        }
    }

    /// What a locked hold would be sold as.
    pub(super) fn places(&self, identity: IdentityId) -> Vec<(Place, u32)> {
        let hold = self.people.get(&identity).and_then(|person| person.hold.as_ref());
        hold.map(|hold| hold.lines.iter().map(|line| (line.place, line.quantity)).collect()).unwrap_or_default()
    }

    fn is_locked_for(&self, identity: IdentityId, order: OrderId) -> bool {
        let hold = self.people.get(&identity).and_then(|person| person.hold.as_ref());
        hold.is_some_and(|hold| hold.lock.is_some_and(|(by, _)| by == order))
    }

    pub(super) fn sell(&mut self, order: OrderId, identity: IdentityId, places: &[(Place, u32)]) {
        if self.orders.get(&order).is_some_and(|(known, _)| *known == Known::Sold) {
            return;
        }
        let is_locked = self.is_locked_for(identity, order);
        let mut changes = false;
        for &(place, quantity) in places {
            match place {
                Place::Seat(seat) => {
                    let owner = self.owners[seat.position()];
                    if matches!(owner, Owner::SoldTo(_)) {
                        continue;
                    }
                    if let Owner::HeldBy(holder) = owner
                        && !(is_locked && holder == identity)
                    {
                        let person = self.people.entry(holder).or_default();
                        if let Some(hold) = &mut person.hold {
                            hold.lines.retain(|line| line.place != Place::Seat(seat));
                            if hold.lines.is_empty() {
                                person.hold = None;
                            }
                        }
                    }
                    self.owners[seat.position()] = Owner::SoldTo(identity);
                    changes = true;
                }
                Place::Area(area) if !is_locked => {
                    self.areas[area.position()] -= i64::from(quantity);
                    changes = true;
                }
                Place::Area(_) => {}
            }
        }
        let person = self.people.entry(identity).or_default();
        person.bought += places.iter().map(|(_, quantity)| quantity).sum::<u32>();
        if is_locked {
            person.hold = None;
        }
        self.orders.insert(order, (Known::Sold, Vec::new()));
        self.seq += u64::from(changes);
    }

    pub(super) fn free(&mut self, order: OrderId, identity: IdentityId, places: &[(Place, u32)]) {
        let mut changes = false;
        if self.is_locked_for(identity, order) {
            let hold = self.people.get_mut(&identity).and_then(|person| person.hold.take()).expect("is locked");
            changes = self.give_back(identity, &hold);
            // A lock that was taken again after a sale leaves the sale known.
            self.orders.entry(order).or_insert((Known::Freed, Vec::new())).0 = Known::Freed;
        } else if let Some((Known::Sold, freed)) = self.orders.get(&order) {
            let mut freed = freed.clone();
            let mut n = 0;
            for &(place, quantity) in places {
                match place {
                    Place::Seat(seat) => {
                        if freed.contains(&(place, 1)) {
                            continue;
                        }
                        freed.push((place, 1));
                        n += 1;
                        if self.owners[seat.position()] == Owner::SoldTo(identity) {
                            self.free_seat(seat);
                            changes = true;
                        }
                    }
                    Place::Area(area) => {
                        let before = freed.iter().position(|(known, _)| *known == place);
                        let had = before.map_or(0, |at| freed[at].1);
                        if quantity > had {
                            self.areas[area.position()] += i64::from(quantity - had);
                            n += quantity - had;
                            changes = true;
                            match before {
                                Some(at) => freed[at].1 = quantity,
                                None => freed.push((place, quantity)),
                            }
                        }
                    }
                }
            }
            let person = self.people.entry(identity).or_default();
            person.bought = person.bought.saturating_sub(n);
            self.orders.get_mut(&order).expect("looked above").1 = freed;
        } else {
            self.orders.insert(order, (Known::Freed, Vec::new()));
        }
        self.seq += u64::from(changes);
    }
}
