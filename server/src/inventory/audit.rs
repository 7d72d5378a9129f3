//! Whether Redis, Postgres and the journal say the same of an event. The three are not read at one
//! moment, so the caller looks several times and believes what stays. `audit/shelf.rs` and `audit/beside.rs` read Redis,
//! `store/audit.rs` Postgres; here is who has which place, in `audit/life.rs` the rest.

mod beside;
mod life;
mod shelf;

use super::record::{BLOCKED, HELD_BY, KEPT, RESERVED_BY, SOLD_TO};
use super::{HoldRecord, Place};
use crate::catalogue::EventFacts;
use crate::store::audit::Ledger;
use crate::store::taken_seat::Taken;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
pub use shelf::ShelfState;
pub(super) use shelf::read;
use shelf::{MetaState, Slot};
use std::collections::{BTreeSet, HashMap};

/// A hold that should have ended so long ago is stuck: the sweeper comes every quarter of a second.
const STUCK_AFTER_MS: u64 = 10_000;

/// What an audit compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Life and position of the inventory.
    pub epoch: u32,
    /// See `epoch`.
    pub seq: u64,
    /// Redis was lost or began anew since, and nobody has asked for the event: Postgres was compared with itself alone.
    pub awaits_rebuild: bool,
    /// Seats of the event.
    pub seats: usize,
    /// Areas of the event.
    pub areas: usize,
    /// Open holds.
    pub holds: usize,
    /// Records of identities.
    pub identities: usize,
    /// Orders that have places.
    pub orders: usize,
    /// Live tickets.
    pub tickets: usize,
    /// Rows of the log of seats.
    pub log_rows: u64,
    /// Rows of the journal.
    pub journal_rows: usize,
}

/// Every disagreement, one plain line each.
#[must_use]
pub fn compare(event: &EventFacts, ledger: &Ledger, shelf: &ShelfState) -> (Compared, BTreeSet<String>) {
    let mut found = Findings { event, ledger, shelf, lines: BTreeSet::new() };
    found.ledger_alone();
    let mut compared = Compared {
        seats: event.seat_count() as usize,
        areas: event.areas.len(),
        orders: ledger.orders.len(),
        tickets: ledger.seat_tickets.len() + ledger.area_tickets.values().sum::<u32>() as usize,
        log_rows: ledger.log_n,
        journal_rows: ledger.records.len(),
        ..Compared::default()
    };
    match (&ledger.life, shelf.meta) {
        (None, _) => {
            if !ledger.taken.is_empty() {
                found.say("seats are taken, but the event was never opened".into());
            }
        }
        // No call believes what another Redis has, so neither does this: the first who asks has the event rebuilt.
        (Some((epoch, _)), None) => compared = Compared { epoch: *epoch, awaits_rebuild: true, ..compared },
        (Some((epoch, _)), Some(_)) if !shelf.is_same_redis => {
            compared = Compared { epoch: *epoch, awaits_rebuild: true, ..compared };
        }
        (Some((epoch, _)), Some(meta)) => {
            compared = Compared {
                epoch: *epoch,
                seq: meta.seq,
                holds: shelf.holds.len(),
                identities: shelf.records.len(),
                ..compared
            };
            found.seats();
            found.areas();
            found.identities(meta);
            found.counts(meta);
            found.journal(*epoch);
            found.settings(meta);
            found.keeping(meta);
            found.kinds();
            found.lists(meta);
            found.stream(meta);
            found.orders();
            found.prices();
            found.answers();
        }
    }
    (compared, found.lines)
}

struct Findings<'a> {
    event: &'a EventFacts,
    ledger: &'a Ledger,
    shelf: &'a ShelfState,
    lines: BTreeSet<String>,
}

impl Findings<'_> {
    fn say(&mut self, line: String) {
        self.lines.insert(line);
    }

    /// Postgres with itself: rows, tickets, stock, limits and the log.
    fn ledger_alone(&mut self) {
        let mut tickets: HashMap<SeatIndex, Vec<OrderId>> = HashMap::new();
        for (seat, order) in &self.ledger.seat_tickets {
            tickets.entry(*seat).or_default().push(*order);
        }
        let mut logged = self.ledger.log.clone();
        for taken in &self.ledger.taken {
            let (seat, order) = (taken.seat, taken.order);
            let is_sold = taken.taken == Taken::Sold;
            let state = if is_sold { "sold" } else { "reserved" };
            match tickets.remove(&seat).as_deref() {
                Some([of]) if is_sold && *of == order => {}
                None if !is_sold => {}
                None => self.say(format!("seat {seat} is sold to {order} but has no ticket")),
                Some(of) => self.say(format!("seat {seat} is {state} by {order} but has tickets of {of:?}")),
            }
            match logged.remove(&seat) {
                Some((last, of)) if last == state && of == order => {}
                last => self.say(format!("seat {seat} is {state} by {order}, the log's last word is {last:?}")),
            }
        }
        for (seat, of) in tickets {
            self.say(format!("seat {seat} has tickets of {of:?} but is not taken"));
        }
        for (seat, (last, order)) in logged {
            if last != "available" {
                self.say(format!("the log says that seat {seat} is {last} by {order}, but it is not taken"));
            }
        }
        let orders: HashMap<OrderId, bool> =
            self.ledger.orders.iter().map(|order| (order.order, order.is_sold)).collect();
        for taken in &self.ledger.taken {
            let is_sold = taken.taken == Taken::Sold;
            if orders.get(&taken.order) != Some(&is_sold) {
                let state = if is_sold { "sold" } else { "reserved" };
                self.say(format!("seat {} is {state} by {}, which has no such order", taken.seat, taken.order));
            }
        }
        for (index, area) in self.event.areas.iter().enumerate() {
            let index = AreaIndex(index as u32);
            let stock = self.ledger.areas.iter().find(|stock| stock.area == index);
            let (reserved, sold) = stock.map_or((0, 0), |stock| (stock.reserved, stock.sold));
            let tickets = self.ledger.area_tickets.get(&index).copied().unwrap_or(0);
            let open = self.ledger.area_reserved.get(&index).copied().unwrap_or(0);
            if sold != tickets {
                self.say(format!("area {index} counts {sold} sold places, but {tickets} tickets live"));
            }
            if reserved != open {
                self.say(format!("area {index} counts {reserved} reserved places, but orders have {open}"));
            }
            if reserved + sold > area.capacity {
                self.say(format!("area {index} has {} places of {}", reserved + sold, area.capacity));
            }
        }
        let mut places = self.ledger.places.clone();
        for &(identity, used) in &self.ledger.uses {
            let has = places.remove(&identity).unwrap_or(0);
            if used != has {
                self.say(format!("{identity} counts {used} places against its limit, but has {has}"));
            }
        }
        for (identity, has) in places {
            if has > 0 {
                self.say(format!("{identity} has {has} places that do not count against its limit"));
            }
        }
    }

    /// Whether this life knows the order as reserved before it began.
    fn is_reserved(&self, order: OrderId) -> bool {
        self.shelf.beside.orders.get(&order).is_some_and(|known| known.state == 1)
    }

    fn slot(&self, number: u32) -> Option<Slot> {
        self.shelf.slots.get(number as usize).copied().filter(|_| number != 0)
    }

    /// Each seat's owner word against the rows of Postgres and the holds.
    fn seats(&mut self) {
        if self.shelf.owners.len() != self.event.seat_count() as usize {
            self.say(format!("Redis has {} seats of {}", self.shelf.owners.len(), self.event.seat_count()));
        }
        let taken: HashMap<SeatIndex, _> = self.ledger.taken.iter().map(|taken| (taken.seat, taken)).collect();
        let mut held: HashMap<SeatIndex, IdentityId> = HashMap::new();
        let holds: Vec<HoldRecord> = self.shelf.holds.values().cloned().collect();
        for hold in &holds {
            for line in &hold.lines {
                if let Place::Seat(seat) = line.place
                    && let Some(other) = held.insert(seat, hold.identity)
                {
                    self.say(format!("seat {seat} is in the holds of {other} and {}", hold.identity));
                }
            }
        }
        for (index, &owner) in self.shelf.owners.iter().enumerate() {
            let seat = SeatIndex(index as u32);
            let (kind, number) = (owner & RESERVED_BY, owner & !RESERVED_BY);
            let who = self.slot(number).map(|slot| slot.identity);
            let row = taken.get(&seat);
            let in_hold = held.remove(&seat);
            let line = match (owner, kind) {
                (0 | BLOCKED | KEPT, _) => match (row, in_hold) {
                    (Some(row), _) => {
                        Some(format!("is {:?} by {} in Postgres, but free in Redis", row.taken, row.order))
                    }
                    (None, Some(identity)) => Some(format!("is in the hold of {identity}, but free on the map")),
                    (None, None) => self.kept_back(seat, owner),
                },
                (_, SOLD_TO) => match row {
                    Some(row) if row.taken == Taken::Sold && Some(row.identity) == who => None,
                    _ => Some(format!("is sold to {who:?} in Redis, but {row:?} in Postgres")),
                },
                (_, RESERVED_BY) => match row {
                    Some(row) if Some(row.identity) == who && self.is_reserved(row.order) => None,
                    _ => Some(format!("is reserved by {who:?} in Redis, but {row:?} in Postgres")),
                },
                (_, HELD_BY) => {
                    let hold = who.and_then(|who| self.shelf.holds.get(&who));
                    match (hold, row) {
                        (Some(hold), None) if in_hold == Some(hold.identity) => None,
                        (Some(hold), Some(row))
                            if in_hold == Some(hold.identity)
                                && row.taken == Taken::Reserved
                                && hold.locked_by == Some(row.order) =>
                        {
                            None
                        }
                        (Some(hold), Some(row)) => Some(format!(
                            "is held by {} in Redis (order {:?}), but {:?} by {} in Postgres",
                            hold.identity, hold.locked_by, row.taken, row.order
                        )),
                        _ => Some(format!("is held by {who:?} on the map, but not in its hold")),
                    }
                }
                _ => Some(format!("has the owner word {owner:#x}")),
            };
            if let Some(line) = line {
                self.say(format!("seat {seat} {line}"));
            }
        }
        for (seat, identity) in held {
            self.say(format!("seat {seat} is in the hold of {identity}, but not on the map"));
        }
    }

    /// What is wrong with a seat that is nobody's: blocked seats are those of the event and its allocations, kept ones those
    /// the waitlist knows.
    fn kept_back(&self, seat: SeatIndex, owner: u32) -> Option<String> {
        let is_blocked = self.event.blocked.contains(seat.0);
        let is_allocated = self.event.allocations.iter().any(|kept| !kept.is_closed && kept.seats.contains(seat.0));
        let why = if is_blocked { "blocked" } else { "allocated" };
        match (owner, is_blocked || is_allocated) {
            (BLOCKED, false) => Some("is blocked in Redis, but neither blocked nor allocated in Postgres".into()),
            (BLOCKED, true) | (0, false) => None,
            (KEPT, false) if self.shelf.kept_seats.contains(&seat.0) => None,
            (KEPT, false) => Some("is kept for the waitlist, which does not know of it".into()),
            (_, true) => Some(format!("is {why} in Postgres, but not in Redis")),
            _ => None,
        }
    }

    /// Whether an order of Postgres and the hold that is locked for it are the same places.
    fn has_order(&self, hold: &HoldRecord) -> bool {
        let of = |order: OrderId| self.ledger.orders.iter().any(|known| known.order == order && !known.is_sold);
        hold.locked_by.is_some_and(of)
    }

    /// What is left of each area: its capacity less stock and holds; a hold whose order reserved is in the stock already.
    fn areas(&mut self) {
        let mut held = vec![0i64; self.event.areas.len()];
        for hold in self.shelf.holds.values().filter(|hold| !self.has_order(hold)) {
            for line in &hold.lines {
                if let Place::Area(area) = line.place
                    && let Some(held) = held.get_mut(area.position())
                {
                    *held += i64::from(line.quantity);
                }
            }
        }
        for (index, held) in held.into_iter().enumerate() {
            let capacity = i64::from(self.event.areas[index].capacity);
            let area = AreaIndex(index as u32);
            let stock = self.ledger.areas.iter().find(|stock| stock.area == area);
            let stock = stock.map_or(0, |stock| i64::from(stock.reserved + stock.sold));
            let kept = self.shelf.kept.get(index).copied().map_or(0, i64::from);
            let left = self.shelf.areas.get(index).copied().map(|left| i64::from(left) + kept);
            let expected = capacity - stock - held;
            if self.shelf.capacities.get(index).map(|places| i64::from(*places)) != Some(capacity) {
                self.say(format!("area {area} has {capacity} places, Redis knows another number"));
            }
            if left != Some(expected) {
                let left = left.map_or_else(|| "nothing".into(), |left| left.to_string());
                self.say(format!(
                    "area {area}: Redis has {left} places left, but {capacity} less {stock} ordered less {held} held is \
                     {expected}"
                ));
            }
        }
    }

    /// Limits, ends and what each identity has bought.
    fn identities(&mut self, meta: MetaState) {
        let uses: HashMap<IdentityId, u32> = self.ledger.uses.iter().copied().collect();
        let orders: HashMap<OrderId, u32> = self
            .ledger
            .orders
            .iter()
            .filter(|order| !order.is_sold)
            .map(|order| (order.order, order.seats_n))
            .collect();
        let event_ms = meta.event_ms(self.shelf.now_ms);
        let mut lines = Vec::new();
        let mut without_record = uses.clone();
        for (identity, (record, _)) in &self.shelf.records {
            without_record.remove(identity);
            let hold = self.shelf.holds.get(identity);
            let held: u32 = hold.map_or(0, |hold| hold.lines.iter().map(|line| line.quantity).sum());
            let locked =
                hold.and_then(|hold| hold.locked_by).and_then(|order| orders.get(&order)).copied().unwrap_or(0);
            let used = uses.get(identity).copied().unwrap_or(0);
            if record.bought + locked != used {
                lines.push(format!(
                    "{identity} has {} bought and {locked} locked in Redis, but {used} in Postgres",
                    record.bought
                ));
            }
            if held > 0 && held + record.bought > meta.limit.max(self.event.rules.seats_per_identity) {
                lines.push(format!("{identity} has {held} held and {} bought, above its limit", record.bought));
            }
            let slot = self.slot(record.number);
            if slot.is_some_and(|slot| slot.identity != *identity) {
                lines.push(format!("{identity} has the number of {:?}", slot.map(|slot| slot.identity)));
            }
            let Some(hold) = hold else { continue };
            let (ends_ms, status) = slot.map_or((0, 0), |slot| (slot.ends_ms, slot.status));
            let expected = if hold.locked_by.is_some() { 2 } else { 1 };
            if status != expected || ends_ms != hold.expires_ms {
                lines.push(format!("{} ends at {}, but is listed with {ends_ms}", hold.id, hold.expires_ms));
            }
            let is_over = hold.expires_ms + STUCK_AFTER_MS < event_ms;
            if is_over && !self.has_order(hold) {
                lines.push(format!("{} should have ended at {} and is stuck", hold.id, hold.expires_ms));
            }
        }
        for (identity, used) in without_record {
            if used > 0 {
                lines.push(format!("{identity} has {used} places in Postgres and is not known to Redis"));
            }
        }
        self.lines.extend(lines);
    }

    fn counts(&mut self, meta: MetaState) {
        if meta.open as usize != self.shelf.holds.len() {
            self.say(format!("Redis counts {} open holds, but there are {}", meta.open, self.shelf.holds.len()));
        }
        let available = self.shelf.owners.iter().filter(|&&owner| owner == 0).count();
        if meta.available as usize != available {
            self.say(format!("Redis counts {} available seats, but there are {available}", meta.available));
        }
    }

    /// The journal against the records: only what a rebuild would read.
    fn journal(&mut self, epoch: u32) {
        match self.ledger.journal {
            None => return self.say("the event has no journal".into()),
            Some((of, _)) if of != epoch => {
                return self.say(format!("the journal is of epoch {of}, the event in epoch {epoch}"));
            }
            Some((_, false)) => return self.say("the journal is not whole".into()),
            Some((_, true)) => {}
        }
        let mut written: HashMap<IdentityId, &[u8]> =
            self.ledger.records.iter().map(|row| (row.identity, &*row.record)).collect();
        let mut lines = Vec::new();
        for (identity, (record, bytes)) in &self.shelf.records {
            match written.remove(identity) {
                Some(row) if row == &**bytes => {}
                None if !record.is_worth_keeping() => {}
                row => lines.push(format!(
                    "{identity}: the journal has {}",
                    if row.is_some() { "another record than Redis" } else { "no record" }
                )),
            }
        }
        for identity in written.into_keys() {
            lines.push(format!("{identity} is in the journal, but not known to Redis"));
        }
        self.lines.extend(lines);
    }
}
