//! Tries to move money: a row is committed before the provider is asked, with the key it is asked by; the row becomes
//! final when the provider's word is definite. One attempt of an order is open at most.

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId};
use sqlx::PgExecutor;

/// A try to move money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Of which order.
    pub order: OrderId,
    /// From 1.
    pub attempt_n: u32,
    /// Of which event.
    pub event: EventId,
    /// By which provider.
    pub provider: String,
    /// The key the provider is asked by.
    pub idempotency_key: String,
    /// The payment method.
    pub method: String,
    /// How much.
    pub amount_minor: i64,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd<'a> {
    /// Money moved.
    Succeeded,
    /// Declined for this reason.
    Declined(&'a str),
    /// Given up.
    Cancelled,
}

/// Records an attempt that is about to be made. False, and nothing recorded: its event is cancelled by now.
///
/// # Errors
/// A broken `AttemptOpen` when another one is open.
pub async fn insert(executor: impl PgExecutor<'_>, attempt: &Attempt, now_ms: u64) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "insert into payment_attempts
             (order_id, attempt_n, event_id, provider, idempotency_key, method, amount_minor, state, created_ms)
         select $1, $2, $3, $4, $5, $6, $7, 'open', $8
         where not exists (select from events where id = $3 and state = 'cancelled')",
        attempt.order.uuid(),
        attempt.attempt_n.cast_signed(),
        attempt.event.uuid(),
        attempt.provider,
        attempt.idempotency_key,
        attempt.method,
        attempt.amount_minor,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Ends the open attempt of an order, if there is one.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn end_open(
    executor: impl PgExecutor<'_>,
    order: OrderId,
    end: AttemptEnd<'_>,
    charge: Option<&str>,
    now_ms: u64,
) -> Result<(), StoreError> {
    let (state, reason) = match end {
        AttemptEnd::Succeeded => ("succeeded", None),
        AttemptEnd::Declined(reason) => ("declined", Some(reason)),
        AttemptEnd::Cancelled => ("cancelled", None),
    };
    sqlx::query!(
        "update payment_attempts set state = $2, decline_reason = $3, charge_id = $4, final_ms = $5
         where order_id = $1 and state = 'open'",
        order.uuid(),
        state,
        reason,
        charge,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Whether a charge belongs to an attempt of the order that is over.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn is_known_charge(executor: impl PgExecutor<'_>, order: OrderId, charge: &str) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        "select 1 as one from payment_attempts where order_id = $1 and charge_id = $2",
        order.uuid(),
        charge
    )
    .fetch_optional(executor)
    .await?;
    Ok(found.is_some())
}
