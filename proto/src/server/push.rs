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

/// The text of `hold.update` about a hold that is written already, as the reply in front of it says the same; `None` = it is
/// gone. What [`Push::HoldUpdate`] gives, without writing the hold again.
#[must_use]
pub fn hold_update_text(id: HoldId, hold_json: Option<&str>) -> String {
    let hold = hold_json.unwrap_or("null");
    [r#"{"push":"hold.update","id":""#, &id.to_string(), r#"","hold":"#, hold, "}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_that_is_written_already_makes_the_same_push() {
        let id = HoldId::generate();
        let hold = Hold {
            id,
            event: EventId::generate(),
            lines: Vec::new(),
            total_minor: 4_200,
            currency: "EUR".parse().expect("a currency"),
            expires_ms: 2,
            server_ms: 1,
            extended: false,
            locked: true,
            offer: false,
        };
        for hold in [None, Some(hold)] {
            let json = hold.as_ref().map(|hold| serde_json::to_string(hold).expect("plain data"));
            let push = Push::HoldUpdate { id, hold };
            assert_eq!(hold_update_text(id, json.as_deref()), serde_json::to_string(&push).expect("plain data"));
        }
    }
}
