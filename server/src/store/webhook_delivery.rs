//! What is on its way to organisers: rows of the log become deliveries, each sent until it is taken or its time is over.

use super::StoreError;
use super::event_log::LogCursor;
use super::webhook_endpoint::EndpointSecret;
use serde_json::Value;
use sqlx::types::{Json, Uuid};
use sqlx::{PgExecutor, PgPool};

/// Something on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// To which endpoint.
    pub endpoint: Uuid,
    /// Which row of the log; its name for the receiver.
    pub log_id: i64,
    /// Tries so far, this one included.
    pub tries_n: u32,
    /// Where.
    pub url: String,
    /// What signs.
    pub secrets: Vec<EndpointSecret>,
    /// What happened.
    pub kind: String,
    /// The facts.
    pub body: Value,
    /// When it happened.
    pub created_ms: u64,
}

/// Sends one message once more, whether it was taken or not. False: it was never on its way there.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn replay_one(executor: impl PgExecutor<'_>, id: Uuid, log_id: i64, now_ms: u64) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update webhook_deliveries set due_ms = $3, sent_ms = null, tries_n = 0 where endpoint_id = $1 and log_id = $2",
        id,
        log_id,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// How a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Which row of the log.
    pub log_id: i64,
    /// Its type.
    pub kind: String,
    /// Tries so far.
    pub tries_n: u32,
    /// Why the last one failed.
    pub failure: Option<String>,
    /// When the next one is due.
    pub due_ms: u64,
    /// When it was taken.
    pub sent_ms: Option<u64>,
}

/// Deliveries to an endpoint, newest first, older than `before`; only those that were not taken, where asked so; at most
/// `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn deliveries(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    before: Option<i64>,
    only_open: bool,
    limit: u32,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let rows = sqlx::query!(
        "select d.log_id, l.kind, d.tries_n, d.failure, d.due_ms, d.sent_ms
         from webhook_deliveries d join event_log l using (log_id)
         where d.endpoint_id = $1 and ($2::bigint is null or d.log_id < $2) and (not $3 or d.sent_ms is null)
         order by d.log_id desc limit $4",
        id,
        before,
        only_open,
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| DeliveryRow {
            log_id: row.log_id,
            kind: row.kind,
            tries_n: row.tries_n.cast_unsigned(),
            failure: row.failure,
            due_ms: row.due_ms.cast_unsigned(),
            sent_ms: row.sent_ms.map(i64::cast_unsigned),
        })
        .collect())
}

/// Sends what stands behind a cursor of the log once more, as far as the endpoint wants it, whether it was taken or not;
/// how many.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn replay(executor: impl PgExecutor<'_>, id: Uuid, after: LogCursor, now_ms: u64) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "insert into webhook_deliveries as d (endpoint_id, log_id, due_ms)
         select e.endpoint_id, l.log_id, $2 from webhook_endpoints e, event_log l
         where e.endpoint_id = $1 and (l.xid, l.log_id) > ($3::text::xid8, $4)
             and (l.xid, l.log_id) <= (e.cursor_xid, e.cursor_id)
             and case when e.types is null then l.kind not like 'hold.%'
                 else l.kind = any(e.types) or split_part(l.kind, '.', 1) = any(e.types) end
         on conflict (endpoint_id, log_id) do update set due_ms = excluded.due_ms, sent_ms = null, tries_n = 0",
        id,
        now_ms.cast_signed(),
        after.xid.to_string(),
        after.id
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}

/// Puts new rows of the log on their way to every endpoint that wants them; at most `limit` are looked at for each.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn fan_out(pool: &PgPool, now_ms: u64, limit: u32) -> Result<u64, StoreError> {
    let mut transaction = crate::store::begin(pool).await?;
    let endpoints = sqlx::query_scalar!(
        "select endpoint_id from webhook_endpoints where disabled_ms is null for update skip locked"
    )
    .fetch_all(&mut *transaction)
    .await?;
    let mut n = 0;
    for id in endpoints {
        let done = sqlx::query!(
            "with fresh as (
                 select l.xid, l.log_id, case when e.types is null then l.kind not like 'hold.%'
                     else l.kind = any(e.types) or split_part(l.kind, '.', 1) = any(e.types) end as is_wanted
                 from event_log l, webhook_endpoints e
                 where e.endpoint_id = $1 and (l.xid, l.log_id) > (e.cursor_xid, e.cursor_id)
                     and l.xid < pg_snapshot_xmin(pg_current_snapshot())
                 order by l.xid, l.log_id limit $3),
             moved as (
                 update webhook_endpoints e set (cursor_xid, cursor_id) = (f.xid, f.log_id)
                 from (select xid, log_id from fresh order by xid desc, log_id desc limit 1) f
                 where e.endpoint_id = $1)
             insert into webhook_deliveries (endpoint_id, log_id, due_ms) select $1, log_id, $2 from fresh where is_wanted
             on conflict do nothing",
            id,
            now_ms.cast_signed(),
            i64::from(limit)
        )
        .execute(&mut *transaction)
        .await?;
        n += done.rows_affected();
    }
    transaction.commit().await?;
    Ok(n)
}

/// Takes due deliveries until `until_ms`: of every endpoint but those in `without` its oldest, at most `limit` each, so that
/// none waits behind another's. Those tried `max_tries` times are over.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take(
    executor: impl PgExecutor<'_>,
    now_ms: u64,
    until_ms: u64,
    max_tries: u32,
    limit: u32,
    without: &[Uuid],
) -> Result<Vec<Delivery>, StoreError> {
    let rows = sqlx::query!(
        r#"with due as (
               select d.endpoint_id, d.log_id from webhook_endpoints e cross join lateral (
                   select endpoint_id, log_id from webhook_deliveries
                   where endpoint_id = e.endpoint_id and sent_ms is null and due_ms <= $1 and tries_n < $3
                   order by due_ms, log_id limit $4 for update skip locked) d
               where e.disabled_ms is null and e.endpoint_id <> all($5))
           update webhook_deliveries d set due_ms = $2, tries_n = tries_n + 1
           from due, webhook_endpoints e, event_log l
           where d.endpoint_id = due.endpoint_id and d.log_id = due.log_id and e.endpoint_id = d.endpoint_id
               and l.log_id = d.log_id
           returning d.endpoint_id, d.log_id, d.tries_n, e.url, e.secrets as "secrets: Json<Vec<EndpointSecret>>",
               l.kind, l.body as "body: Json<Value>", l.created_ms"#,
        now_ms.cast_signed(),
        until_ms.cast_signed(),
        max_tries.cast_signed(),
        i64::from(limit),
        without
    )
    .fetch_all(executor)
    .await?;
    let mut due: Vec<Delivery> = rows
        .into_iter()
        .map(|row| Delivery {
            endpoint: row.endpoint_id,
            log_id: row.log_id,
            tries_n: row.tries_n.cast_unsigned(),
            url: row.url,
            secrets: row.secrets.0,
            kind: row.kind,
            body: row.body.0,
            created_ms: row.created_ms.cast_unsigned(),
        })
        .collect();
    due.sort_by_key(|delivery| delivery.log_id);
    Ok(due)
}

/// Gives back deliveries that were taken and not tried to their end: due at once, and the try does not count.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn give_back(
    executor: impl PgExecutor<'_>,
    deliveries: &[(Uuid, i64)],
    now_ms: u64,
) -> Result<(), StoreError> {
    let (endpoints, logs): (Vec<Uuid>, Vec<i64>) = deliveries.iter().copied().unzip();
    sqlx::query!(
        "update webhook_deliveries d set due_ms = $3, tries_n = greatest(tries_n - 1, 0)
         from unnest($1::uuid[], $2::bigint[]) as t(endpoint_id, log_id)
         where d.endpoint_id = t.endpoint_id and d.log_id = t.log_id and d.sent_ms is null",
        &endpoints,
        &logs,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Taken by the receiver.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_sent(executor: impl PgExecutor<'_>, delivery: &Delivery, now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "with well as (update webhook_endpoints set failing_since_ms = null, failures_n = 0, last_failed_ms = null
             where endpoint_id = $1 and failing_since_ms is not null)
         update webhook_deliveries set sent_ms = $3, failure = null where endpoint_id = $1 and log_id = $2",
        delivery.endpoint,
        delivery.log_id,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Not taken; again at `due_ms`. The endpoint has failed since its first failure that neither a success nor a silence of
/// more than `quiet_ms` came after.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn put_off(
    executor: impl PgExecutor<'_>,
    delivery: &Delivery,
    failure: &str,
    now_ms: u64,
    due_ms: u64,
    quiet_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "with ill as (update webhook_endpoints set last_failed_ms = $5,
                 failing_since_ms = case when last_failed_ms >= $5::bigint - $6::bigint then failing_since_ms else $5 end,
                 failures_n = case when last_failed_ms >= $5::bigint - $6::bigint then failures_n else 0 end + 1
             where endpoint_id = $1)
         update webhook_deliveries set due_ms = $4, failure = $3 where endpoint_id = $1 and log_id = $2",
        delivery.endpoint,
        delivery.log_id,
        failure,
        due_ms.cast_signed(),
        now_ms.cast_signed(),
        quiet_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}
