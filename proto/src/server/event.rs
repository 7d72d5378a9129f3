//! An event as buyers see it: what, where, when, at which prices and by which rules.
//! Read over HTTP (lists take the summary); changes come as pushes.

use crate::id::{EventId, PerformerId, VenueId};
use crate::money::Currency;
use crate::seat::{AreaIndex, SectionIndex};
use serde::{Deserialize, Serialize};

/// One performance on sale, as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventSummary {
    /// Its id.
    pub id: EventId,
    /// For people.
    pub name: String,
    /// Who plays.
    pub performers: Vec<Performer>,
    /// Where.
    pub venue: Venue,
    /// When it begins.
    pub starts_ms: u64,
    /// When selling begins.
    pub on_sale_ms: u64,
    /// Its state.
    pub state: EventState,
    /// Of every amount.
    pub currency: Currency,
    /// Hash of the layout.
    pub layout: String,
    /// Seats in the layout.
    pub seat_count: u32,
    /// Priced classes.
    pub price_tiers: Vec<PriceTier>,
    /// Seats and places available just now.
    pub available: u32,
    /// Whether buyers wait first.
    pub waiting_room: bool,
    /// Whether released seats go to a list.
    pub waitlist: bool,
}

/// One performance on sale, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What lists show.
    #[serde(flatten)]
    pub summary: EventSummary,
    /// For people.
    pub description: String,
    /// Why the event is in its state, where the organiser said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seated places.
    pub sections: Vec<EventSection>,
    /// General admission.
    pub areas: Vec<EventArea>,
    /// Rules.
    pub rules: Rules,
    /// Base64, one byte a seat: index into `price_tiers`.
    pub seat_tiers: String,
}

/// State of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// Not yet on sale.
    Scheduled,
    /// For holders of a presale code.
    Presale,
    /// For everyone.
    OnSale,
    /// Stopped for now.
    Paused,
    /// Nothing left, for now.
    SoldOut,
    /// Over.
    Closed,
    /// Will not take place.
    Cancelled,
}

/// A priced class of seats in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTier {
    /// Short code, e.g. `A`.
    pub code: String,
    /// For people.
    pub name: String,
    /// `#rrggbb`.
    pub color: String,
    /// Per seat.
    pub price_minor: i64,
    /// Per seat.
    pub fee_minor: i64,
}

/// How a section sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SalesMode {
    /// Buyers choose their seats.
    #[default]
    PickSeat,
    /// Buyers get the best there is.
    BestAvailable,
}

/// A section of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSection {
    /// As in the layout.
    pub index: SectionIndex,
    /// For people.
    pub name: String,
    /// How it sells.
    pub sales_mode: SalesMode,
    /// Codes of the tiers found in it.
    pub price_tiers: Vec<String>,
    /// Seats available just now.
    pub available: u32,
}

/// A general-admission area of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventArea {
    /// As in the layout.
    pub index: AreaIndex,
    /// For people.
    pub name: String,
    /// Code of its tier.
    pub price_tier: String,
    /// Places in all.
    pub capacity: u32,
    /// Places left just now.
    pub remaining: u32,
}

/// What may be left between seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanRule {
    /// Anything.
    #[default]
    Off,
    /// No single seat that could have been avoided.
    Lenient,
    /// No single seat.
    Strict,
}

/// The rules of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Seats and area places, held plus bought.
    pub seats_per_identity: u32,
    /// Life of a hold.
    pub hold_ttl_ms: u64,
    /// What may be left between seats.
    pub orphans: OrphanRule,
}

/// Who plays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Performer {
    /// Its id.
    pub id: PerformerId,
    /// Its name.
    pub name: String,
}

/// A place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Venue {
    /// Its id.
    pub id: VenueId,
    /// Its name.
    pub name: String,
    /// Its city.
    pub city: String,
    /// ISO 3166-1 alpha-2.
    pub country: String,
    /// Degrees north.
    pub lat: f64,
    /// Degrees east.
    pub lon: f64,
    /// IANA name.
    pub time_zone: String,
}
