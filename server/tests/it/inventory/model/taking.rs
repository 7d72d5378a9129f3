//! Taking: chosen seats, the first free block, the seats of stretches, places of an area, and the rule against single seats.

use super::{LIST_MS, Model, ModelHold, Owner, Person, ROW};
use seatwire::inventory::{HoldLine, HoldOutcome, Place, Refusal};
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::OrphanRule;

fn seat_of(line: &HoldLine) -> SeatIndex {
    if let Place::Seat(seat) = line.place { seat } else { unreachable!("a line of a seat") }
}

fn seats_of(lines: &[HoldLine]) -> Vec<SeatIndex> {
    lines.iter().map(seat_of).collect()
}

impl Model {
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
            is_offer: false,
            lock: None,
            lines: Vec::new(),
        };
        self.people.entry(identity).or_default().hold.get_or_insert(hold)
    }

    fn may_take(&self, identity: IdentityId, seat: SeatIndex, now_ms: u64) -> bool {
        match self.owners[seat.position()] {
            Owner::Nobody => true,
            Owner::SoldTo(_) | Owner::Kept => false,
            Owner::KeptBack => self.may_have(identity, seat),
            Owner::HeldBy(other) => {
                let hold = self.people.get(&other).and_then(|person| person.hold.as_ref());
                let is_over = hold.is_some_and(|hold| hold.is_over(now_ms));
                if is_over { !self.keeps && self.may_have(identity, seat) } else { other == identity }
            }
        }
    }

    /// `new_id` is the id the scripts gave, when they made a hold.
    pub(in super::super) fn hold(
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
        // A seat of one's own again is nothing more, whatever the limit is now.
        if !added.is_empty() && used + added.len() as u32 > self.limit {
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
    pub(in super::super) fn hold_best(
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
        let is_free = |seat: &SeatIndex| match self.owners[seat.position()] {
            Owner::Nobody => true,
            Owner::KeptBack => self.may_have(identity, *seat),
            Owner::Kept | Owner::HeldBy(_) | Owner::SoldTo(_) => false,
        };
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
    pub(in super::super) fn find(
        &self,
        stretches: &[(u32, u16)],
        wanted: usize,
        takes_any: bool,
    ) -> Option<Vec<SeatIndex>> {
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

    /// The most seats in a row within one of the stretches that are nobody's.
    pub(in super::super) fn longest(&self, stretches: &[(u32, u16)]) -> u32 {
        let mut longest = 0;
        for &(first, len) in stretches {
            let mut run = 0;
            for seat in first..first + u32::from(len) {
                run = if self.owners[seat as usize] == Owner::Nobody { run + 1 } else { 0 };
                longest = longest.max(run);
            }
        }
        longest
    }

    /// Single seats that taking these would leave against the rule, in rows of ten.
    pub(in super::super) fn orphans(&self, chosen: &[SeatIndex], rule: OrphanRule) -> Vec<SeatIndex> {
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

    pub(in super::super) fn hold_area(
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
            .filter(|hold| hold.is_over(now_ms) && !self.keeps)
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
}
