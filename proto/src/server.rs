//! What a client hears: replies (answers with the same id) and pushes (the server speaks by itself), and the objects in them.
//! Over HTTP the same objects travel without the envelope.

use crate::client::Position;
use crate::code::ErrorCode;
use crate::id::{
    AllocationId, EventId, HoldId, IdentityId, NodeId, OrderId, PerformerId, SessionId, TicketId, VenueId,
};
use crate::money::Currency;
use crate::seat::{AreaIndex, SeatIndex, SectionIndex};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Seated places.
    pub sections: Vec<EventSection>,
    /// General admission.
    pub areas: Vec<EventArea>,
    /// Rules.
    pub rules: Rules,
    /// Base64, one byte a seat: index into `price_tiers`.
    pub seat_tiers: String,
}

/// Command budget of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Commands at once.
    pub burst: u32,
    /// Commands a second after that.
    pub per_s: u32,
}

/// Answer to `hello`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelloReply {
    /// This socket.
    pub session: SessionId,
    /// This process.
    pub node: NodeId,
    /// The server's clock.
    pub server_ms: u64,
    /// Who, or null.
    pub identity: Option<IdentityId>,
    /// Between WebSocket pings.
    pub heartbeat_ms: u64,
    /// Commands allowed.
    pub budget: Budget,
    /// Largest message.
    pub max_command_bytes: usize,
    /// Open holds of the identity.
    pub holds: Vec<Hold>,
    /// Open orders of the identity.
    pub orders: Vec<Order>,
}

/// Answer to `ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingReply {
    /// As it came.
    pub t0: Value,
    /// When it was read.
    pub t1: u64,
    /// When this was written.
    pub t2: u64,
}

/// Answer to `subscribe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeReply {
    /// Number in the map frames.
    pub channel: u32,
    /// Which event.
    pub event: EventId,
    /// Hash of its layout.
    pub layout: String,
    /// Seats in it.
    pub seat_count: u32,
    /// Areas in it.
    pub area_count: u32,
    /// Life of the inventory.
    pub epoch: u32,
    /// Counter within it.
    pub seq: u64,
    /// Deltas behind `from` follow, no snapshot.
    pub recovered: bool,
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

/// Answer to `checkout`, `pay`, `cancel`, `order`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderReply {
    /// The order now.
    pub order: Order,
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

/// Why a command was refused or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// Name.
    pub code: ErrorCode,
    /// Number.
    pub number: u16,
    /// What to do.
    pub retry: crate::code::Retry,
    /// For `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// For developers, English.
    pub message: String,
    /// What the code promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// The code with its number and retry advice, a text for developers and no data.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            number: code.number(),
            retry: code.retry(),
            retry_after_ms: None,
            message: message.into(),
            data: None,
        }
    }

    /// With data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// With a time to wait.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }
}

/// One answer, ready to be written. The body of an `ok` is kept as the JSON object it will be, so that a remembered
/// answer is given again byte for byte.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The command's id; `None` is written as null.
    pub id: Option<u32>,
    /// The body's JSON object, or why not.
    pub result: Result<String, ErrorObject>,
    /// For inventory commands.
    pub position: Option<Position>,
    /// Whether this is a remembered answer.
    pub is_replayed: bool,
}

impl Reply {
    /// A reply of `body`.
    ///
    /// # Errors
    /// Never for the bodies of this module.
    pub fn ok<T: Serialize>(id: u32, body: &T) -> serde_json::Result<Self> {
        Ok(Self { id: Some(id), result: Ok(serde_json::to_string(body)?), position: None, is_replayed: false })
    }

    /// A refusal or failure.
    #[must_use]
    pub fn error(id: Option<u32>, error: ErrorObject) -> Self {
        Self { id, result: Err(error), position: None, is_replayed: false }
    }

    /// The text message.
    #[must_use]
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::with_capacity(256);
        match self.id {
            Some(id) => write!(text, r#"{{"id":{id}"#),
            None => write!(text, r#"{{"id":null"#),
        }
        .expect("a String takes everything");
        match &self.result {
            Ok(body) => {
                text.push_str(r#","ok":true"#);
                let body = body.trim();
                let fields = body.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
                if !fields.is_empty() {
                    text.push(',');
                    text.push_str(fields);
                }
            }
            Err(error) => {
                text.push_str(r#","ok":false,"error":"#);
                text.push_str(&serde_json::to_string(error).expect("an error object is plain data"));
            }
        }
        if let Some(position) = self.position {
            write!(text, r#","epoch":{},"seq":{}"#, position.epoch, position.seq).expect("a String takes everything");
        }
        if self.is_replayed {
            text.push_str(r#","replayed":true"#);
        }
        text.push('}');
        text
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_its_body_in_an_envelope() {
        let body = UnlockReply {
            allocation: UnlockedAllocation { id: AllocationId::generate(), name: "fan {club}".into(), until_ms: 9 },
            seats: String::new(),
        };
        let mut reply = Reply::ok(4, &body).expect("plain data");
        reply.position = Some(Position { epoch: 2, seq: 17 });
        reply.is_replayed = true;
        let value: Value = serde_json::from_str(&reply.to_text()).expect("JSON");
        assert_eq!(value["id"], 4);
        assert_eq!(value["ok"], true);
        assert_eq!(value["allocation"]["name"], "fan {club}");
        assert_eq!((&value["epoch"], &value["seq"], &value["replayed"]), (&2.into(), &17.into(), &true.into()));
    }

    #[test]
    fn an_empty_body_and_a_nested_end_stay_json() {
        let empty = Reply::ok(1, &serde_json::json!({})).expect("plain data").to_text();
        assert_eq!(empty, r#"{"id":1,"ok":true}"#);
        let nested = Reply::ok(1, &serde_json::json!({"a": {"b": {}}})).expect("plain data").to_text();
        assert_eq!(nested, r#"{"id":1,"ok":true,"a":{"b":{}}}"#);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let error = ErrorObject::new(ErrorCode::RateLimited, "slow down").with_retry_after_ms(200);
        let value: Value = serde_json::from_str(&Reply::error(None, error).to_text()).expect("JSON");
        assert_eq!(value["id"], Value::Null);
        assert_eq!(
            value["error"],
            serde_json::json!({"code":"rate_limited","number":1201,"retry":"after","retry_after_ms":200,"message":"slow down"})
        );
    }
}
