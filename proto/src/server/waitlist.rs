//! A place in the waitlist, and the answer to joining or leaving it.
//! The commands are in `client/waitlist.rs`; an offer is a hold and comes as a push.

use crate::id::HoldId;
use serde::{Deserialize, Serialize};

/// A place in the waitlist of a sold-out event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitlistPlace {
    /// 1 is next.
    pub place: u32,
    /// What it waits for, or has.
    pub state: WaitlistState,
    /// Seats or places wanted.
    pub quantity: u32,
    /// Codes of the price tiers wanted; empty = any.
    pub price_tiers: Vec<String>,
    /// The hold that is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
}

/// What a place in the waitlist is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitlistState {
    /// Waiting for seats.
    Waiting,
    /// Seats are held for it, for a while.
    Offered,
}

/// Answer to `waitlist_join` and `waitlist_leave`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitlistReply {
    /// The place, `None` once it is left.
    pub place: Option<WaitlistPlace>,
}
