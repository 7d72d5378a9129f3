//! What the provider told us, kept before it is applied: the provider's own event id makes a repetition harmless.

use super::StoreError;
use sqlx::PgExecutor;
use std::collections::HashSet;

/// Something the provider said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEvent {
    /// The provider's name for it.
    pub id: String,
    /// e.g. `payment_intent.succeeded`.
    pub kind: String,
    /// The intent it is about.
    pub intent: Option<String>,
    /// The whole of it, JSON.
    pub body: String,
    /// When it came.
    pub received_ms: u64,
    /// Times it could not be applied.
    pub tries_n: u32,
    /// We have read it in the provider's own list, so that it is true; else it was brought to us.
    pub is_from_list: bool,
}

/// Keeps events; the names of those that were not there. What is read in the provider's list takes the place of what was
/// brought under the same name and is not applied yet, and counts as well.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    provider: &str,
    events: &[InboxEvent],
) -> Result<HashSet<String>, StoreError> {
    let column = |of: fn(&InboxEvent) -> &str| events.iter().map(|event| of(event).to_owned()).collect::<Vec<_>>();
    let intents: Vec<Option<String>> = events.iter().map(|event| event.intent.clone()).collect();
    let from_list: Vec<bool> = events.iter().map(|event| event.is_from_list).collect();
    let received_ms: Vec<i64> = events.iter().map(|event| event.received_ms.cast_signed()).collect();
    let new = sqlx::query_scalar!(
        "insert into webhook_inbox (provider, provider_event_id, kind, intent_id, body, received_ms, due_ms, is_from_list)
         select distinct on (id) $1, id, kind, intent, body, received_ms, received_ms, is_from_list
         from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::boolean[])
             as t(id, kind, intent, body, received_ms, is_from_list)
         order by id, is_from_list desc
         on conflict (provider, provider_event_id) do update set kind = excluded.kind, intent_id = excluded.intent_id,
             body = excluded.body, is_from_list = true, due_ms = least(webhook_inbox.due_ms, excluded.due_ms)
         where excluded.is_from_list and not webhook_inbox.is_from_list and webhook_inbox.applied_ms is null
         returning provider_event_id",
        provider,
        &column(|event| &event.id),
        &column(|event| &event.kind),
        &intents as &[Option<String>],
        &column(|event| &event.body),
        &received_ms,
        &from_list
    )
    .fetch_all(executor)
    .await?;
    Ok(new.into_iter().collect())
}

/// Takes due events for oneself until `until_ms`, oldest first; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take(
    executor: impl PgExecutor<'_>,
    provider: &str,
    now_ms: u64,
    until_ms: u64,
    limit: u32,
) -> Result<Vec<InboxEvent>, StoreError> {
    let rows = sqlx::query!(
        "update webhook_inbox set due_ms = $3, tries_n = tries_n + 1
         where (provider, provider_event_id) in (
             select provider, provider_event_id from webhook_inbox
             where provider = $1 and applied_ms is null and due_ms <= $2 order by due_ms limit $4
             for update skip locked)
         returning provider_event_id, kind, intent_id, body, received_ms, tries_n, is_from_list",
        provider,
        now_ms.cast_signed(),
        until_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    let mut events: Vec<InboxEvent> = rows
        .into_iter()
        .map(|row| InboxEvent {
            id: row.provider_event_id,
            kind: row.kind,
            intent: row.intent_id,
            body: row.body,
            received_ms: row.received_ms.cast_unsigned(),
            tries_n: row.tries_n.cast_unsigned(),
            is_from_list: row.is_from_list,
        })
        .collect();
    events.sort_by_key(|event| event.received_ms);
    Ok(events)
}

/// These events have done their work.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_applied(
    executor: impl PgExecutor<'_>,
    provider: &str,
    ids: &[String],
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update webhook_inbox set applied_ms = $3 where provider = $1 and provider_event_id = any($2)",
        provider,
        ids,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// What taking an event came to, where it is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// It was tried.
    InVain,
    /// It was not, and the try does not count.
    NotAtAll,
}

/// Puts an event that was taken off until `due_ms`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn put_off(
    executor: impl PgExecutor<'_>,
    provider: &str,
    id: &str,
    tried: Tried,
    due_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update webhook_inbox set due_ms = $3, tries_n = greatest(tries_n - $4, 0)
         where provider = $1 and provider_event_id = $2",
        provider,
        id,
        due_ms.cast_signed(),
        i32::from(tried == Tried::NotAtAll)
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Whatever waits is due now.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn hasten(executor: impl PgExecutor<'_>, provider: &str, now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "update webhook_inbox set due_ms = $2 where provider = $1 and applied_ms is null and due_ms > $2",
        provider,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Forgets applied events older than `before_ms`; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn prune(executor: impl PgExecutor<'_>, before_ms: u64, limit: u32) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "delete from webhook_inbox where (provider, provider_event_id) in (
             select provider, provider_event_id from webhook_inbox
             where applied_ms is not null and received_ms < $1 limit $2)",
        before_ms.cast_signed(),
        i64::from(limit)
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}

/// How far the provider's list of events was read; `None` before the first time.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn cursor(executor: impl PgExecutor<'_>, provider: &str) -> Result<Option<String>, StoreError> {
    let cursor = sqlx::query_scalar!("select cursor from provider_cursors where provider = $1", provider)
        .fetch_optional(executor)
        .await?;
    Ok(cursor)
}

/// Remembers how far the list was read.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_cursor(executor: impl PgExecutor<'_>, provider: &str, cursor: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into provider_cursors (provider, cursor) values ($1, $2)
         on conflict (provider) do update set cursor = excluded.cursor",
        provider,
        cursor
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Forgets how far the list was read, unless it was read on meanwhile.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn forget_cursor(executor: impl PgExecutor<'_>, provider: &str, cursor: &str) -> Result<(), StoreError> {
    sqlx::query!("delete from provider_cursors where provider = $1 and cursor = $2", provider, cursor)
        .execute(executor)
        .await?;
    Ok(())
}
