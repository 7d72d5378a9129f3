//! Who changed what: one row a change, written with it. Nothing is ever altered or deleted here.

use super::StoreError;
use seatwire_proto::id::EventId;
use sqlx::PgExecutor;
use sqlx::types::Uuid;

/// A change to be noted.
#[derive(Debug, Clone)]
pub struct NewEntry<'a> {
    /// The key that was used; `None` for the server itself.
    pub key: Option<Uuid>,
    /// Its name at that time.
    pub key_name: &'a str,
    /// What was done, e.g. `event.state`.
    pub action: &'a str,
    /// To which event.
    pub event: Option<EventId>,
    /// What it came to.
    pub detail: serde_json::Value,
}

/// A noted change.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Entry {
    /// Grows.
    pub id: i64,
    /// When.
    pub at_ms: u64,
    /// Name of the key.
    pub key_name: String,
    /// What was done.
    pub action: String,
    /// What it came to.
    pub detail: serde_json::Value,
}

/// Notes a change; the caller owns the transaction.
///
/// # Errors
/// Postgres' own.
pub async fn insert(executor: impl PgExecutor<'_>, entry: &NewEntry<'_>, now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into admin_log (at_ms, key_id, key_name, action, event_id, detail) values ($1, $2, $3, $4, $5, $6)",
        now_ms as i64,
        entry.key,
        entry.key_name,
        entry.action,
        entry.event.map(EventId::uuid),
        entry.detail
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Changes of an event before `before` (`None`: the newest), newest first.
///
/// # Errors
/// Postgres' own.
pub async fn of_event(
    executor: impl PgExecutor<'_>,
    event: EventId,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let rows = sqlx::query!(
        "select log_id, at_ms, key_name, action, detail from admin_log
         where event_id = $1 and log_id < $2 order by log_id desc limit $3",
        event.uuid(),
        before.unwrap_or(i64::MAX),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Entry {
            id: row.log_id,
            at_ms: row.at_ms as u64,
            key_name: row.key_name,
            action: row.action,
            detail: row.detail,
        })
        .collect())
}
