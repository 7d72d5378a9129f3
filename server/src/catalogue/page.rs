//! An event as readers see it, built once a revision. Counts of seats are filled in when it is shown.

use super::facts::effective_state;
use super::{AllocationFacts, AreaFacts, EventFacts, SectionFacts};
use crate::store::StoreError;
use crate::store::allocation::AllocationRow;
use crate::store::event::{EventRow, SummaryRow};
use base64::Engine as _;
use roaring::RoaringBitmap;
use seatwire_proto::money::Currency;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};
use seatwire_proto::server::{Event, EventArea, EventSection, EventSummary};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// What readers see of an event that commands need not know.
fn page(row: &EventRow) -> u64 {
    let SummaryRow { name, performers, venue, starts_ms, .. } = &row.summary;
    let mut hash = DefaultHasher::new();
    // Their texts for people tell any two of them apart.
    format!("{:?}", (name, &row.description, performers, venue, starts_ms)).hash(&mut hash);
    hash.finish()
}

fn allocation(row: AllocationRow, seat_count: usize) -> Option<AllocationFacts> {
    let seats = RoaringBitmap::deserialize_from(row.seats.as_slice()).ok()?;
    let is_inside = seats.max().is_none_or(|seat| (seat as usize) < seat_count);
    Some(AllocationFacts {
        id: row.id,
        name: row.name,
        slot: row.slot,
        code_hash: row.code_hash.try_into().ok()?,
        seats: is_inside.then_some(seats)?,
        from_ms: row.from_ms,
        until_ms: row.until_ms,
        is_closed: row.is_closed,
    })
}

/// Facts for commands and the body for readers, of one revision.
#[derive(Debug)]
pub struct EventPage {
    /// What commands need.
    pub facts: Arc<EventFacts>,
    /// What readers get: `available` and `remaining` say what there is at all, before any seat is taken.
    pub body: Arc<Event>,
}

impl EventPage {
    /// Builds both from what is stored.
    ///
    /// # Errors
    /// `Malformed` when the row contradicts itself.
    pub fn from_row(row: EventRow, now_ms: u64) -> Result<Self, StoreError> {
        let (id, page) = (row.summary.id, page(&row));
        let malformed = |what: &str| StoreError::Malformed(format!("event {id}: {what}"));
        let blocked = match row.blocked.as_slice() {
            [] => RoaringBitmap::new(),
            bytes => RoaringBitmap::deserialize_from(bytes).map_err(|_| malformed("blocked is not a set"))?,
        };
        let tiers = &row.summary.price_tiers;
        if row.seat_tiers.iter().any(|&tier| usize::from(tier) >= tiers.len())
            || row.areas.iter().any(|area| usize::from(area.price_tier) >= tiers.len())
        {
            return Err(malformed("a seat or an area has no price tier"));
        }
        if blocked.max().is_some_and(|seat| seat as usize >= row.seat_tiers.len()) {
            return Err(malformed("a blocked seat is not in the layout"));
        }
        let mut next = 0;
        for section in &row.sections {
            if section.first_seat != next || section.end_seat < section.first_seat {
                return Err(malformed("sections are not in the order of their seats"));
            }
            next = section.end_seat;
        }
        if next as usize != row.seat_tiers.len() {
            return Err(malformed("sections do not cover every seat"));
        }
        let seat_count = row.seat_tiers.len();
        let allocations = row.allocations.into_iter().map(|row| allocation(row, seat_count));
        let allocations =
            allocations.collect::<Option<_>>().ok_or_else(|| malformed("an allocation makes no sense"))?;
        let facts = Arc::new(EventFacts {
            id,
            number: row.number,
            revision: row.revision,
            state: effective_state(row.summary.state, row.summary.presale_ms, row.summary.on_sale_ms, now_ms),
            state_reason: row.state_reason,
            presale_ms: row.summary.presale_ms,
            on_sale_ms: row.summary.on_sale_ms,
            currency: currency(&row.summary)?,
            layout: row.summary.layout.clone(),
            price_tiers: tiers.clone(),
            seat_tiers: row.seat_tiers,
            sections: row
                .sections
                .into_iter()
                .map(|section| SectionFacts {
                    name: section.name,
                    first: SeatIndex(section.first_seat),
                    end: SeatIndex(section.end_seat),
                    sales_mode: section.sales_mode,
                })
                .collect(),
            areas: row
                .areas
                .into_iter()
                .map(|area| AreaFacts { name: area.name, price_tier: area.price_tier, capacity: area.capacity })
                .collect(),
            blocked,
            allocations,
            seats_per_instrument: row.seats_per_instrument,
            rules: row.rules,
            has_waiting_room: row.summary.has_waiting_room,
            has_waitlist: row.summary.has_waitlist,
            page,
        });
        let body = Event {
            sections: sections(&facts),
            areas: areas(&facts),
            rules: facts.rules.clone(),
            seat_tiers: base64::engine::general_purpose::STANDARD.encode(&facts.seat_tiers),
            description: row.description,
            reason: facts.state_reason.clone(),
            summary: summary(row.summary, facts.saleable(), now_ms)?,
        };
        Ok(Self { facts, body: Arc::new(body) })
    }

    /// The same page at a later moment: another one only where time changed the state.
    #[must_use]
    pub fn at(self: &Arc<Self>, now_ms: u64) -> Arc<Self> {
        let state = self.facts.state_at(now_ms);
        if state == self.facts.state {
            return self.clone();
        }
        let facts = EventFacts { state, ..EventFacts::clone(&self.facts) };
        let mut body = Event::clone(&self.body);
        body.summary.state = state;
        Arc::new(Self { facts: Arc::new(facts), body: Arc::new(body) })
    }
}

/// What a list shows of an event.
pub(super) fn summary(row: SummaryRow, available: u32, now_ms: u64) -> Result<EventSummary, StoreError> {
    Ok(EventSummary {
        currency: currency(&row)?,
        state: effective_state(row.state, row.presale_ms, row.on_sale_ms, now_ms),
        id: row.id,
        name: row.name,
        performers: row.performers,
        venue: row.venue,
        starts_ms: row.starts_ms,
        on_sale_ms: row.on_sale_ms,
        layout: row.layout,
        seat_count: row.seat_count,
        price_tiers: row.price_tiers,
        available,
        waiting_room: row.has_waiting_room,
        waitlist: row.has_waitlist,
    })
}

fn currency(row: &SummaryRow) -> Result<Currency, StoreError> {
    row.currency.parse().map_err(|error| StoreError::Malformed(format!("event {}: currency: {error}", row.id)))
}

fn sections(facts: &EventFacts) -> Vec<EventSection> {
    facts
        .sections
        .iter()
        .enumerate()
        .map(|(index, section)| {
            let mut has_tier = [false; 256];
            for &tier in &facts.seat_tiers[section.first.position()..section.end.position()] {
                has_tier[usize::from(tier)] = true;
            }
            let blocked = facts.blocked.range_cardinality(section.first.0..section.end.0) as u32;
            EventSection {
                index: SectionIndex(index as u32),
                name: section.name.clone(),
                sales_mode: section.sales_mode,
                price_tiers: facts
                    .price_tiers
                    .iter()
                    .zip(has_tier)
                    .filter(|(_, is_found)| *is_found)
                    .map(|(tier, _)| tier.code.clone())
                    .collect(),
                available: section.end.0 - section.first.0 - blocked,
            }
        })
        .collect()
}

fn areas(facts: &EventFacts) -> Vec<EventArea> {
    facts
        .areas
        .iter()
        .enumerate()
        .map(|(index, area)| EventArea {
            index: AreaIndex(index as u32),
            name: area.name.clone(),
            price_tier: facts.price_tiers[usize::from(area.price_tier)].code.clone(),
            capacity: area.capacity,
            remaining: area.capacity,
        })
        .collect()
}
