//! What happened, in an order that readers may rely on: rows are written with their cause and read only once every older
//! transaction has ended, so that a cursor never skips one that committed late.

mod floor;
mod kind;

pub use floor::{LogFloor, floor, forget};
pub use kind::LogKind;

use super::StoreError;
use seatwire_proto::id::EventId;
use serde_json::{Value, json};
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};

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
        let id: i64 = id.parse().map_err(|_| ())?;
        if id < 0 { Err(()) } else { Ok(Self { xid: xid.parse().map_err(|_| ())?, id }) }
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
    kind: LogKind,
    body: &Value,
    now_ms: u64,
) -> Result<(), StoreError> {
    insert_all(executor, event, &[(kind, body.clone())], now_ms).await
}

/// Notes several things that happened together, in this order.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert_all(
    executor: impl PgExecutor<'_>,
    event: EventId,
    rows: &[(LogKind, Value)],
    now_ms: u64,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into event_log (event_id, kind, body, created_ms)
         select $1, kind, body, $4 from unnest($2::text[], $3::jsonb[]) with ordinality as t(kind, body, n) order by n",
        event.uuid(),
        &rows.iter().map(|(kind, _)| kind.as_str().to_owned()).collect::<Vec<_>>(),
        &rows.iter().map(|(_, body)| body.clone()).collect::<Vec<_>>(),
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

/// Notes events whose presale or on-sale began by itself, each once; at most `limit`. Those that opened before `since_ms`
/// are old news.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert_openings(
    transaction: &mut PgConnection,
    since_ms: u64,
    now_ms: u64,
    limit: u32,
) -> Result<(), StoreError> {
    let opened = sqlx::query!(
        r#"with due as (
               -- Each half by its own index of the times to come.
               select id, kind, at_ms from (
                   select id, 'presale' as kind, presale_ms as at_ms from events
                   where state in ('scheduled', 'presale', 'on_sale') and presale_ms > $1 and presale_ms <= $2
                   union all
                   select id, 'on_sale', on_sale_ms from events
                   where state in ('scheduled', 'presale', 'on_sale') and on_sale_ms > $1 and on_sale_ms <= $2) as t
               where not exists (select 1 from event_openings o
                       where o.event_id = t.id and o.kind = t.kind and o.at_ms = t.at_ms)
               order by at_ms limit $3)
           insert into event_openings (event_id, kind, at_ms) select id, kind, at_ms from due
           on conflict do nothing returning event_id, kind, at_ms"#,
        since_ms.cast_signed(),
        now_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(&mut *transaction)
    .await?;
    for row in opened {
        let event = EventId::from_uuid(row.event_id);
        let kind = if row.kind == "presale" { LogKind::EventPresale } else { LogKind::EventOnSale };
        insert(&mut *transaction, event, kind, &json!({"event": event, "opened_ms": row.at_ms}), now_ms).await?;
    }
    Ok(())
}
