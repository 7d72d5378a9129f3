//! What becomes of a hold: made longer, given back, locked, unlocked, sold, freed.

use super::{KEEP_MS, Known, LIST_MS, Model, ModelHold, Owner};
use seatwire::inventory::{ChangeOutcome, HoldLine, LockOutcome, Place, Refusal};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};

type AreaSlice = [(AreaIndex, u32)];

const EXTENSION_MS: u64 = 120_000;

impl Model {
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

    pub(in super::super) fn extend(&mut self, identity: IdentityId, id: HoldId, now_ms: u64) -> ChangeOutcome {
        match self.owned(identity, id, now_ms) {
            Err(refusal) => ChangeOutcome::Refused(refusal),
            Ok(ModelHold { lock: Some((order, _)), .. }) => ChangeOutcome::Refused(Refusal::HoldLocked(*order)),
            Ok(hold) if hold.is_extended || hold.is_offer => {
                ChangeOutcome::Refused(Refusal::ExtendRefused { is_offer: hold.is_offer })
            }
            Ok(hold) => {
                hold.is_extended = true;
                hold.expires_ms += EXTENSION_MS;
                hold.list = hold.expires_ms.div_ceil(LIST_MS);
                ChangeOutcome::Done(Some(hold.record(identity)))
            }
        }
    }

    /// `None` releases all.
    pub(in super::super) fn release(
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

    pub(in super::super) fn lock(
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

    pub(in super::super) fn unlock(
        &mut self,
        identity: IdentityId,
        id: HoldId,
        order: OrderId,
        now_ms: u64,
    ) -> ChangeOutcome {
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
    pub(in super::super) fn places(&self, identity: IdentityId) -> Vec<(Place, u32)> {
        let hold = self.people.get(&identity).and_then(|person| person.hold.as_ref());
        hold.map(|hold| hold.lines.iter().map(|line| (line.place, line.quantity)).collect()).unwrap_or_default()
    }

    fn is_locked_for(&self, identity: IdentityId, order: OrderId) -> bool {
        let hold = self.people.get(&identity).and_then(|person| person.hold.as_ref());
        hold.is_some_and(|hold| hold.lock.is_some_and(|(by, _)| by == order))
    }

    pub(in super::super) fn sell(&mut self, order: OrderId, identity: IdentityId, places: &[(Place, u32)]) {
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
                Place::Area(area) if !is_locked => changes |= self.change_area(area, -i64::from(quantity)),
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

    pub(in super::super) fn free(&mut self, order: OrderId, identity: IdentityId, places: &[(Place, u32)]) {
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
                            changes |= self.change_area(area, i64::from(quantity - had));
                            n += quantity - had;
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
