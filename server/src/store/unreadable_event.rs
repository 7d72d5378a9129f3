//! Signed words of the provider that nobody can read: kept byte for byte until a person has looked at them.

use super::StoreError;
use sha2::{Digest, Sha256};
use sqlx::PgExecutor;

/// Such a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEvent {
    /// SHA-256 of it, its name.
    pub hash: Vec<u8>,
    /// As it came.
    pub body: Vec<u8>,
    /// When it first came.
    pub received_ms: u64,
}

/// Keeps one. False: it was there.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    provider: &str,
    body: &[u8],
    now_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "insert into unreadable_events (provider, body_hash, body, received_ms) values ($1, $2, $3, $4)
         on conflict (provider, body_hash) do nothing",
        provider,
        &Sha256::digest(body)[..],
        body,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What waits for a person, oldest first; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list(executor: impl PgExecutor<'_>, limit: u32) -> Result<Vec<UnreadableEvent>, StoreError> {
    let rows = sqlx::query!(
        "select body_hash, body, received_ms from unreadable_events order by received_ms limit $1",
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| UnreadableEvent {
            hash: row.body_hash,
            body: row.body,
            received_ms: row.received_ms.cast_unsigned(),
        })
        .collect())
}

/// A person has looked at it. False: there is none.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn remove(executor: impl PgExecutor<'_>, hash: &[u8]) -> Result<bool, StoreError> {
    let done = sqlx::query!("delete from unreadable_events where body_hash = $1", hash).execute(executor).await?;
    Ok(done.rows_affected() == 1)
}

/// Forgets those that came before `before_ms`; at most `limit`. How many.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn forget(executor: impl PgExecutor<'_>, before_ms: u64, limit: u32) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "delete from unreadable_events where (provider, body_hash) in (
             select provider, body_hash from unreadable_events where received_ms < $1 order by received_ms limit $2)",
        before_ms.cast_signed(),
        i64::from(limit)
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}

/// How many wait for a person.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn count(executor: impl PgExecutor<'_>) -> Result<u64, StoreError> {
    let n = sqlx::query_scalar!(r#"select count(*) as "n!" from unreadable_events"#).fetch_one(executor).await?;
    Ok(n.cast_unsigned())
}
