//! Seats and places an identity has reserved or bought in an event. Redis counts holds as well; this is the part that
//! survives, and its check refuses what Redis may have let through.

use super::StoreError;
use seatwire_proto::id::{EventId, IdentityId};
use sqlx::PgExecutor;

/// Adds to what the identity has.
///
/// # Errors
/// A broken `IdentityLimit` when it would pass `limit`.
pub async fn add(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    quantity: u32,
    limit: u32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into identity_use (event_id, identity_id, used, limit_n) values ($1, $2, $3, $4)
         on conflict (event_id, identity_id) do update
         set used = identity_use.used + excluded.used, limit_n = excluded.limit_n",
        event.uuid(),
        identity.uuid(),
        quantity.cast_signed(),
        limit.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Takes away from what the identity has. The caller's guard on the order's state makes it happen once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn subtract(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    quantity: u32,
) -> Result<(), StoreError> {
    // A limit that was lowered meanwhile must not stand in the way of giving back.
    sqlx::query!(
        "update identity_use set used = used - $3, limit_n = greatest(limit_n, used - $3)
         where event_id = $1 and identity_id = $2",
        event.uuid(),
        identity.uuid(),
        quantity.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// What every identity has in an event, those with nothing left out.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_event(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<(IdentityId, u32)>, StoreError> {
    let rows =
        sqlx::query!("select identity_id, used from identity_use where event_id = $1 and used > 0", event.uuid())
            .fetch_all(executor)
            .await?;
    Ok(rows.into_iter().map(|row| (IdentityId::from_uuid(row.identity_id), row.used.cast_unsigned())).collect())
}

/// What one identity has in an event: reserved and bought.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_identity(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
) -> Result<u32, StoreError> {
    let used = sqlx::query_scalar!(
        "select used from identity_use where event_id = $1 and identity_id = $2",
        event.uuid(),
        identity.uuid()
    );
    Ok(used.fetch_optional(executor).await?.map_or(0, i32::cast_unsigned))
}
