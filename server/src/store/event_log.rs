//! What happened, in an order that readers may rely on: rows are written with their cause and read only once every older
//! transaction has ended, so that a cursor never skips one that committed late.

use super::StoreError;
use seatwire_proto::id::EventId;
use serde_json::Value;
use sqlx::PgExecutor;
use sqlx::types::Json;

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogCursor {
    /// The transaction.
    pub xid: u64,
    /// The row in it.
    pub id: i64,
}

impl std::fmt::Display for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.xid, self.id)
    }
}

impl std::str::FromStr for LogCursor {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (xid, id) = text.split_once('-').ok_or(())?;
        Ok(Self { xid: xid.parse().map_err(|_| ())?, id: id.parse().map_err(|_| ())? })
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRow {
    /// Where it stands.
    pub cursor: LogCursor,
    /// In which event.
    pub event: EventId,
    /// What, e.g. `order.paid`.
    pub kind: String,
    /// The facts.
    pub body: Value,
    /// When.
    pub created_ms: u64,
}

/// Notes what happened.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    event: EventId,
    kind: &str,
    body: &Value,
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into event_log (event_id, kind, body, created_ms) values ($1, $2, $3, $4)",
        event.uuid(),
        kind,
        Json(body) as _,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// What happened behind a cursor, oldest first; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_after(
    executor: impl PgExecutor<'_>,
    after: LogCursor,
    limit: u32,
) -> Result<Vec<LogRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select xid::text as "xid!", log_id, event_id, kind, body as "body: Json<Value>", created_ms from event_log
           where (xid, log_id) > ($1::text::xid8, $2) and xid < pg_snapshot_xmin(pg_current_snapshot())
           order by xid, log_id limit $3"#,
        after.xid.to_string(),
        after.id,
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LogRow {
                cursor: LogCursor {
                    xid: row.xid.parse().map_err(|_| StoreError::Malformed(format!("xid {}", row.xid)))?,
                    id: row.log_id,
                },
                event: EventId::from_uuid(row.event_id),
                kind: row.kind,
                body: row.body.0,
                created_ms: row.created_ms.cast_unsigned(),
            })
        })
        .collect()
}
