//! What a new life of an event begins with: the truth of Postgres, then the journal on top of it as far as it does not
//! contradict it. Pure: `rebuild` reads the truth and writes what comes out of here.

use super::allocation::FIRST_KIND;
use super::key::Life;
use super::record::{BLOCKED, HELD_BY, IdentityRecord, KEPT, Meta, RESERVED_BY, SLOT_BYTES, SOLD_TO, StoredHold};
use super::{HoldLine, InventoryError, Place, Restored};
use crate::catalogue::EventFacts;
use crate::store::area_stock::AreaStock;
use crate::store::event_life::LivingOrder;
use crate::store::hold_journal::{JournalAnswer, WrittenRecord};
use crate::store::taken_seat::{Taken, TakenSeat};
use fred::types::{Key, Value};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Width of a list of holds that end together (`BUCKET_MS` of the scripts).
pub(super) const BUCKET_MS: u64 = 250;
/// How long answers and endings are kept (`KEEP_MS`), and the width of a bucket of older answers.
pub(super) const KEEP_MS: u64 = 600_000;
const ANSWER_BUCKET_MS: u64 = 300_000;
const MINUTE_MS: u64 = 60_000;
/// Status of a slot: the hold ends by itself; it is locked.
const OPEN: u8 = 1;
const LOCKED: u8 = 2;

/// What Postgres knows of an event's places, as one moment.
#[derive(Debug)]
pub(super) struct Truth {
    pub(super) taken: Vec<TakenSeat>,
    pub(super) areas: Vec<AreaStock>,
    pub(super) uses: Vec<(IdentityId, u32)>,
    pub(super) orders: Vec<LivingOrder>,
    /// What was given back of each of these orders.
    pub(super) freed: HashMap<OrderId, Vec<(Place, u32)>>,
    /// Of the orders that locks of the journal name: those that have given everything back.
    pub(super) over: HashSet<OrderId>,
    /// The journal, the newest change first.
    pub(super) records: Vec<WrittenRecord>,
    pub(super) answers: Vec<JournalAnswer>,
    /// Whether somebody waits for seats: then what is free is theirs.
    pub(super) has_waiting: bool,
}

/// A new life's values, ready to be written.
#[derive(Debug)]
pub(super) struct Filled {
    pub(super) meta: Vec<u8>,
    /// Plain values by the names of their keys.
    pub(super) values: Vec<(String, Vec<u8>)>,
    pub(super) identities: Vec<(Key, Value)>,
    pub(super) orders: Vec<(Key, Value)>,
    /// Seats of the waitlist.
    pub(super) kept: Vec<u32>,
    /// Since when: now, as nobody knows better.
    pub(super) kept_ms: u64,
    /// Name of the key and fields of the older answers.
    pub(super) answers: (String, Vec<(Key, Value)>),
    pub(super) restored: Restored,
}

/// The places of an event while they are given out.
struct Places {
    owners: Vec<u32>,
    kept_back: Vec<u8>,
    remaining: Vec<i32>,
}

/// Gives each identity its number as it is met.
#[derive(Debug, Default)]
struct Numbers {
    numbers: HashMap<IdentityId, u32>,
    in_order: Vec<IdentityId>,
}

impl Numbers {
    fn of(&mut self, identity: IdentityId) -> u32 {
        *self.numbers.entry(identity).or_insert_with(|| {
            self.in_order.push(identity);
            self.in_order.len() as u32
        })
    }
}

impl Places {
    fn new(event: &EventFacts, truth: &Truth, numbers: &mut Numbers) -> Result<Self, InventoryError> {
        let seat_count = event.seat_count() as usize;
        let mut owners = vec![0u32; seat_count];
        let mut kept_back = Vec::new();
        for seat in event.blocked.iter() {
            if let Some(owner) = owners.get_mut(seat as usize) {
                *owner = BLOCKED;
                kept_back.resize(seat_count, 0);
                kept_back[seat as usize] = 1;
            }
        }
        for allocation in event.allocations.iter().filter(|allocation| !allocation.is_closed) {
            kept_back.resize(seat_count, 0);
            for seat in &allocation.seats {
                if let Some(owner) = owners.get_mut(seat as usize) {
                    *owner = BLOCKED;
                    kept_back[seat as usize] = FIRST_KIND + allocation.slot;
                }
            }
        }
        for taken in &truth.taken {
            let kind = match taken.taken {
                Taken::Sold => SOLD_TO,
                Taken::Reserved => RESERVED_BY,
            };
            let owner = owners.get_mut(taken.seat.position()).ok_or_else(|| {
                InventoryError::Malformed(format!("{} of {} is taken but not in the layout", taken.seat, event.id))
            })?;
            *owner = kind | numbers.of(taken.identity);
        }
        let signed = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let mut remaining: Vec<i32> = event.areas.iter().map(|area| signed(area.capacity)).collect();
        for stock in &truth.areas {
            if let Some(left) = remaining.get_mut(stock.area.position()) {
                *left = left.saturating_sub(signed(stock.reserved + stock.sold));
            }
        }
        Ok(Self { owners, kept_back, remaining })
    }

    /// Gives a line of a hold back to its identity; false when somebody else has it meanwhile.
    fn give(&mut self, number: u32, line: &HoldLine) -> bool {
        match line.place {
            Place::Seat(seat) => {
                let Some(owner) = self.owners.get_mut(seat.position()) else { return false };
                // Of what is kept back, what an allocation has may have been unlocked. What the organiser took out of the
                // sale was nobody's then: a hold of it is an old one.
                let is_of_allocation = || self.kept_back.get(seat.position()).is_some_and(|kind| *kind >= FIRST_KIND);
                let is_free = *owner == 0 || *owner == BLOCKED && is_of_allocation();
                if is_free {
                    *owner = HELD_BY | number;
                }
                is_free
            }
            Place::Area(area) => {
                let Some(left) = self.remaining.get_mut(area.position()) else { return false };
                let rest = i64::from(*left) - i64::from(line.quantity);
                let is_enough = rest >= 0;
                if is_enough {
                    *left = rest as i32;
                }
                is_enough
            }
        }
    }

    /// Everything that is still free is kept for the waitlist: the seats, and the places of each area.
    fn keep_all(&mut self) -> (Vec<u32>, Vec<u32>) {
        let mut kept = Vec::new();
        for (seat, owner) in (0..).zip(&mut self.owners).filter(|(_, owner)| **owner == 0) {
            *owner = KEPT;
            kept.push(seat);
        }
        let places = self.remaining.iter().map(|left| left.max(&0).cast_unsigned()).collect();
        for left in &mut self.remaining {
            *left = (*left).min(0);
        }
        (kept, places)
    }

    /// Seats that are reserved for the hold's own order are held again; its places are counted already.
    fn lock(&mut self, number: u32, lines: &[HoldLine]) {
        for line in lines {
            if let Place::Seat(seat) = line.place
                && let Some(owner) = self.owners.get_mut(seat.position())
            {
                *owner = HELD_BY | number;
            }
        }
    }
}

/// What becomes of a hold of the journal.
enum Fate {
    /// Its order is settled or has taken its place.
    Over,
    /// It goes on, locked for this order.
    Locked(OrderId, u64),
    /// It goes on with what nobody else has.
    Open,
}

/// What orders that are not paid yet have, by order and by the hold they were made of.
struct Reserved<'a> {
    of_holds: HashMap<HoldId, &'a LivingOrder>,
    seats: HashMap<OrderId, HashSet<SeatIndex>>,
}

fn fate(hold: &StoredHold, over: &HashSet<OrderId>, reserved: &Reserved<'_>) -> Fate {
    if let Some(order) = reserved.of_holds.get(&hold.id) {
        if order.is_sold || !reserved.is_same_basket(order, &hold.lines) {
            return Fate::Over;
        }
        let until_ms = hold.lock.filter(|(locked_by, _)| *locked_by == order.order).map_or(0, |(_, until_ms)| until_ms);
        return Fate::Locked(order.order, until_ms.max(order.lock_until_ms));
    }
    match hold.lock {
        Some((order, _)) if over.contains(&order) => Fate::Over,
        // A lock without an order: its checkout belongs to the old life and will be refused.
        _ => Fate::Open,
    }
}

impl<'a> Reserved<'a> {
    fn of(truth: &'a Truth) -> Self {
        let mut seats: HashMap<OrderId, HashSet<SeatIndex>> = HashMap::new();
        for taken in truth.taken.iter().filter(|seat| seat.taken == Taken::Reserved) {
            seats.entry(taken.order).or_default().insert(taken.seat);
        }
        Self { of_holds: truth.orders.iter().map(|order| (order.hold, order)).collect(), seats }
    }

    /// Whether the order reserved exactly what the hold had; otherwise the order alone counts.
    fn is_same_basket(&self, order: &LivingOrder, lines: &[HoldLine]) -> bool {
        let none = HashSet::new();
        let reserved = self.seats.get(&order.order).unwrap_or(&none);
        let (mut seats_n, mut places_n) = (0, 0);
        for line in lines {
            match line.place {
                Place::Seat(seat) if !reserved.contains(&seat) => return false,
                Place::Seat(_) => seats_n += 1,
                Place::Area(_) => places_n += line.quantity,
            }
        }
        seats_n == reserved.len() && seats_n as u32 + places_n == order.seats_n
    }
}

pub(super) fn fill(event: &EventFacts, life: Life, truth: &Truth, now_ms: u64) -> Result<Filled, InventoryError> {
    let mut numbers = Numbers::default();
    let mut places = Places::new(event, truth, &mut numbers)?;
    let mut records: HashMap<IdentityId, IdentityRecord> = HashMap::new();
    for &(identity, used) in &truth.uses {
        numbers.of(identity);
        records.entry(identity).or_default().bought = used;
    }
    let reserved = Reserved::of(truth);
    let mut locked: HashSet<OrderId> = HashSet::new();
    let mut restored = Restored { event: event.id, holds: Vec::new(), revoked: Vec::new() };
    let mut slots: HashMap<u32, (u64, u8)> = HashMap::new();
    let mut lists: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let spilled: HashSet<IdentityId> = truth.answers.iter().map(|answer| answer.identity).collect();

    // A hold whose time is over may stand beside that of whoever took its places since, and a copy knows of no order.
    let mut written = Vec::with_capacity(truth.records.len());
    for row in &truth.records {
        let record = IdentityRecord::decode(&row.record)?;
        let hold = StoredHold::decode(&record.hold)?;
        written.push((row.identity, record, hold));
    }
    let is_over = |hold: &StoredHold| hold.lock.is_none() && hold.expires_ms <= now_ms;
    written.sort_by_key(|(_, _, hold)| hold.as_ref().is_some_and(is_over));
    for (identity, mut record, hold) in written {
        let number = numbers.of(identity);
        record.bought = records.get(&identity).map_or(0, |known| known.bought);
        record.has_spilled = spilled.contains(&identity);
        record.listed = 0;
        if let Some(mut hold) = hold {
            let before = hold.clone();
            match fate(&hold, &truth.over, &reserved) {
                Fate::Over => hold.lines.clear(),
                Fate::Locked(order, until_ms) => {
                    hold.lock = Some((order, until_ms));
                    places.lock(number, &hold.lines);
                    locked.insert(order);
                    let all: u32 = hold.lines.iter().map(|line| line.quantity).sum();
                    record.bought = record.bought.saturating_sub(all);
                }
                Fate::Open => {
                    hold.lock = None;
                    hold.lines.retain(|line| places.give(number, line));
                    if hold.lines.is_empty() {
                        record.note_ending(hold.id, now_ms);
                        if is_over(&before) {
                            // Its owner is told that there is none, and not that it was taken.
                            restored.holds.push((identity, hold.id));
                        } else {
                            restored.revoked.push(before.clone().into_record(identity));
                        }
                    }
                }
            }
            let lives = !hold.lines.is_empty();
            if hold != before || !lives {
                record.settle_answers()?;
                record.hold = if lives { hold.encode() } else { Vec::new() };
            }
            if lives {
                restored.holds.push((identity, hold.id));
                slots.insert(
                    number,
                    match hold.lock {
                        Some((_, until_ms)) => (until_ms, LOCKED),
                        None => {
                            let bucket = hold.expires_ms.div_ceil(BUCKET_MS).max(now_ms / BUCKET_MS + 1);
                            lists.entry(format!("x{bucket}")).or_default().extend(number.to_le_bytes());
                            (hold.expires_ms, OPEN)
                        }
                    },
                );
            }
        }
        if record.hold.is_empty() {
            let minute = (now_ms + KEEP_MS) / MINUTE_MS + 1;
            record.listed = u32::try_from(minute).unwrap_or(u32::MAX);
            lists.entry(format!("f{minute}")).or_default().extend(identity.uuid().as_bytes());
        }
        records.insert(identity, record);
    }

    let mut table = vec![0; SLOT_BYTES];
    let mut identities = Vec::with_capacity(numbers.in_order.len());
    for (index, identity) in numbers.in_order.iter().enumerate() {
        let number = index as u32 + 1;
        let (ends_ms, status) = slots.get(&number).copied().unwrap_or((0, 0));
        table.extend(identity.uuid().as_bytes());
        table.extend(&ends_ms.to_le_bytes()[..6]);
        table.extend([status, 0]);
        let mut record = records.remove(identity).unwrap_or_default();
        record.number = number;
        identities.push((Key::from(&identity.uuid().as_bytes()[..]), Value::from(&record.encode()[..])));
    }
    // An order whose hold goes on is settled by way of the hold.
    let orders = truth.orders.iter().filter(|order| !locked.contains(&order.order)).map(|order| {
        let bytes = known_order(order, truth.freed.get(&order.order).map_or(&[], Vec::as_slice));
        (Key::from(&order.order.uuid().as_bytes()[..]), Value::from(&bytes[..]))
    });
    let answers = truth.answers.iter().map(|answer| {
        let name: Vec<u8> = answer.identity.uuid().as_bytes().iter().chain(&answer.key).copied().collect();
        (Key::from(&name[..]), Value::from(&answer.answer[..]))
    });
    let (kept, kept_places) = if truth.has_waiting { places.keep_all() } else { Default::default() };
    let meta = Meta {
        state: event.state as u8,
        has_kept_back: !places.kept_back.is_empty(),
        keeps: truth.has_waiting,
        epoch: life.epoch,
        revision: event.rank(),
        limit: event.rules.seats_per_identity,
        ttl_ms: u32::try_from(event.rules.hold_ttl_ms).unwrap_or(u32::MAX),
        open_holds: slots.len() as u32,
        next_number: numbers.in_order.len() as u32 + 1,
        available: places.owners.iter().filter(|&&owner| owner == 0).count() as u32,
    };
    debug_assert!(meta.next_number < HELD_BY, "numbers have 30 bits");
    let mut values: Vec<(String, Vec<u8>)> = vec![
        ("s".into(), places.owners.iter().flat_map(|owner| owner.to_le_bytes()).collect()),
        ("a".into(), places.remaining.iter().flat_map(|left| left.to_le_bytes()).collect()),
        ("v".into(), kept_places.iter().flat_map(|kept| kept.to_le_bytes()).collect()),
        ("k".into(), places.kept_back),
        ("z".into(), event.areas.iter().flat_map(|area| area.capacity.to_le_bytes()).collect()),
        ("n".into(), table),
    ];
    values.extend(lists);
    values.retain(|(_, bytes)| !bytes.is_empty());
    Ok(Filled {
        meta: meta.encode(),
        values,
        kept,
        kept_ms: now_ms,
        identities,
        orders: orders.collect(),
        answers: (format!("r{}", now_ms / ANSWER_BUCKET_MS), answers.collect()),
        restored,
    })
}

/// What a life knows of an order it did not see: whether it is sold, and what was given back of it already (`order.lua`).
fn known_order(order: &LivingOrder, freed: &[(Place, u32)]) -> Vec<u8> {
    let (mut seats, mut areas) = (Vec::new(), Vec::new());
    for &(place, quantity) in freed {
        match place {
            Place::Seat(seat) => seats.extend(seat.0.to_le_bytes()),
            Place::Area(area) => {
                areas.extend(area.0.to_le_bytes());
                areas.extend(quantity.to_le_bytes());
            }
        }
    }
    let mut out = vec![if order.is_sold { 2 } else { 1 }];
    out.extend(((seats.len() / 4) as u16).to_le_bytes());
    out.extend(seats);
    out.extend(areas);
    out
}

/// The orders that locks in these records name.
pub(super) fn locking_orders(records: &[WrittenRecord]) -> Result<Vec<OrderId>, InventoryError> {
    let mut orders = Vec::new();
    for written in records {
        let record = IdentityRecord::decode(&written.record)?;
        if let Some((order, _)) = StoredHold::decode(&record.hold)?.and_then(|hold| hold.lock) {
            orders.push(order);
        }
    }
    Ok(orders)
}

#[cfg(test)]
mod tests;
