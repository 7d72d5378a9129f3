//! What a client may ask: one struct a command, and the one door that turns bytes into a command or a refusal.
//! Shape and bounds are checked here (JSON, op, types, duplicates); what needs an event or a store is checked behind.
//! Over HTTP the same structs are built from path, header and body, so that a key means the same on both roads.

use crate::code::ErrorCode;
use crate::id::{EventId, HoldId, OrderId};
use crate::seat::{AreaIndex, SeatIndex, SectionIndex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Largest text message a client may send, in bytes; above it the socket closes with 1009.
pub const MAX_COMMAND_BYTES: usize = 4096;
/// Most seats in one command. A script's work is bounded by it; more is a `bad_field`.
pub const MAX_SEATS_PER_COMMAND: usize = 200;
/// Longest idempotency key.
pub const MAX_KEY_LEN: usize = 64;
/// Longest name, address, code or method in a command, in bytes.
pub const MAX_TEXT_LEN: usize = 254;

/// A client's name for one intention: 1 to 64 printable ASCII characters, scoped to the identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key, if it keeps to the alphabet and the length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=MAX_KEY_LEN).contains(&text.len()) && text.bytes().all(|b| (0x20..0x7f).contains(&b));
        fits.then(|| Self(text.to_owned()))
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected 1 to 64 printable ASCII characters"))
    }
}

/// What a client may say of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClientName {
    /// The program.
    #[serde(default)]
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
}

/// First command of a socket; later ones refresh the token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hello {
    /// Who; absent = anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Which program.
    #[serde(default)]
    pub client: ClientName,
    /// Encodings beyond roaring; `"packed2"` is the only one known, others are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// Language of notices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

/// Measures the round trip and the server's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ping {
    /// The client's clock; comes back untouched.
    #[serde(default)]
    pub t0: Value,
}

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum From {
    /// With a whole map.
    #[default]
    Snapshot,
    /// With whatever comes next.
    Live,
    /// Behind this position.
    Position {
        /// Life of the inventory.
        epoch: u32,
        /// Counter within it.
        seq: u64,
    },
}

impl Serialize for From {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            From::Snapshot => serializer.serialize_str("snapshot"),
            From::Live => serializer.serialize_str("live"),
            From::Position { epoch, seq } => Position { epoch: *epoch, seq: *seq }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for From {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Word(String),
            Position(Position),
        }
        match Wire::deserialize(deserializer) {
            Ok(Wire::Word(word)) if word == "snapshot" => Ok(From::Snapshot),
            Ok(Wire::Word(word)) if word == "live" => Ok(From::Live),
            Ok(Wire::Position(Position { epoch, seq })) => Ok(From::Position { epoch, seq }),
            _ => Err(serde::de::Error::custom("expected \"snapshot\", \"live\" or {epoch,seq}")),
        }
    }
}

/// A place in the life of an event's map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Life of the inventory, from 1.
    pub epoch: u32,
    /// Counter within it.
    pub seq: u64,
}

/// Asks for an event's map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// Which event.
    pub event: EventId,
    /// Where to begin.
    #[serde(default)]
    pub from: From,
    /// Replaces hello's list for this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts: Option<Vec<String>>,
}

/// Ends a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsubscribe {
    /// The number the subscription was answered with.
    pub channel: u32,
}

/// The client lost its place; frames without a hole follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resync {
    /// The subscription.
    pub channel: u32,
    /// Last epoch applied.
    pub epoch: u32,
    /// Last change applied; 0 asks for a snapshot.
    pub seq: u64,
}

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seats: Option<Vec<SeatIndex>>,
    /// Only these places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub areas: Option<Vec<AreaQuantity>>,
}

/// Opens an allocation with a presale code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlock {
    /// In which event.
    pub event: EventId,
    /// The code.
    pub code: String,
}

/// Shows an admission token of the waiting room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admit {
    /// To which event.
    pub event: EventId,
    /// The token.
    pub admission: String,
}

/// Who buys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buyer {
    /// Name on the order.
    pub name: String,
    /// Where tickets and notices go.
    pub email: String,
    /// The language they are written in: `de` or `en`, which any other word means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

/// How the buyer pays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// A payment method of the provider, e.g. `pm_card_visa`.
    pub method: String,
}

/// Turns a hold into an order and pays it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// Which hold.
    pub hold: HoldId,
    /// Who buys.
    pub buyer: Buyer,
    /// How.
    pub payment: Payment,
    /// What the buyer was shown; another total is refused.
    pub expect_total_minor: i64,
}

/// Pays again after a decline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pay {
    /// Which order.
    pub order: OrderId,
    /// How.
    pub payment: Payment,
}

/// Gives an order up before it is paid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Which order.
    pub order: OrderId,
}

/// Reads an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRead {
    /// Which order.
    pub order: OrderId,
}

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

/// Watches the waiting room of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomWatch {
    /// Which event.
    pub event: EventId,
}

macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $op:literal, $keyed:literal;)*) => {
        /// One command. `op` is its name on the wire.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant is documented at its struct")]
        pub enum Command {
            $($(#[$doc])* $variant($body),)*
        }

        impl Command {
            /// Every op, in the order of the table in proto/README.
            pub const OPS: &'static [&'static str] = &[$($op,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn op(&self) -> &'static str {
                match self { $(Command::$variant(_) => $op,)* }
            }

            /// Whether the command changes something and so needs a key.
            #[must_use]
            pub const fn is_mutating(&self) -> bool {
                match self { $(Command::$variant(_) => $keyed,)* }
            }

            /// SHA-256 over op and parsed fields, without id and key: two bodies are the same when this is.
            #[must_use]
            pub fn fingerprint(&self) -> [u8; 32] {
                let mut hash = Sha256::new();
                hash.update(self.op());
                hash.update([0]);
                match self {
                    $(Command::$variant(body) => hash.update(serde_json::to_vec(body).unwrap_or_default()),)*
                }
                hash.finalize().into()
            }

            /// The fields as a JSON object, without `id`, `op` and `key`.
            fn body_json(&self) -> serde_json::Result<Value> {
                match self { $(Command::$variant(body) => serde_json::to_value(body),)* }
            }

            fn parse(op: &str, fields: Value) -> Option<Result<Command, FieldError>> {
                match op {
                    $($op => Some(parse_body::<$body>(fields).map(Command::$variant)),)*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    Hello(Hello) = "hello", false;
    Ping(Ping) = "ping", false;
    Subscribe(Subscribe) = "subscribe", false;
    Unsubscribe(Unsubscribe) = "unsubscribe", false;
    Resync(Resync) = "resync", false;
    Hold(HoldSeats) = "hold", true;
    HoldBest(HoldBest) = "hold_best", true;
    HoldArea(HoldArea) = "hold_area", true;
    Extend(Extend) = "extend", true;
    Release(Release) = "release", true;
    Unlock(Unlock) = "unlock", true;
    Admit(Admit) = "admit", true;
    Checkout(Checkout) = "checkout", true;
    Pay(Pay) = "pay", true;
    Cancel(Cancel) = "cancel", true;
    Order(OrderRead) = "order", false;
    WaitlistJoin(Waitlist) = "waitlist_join", true;
    WaitlistLeave(Waitlist) = "waitlist_leave", true;
    RoomWatch(RoomWatch) = "room_watch", false;
    RoomUnwatch(RoomWatch) = "room_unwatch", false;
}

/// A command as it came: with its id and, if it changes something, its key.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientMessage {
    /// Unique among the unanswered.
    pub id: u32,
    /// Present exactly when the command is mutating.
    pub key: Option<IdempotencyKey>,
    /// What is asked.
    pub command: Command,
}

/// A field that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// JSON Pointer (RFC 6901).
    pub path: String,
    /// What was expected.
    pub message: String,
}

impl FieldError {
    /// A refusal of the field at `path`.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Bytes that are not a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The id, if one could be read.
    pub id: Option<u32>,
    /// `bad_json`, `unknown_op` or `bad_field`.
    pub code: ErrorCode,
    /// Where and why, for `bad_field`.
    pub field: Option<FieldError>,
}

/// Reads one text message. Bounds ([`Command::validate`]) are left to whoever knows the event, since an unknown event is
/// refused before them.
///
/// # Errors
/// `bad_json` for anything but a JSON object, `unknown_op`, `bad_field` with a JSON Pointer; with the id where one could be read.
pub fn decode(text: &[u8]) -> Result<ClientMessage, Refused> {
    let mut fields: Map<String, Value> =
        serde_json::from_slice(text).map_err(|_| Refused { id: None, code: ErrorCode::BadJson, field: None })?;
    let id = fields.remove("id").as_ref().and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let bad_field = |path: &str, message: &str| Refused {
        id,
        code: ErrorCode::BadField,
        field: Some(FieldError::new(path, message)),
    };
    let Some(message_id) = id else {
        return Err(bad_field("/id", "expected an unsigned 32-bit integer"));
    };
    let op = match fields.remove("op") {
        Some(Value::String(op)) => op,
        Some(_) => return Err(bad_field("/op", "expected a string")),
        None => return Err(bad_field("/op", "missing")),
    };
    let key = fields.remove("key");
    let command = match Command::parse(&op, Value::Object(fields)) {
        None => return Err(Refused { id, code: ErrorCode::UnknownOp, field: None }),
        Some(Err(field)) => return Err(Refused { id, code: ErrorCode::BadField, field: Some(field) }),
        Some(Ok(command)) => command,
    };
    let key = if command.is_mutating() {
        let key = key.as_ref().and_then(Value::as_str).and_then(IdempotencyKey::parse);
        Some(key.ok_or_else(|| bad_field("/key", "expected 1 to 64 printable ASCII characters"))?)
    } else {
        None
    };
    Ok(ClientMessage { id: message_id, key, command })
}

/// The text of a command, as a client sends it.
///
/// # Errors
/// Never for commands built from this module's types.
pub fn encode(message: &ClientMessage) -> serde_json::Result<String> {
    let mut fields = match message.command.body_json()? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.insert("id".into(), message.id.into());
    fields.insert("op".into(), message.command.op().into());
    if let Some(key) = &message.key {
        fields.insert("key".into(), key.as_str().into());
    }
    serde_json::to_string(&fields)
}

/// Reads one struct out of JSON and says where it failed.
///
/// # Errors
/// The JSON Pointer of the field and what was expected there.
pub fn parse_body<T: serde::de::DeserializeOwned>(fields: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(fields).map_err(|error| {
        use serde_path_to_error::Segment;
        let mut path = String::new();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => path.push_str(&format!("/{index}")),
                Segment::Map { key } | Segment::Enum { variant: key } => {
                    path.push('/');
                    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                Segment::Unknown => {}
            }
        }
        let message = error.inner().to_string();
        if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            path.push('/');
            path.push_str(name);
            return FieldError::new(path, "missing");
        }
        FieldError::new(path, message)
    })
}

impl Command {
    /// Checks what types cannot say: empty and repeated lists, bounds, lengths.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn validate(&self) -> Result<(), FieldError> {
        match self {
            Command::Hold(c) => check_seats(&c.seats),
            Command::HoldBest(c) => check_hold_best(c),
            Command::HoldArea(c) => check_quantity("/quantity", c.quantity),
            Command::Release(c) => check_release(c),
            Command::Unlock(c) => check_text("/code", &c.code),
            Command::Admit(c) => match c.admission.len() {
                1..=1024 => Ok(()),
                _ => Err(FieldError::new("/admission", "expected 1 to 1024 characters")),
            },
            Command::Checkout(c) => {
                check_text("/buyer/name", &c.buyer.name)?;
                check_email("/buyer/email", &c.buyer.email)?;
                if let Some(lang) = &c.buyer.lang {
                    check_text("/buyer/lang", lang)?;
                }
                check_text("/payment/method", &c.payment.method)?;
                check_amount("/expect_total_minor", c.expect_total_minor)
            }
            Command::Pay(c) => check_text("/payment/method", &c.payment.method),
            Command::WaitlistJoin(c) | Command::WaitlistLeave(c) => check_quantity("/quantity", c.quantity),
            _ => Ok(()),
        }
    }
}

fn check_seats(seats: &[SeatIndex]) -> Result<(), FieldError> {
    if seats.is_empty() || seats.len() > MAX_SEATS_PER_COMMAND {
        return Err(FieldError::new("/seats", "expected 1 to 200 seat indices"));
    }
    check_distinct("/seats", seats.iter().map(|seat| seat.0))
}

fn check_distinct(path: &str, indices: impl Iterator<Item = u32>) -> Result<(), FieldError> {
    let mut seen = std::collections::HashSet::new();
    for (position, index) in indices.enumerate() {
        if !seen.insert(index) {
            return Err(FieldError::new(format!("{path}/{position}"), "named twice"));
        }
    }
    Ok(())
}

fn check_hold_best(c: &HoldBest) -> Result<(), FieldError> {
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

fn check_release(c: &Release) -> Result<(), FieldError> {
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

fn check_quantity(path: &str, quantity: u32) -> Result<(), FieldError> {
    match quantity as usize {
        1..=MAX_SEATS_PER_COMMAND => Ok(()),
        _ => Err(FieldError::new(path, "expected 1 to 200")),
    }
}

fn check_amount(path: &str, amount_minor: i64) -> Result<(), FieldError> {
    match amount_minor {
        0..=crate::money::MAX_MINOR => Ok(()),
        _ => Err(FieldError::new(path, "expected 0 to 2^53 - 1 minor units")),
    }
}

fn check_text(path: &str, text: &str) -> Result<(), FieldError> {
    let blank = text.trim().is_empty();
    if blank || text.len() > MAX_TEXT_LEN || text.chars().any(char::is_control) {
        return Err(FieldError::new(path, "expected 1 to 254 bytes of text without control characters"));
    }
    Ok(())
}

fn check_email(path: &str, email: &str) -> Result<(), FieldError> {
    check_text(path, email)?;
    let well_formed = email.split_once('@').is_some_and(|(local, domain)| {
        !local.is_empty()
            && domain.len() >= 3
            && domain.contains('.')
            && !domain.starts_with('.')
            && !domain.ends_with('.')
            && !domain.contains('@')
    });
    if !well_formed || email.contains(char::is_whitespace) {
        return Err(FieldError::new(path, "expected an e-mail address"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Refused {
        let bounds = |message: ClientMessage| {
            message.command.validate().map_err(|field| Refused {
                id: Some(message.id),
                code: ErrorCode::BadField,
                field: Some(field),
            })
        };
        decode(text.as_bytes()).and_then(bounds).expect_err(text)
    }

    fn event() -> EventId {
        "evt_01h455vb4pex5vsknk084sn02q".parse().expect("a literal")
    }

    #[test]
    fn a_command_survives_its_text() {
        let message = ClientMessage {
            id: 7,
            key: IdempotencyKey::parse("k1"),
            command: Command::Hold(HoldSeats { event: event(), seats: vec![SeatIndex(1), SeatIndex(2)] }),
        };
        let text = encode(&message).expect("encodes");
        assert_eq!(decode(text.as_bytes()), Ok(message));
    }

    #[test]
    fn what_is_not_an_object_is_bad_json_with_id_null() {
        for text in ["", "{", "[1]", "12", "\u{0}"] {
            assert_eq!(refused(text), Refused { id: None, code: ErrorCode::BadJson, field: None }, "{text}");
        }
    }

    #[test]
    fn an_unreadable_id_is_named() {
        for text in [
            r#"{"op":"ping"}"#,
            r#"{"id":-1,"op":"ping"}"#,
            r#"{"id":4294967296,"op":"ping"}"#,
            r#"{"id":"1","op":"ping"}"#,
        ] {
            let refused = refused(text);
            assert_eq!((refused.id, refused.field.map(|f| f.path)), (None, Some("/id".into())), "{text}");
        }
    }

    #[test]
    fn an_unknown_op_keeps_its_id() {
        assert_eq!(
            refused(r#"{"id":3,"op":"steal"}"#),
            Refused { id: Some(3), code: ErrorCode::UnknownOp, field: None }
        );
    }

    #[test]
    fn a_bad_field_is_pointed_at() {
        let e = "evt_01h455vb4pex5vsknk084sn02q";
        for (body, path) in [
            (r#""op":"hold","key":"k","event":"x","seats":[1]"#.to_owned(), "/event"),
            (r#""op":"hold","key":"k","seats":[1]"#.to_owned(), "/event"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[1,"2"]"#), "/seats/1"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[1,1]"#), "/seats/1"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[]"#), "/seats"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[1.5]"#), "/seats/0"),
            (format!(r#""op":"hold","key":"","event":"{e}","seats":[1]"#), "/key"),
            (format!(r#""op":"hold","event":"{e}","seats":[1]"#), "/key"),
            (format!(r#""op":"hold","key":"ä","event":"{e}","seats":[1]"#), "/key"),
            (format!(r#""op":"hold_area","key":"k","event":"{e}","area":0,"quantity":0"#), "/quantity"),
            (format!(r#""op":"hold_best","key":"k","event":"{e}","quantity":2,"accessible":3"#), "/accessible"),
            (format!(r#""op":"hold_best","key":"k","event":"{e}","quantity":2,"together":"maybe"#) + "\"", "/together"),
            (format!(r#""op":"subscribe","event":"{e}","from":"yesterday""#), "/from"),
            (r#""op":"checkout","key":"k","hold":"hld_01h455vb4pex5vsknk084sn02q","buyer":{"name":"A","email":"no"},"payment":{"method":"m"},"expect_total_minor":1"#.to_owned(), "/buyer/email"),
            (r#""op":"checkout","key":"k","hold":"hld_01h455vb4pex5vsknk084sn02q","buyer":{"name":"A","email":"a@b.cd"},"payment":{},"expect_total_minor":1"#.to_owned(), "/payment/method"),
            (r#""op":"checkout","key":"k","hold":"hld_01h455vb4pex5vsknk084sn02q","buyer":{"name":"A","email":"a@b.cd"},"payment":{"method":"m"},"expect_total_minor":-1"#.to_owned(), "/expect_total_minor"),
        ] {
            let refused = refused(&format!("{{\"id\":1,{body}}}"));
            assert_eq!((refused.code, refused.field.map(|f| f.path)), (ErrorCode::BadField, Some(path.into())), "{body}");
        }
    }

    #[test]
    fn the_fingerprint_ignores_id_key_and_unknown_fields_but_no_value() {
        let text = |id: u32, key: &str, seat: u32| {
            let text =
                format!(r#"{{"id":{id},"key":"{key}","op":"hold","extra":1,"event":"{}","seats":[{seat}]}}"#, event());
            decode(text.as_bytes()).expect("decodes").command.fingerprint()
        };
        assert_eq!(text(1, "a", 5), text(2, "b", 5));
        assert_ne!(text(1, "a", 5), text(1, "a", 6));
    }
}
