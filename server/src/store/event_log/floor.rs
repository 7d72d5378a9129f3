//! The lower end of the log: what is older than it is kept is forgotten from the beginning on, never from the middle, and how
//! far is remembered, so that a reader who comes too late is told instead of skipping over a hole.

use super::LogCursor;
use crate::store::StoreError;
use sqlx::{PgConnection, PgExecutor};

/// The turn of the node that forgets.
const FORGET_TURN: i64 = 0x7365_6174_6c6f_6721;

/// The newest row that was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFloor {
    /// Where it stood; whoever reads on from here misses nothing more.
    pub cursor: LogCursor,
    /// When it happened.
    pub created_ms: u64,
}

/// How far the log was forgotten; `None`: all of it is there.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn floor(executor: impl PgExecutor<'_>) -> Result<Option<LogFloor>, StoreError> {
    let row = sqlx::query!(r#"select xid::text as "xid!", log_id, created_ms from event_log_floor"#)
        .fetch_optional(executor)
        .await?;
    row.map(|row| {
        let xid = row.xid.parse().map_err(|_| StoreError::Malformed(format!("xid {}", row.xid)))?;
        let cursor = LogCursor { xid, id: row.log_id };
        Ok(LogFloor { cursor, created_ms: row.created_ms.cast_unsigned() })
    })
    .transpose()
}

/// Forgets what happened before `before_ms`, oldest first and up to the first row that is kept, with its deliveries; at most
/// `limit` rows. Endpoints that had not taken all of it are marked. How many; none while another node forgets.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn forget(transaction: &mut PgConnection, before_ms: u64, limit: u32) -> Result<u64, StoreError> {
    let is_ours = sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock($1) as "is_ours!""#, FORGET_TURN)
        .fetch_one(&mut *transaction)
        .await?;
    if !is_ours {
        return Ok(0);
    }
    let done = sqlx::query!(
        "with oldest as (
             select xid, log_id, created_ms from event_log where xid < pg_snapshot_xmin(pg_current_snapshot())
             order by xid, log_id limit $2),
         first_kept as (select xid, log_id from oldest where created_ms >= $1 order by xid, log_id limit 1),
         gone as (
             select xid, log_id, created_ms from oldest o
             where not exists (select 1 from first_kept k where (k.xid, k.log_id) <= (o.xid, o.log_id))),
         newest as (select xid, log_id, created_ms from gone order by xid desc, log_id desc limit 1),
         its as (
             select d.endpoint_id, d.log_id, d.sent_ms from webhook_endpoints e cross join gone g
             join webhook_deliveries d on d.endpoint_id = e.endpoint_id and d.log_id = g.log_id),
         missed as (
             update webhook_endpoints e set missed_until_ms = n.created_ms from newest n
             where (e.cursor_xid, e.cursor_id) < (n.xid, n.log_id)
                 or e.endpoint_id in (select endpoint_id from its where sent_ms is null)),
         told as (
             delete from webhook_deliveries d using its
             where d.endpoint_id = its.endpoint_id and d.log_id = its.log_id),
         floor as (
             insert into event_log_floor (xid, log_id, created_ms) select xid, log_id, created_ms from newest
             on conflict (floor_id) do update
             set xid = excluded.xid, log_id = excluded.log_id, created_ms = excluded.created_ms)
         delete from event_log l using gone where l.log_id = gone.log_id",
        before_ms.cast_signed(),
        i64::from(limit)
    )
    .execute(transaction)
    .await?;
    Ok(done.rows_affected())
}
