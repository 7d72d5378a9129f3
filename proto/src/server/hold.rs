//! A hold and its lines, and the answers to the commands that change it.
//! The commands are in `client/hold.rs`; the lines of an order are the same lines.

use crate::id::{AllocationId, EventId, HoldId};
use crate::money::Currency;
use crate::seat::{AreaIndex, SeatIndex};
use serde::{Deserialize, Serialize};

/// Seats added or places taken: one line of a hold or an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The seat, or...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<SeatIndex>,
    /// ...the area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<AreaIndex>,
    /// 1 for a seat.
    pub quantity: u32,
    /// Code of the tier.
    pub price_tier: String,
    /// Per unit.
    pub price_minor: i64,
    /// Per unit.
    pub fee_minor: i64,
}

/// One identity's open basket in one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its id.
    pub id: HoldId,
    /// Its event.
    pub event: EventId,
    /// One line a seat, one an area.
    pub lines: Vec<Line>,
    /// Sum of quantity x (price + fee).
    pub total_minor: i64,
    /// Of every amount here.
    pub currency: Currency,
    /// When it ends unless it is being paid for.
    pub expires_ms: u64,
    /// The server's clock when this was written.
    pub server_ms: u64,
    /// Whether its one extension is used.
    pub extended: bool,
    /// Whether a checkout has begun.
    pub locked: bool,
    /// Whether it is a waitlist offer.
    pub offer: bool,
}

/// Answer to `hold`, `hold_area`, `extend`, `release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldReply {
    /// The hold now; null when all of it was released.
    pub hold: Option<Hold>,
}

/// Answer to `hold_best`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldBestReply {
    /// The hold now.
    pub hold: Hold,
    /// Seats this command added.
    pub added: Vec<SeatIndex>,
    /// Whether they are one block.
    pub together: bool,
}

/// What a presale code opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlockedAllocation {
    /// Its id.
    pub id: AllocationId,
    /// For people.
    pub name: String,
    /// Until when.
    pub until_ms: u64,
}

/// Answer to `unlock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlockReply {
    /// Which allocation.
    pub allocation: UnlockedAllocation,
    /// Base64 of a roaring set: blocked on the map, available to this identity.
    pub seats: String,
}
