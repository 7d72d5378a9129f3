//! What is on sale: one immutable `EventFacts` an event, read from Postgres and shared by every room that needs
//! prices, rules or the shape of the place. Nothing here says which seat is free: that is `inventory` and `seatmap`.
//! Facts are replaced whole when the organiser changes something; a command works on the facts it began with.

use roaring::RoaringBitmap;
use seatwire_proto::id::EventId;
use seatwire_proto::money::Currency;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};
use seatwire_proto::server::{EventState, PriceTier, Rules, SalesMode};

/// Everything a command must know of an event before it touches a store.
#[derive(Debug, Clone)]
pub struct EventFacts {
    /// Its id.
    pub id: EventId,
    /// Its short number, which hold ids carry (see `inventory::key`).
    pub number: u32,
    /// Grows with every change the organiser makes.
    pub revision: u64,
    /// State set by the organiser or by time.
    pub state: EventState,
    /// When selling begins.
    pub on_sale_ms: u64,
    /// Of every amount.
    pub currency: Currency,
    /// Hash of the layout.
    pub layout: String,
    /// Priced classes, at most 256.
    pub price_tiers: Vec<PriceTier>,
    /// One byte a seat: index into `price_tiers`. Its length is the seat count.
    pub seat_tiers: Vec<u8>,
    /// Sections in layout order.
    pub sections: Vec<SectionFacts>,
    /// Areas in layout order.
    pub areas: Vec<AreaFacts>,
    /// Seats that are not for sale through the open channel.
    pub blocked: RoaringBitmap,
    /// Limits and times.
    pub rules: Rules,
    /// Whether buyers must be admitted first.
    pub has_waiting_room: bool,
    /// Whether released seats go to a list once sold out.
    pub has_waitlist: bool,
}

/// A section's seats are consecutive indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionFacts {
    /// For people.
    pub name: String,
    /// Its first seat.
    pub first: SeatIndex,
    /// One past its last seat.
    pub end: SeatIndex,
    /// How it sells.
    pub sales_mode: SalesMode,
}

/// A general-admission area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaFacts {
    /// For people.
    pub name: String,
    /// Index into `price_tiers`.
    pub price_tier: u8,
    /// Places in all.
    pub capacity: u32,
}

impl EventFacts {
    /// Seats in the layout.
    #[must_use]
    pub fn seat_count(&self) -> u32 {
        self.seat_tiers.len() as u32
    }

    /// Areas in the layout.
    #[must_use]
    pub fn area_count(&self) -> u32 {
        self.areas.len() as u32
    }

    /// The price tier of a seat; `None` for a seat the event does not have.
    #[must_use]
    pub fn seat_tier(&self, seat: SeatIndex) -> Option<(u8, &PriceTier)> {
        let tier = *self.seat_tiers.get(seat.position())?;
        Some((tier, self.price_tiers.get(usize::from(tier))?))
    }

    /// The price tier of an area.
    #[must_use]
    pub fn area_tier(&self, area: AreaIndex) -> Option<(u8, &PriceTier)> {
        let tier = self.areas.get(area.position())?.price_tier;
        Some((tier, self.price_tiers.get(usize::from(tier))?))
    }

    /// The section a seat stands in: sections are in the order of their seats.
    #[must_use]
    pub fn section_of(&self, seat: SeatIndex) -> Option<(SectionIndex, &SectionFacts)> {
        let after = self.sections.partition_point(|section| section.first <= seat);
        let index = after.checked_sub(1)?;
        let section = &self.sections[index];
        (seat < section.end).then_some((SectionIndex(index as u32), section))
    }
}
