//! The life of an event's inventory, and the fence between a checkout and a rebuild: a checkout takes the event's
//! advisory lock shared and then reads the epoch; a rebuild takes it exclusive and begins the next one. So no checkout
//! of an old life commits after a rebuild has read the truth.

use super::StoreError;
use seatwire_proto::id::EventId;
use sqlx::{PgConnection, PgExecutor};

/// The advisory lock of an event: its id folded to 64 bits. Two events that fold alike only wait for each other.
fn lock_key(event: EventId) -> i64 {
    let (high, low) = event.uuid().as_u64_pair();
    (high ^ low).cast_signed()
}

/// Holds the event's lock until the transaction ends, together with other checkouts.
///
/// # Errors
/// `Unavailable` when a rebuild keeps it too long.
pub async fn lock_shared(transaction: &mut PgConnection, event: EventId) -> Result<(), StoreError> {
    sqlx::query!("select pg_advisory_xact_lock_shared($1)", lock_key(event)).execute(transaction).await?;
    Ok(())
}

/// The same for several events, without waiting. False: one of them is kept by a rebuild, and the transaction must end.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn try_lock_shared(transaction: &mut PgConnection, events: &[EventId]) -> Result<bool, StoreError> {
    let keys: Vec<i64> = events.iter().map(|event| lock_key(*event)).collect();
    let is_locked = sqlx::query_scalar!(
        r#"select bool_and(pg_try_advisory_xact_lock_shared(key)) as "is_locked!" from unnest($1::bigint[]) as k(key)"#,
        &keys
    );
    Ok(is_locked.fetch_one(transaction).await?)
}

/// Holds the event's lock until the transaction ends, alone.
///
/// # Errors
/// `Unavailable` when checkouts keep it too long.
pub async fn lock_exclusive(transaction: &mut PgConnection, event: EventId) -> Result<(), StoreError> {
    sqlx::query!("select pg_advisory_xact_lock($1)", lock_key(event)).execute(transaction).await?;
    Ok(())
}

/// The epoch now; `None` before the event was first opened. Behind [`lock_shared`] it must be a statement of its own:
/// a statement sees what was committed when it began.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn current(executor: impl PgExecutor<'_>, event: EventId) -> Result<Option<u32>, StoreError> {
    let epoch = sqlx::query_scalar!("select epoch from event_epochs where event_id = $1", event.uuid())
        .fetch_optional(executor)
        .await?;
    Ok(epoch.map(i32::cast_unsigned))
}

/// Begins the next epoch (the first is 1).
///
/// # Errors
/// When Postgres cannot answer.
pub async fn begin_next(executor: impl PgExecutor<'_>, event: EventId) -> Result<u32, StoreError> {
    let epoch = sqlx::query_scalar!(
        "insert into event_epochs (event_id, epoch) values ($1, 1)
         on conflict (event_id) do update set epoch = event_epochs.epoch + 1
         returning epoch",
        event.uuid()
    )
    .fetch_one(executor)
    .await?;
    Ok(epoch.cast_unsigned())
}
