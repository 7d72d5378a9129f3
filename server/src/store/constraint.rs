//! The schema's rules by name: the one place where a broken constraint becomes an outcome. Rooms ask which rule was
//! broken; the names themselves stand here and in migrations/ only.

use super::StoreError;

/// A rule whose breach is an answer and not a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// `taken_seats_pkey`, `tickets_one_live_seat`: somebody else has the seat.
    SeatTaken,
    /// `area_stock_within_capacity`: the area is full.
    AreaFull,
    /// `identity_use_within_limit`: the identity has its fill.
    IdentityLimit,
    /// `instrument_use_within_limit`: the card has its fill.
    InstrumentLimit,
    /// `orders_pkey`, `orders_command_key`: this order was made already.
    OrderExists,
    /// `orders_open_hold`: the hold is being paid by another order.
    HoldHasOrder,
    /// `orders_reference`: draw another reference.
    ReferenceTaken,
    /// `payment_attempts_one_open`, `payment_attempts_pkey`: another attempt is open.
    AttemptOpen,
    /// `payment_attempts_key`, `payment_attempts_charge`: another attempt has this key, or this charge of the provider.
    AttemptExists,
    /// `orders_intent`: the provider's intent belongs to another order.
    IntentTaken,
    /// `refunds_pkey`, `refunds_key`, `refunds_provider_refund`: this refund was written already.
    RefundExists,
    /// `tickets_pkey`, `tickets_code`: this ticket was made already, or its code is drawn twice.
    TicketExists,
    /// `orders_money`: more would go back than was taken.
    OverRefund,
}

/// Which rule a failed statement broke; `None` for every other failure.
#[must_use]
pub fn broken(error: &StoreError) -> Option<Constraint> {
    let StoreError::Failed(sqlx::Error::Database(error)) = error else { return None };
    by_name(error.constraint()?)
}

/// The rule of this name in the schema, if a race or bad input can meet it; every other one is broken by a defect only.
#[must_use]
pub fn by_name(constraint: &str) -> Option<Constraint> {
    match constraint {
        "taken_seats_pkey" | "tickets_one_live_seat" => Some(Constraint::SeatTaken),
        "area_stock_within_capacity" => Some(Constraint::AreaFull),
        "identity_use_within_limit" => Some(Constraint::IdentityLimit),
        "instrument_use_within_limit" => Some(Constraint::InstrumentLimit),
        "orders_pkey" | "orders_command_key" => Some(Constraint::OrderExists),
        "orders_open_hold" => Some(Constraint::HoldHasOrder),
        "orders_reference" => Some(Constraint::ReferenceTaken),
        "payment_attempts_one_open" | "payment_attempts_pkey" => Some(Constraint::AttemptOpen),
        "payment_attempts_key" | "payment_attempts_charge" => Some(Constraint::AttemptExists),
        "orders_intent" => Some(Constraint::IntentTaken),
        "refunds_pkey" | "refunds_key" | "refunds_provider_refund" => Some(Constraint::RefundExists),
        "tickets_pkey" | "tickets_code" => Some(Constraint::TicketExists),
        "orders_money" => Some(Constraint::OverRefund),
        _ => None,
    }
}

/// Whether two transactions met and this one lost: safe to run again from its beginning.
#[must_use]
pub fn is_lost_race(error: &StoreError) -> bool {
    let StoreError::Failed(sqlx::Error::Database(error)) = error else { return false };
    // 40001 serialization_failure, 40P01 deadlock_detected.
    matches!(error.code().as_deref(), Some("40001" | "40P01"))
}
