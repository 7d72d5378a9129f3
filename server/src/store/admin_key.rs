//! Keys of operators: their hash, what they may do, and whether they still may. `organiser` checks a presented key against
//! them; the command line makes and revokes them.

use super::StoreError;
use sqlx::PgExecutor;
use sqlx::types::Uuid;

/// A key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminKeyRow {
    /// Its id, no secret.
    pub id: Uuid,
    /// For people.
    pub name: String,
    /// SHA-256 of the secret.
    pub secret_hash: Vec<u8>,
    /// Words of [`Scope`](crate::organiser::Scope).
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_ms: u64,
    /// Since when it opens nothing.
    pub revoked_ms: Option<u64>,
}

/// Enters a key.
///
/// # Errors
/// Postgres' own.
pub async fn insert(executor: impl PgExecutor<'_>, key: &AdminKeyRow) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into admin_keys (key_id, name, secret_hash, scopes, created_ms) values ($1, $2, $3, $4, $5)",
        key.id,
        key.name,
        key.secret_hash,
        &key.scopes,
        key.created_ms as i64
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// The key of this id, revoked or not.
///
/// # Errors
/// Postgres' own.
pub async fn find(executor: impl PgExecutor<'_>, id: Uuid) -> Result<Option<AdminKeyRow>, StoreError> {
    let row = sqlx::query!(
        "select key_id, name, secret_hash, scopes, created_ms, revoked_ms from admin_keys where key_id = $1",
        id
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(|row| AdminKeyRow {
        id: row.key_id,
        name: row.name,
        secret_hash: row.secret_hash,
        scopes: row.scopes,
        created_ms: row.created_ms as u64,
        revoked_ms: row.revoked_ms.map(|ms| ms as u64),
    }))
}

/// Every key, newest first, at most `limit`.
///
/// # Errors
/// Postgres' own.
pub async fn list(executor: impl PgExecutor<'_>, limit: u32) -> Result<Vec<AdminKeyRow>, StoreError> {
    let rows = sqlx::query!(
        "select key_id, name, secret_hash, scopes, created_ms, revoked_ms from admin_keys order by key_id desc limit $1",
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AdminKeyRow {
            id: row.key_id,
            name: row.name,
            secret_hash: row.secret_hash,
            scopes: row.scopes,
            created_ms: row.created_ms as u64,
            revoked_ms: row.revoked_ms.map(|ms| ms as u64),
        })
        .collect())
}

/// Ends a key; `false` when there is none that still opened something.
///
/// # Errors
/// Postgres' own.
pub async fn revoke(executor: impl PgExecutor<'_>, id: Uuid, now_ms: u64) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update admin_keys set revoked_ms = $2 where key_id = $1 and revoked_ms is null",
        id,
        now_ms as i64
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}
