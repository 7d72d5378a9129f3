//! Commands of the waitlist of a sold-out event. Joining and leaving carry the same fields, so that leaving with the
//! body of the join is always right; what the place is then stands in `server/waitlist.rs`.

use crate::id::EventId;
use serde::{Deserialize, Serialize};

/// Joins or leaves the waitlist of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waitlist {
    /// Which event.
    pub event: EventId,
    /// How many seats.
    #[serde(default = "one")]
    pub quantity: u32,
    /// Only these tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_tiers: Option<Vec<String>>,
}

fn one() -> u32 {
    1
}
