//! Commands that take seats and give them back, with the bounds of their lists.
//! All of them are all or nothing; what became of the hold is in `server/hold.rs`.

use super::MAX_SEATS_PER_COMMAND;
use super::bounds::{FieldError, check_amount, check_distinct, check_quantity};
use crate::id::{EventId, HoldId};
use crate::seat::{AreaIndex, SeatIndex, SectionIndex};
use serde::{Deserialize, Deserializer, Serialize};

/// Holds these seats, all or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldSeats {
    /// In which event.
    pub event: EventId,
    /// Which seats: 1 to 200, each once.
    pub seats: Vec<SeatIndex>,
}

/// How near to each other best seats must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Together {
    /// One block in one row, or nothing.
    #[default]
    Required,
    /// One block if there is one.
    Preferred,
    /// Anywhere.
    No,
}

/// Asks for N good seats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldBest {
    /// In which event.
    pub event: EventId,
    /// How many, 1 to 200.
    pub quantity: u32,
    /// How near to each other.
    #[serde(default)]
    pub together: Together,
    /// Only these tiers, by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_tiers: Option<Vec<String>>,
    /// Only these sections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<Vec<SectionIndex>>,
    /// Per seat, fees included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price_minor: Option<i64>,
    /// How many of them accessible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessible: Option<u32>,
}

/// Holds places in a general-admission area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldArea {
    /// In which event.
    pub event: EventId,
    /// Which area.
    pub area: AreaIndex,
    /// How many, 1 to 200.
    pub quantity: u32,
}

/// Adds 120 s to a hold, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// Which hold.
    pub hold: HoldId,
}

/// A number of places in an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaQuantity {
    /// Which area.
    pub area: AreaIndex,
    /// How many.
    pub quantity: u32,
}

/// Gives seats back; with neither list, all of the hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Which hold.
    pub hold: HoldId,
    /// Only these seats.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub seats: Option<Vec<SeatIndex>>,
    /// Only these places.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub areas: Option<Vec<AreaQuantity>>,
}

/// A list that is there: null is none, and must not read as a wish to give everything back.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(list: D) -> Result<Option<T>, D::Error> {
    T::deserialize(list).map(Some)
}

pub(super) fn check_seats(seats: &[SeatIndex]) -> Result<(), FieldError> {
    if seats.is_empty() || seats.len() > MAX_SEATS_PER_COMMAND {
        return Err(FieldError::new("/seats", "expected 1 to 200 seat indices"));
    }
    check_distinct("/seats", seats.iter().map(|seat| seat.0))
}

pub(super) fn check_hold_best(c: &HoldBest) -> Result<(), FieldError> {
    check_quantity("/quantity", c.quantity)?;
    if let Some(accessible) = c.accessible
        && accessible > c.quantity
    {
        return Err(FieldError::new("/accessible", "more than quantity"));
    }
    if let Some(max_price_minor) = c.max_price_minor {
        check_amount("/max_price_minor", max_price_minor)?;
    }
    if c.price_tiers.as_ref().is_some_and(|tiers| tiers.is_empty() || tiers.len() > MAX_SEATS_PER_COMMAND) {
        return Err(FieldError::new("/price_tiers", "expected at least one price tier"));
    }
    match &c.sections {
        Some(sections) if sections.is_empty() || sections.len() > 1000 => {
            Err(FieldError::new("/sections", "expected at least one section"))
        }
        Some(sections) => check_distinct("/sections", sections.iter().map(|section| section.0)),
        None => Ok(()),
    }
}

pub(super) fn check_release(c: &Release) -> Result<(), FieldError> {
    if let Some(seats) = &c.seats {
        if seats.is_empty() && c.areas.is_none() {
            return Err(FieldError::new("/seats", "expected at least one seat"));
        }
        if !seats.is_empty() {
            check_seats(seats)?;
        }
    }
    if let Some(areas) = &c.areas {
        if (areas.is_empty() && c.seats.is_none()) || areas.len() > MAX_SEATS_PER_COMMAND {
            return Err(FieldError::new("/areas", "expected at least one area"));
        }
        check_distinct("/areas", areas.iter().map(|area| area.area.0))?;
        for (position, area) in areas.iter().enumerate() {
            check_quantity(&format!("/areas/{position}/quantity"), area.quantity)?;
        }
        if areas.is_empty() && c.seats.as_ref().is_some_and(Vec::is_empty) {
            return Err(FieldError::new("/seats", "expected at least one seat or area"));
        }
    }
    Ok(())
}
