//! Seats and places a payment instrument has reserved or bought in an event, by the provider's fingerprint of the card.
//! Only events that limit cards have rows. An order counts for the card it was last tried with.

use super::StoreError;
use seatwire_proto::id::EventId;
use sqlx::PgExecutor;

/// Adds to what the card has.
///
/// # Errors
/// A broken `InstrumentLimit` when it would pass `limit`.
pub async fn add(
    executor: impl PgExecutor<'_>,
    event: EventId,
    fingerprint: &str,
    quantity: u32,
    limit: u32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into instrument_use (event_id, fingerprint, used, limit_n) values ($1, $2, $3, $4)
         on conflict (event_id, fingerprint) do update
         set used = instrument_use.used + excluded.used, limit_n = excluded.limit_n",
        event.uuid(),
        fingerprint,
        quantity.cast_signed(),
        limit.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Takes away from what the card has. The caller's guard on the order's state makes it happen once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn subtract(
    executor: impl PgExecutor<'_>,
    event: EventId,
    fingerprint: &str,
    quantity: u32,
) -> Result<(), StoreError> {
    // Giving back never fails: neither for a limit that was lowered meanwhile, nor where less was counted.
    sqlx::query!(
        "update instrument_use set used = greatest(used - $3, 0), limit_n = greatest(limit_n, used - $3)
         where event_id = $1 and fingerprint = $2",
        event.uuid(),
        fingerprint,
        quantity.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// What the card has.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn used(executor: impl PgExecutor<'_>, event: EventId, fingerprint: &str) -> Result<u32, StoreError> {
    let used = sqlx::query_scalar!(
        "select used from instrument_use where event_id = $1 and fingerprint = $2",
        event.uuid(),
        fingerprint
    )
    .fetch_optional(executor)
    .await?;
    Ok(used.unwrap_or(0).cast_unsigned())
}
