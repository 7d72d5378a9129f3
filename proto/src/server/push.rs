//! What the server says by itself: about the identity's own holds and orders, and about an event it watches.
//! The objects in it are whole, never a difference, so that a lost push costs nothing once the next one comes.

use super::event::{EventState, PriceTier};
use super::hold::Hold;
use super::order::Order;
use crate::id::{EventId, HoldId};
use serde::{Deserialize, Serialize};

/// What the server says by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "push")]
pub enum Push {
    /// The identity's hold changed.
    #[serde(rename = "hold.update")]
    HoldUpdate {
        /// Which hold.
        id: HoldId,
        /// What it is now; null when it is gone.
        hold: Option<Hold>,
    },
    /// 60 s and 15 s before the end.
    #[serde(rename = "hold.expiring")]
    HoldExpiring {
        /// The hold.
        hold: Hold,
    },
    /// Time is over.
    #[serde(rename = "hold.expired")]
    HoldExpired {
        /// What it was.
        hold: Hold,
    },
    /// Taken back by the organiser or a lost store.
    #[serde(rename = "hold.revoked")]
    HoldRevoked {
        /// What it was.
        hold: Hold,
        /// Why.
        reason: String,
    },
    /// An order of the identity changed.
    #[serde(rename = "order.update")]
    OrderUpdate {
        /// What it is now.
        order: Order,
    },
    /// Seats of the waitlist.
    #[serde(rename = "waitlist.offer")]
    WaitlistOffer {
        /// The seats, held.
        hold: Hold,
    },
    /// Place in the waiting room.
    #[serde(rename = "room.place")]
    RoomPlace {
        /// Which event.
        event: EventId,
        /// The place.
        place: u64,
    },
    /// Few commands left.
    #[serde(rename = "budget.low")]
    BudgetLow {
        /// Left now.
        remaining: u32,
        /// Refill.
        per_s: u32,
    },
    /// The event's state changed.
    #[serde(rename = "event.state")]
    EventState {
        /// Which event.
        event: EventId,
        /// Its state now.
        state: EventState,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Prices changed; open holds keep theirs.
    #[serde(rename = "price.change")]
    PriceChange {
        /// Which event.
        event: EventId,
        /// All tiers now.
        price_tiers: Vec<PriceTier>,
    },
    /// Seats were appended.
    #[serde(rename = "layout.change")]
    LayoutChange {
        /// Which event.
        event: EventId,
        /// Hash of the new layout.
        layout: String,
        /// Seats in it.
        seat_count: u32,
    },
    /// The node is about to stop.
    #[serde(rename = "server.drain")]
    ServerDrain {
        /// Until then.
        after_ms: u64,
        /// Come back at a random time within.
        jitter_ms: u64,
    },
}
