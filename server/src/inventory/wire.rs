//! A hold as buyers see it: the record of Redis, the event's tier codes and currency, and the time of the answer.
//! `command`, `socket` and `checkout` come in here; nothing here asks a store.

use super::{HoldLine, HoldRecord, Place};
use crate::catalogue::EventFacts;
use seatwire_proto::money::{MAX_MINOR, total_minor};
use seatwire_proto::server::{Hold, Line};

impl HoldLine {
    /// The line with its tier's code.
    #[must_use]
    pub fn to_wire(&self, event: &EventFacts) -> Line {
        let (seat, area) = match self.place {
            Place::Seat(seat) => (Some(seat), None),
            Place::Area(area) => (None, Some(area)),
        };
        let price_tier =
            event.price_tiers.get(usize::from(self.price_tier)).map(|tier| tier.code.clone()).unwrap_or_default();
        Line {
            seat,
            area,
            quantity: self.quantity,
            price_tier,
            price_minor: self.price_minor,
            fee_minor: self.fee_minor,
        }
    }
}

/// About what a hold's JSON takes without its lines, and a line's, so that it is written without growing.
const HOLD_JSON_BYTES: usize = 288;
const LINE_JSON_BYTES: usize = 96;

impl HoldRecord {
    /// Sum of quantity x (price + fee); held prices come from a checked catalogue, so the bound is never met.
    #[must_use]
    pub fn total_minor(&self) -> i64 {
        total_minor(self.lines.iter().map(|line| (line.quantity, line.price_minor, line.fee_minor)))
            .unwrap_or(MAX_MINOR)
    }

    /// The same, written.
    ///
    /// # Errors
    /// Never: it is plain data.
    pub fn to_json(&self, event: &EventFacts, server_ms: u64) -> serde_json::Result<String> {
        let mut json = Vec::with_capacity(HOLD_JSON_BYTES + self.lines.len() * LINE_JSON_BYTES);
        serde_json::to_writer(&mut json, &self.to_wire(event, server_ms))?;
        String::from_utf8(json).map_err(serde::ser::Error::custom)
    }

    /// The hold as buyers see it, written at `server_ms`.
    #[must_use]
    pub fn to_wire(&self, event: &EventFacts, server_ms: u64) -> Hold {
        Hold {
            id: self.id,
            event: event.id,
            lines: self.lines.iter().map(|line| line.to_wire(event)).collect(),
            total_minor: self.total_minor(),
            currency: event.currency,
            expires_ms: self.expires_ms,
            server_ms,
            extended: self.is_extended,
            locked: self.locked_by.is_some(),
            offer: self.is_offer,
        }
    }
}
