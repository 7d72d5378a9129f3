//! A life with itself and with Postgres, beyond who has which place: what the meta says of the event, whether each hold and
//! each identity will be looked at in time, what is known of orders and prices, the waitlist, the stream, older answers.

use super::Findings;
use super::shelf::MetaState;
use crate::inventory::Place;
use crate::inventory::fill::{BUCKET_MS, KEEP_MS};
use crate::store::hold_journal::JournalAnswer;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::server::{EventState, Line};
use std::collections::{HashMap, HashSet};

/// A cursor is ahead of the clock when it is by more than the two clocks may differ.
const AHEAD_MS: u64 = 5_000;
const MINUTE_MS: u64 = 60_000;
/// Entries a stream keeps at least (`MAX_CHANGES` of the scripts).
const MIN_CHANGES: u64 = 4_096;
/// Answers are compared while both sides surely keep them.
const SURELY_KEPT_MS: u64 = KEEP_MS - 60_000;
/// What a life knows of an order.
const RESERVED: u8 = 1;
const SOLD: u8 = 2;
/// Bytes of a remembered answer before Redis' clock: fingerprint, code, epoch, seq.
const BEFORE_CLOCK: usize = 8 + 1 + 4 + 6;

/// The word of a state, or its number where there is none.
fn named(state: u8) -> String {
    use EventState::{Cancelled, Closed, OnSale, Paused, Presale, Scheduled, SoldOut};
    let states = [Scheduled, Presale, OnSale, Paused, SoldOut, Closed, Cancelled];
    let known = states.into_iter().find(|known| *known as u8 == state);
    known.map_or_else(|| format!("{state}"), |known| format!("{known:?}"))
}

impl Findings<'_> {
    /// State, limit and life of a hold, where Redis knows the event as it is now; what it does not know yet comes with the
    /// next call.
    pub(super) fn settings(&mut self, meta: MetaState) {
        let event = self.event;
        if meta.revision >> 2 > event.rank() >> 2 {
            self.say(format!("Redis knows revision {} of the event, which Postgres has not", meta.revision >> 2));
        }
        if meta.revision != event.rank() {
            return;
        }
        if meta.state != event.state as u8 {
            self.say(format!("the event is {:?} in Postgres, but {} in Redis", event.state, named(meta.state)));
        }
        let limit = event.rules.seats_per_identity;
        if meta.limit != limit {
            self.say(format!("the limit is {limit} in Postgres, but {} in Redis", meta.limit));
        }
        if u64::from(meta.ttl_ms) != event.rules.hold_ttl_ms {
            self.say(format!("a hold lives {} ms in Postgres, but {} in Redis", event.rules.hold_ttl_ms, meta.ttl_ms));
        }
    }

    /// Whether what becomes free is kept for those who wait.
    pub(super) fn keeping(&mut self, meta: MetaState) {
        if meta.keeps && !self.ledger.may_keep {
            self.say("Redis keeps what becomes free for the waitlist, on which nobody is".into());
        }
        if !meta.keeps && self.ledger.has_waiting {
            self.say("somebody is on the waitlist, but Redis keeps nothing for it".into());
        }
    }

    /// Why seats are kept back: what a seat becomes when it is free again.
    pub(super) fn kinds(&mut self) {
        for seat in 0..self.event.seat_count() {
            let allocated = self.event.allocations.iter().find(|kept| !kept.is_closed && kept.seats.contains(seat));
            let expected = match allocated {
                Some(allocation) => crate::inventory::allocation::FIRST_KIND + allocation.slot,
                None => u8::from(self.event.blocked.contains(seat)),
            };
            let kind = self.shelf.kinds.get(seat as usize).copied().unwrap_or(0);
            if kind != expected {
                self.say(format!("seat {seat} is of kind {kind} in Redis, {expected} in Postgres, once it is free"));
            }
        }
    }

    /// Each open hold stands in a list that the sweeper has before it, each idle identity in one to be forgotten by, and no
    /// cursor is ahead of the clock.
    pub(super) fn lists(&mut self, meta: MetaState) {
        let now_ms = meta.event_ms(self.shelf.now_ms);
        let ticks = |ahead_ms: u64| (now_ms + ahead_ms + AHEAD_MS) / BUCKET_MS;
        for (cursor, most, what) in [
            (meta.swept, ticks(0), "of holds that end"),
            (meta.soon[0], ticks(60_000), "of holds with a minute left"),
            (meta.soon[1], ticks(15_000), "of holds with a moment left"),
            (meta.forgotten, (now_ms + AHEAD_MS) / MINUTE_MS, "of identities to forget"),
        ] {
            if cursor > most {
                self.say(format!("the cursor {what} is ahead of the clock"));
            }
        }
        let beside = &self.shelf.beside;
        let is_ahead = |tick: &u64| *tick > meta.swept;
        let mut listed: HashSet<u32> = HashSet::new();
        for (tick, numbers) in beside.endings.iter().filter(|(tick, _)| is_ahead(tick)) {
            let done = if *tick == meta.swept + 1 { meta.swept_at as usize } else { 0 };
            listed.extend(numbers.iter().skip(done));
        }
        let mut lines = Vec::new();
        for (identity, (record, _)) in &self.shelf.records {
            let hold = self.shelf.holds.get(identity);
            if let Some(hold) = hold.filter(|hold| hold.locked_by.is_none() && !listed.contains(&record.number)) {
                lines.push(format!("{} stands in no list of holds that end", hold.id));
            }
            let minute = u64::from(record.listed);
            let is_listed = || beside.forgotten.get(&minute).is_some_and(|listed| listed.contains(identity));
            if record.hold.is_empty() && minute > meta.forgotten && !is_listed() {
                lines.push(format!("{identity} stands in no list of identities to forget"));
            }
            if record.number >= meta.numbers && record.number != 0 {
                lines.push(format!("{identity} has the number {}, which is still to be given out", record.number));
            }
        }
        self.lines.extend(lines);
    }

    /// The stream goes up to where the map stands, and is cut no shorter than it may be.
    pub(super) fn stream(&mut self, meta: MetaState) {
        match self.shelf.beside.stream {
            _ if meta.seq == 0 => {}
            Some((first, last, len)) if last >= meta.seq => {
                if first > 1 && len < MIN_CHANGES {
                    self.say("the stream of changes does not go back as far as it should".into());
                }
            }
            _ => self.say("the stream of changes ends before the map does".into()),
        }
    }

    /// What this life knows of orders, and what it has freed of them.
    pub(super) fn orders(&mut self) {
        let beside = &self.shelf.beside;
        let locked: HashSet<OrderId> = self.shelf.holds.values().filter_map(|hold| hold.locked_by).collect();
        let living: HashMap<OrderId, bool> =
            self.ledger.orders.iter().map(|order| (order.order, order.is_sold)).collect();
        let mut freed: HashMap<OrderId, HashMap<Place, u32>> = HashMap::new();
        for given in &self.ledger.freed {
            if let Some(place) = given.seat.map(Place::Seat).or(given.area.map(Place::Area)) {
                *freed.entry(given.order).or_default().entry(place).or_default() += given.quantity;
            }
        }
        let mut lines = Vec::new();
        for (&order, &is_sold) in &living {
            let known = beside.orders.get(&order);
            let state = known.map_or(0, |known| known.state);
            if is_sold && self.ledger.ticket_orders.contains(&order) && state != SOLD {
                lines.push(format!("{order} is sold in Postgres, Redis does not know of it"));
            }
            if !is_sold && state != RESERVED && !locked.contains(&order) {
                lines.push(format!("{order} is reserved in Postgres, Redis does not know of it"));
            }
            if let Some(known) = known.filter(|known| is_sold && known.state == SOLD)
                && freed.remove(&order).unwrap_or_default() != known.freed
            {
                lines.push(format!("{order} has given back other places in Postgres than in Redis"));
            }
        }
        for (order, known) in &beside.orders {
            match (known.state, living.get(order)) {
                (RESERVED, Some(false)) | (SOLD, Some(true)) => {}
                (RESERVED, _) => lines.push(format!("{order} is reserved in Redis, but not in Postgres")),
                (SOLD, _) => lines.push(format!("{order} is sold in Redis, but not in Postgres")),
                _ => {}
            }
        }
        self.lines.extend(lines);
    }

    /// Prices of holds that are being paid are those of their orders.
    pub(super) fn prices(&mut self) {
        let mut lines = Vec::new();
        for hold in self.shelf.holds.values() {
            let Some(order) = hold.locked_by else { continue };
            let Some(ordered) = self.ledger.order_lines.get(&order) else { continue };
            let prices = |lines: &[Line]| -> HashMap<Place, (i64, i64, u32)> {
                let place = |line: &Line| match (line.seat, line.area) {
                    (Some(seat), _) => Some(Place::Seat(seat)),
                    (None, area) => area.map(Place::Area),
                };
                let mut prices = HashMap::new();
                for line in lines {
                    if let Some(place) = place(line) {
                        let known = prices.entry(place).or_insert((0, 0, 0));
                        let quantity = i64::from(line.quantity);
                        known.0 += quantity * line.price_minor;
                        known.1 += quantity * line.fee_minor;
                        known.2 += line.quantity;
                    }
                }
                prices
            };
            if prices(&hold.to_wire(self.event, self.shelf.now_ms).lines) != prices(ordered) {
                lines.push(format!("{} has other places or prices than {order}, which pays for it", hold.id));
            }
        }
        self.lines.extend(lines);
    }

    /// Older answers, which lie beside the records.
    pub(super) fn answers(&mut self) {
        let since_ms = self.shelf.now_ms.saturating_sub(SURELY_KEPT_MS);
        let given_ms = |answer: &[u8]| {
            let clock = answer.get(BEFORE_CLOCK..BEFORE_CLOCK + 6)?;
            Some(clock.iter().rev().fold(0_u64, |ms, byte| ms << 8 | u64::from(*byte)))
        };
        let is_fresh = |answer: &[u8]| given_ms(answer).is_none_or(|ms| ms >= since_ms);
        let fresh = |answer: &&JournalAnswer| is_fresh(&answer.answer);
        let mut lines = Vec::new();
        let mut written: HashMap<(IdentityId, &[u8]), &[u8]> = HashMap::new();
        for answer in self.ledger.answers.iter().filter(fresh) {
            written.insert((answer.identity, &answer.key), &answer.answer);
        }
        for ((identity, key), answer) in self.shelf.beside.answers.iter().filter(|(_, answer)| is_fresh(answer)) {
            match written.remove(&(*identity, &**key)) {
                Some(known) if known == &**answer => {}
                Some(_) => lines.push(format!("{identity} got another answer in the journal than in Redis")),
                None => lines.push(format!("{identity} got an answer that the journal does not have")),
            }
        }
        for (identity, _) in written.into_keys() {
            lines.push(format!("{identity} got an answer that is in the journal, but not in Redis"));
        }
        self.lines.extend(lines);
    }
}
