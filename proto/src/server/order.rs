//! An order, its payment as buyers see it, and its tickets.
//! The commands are in `client/order.rs`; every answer to them is a whole order.

use super::hold::Line;
use crate::id::{EventId, OrderId, TicketId};
use crate::money::Currency;
use crate::seat::{AreaIndex, SeatIndex};
use serde::{Deserialize, Serialize};

/// What is paid, or is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// 8 characters for people.
    pub reference: String,
    /// Its event.
    pub event: EventId,
    /// Its state.
    pub state: OrderState,
    /// One line a seat, one an area.
    pub lines: Vec<Line>,
    /// Sum of the lines.
    pub total_minor: i64,
    /// Given back so far.
    pub refunded_minor: i64,
    /// Of every amount here.
    pub currency: Currency,
    /// Once paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tickets: Option<Vec<Ticket>>,
    /// In `action_required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// In `payment_declined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<Decline>,
    /// A page of ours that shows and pays this order on any device; its secret stands in the fragment.
    pub pay_url: String,
    /// When it was made.
    pub created_ms: u64,
}

/// State of an order as buyers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// Being paid.
    PaymentPending,
    /// The buyer must do something at the provider's.
    ActionRequired,
    /// Definitely declined; pay again.
    PaymentDeclined,
    /// Money may or may not have moved; it resolves by itself.
    PaymentUnknown,
    /// Paid, tickets issued.
    Paid,
    /// Given up; nothing was charged.
    Cancelled,
    /// Money goes back.
    RefundDue,
    /// Part of the money went back.
    PartiallyRefunded,
    /// All of it went back.
    Refunded,
}

/// What the buyer must do to finish a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Action {
    /// Go there and come back.
    Redirect {
        /// Where.
        url: String,
    },
    /// Confirm with the provider's own script.
    ClientSecret {
        /// The secret.
        value: String,
    },
}

/// Why the provider declined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decline {
    /// The provider's decline code.
    pub reason: String,
}

/// The right to enter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// The unguessable code shown at the door.
    pub code: String,
    /// The seat, or...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<SeatIndex>,
    /// ...the area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<AreaIndex>,
    /// Whether it admits.
    pub state: TicketState,
    /// What its QR code says: the same, signed, so that a door can verify it without a network. Only while it admits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qr: Option<String>,
}

/// State of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketState {
    /// Admits.
    Valid,
    /// Has admitted.
    Used,
    /// Another code took its place.
    Transferred,
    /// Refunded or withdrawn.
    Void,
}

/// Answer to `checkout`, `pay`, `cancel`, `order`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderReply {
    /// The order now.
    pub order: Order,
}
