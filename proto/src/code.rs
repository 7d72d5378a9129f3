//! Every refusal and failure a client can meet, once: name, number, what to do next, HTTP status; and why sockets close.
//! A new refusal begins here and takes its place in the stated order of the Lua checks.

use serde::{Deserialize, Serialize};

/// What a client should do with a refused command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The same command will be refused again.
    Never,
    /// At once.
    Now,
    /// After `retry_after_ms`.
    After,
    /// After renewing the token.
    Refresh,
    /// Ask again with the same key: the outcome is not known here.
    Ask,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $number:literal, $retry:ident, $status:literal;)*) => {
        /// A refusal or failure by name. `number` groups them: 10xx protocol, 11xx identity, 12xx load,
        /// 20xx inventory, 21xx holds, 30xx orders, 41xx waitlist and room, 9000 ours.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the numbers.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(ErrorCode::$name => $number,)* }
            }

            /// What a client should do.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(ErrorCode::$name => Retry::$retry,)* }
            }

            /// The HTTP status that carries this code.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $(ErrorCode::$name => $status,)* }
            }
        }
    };
}

codes! {
    /// Not JSON, or not an object.
    BadJson = "bad_json", 1001, Never, 400;
    /// A field is missing, of the wrong type or out of bounds; `data.path` is a JSON Pointer.
    BadField = "bad_field", 1002, Never, 400;
    /// No such command.
    UnknownOp = "unknown_op", 1003, Never, 400;
    /// The HTTP body is too large.
    TooLarge = "too_large", 1004, Never, 413;
    /// A command before the answer to `hello`.
    NotReady = "not_ready", 1005, Now, 400;
    /// The id belongs to a command that is still unanswered.
    DuplicateId = "duplicate_id", 1007, Never, 400;
    /// No token, or one that is not ours.
    Unauthorized = "unauthorized", 1101, Never, 401;
    /// The token has ended; get another.
    TokenExpired = "token_expired", 1102, Refresh, 401;
    /// Known, but not allowed.
    Forbidden = "forbidden", 1103, Never, 403;
    /// The event has a waiting room and this identity was not admitted.
    AdmissionRequired = "admission_required", 1104, Never, 403;
    /// The admission token is of no use here.
    AdmissionInvalid = "admission_invalid", 1105, Never, 403;
    /// A proof of work is asked for.
    ChallengeRequired = "challenge_required", 1107, Never, 403;
    /// The proof of work is wrong.
    ChallengeFailed = "challenge_failed", 1108, Never, 403;
    /// Too many commands.
    RateLimited = "rate_limited", 1201, After, 429;
    /// The node has more work than it can do in time.
    Overloaded = "overloaded", 1202, After, 503;
    /// The node is about to stop; another will answer.
    Draining = "draining", 1203, Now, 503;
    /// The outcome is not known; the same key will tell.
    TimeoutUnknown = "timeout_unknown", 1204, Ask, 503;
    /// A store is down.
    Unavailable = "unavailable", 1205, After, 503;
    /// At least one seat is not available; `data.seats`, `data.alternatives`.
    SeatTaken = "seat_taken", 2001, Never, 409;
    /// No such seat, area or section in this event.
    SeatUnknown = "seat_unknown", 2002, Never, 400;
    /// Fewer seats than asked for; `data.most_together`.
    NotEnough = "not_enough", 2004, Never, 409;
    /// The identity's limit; `data.limit`, `data.used`.
    LimitExceeded = "limit_exceeded", 2005, Never, 409;
    /// The choice leaves single seats behind; `data.seats`.
    OrphanSeat = "orphan_seat", 2006, Never, 409;
    /// The area is too full; `data.remaining`.
    AreaFull = "area_full", 2007, Never, 409;
    /// Selling has not begun or is over; `data.on_sale_ms`.
    NotOnSale = "not_on_sale", 2008, Never, 409;
    /// Selling is paused.
    Paused = "paused", 2009, After, 409;
    /// Nothing is left.
    SoldOut = "sold_out", 2010, Never, 409;
    /// No such event.
    EventUnknown = "event_unknown", 2011, Never, 404;
    /// The presale code opens nothing here.
    CodeInvalid = "code_invalid", 2012, Never, 409;
    /// Companion seats go with an accessible seat.
    CompanionRule = "companion_rule", 2013, Never, 409;
    /// This section sells best available only.
    ModeNotAllowed = "mode_not_allowed", 2014, Never, 409;
    /// No such hold, or somebody else's.
    HoldNotFound = "hold_not_found", 2101, Never, 404;
    /// The hold's time is over.
    HoldExpired = "hold_expired", 2102, Never, 410;
    /// A hold is extended once only.
    ExtendRefused = "extend_refused", 2104, Never, 409;
    /// The hold is being paid for; `data.order`.
    HoldLocked = "hold_locked", 2106, Never, 409;
    /// The total is another now; `data.total_minor`.
    PriceChanged = "price_changed", 3001, Never, 409;
    /// No such order, or somebody else's.
    OrderNotFound = "order_not_found", 3004, Never, 404;
    /// This order cannot be refunded so.
    RefundRefused = "refund_refused", 3005, Never, 409;
    /// The order is paid.
    AlreadyPaid = "already_paid", 3006, Never, 409;
    /// The key was used with another body.
    KeyReused = "key_reused", 3007, Never, 422;
    /// The command with this key is still running.
    KeyInUse = "key_in_use", 3008, Ask, 409;
    /// This order cannot be cancelled now.
    CancelRefused = "cancel_refused", 3009, Never, 409;
    /// A payment is open; its outcome comes by itself.
    PaymentOpen = "payment_open", 3010, Never, 409;
    /// No further payment is taken for this order.
    PayRefused = "pay_refused", 3011, Never, 409;
    /// The waitlist takes nobody now.
    WaitlistClosed = "waitlist_closed", 4101, Never, 409;
    /// The waiting room takes nobody now.
    RoomClosed = "room_closed", 4102, Never, 409;
    /// This identity has no place.
    PlaceUnknown = "place_unknown", 4103, Never, 404;
    /// The place is not due.
    NotYourTurn = "not_your_turn", 4104, Never, 409;
    /// One entry an identity.
    AlreadyRegistered = "already_registered", 4105, Never, 409;
    /// Our fault; `data.trace` finds it in the log.
    Internal = "internal", 9000, After, 500;
}

impl ErrorCode {
    /// Whether the first answer with this code is remembered under its key: 2xxx and 3xxx business refusals are,
    /// except `key_in_use`; identity, load and our own failures never.
    #[must_use]
    pub const fn is_remembered(self) -> bool {
        matches!(self.number(), 2000..=3999) && !matches!(self, ErrorCode::KeyInUse)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! closes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $number:literal;)*) => {
        /// Why the server ends a socket. 4000 to 4499: reconnect with full jitter; 4500 and above, 1002, 1003, 1007, 1009: stop.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum CloseCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl CloseCode {
            /// Every close code the server sends.
            pub const ALL: &'static [CloseCode] = &[$(CloseCode::$name,)*];

            /// The number in the close frame.
            #[must_use]
            pub const fn number(self) -> u16 {
                self as u16
            }

            /// The name, which is the reason text of the close frame.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(CloseCode::$name => $text,)* }
            }

            /// Whether a client may come back by itself.
            #[must_use]
            pub const fn may_reconnect(self) -> bool {
                matches!(self.number(), 1000 | 1001 | 1006 | 1012 | 4000..=4499)
            }
        }
    };
}

closes! {
    /// Done.
    Normal = "normal", 1000;
    /// Framing is wrong: unmasked, reserved bits, bad control frame.
    ProtocolViolation = "protocol_violation", 1002;
    /// A client binary frame.
    Unsupported = "unsupported", 1003;
    /// A text frame that is not UTF-8.
    BadUtf8 = "bad_utf8", 1007;
    /// A message above max_command_bytes.
    TooBig = "too_big", 1009;
    /// No other fits.
    Unknown = "unknown", 4000;
    /// The node is about to stop.
    Drain = "drain", 4001;
    /// The viewer takes its bytes too slowly.
    Slow = "slow", 4002;
    /// The server lost the viewer's position.
    PositionLost = "position_lost", 4003;
    /// Two pings unanswered.
    HeartbeatTimeout = "heartbeat_timeout", 4004;
    /// Far over the command budget.
    RateLimited = "rate_limited", 4008;
    /// The session is too old; a new one is cheap.
    SessionTooOld = "session_too_old", 4009;
    /// Ten protocol errors within a minute.
    ProtocolError = "protocol_error", 4500;
    /// The first hello's token is not ours.
    BadToken = "bad_token", 4501;
    /// Not allowed here.
    Forbidden = "forbidden", 4503;
    /// No hello within its time.
    HelloTimeout = "hello_timeout", 4504;
    /// The client speaks another version.
    VersionUnsupported = "version_unsupported", 4506;
    /// Every subscribed event is closed.
    EventClosed = "event_closed", 4511;
    /// Too many connections.
    ConnectionLimit = "connection_limit", 4512;
    /// A newer socket of the same identity took this one's place.
    Replaced = "replaced", 4513;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let mut numbers: Vec<u16> = ErrorCode::ALL.iter().map(|c| c.number()).collect();
        let mut names: Vec<&str> = ErrorCode::ALL.iter().map(|c| c.as_str()).collect();
        assert!(numbers.is_sorted(), "ALL is in the order of the numbers");
        numbers.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((numbers.len(), names.len()), (ErrorCode::ALL.len(), ErrorCode::ALL.len()));
    }

    #[test]
    fn the_name_is_the_serde_name() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).ok(), Some(serde_json::Value::from(code.as_str())));
        }
    }

    #[test]
    fn what_is_remembered_is_business() {
        assert!(ErrorCode::SeatTaken.is_remembered() && ErrorCode::KeyReused.is_remembered());
        for code in [
            ErrorCode::RateLimited,
            ErrorCode::Unauthorized,
            ErrorCode::Internal,
            ErrorCode::KeyInUse,
            ErrorCode::BadField,
        ] {
            assert!(!code.is_remembered(), "{code}");
        }
    }
}
