//! First answers of joining and leaving by the client's key, which is the identity's in whatever event it was used.

use crate::store::StoreError;
use seatwire_proto::id::{EventId, IdentityId};
use sqlx::PgExecutor;

/// The first answer under a key of the identity, in whatever event: the fingerprint of its command, and the answer.
///
/// # Errors
/// Postgres' own.
pub async fn first_answer(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    key: &str,
) -> Result<Option<(Vec<u8>, serde_json::Value)>, StoreError> {
    let row = sqlx::query!(
        "select fingerprint, answer from waitlist_commands where identity_id = $1 and command_key = $2
         order by created_ms limit 1",
        identity.uuid(),
        key
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(|row| (row.fingerprint, row.answer)))
}

/// Keeps the first answer under a key.
///
/// # Errors
/// Postgres' own.
pub async fn remember(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    key: &str,
    fingerprint: &[u8],
    answer: &serde_json::Value,
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into waitlist_commands (event_id, identity_id, command_key, fingerprint, answer, created_ms)
         values ($1, $2, $3, $4, $5, $6) on conflict (event_id, identity_id, command_key) do nothing",
        event.uuid(),
        identity.uuid(),
        key,
        fingerprint,
        answer,
        now_ms as i64
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Forgets answers older than this, a bounded number.
///
/// # Errors
/// Postgres' own.
pub async fn forget_answers(executor: impl PgExecutor<'_>, before_ms: u64, limit: u32) -> Result<(), StoreError> {
    sqlx::query!(
        "delete from waitlist_commands where (event_id, identity_id, command_key) in (
             select event_id, identity_id, command_key from waitlist_commands where created_ms < $1 limit $2)",
        before_ms as i64,
        i64::from(limit)
    )
    .execute(executor)
    .await?;
    Ok(())
}
