//! What a client may ask: the table of commands, and the bounds they must keep.
//! The structs stand in the files below by what they are about; `text` is the one door that turns bytes into a command
//! or a refusal. Shape and bounds are checked here; what needs an event or a store is checked behind.
//! Over HTTP the same structs are built from path, header and body, so that a key means the same on both roads.

mod access;
mod bounds;
mod hold;
mod key;
mod order;
mod session;
mod subscription;
mod text;
mod waitlist;

pub use access::{Admit, RoomWatch, Unlock};
pub use bounds::FieldError;
pub use hold::{AreaQuantity, Extend, HoldArea, HoldBest, HoldSeats, Release, Together};
pub use key::IdempotencyKey;
pub use order::{Buyer, Cancel, Checkout, OrderRead, Pay, Payment};
pub use session::{ClientName, Hello, Ping};
pub use subscription::{From, Position, Resync, Subscribe, Unsubscribe};
pub use text::{ClientMessage, Refused, decode, encode, parse_body};
pub use waitlist::Waitlist;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Largest text message a client may send, in bytes; above it the socket closes with 1009.
pub const MAX_COMMAND_BYTES: usize = 4096;
/// Most seats in one command. A script's work is bounded by it; more is a `bad_field`.
pub const MAX_SEATS_PER_COMMAND: usize = 200;
/// Longest idempotency key.
pub const MAX_KEY_LEN: usize = 64;
/// Longest name, address, code or method in a command, in bytes.
pub const MAX_TEXT_LEN: usize = 254;

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

impl Command {
    /// Checks what types cannot say: empty and repeated lists, bounds, lengths.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn validate(&self) -> Result<(), FieldError> {
        match self {
            Command::Hold(c) => hold::check_seats(&c.seats),
            Command::HoldBest(c) => hold::check_hold_best(c),
            Command::HoldArea(c) => bounds::check_quantity("/quantity", c.quantity),
            Command::Release(c) => hold::check_release(c),
            Command::Unlock(c) => bounds::check_text("/code", &c.code),
            Command::Admit(c) => access::check_admission(&c.admission),
            Command::Checkout(c) => order::check_checkout(c),
            Command::Pay(c) => order::check_payment(&c.payment),
            Command::WaitlistJoin(c) | Command::WaitlistLeave(c) => bounds::check_quantity("/quantity", c.quantity),
            _ => Ok(()),
        }
    }
}
