//! The one place where outcomes and failures become codes. Rooms behind know nothing of numbers or HTTP statuses;
//! doors in front know nothing of Redis or SQL.

use crate::catalogue::EventFacts;
use crate::checkout::{CheckoutError, CheckoutRefusal};
use crate::identity::TokenError;
use crate::inventory::{InventoryError, Refusal};
use crate::organiser::OrganiserError;
use crate::store::StoreError;
use crate::waitlist::{WaitlistError, WaitlistRefusal};
use seatwire_proto::client::{FieldError, Refused};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::{ErrorObject, TicketState};
use serde_json::json;

/// When to come back while a store is down.
const UNAVAILABLE_RETRY_MS: u64 = 1_000;
/// A provider that failed again and again, or has been busy for long, is tried anew about so often.
const PROVIDER_RETRY_MS: u64 = 5_000;
/// When to come back while the shelf is busy.
const OVERLOADED_RETRY_MS: u64 = 500;
/// Of an offer: others wait behind it.
const OFFER_NOT_EXTENDED: &str = "an offer of the waitlist cannot be extended";
/// When to look again at a paused event.
const PAUSED_RETRY_MS: u64 = 10_000;

/// A code with its plain text.
#[must_use]
pub fn refuse(code: ErrorCode) -> ErrorObject {
    ErrorObject::new(code, message(code))
}

/// A field that cannot be taken.
#[must_use]
pub fn bad_field(field: &FieldError) -> ErrorObject {
    ErrorObject::new(ErrorCode::BadField, field.to_string()).with_data(json!({"path": field.path}))
}

/// Bytes that are not a command.
#[must_use]
pub fn refused(refused: &Refused) -> ErrorObject {
    refused.field.as_ref().map_or_else(|| refuse(refused.code), bad_field)
}

/// A defect of ours: logged here with a trace that the answer carries.
#[must_use]
pub fn internal(what: &dyn std::fmt::Display) -> ErrorObject {
    let trace = uuid::Uuid::now_v7().simple().to_string();
    tracing::error!(%trace, error = %what, "internal error");
    refuse(ErrorCode::Internal).with_retry_after_ms(UNAVAILABLE_RETRY_MS).with_data(json!({"trace": trace}))
}

/// A store is down.
#[must_use]
pub fn unavailable(what: &dyn std::fmt::Display) -> ErrorObject {
    tracing::warn!(error = %what, "a store is unavailable");
    refuse(ErrorCode::Unavailable).with_retry_after_ms(UNAVAILABLE_RETRY_MS)
}

/// The ledger could not answer.
#[must_use]
pub fn store(error: &StoreError) -> ErrorObject {
    match error {
        StoreError::Unavailable(_) => unavailable(error),
        StoreError::Failed(_) | StoreError::Migration(_) | StoreError::Malformed(_) => internal(error),
    }
}

/// The event was changed while the command was on its way; it is asked again with the newest facts.
fn stale() -> ErrorObject {
    refuse(ErrorCode::Unavailable).with_retry_after_ms(UNAVAILABLE_RETRY_MS).with_data(json!({"stale": true}))
}

/// Whether the newest facts would help.
#[must_use]
pub fn is_stale(object: &ErrorObject) -> bool {
    object.data.as_ref().is_some_and(|data| data["stale"] == true)
}

/// The shelf could not answer.
#[must_use]
pub fn inventory(error: &InventoryError) -> ErrorObject {
    match error {
        InventoryError::Unavailable(_) => unavailable(error),
        InventoryError::Stale => stale(),
        InventoryError::TimeoutUnknown => refuse(ErrorCode::TimeoutUnknown),
        InventoryError::Overloaded(_) => refuse(ErrorCode::Overloaded).with_retry_after_ms(OVERLOADED_RETRY_MS),
        InventoryError::Malformed(_) => internal(error),
    }
}

/// The waitlist could not answer.
#[must_use]
pub fn waitlist(error: &WaitlistError) -> ErrorObject {
    match error {
        WaitlistError::Store(error) => store(error),
        WaitlistError::Inventory(error) => inventory(error),
        WaitlistError::Interrupted(_) => internal(error),
    }
}

/// A refusal of the waitlist.
#[must_use]
pub fn waitlist_refusal(refusal: &WaitlistRefusal) -> ErrorObject {
    match refusal {
        WaitlistRefusal::Closed => refuse(ErrorCode::WaitlistClosed),
        WaitlistRefusal::PlaceUnknown => refuse(ErrorCode::PlaceUnknown),
        WaitlistRefusal::KeyReused => refuse(ErrorCode::KeyReused),
        WaitlistRefusal::LimitExceeded { limit, used } => {
            refuse(ErrorCode::LimitExceeded).with_data(json!({"limit": limit, "used": used}))
        }
        WaitlistRefusal::BadField(field) => bad_field(field),
    }
}

/// A change of the organiser was not made.
#[must_use]
pub fn organiser(error: &OrganiserError) -> ErrorObject {
    match error {
        OrganiserError::EventUnknown => refuse(ErrorCode::EventUnknown),
        OrganiserError::Refused(field) => bad_field(field),
        OrganiserError::AreaUnknown => refuse(ErrorCode::SeatUnknown),
        OrganiserError::PlacesTaken { taken, remaining } => {
            ErrorObject::new(ErrorCode::AreaFull, format!("{error}; no fewer are possible"))
                .with_data(json!({"taken": taken, "remaining": remaining}))
        }
        OrganiserError::Store(error) => store(error),
        OrganiserError::Inventory(error) => inventory(error),
        OrganiserError::Interrupted(_) => internal(error),
    }
}

/// The till could not answer.
#[must_use]
pub fn checkout(error: &CheckoutError) -> ErrorObject {
    match error {
        CheckoutError::Store(error) => store(error),
        CheckoutError::Inventory(error) => inventory(error),
        CheckoutError::ProviderAway => refuse(ErrorCode::Unavailable).with_retry_after_ms(PROVIDER_RETRY_MS),
        CheckoutError::ProviderBusy => refuse(ErrorCode::Overloaded).with_retry_after_ms(PROVIDER_RETRY_MS),
        CheckoutError::TimeoutUnknown => refuse(ErrorCode::TimeoutUnknown),
        CheckoutError::Internal(_) | CheckoutError::Interrupted(_) => internal(error),
    }
}

/// A refusal of the till, with the data its code promises.
#[must_use]
pub fn checkout_refusal(refusal: &CheckoutRefusal) -> ErrorObject {
    use CheckoutRefusal as R;
    match refusal {
        R::HoldNotFound => refuse(ErrorCode::HoldNotFound),
        R::HoldExpired => refuse(ErrorCode::HoldExpired),
        R::HoldLocked { order } => refuse(ErrorCode::HoldLocked).with_data(json!({"order": order})),
        R::NotOnSale { on_sale_ms } => refuse(ErrorCode::NotOnSale).with_data(json!({"on_sale_ms": on_sale_ms})),
        R::PriceChanged { total_minor } => {
            refuse(ErrorCode::PriceChanged).with_data(json!({"total_minor": total_minor}))
        }
        R::SeatTaken { seats } => {
            let alternatives: [Vec<u32>; 0] = [];
            refuse(ErrorCode::SeatTaken).with_data(json!({"seats": seats, "alternatives": alternatives}))
        }
        R::AreaFull { remaining } => refuse(ErrorCode::AreaFull).with_data(json!({"remaining": remaining})),
        R::LimitExceeded { limit, used } => {
            refuse(ErrorCode::LimitExceeded).with_data(json!({"limit": limit, "used": used}))
        }
        R::CardLimitExceeded { limit, used } => {
            let text = "this card pays for no more seats of this event";
            ErrorObject::new(ErrorCode::LimitExceeded, text)
                .with_data(json!({"limit": limit, "used": used, "of": "card"}))
        }
        R::TicketOver { state } => bad_field(&FieldError::new(
            "/ticket",
            match state {
                TicketState::Used => "the ticket was used at a door",
                TicketState::Transferred => "the ticket was passed on already",
                TicketState::Void => "the ticket was given back",
                TicketState::Valid => "the ticket cannot be passed on now",
            },
        )),
        R::MethodNotCounted => bad_field(&FieldError::new(
            "/payment/method",
            "this event limits seats per card, and no card is shown behind this method",
        )),
        R::OrderNotFound => refuse(ErrorCode::OrderNotFound),
        R::AlreadyPaid => refuse(ErrorCode::AlreadyPaid),
        R::PaymentOpen => refuse(ErrorCode::PaymentOpen),
        R::PayRefused => refuse(ErrorCode::PayRefused),
        R::CancelRefused => refuse(ErrorCode::CancelRefused),
        R::RefundRefused => refuse(ErrorCode::RefundRefused),
        R::KeyReused => refuse(ErrorCode::KeyReused),
        R::KeyInUse => refuse(ErrorCode::KeyInUse),
    }
}

/// A token that is not taken.
#[must_use]
pub fn token(error: TokenError) -> ErrorObject {
    match error {
        TokenError::Invalid => refuse(ErrorCode::Unauthorized),
        TokenError::Expired => refuse(ErrorCode::TokenExpired),
    }
}

/// A refusal of the shelf, with the data its code promises.
#[must_use]
pub fn refusal(refusal: &Refusal, event: &EventFacts, alternatives: Vec<Vec<u32>>) -> ErrorObject {
    let indices = |seats: &[seatwire_proto::seat::SeatIndex]| seats.iter().map(|seat| seat.0).collect::<Vec<_>>();
    match refusal {
        Refusal::KeyReused => refuse(ErrorCode::KeyReused),
        Refusal::AdmissionRequired => refuse(ErrorCode::AdmissionRequired),
        Refusal::NotOnSale => refuse(ErrorCode::NotOnSale).with_data(json!({"on_sale_ms": event.on_sale_ms})),
        Refusal::Paused => refuse(ErrorCode::Paused).with_retry_after_ms(PAUSED_RETRY_MS),
        Refusal::SoldOut => refuse(ErrorCode::SoldOut),
        Refusal::HoldNotFound => refuse(ErrorCode::HoldNotFound),
        Refusal::HoldExpired => refuse(ErrorCode::HoldExpired),
        Refusal::ExtendRefused { is_offer: false } => refuse(ErrorCode::ExtendRefused),
        Refusal::ExtendRefused { is_offer: true } => ErrorObject::new(ErrorCode::ExtendRefused, OFFER_NOT_EXTENDED),
        Refusal::HoldLocked(order) => refuse(ErrorCode::HoldLocked).with_data(json!({"order": order})),
        Refusal::ModeNotAllowed => refuse(ErrorCode::ModeNotAllowed),
        Refusal::SeatTaken(seats) => {
            refuse(ErrorCode::SeatTaken).with_data(json!({"seats": indices(seats), "alternatives": alternatives}))
        }
        Refusal::NotEnough { most_together } => {
            refuse(ErrorCode::NotEnough).with_data(json!({"most_together": most_together}))
        }
        Refusal::AreaFull { remaining } => refuse(ErrorCode::AreaFull).with_data(json!({"remaining": remaining})),
        Refusal::LimitExceeded { limit, used } => {
            refuse(ErrorCode::LimitExceeded).with_data(json!({"limit": limit, "used": used}))
        }
        Refusal::CodeInvalid => refuse(ErrorCode::CodeInvalid),
        Refusal::Guessed { retry_after_ms } => {
            refuse(ErrorCode::RateLimited).with_retry_after_ms(u64::from(*retry_after_ms))
        }
        Refusal::CompanionRule => refuse(ErrorCode::CompanionRule),
        Refusal::OrphanSeat(seats) => refuse(ErrorCode::OrphanSeat).with_data(json!({"seats": indices(seats)})),
        Refusal::NotInHold { is_area, position } => {
            let list = if *is_area { "areas" } else { "seats" };
            bad_field(&FieldError::new(format!("/{list}/{position}"), "not in the hold"))
        }
    }
}

const fn message(code: ErrorCode) -> &'static str {
    use ErrorCode as E;
    match code {
        E::BadJson => "expected one JSON object",
        E::BadField => "a field cannot be taken",
        E::UnknownOp => "no such command",
        E::TooLarge => "the body is too large",
        E::NotReady => "wait for the answer to hello",
        E::DuplicateId => "this id is still unanswered",
        E::Unauthorized => "a valid token is needed",
        E::TokenExpired => "the token has expired",
        E::Forbidden => "not allowed",
        E::AdmissionRequired => "the waiting room comes first",
        E::AdmissionInvalid => "the admission is of no use here",
        E::ChallengeRequired => "a proof of work is needed",
        E::ChallengeFailed => "the proof of work is wrong",
        E::RateLimited => "too many commands",
        E::Overloaded => "more work than can be done in time",
        E::Draining => "this node is about to stop",
        E::TimeoutUnknown => "the outcome is not known yet; ask again with the same key",
        E::Unavailable => "a store or the payment provider does not answer",
        E::SeatTaken => "at least one seat is not available",
        E::SeatUnknown => "no such seat, area or section in this event",
        E::NotEnough => "fewer seats are left than asked for",
        E::LimitExceeded => "the limit of this identity is reached",
        E::OrphanSeat => "the choice leaves a single seat behind",
        E::AreaFull => "the area has fewer places left",
        E::NotOnSale => "selling has not begun or is over",
        E::Paused => "selling is paused",
        E::SoldOut => "nothing is left",
        E::EventUnknown => "no such event",
        E::CodeInvalid => "the code opens nothing here",
        E::CompanionRule => "a companion seat goes with an accessible seat",
        E::ModeNotAllowed => "this section sells best available only",
        E::HoldNotFound => "no such hold",
        E::HoldExpired => "the hold has expired",
        E::ExtendRefused => "the hold was extended already",
        E::HoldLocked => "the hold is being paid for",
        E::PriceChanged => "the total is another now",
        E::OrderNotFound => "no such order",
        E::RefundRefused => "this cannot be refunded",
        E::AlreadyPaid => "the order is paid",
        E::KeyReused => "the key was used with another body",
        E::KeyInUse => "the command with this key is still running",
        E::CancelRefused => "the order cannot be cancelled now",
        E::PaymentOpen => "a payment is open; wait for its outcome",
        E::PayRefused => "no further payment is taken for this order",
        E::WaitlistClosed => "the waitlist takes nobody now",
        E::RoomClosed => "the waiting room takes nobody now",
        E::PlaceUnknown => "no such place",
        E::NotYourTurn => "the place is not due yet",
        E::AlreadyRegistered => "one entry an identity",
        E::Internal => "our fault; the trace finds it in the log",
    }
}
