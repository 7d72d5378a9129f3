//! First answers of checkout, pay and cancel, by identity and key. A row is claimed before anything happens and finished
//! with the answer; a claim whose run died is taken over after its time.

use super::StoreError;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use sqlx::PgExecutor;
use sqlx::types::{Json, JsonValue, Uuid};
use std::collections::HashMap;

/// A claim to be made.
#[derive(Debug, Clone)]
pub struct NewClaim {
    /// Whose.
    pub identity: IdentityId,
    /// Which key.
    pub key: IdempotencyKey,
    /// Of op and fields.
    pub fingerprint: [u8; 32],
    /// Which order it is about, or will make.
    pub order: OrderId,
    /// What a checkout locks.
    pub hold: Option<HoldId>,
    /// This run: made for the claim, the same when it is made again after a lost answer.
    pub run: Uuid,
    /// By which node.
    pub node: Uuid,
}

/// What a key says.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// It is ours: run. The order is the one the first run chose.
    Ours {
        /// Which.
        order: OrderId,
        /// Nobody ran it before: there is no such order yet.
        is_first: bool,
    },
    /// Another run has it.
    Running,
    /// It was used with other fields.
    Reused,
    /// It was answered.
    Answered(JsonValue),
}

/// Claims keys until `until_ms`, each once; what each says, in their order. A claim whose node has stopped saying that it lives
/// (`journal_writers`) is over before its time; one whose node never said so is not.
///
/// # Errors
/// When Postgres cannot answer, or a key stands twice among them.
pub async fn claim(
    executor: impl PgExecutor<'_>,
    claims: &[NewClaim],
    now_ms: u64,
    until_ms: u64,
) -> Result<Vec<Claim>, StoreError> {
    // One statement: insert, or take a dead run over, or read what is there. The update runs on every conflict, so that
    // `returning` always has the row; it changes the row only when its run is dead. In one order of keys for everybody, so
    // that two statements cannot deadlock.
    let rows = sqlx::query!(
        r#"insert into order_commands as c
               (identity_id, command_key, fingerprint, order_id, hold_id, run_id, node, running_until_ms, created_ms)
           select identity_id, command_key, fingerprint, order_id, hold_id, run_id, node, $8, $9
           from unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[])
               as n(identity_id, command_key, fingerprint, order_id, hold_id, run_id, node)
           order by identity_id, command_key
           on conflict (identity_id, command_key) do update set (run_id, node, running_until_ms) = (
               select case when is_free then excluded.run_id else c.run_id end,
                   case when is_free then excluded.node else c.node end,
                   case when is_free then excluded.running_until_ms else c.running_until_ms end
               from (select c.answer is null and c.fingerprint = excluded.fingerprint
                   and (c.running_until_ms <= $9 or exists (
                       select from journal_writers w where w.writer = c.node
                           and w.alive_until_ms < (extract(epoch from clock_timestamp()) * 1000)::bigint)) as is_free) s)
           returning identity_id, command_key, fingerprint, order_id, answer as "answer: Json<JsonValue>", run_id,
               xmax = 0 as "is_first!""#,
        &claims.iter().map(|claim| claim.identity.uuid()).collect::<Vec<_>>(),
        &claims.iter().map(|claim| claim.key.as_str().to_owned()).collect::<Vec<_>>(),
        &claims.iter().map(|claim| claim.fingerprint.to_vec()).collect::<Vec<_>>(),
        &claims.iter().map(|claim| claim.order.uuid()).collect::<Vec<_>>(),
        &claims.iter().map(|claim| claim.hold.map(HoldId::uuid)).collect::<Vec<_>>() as &[Option<Uuid>],
        &claims.iter().map(|claim| claim.run).collect::<Vec<_>>(),
        &claims.iter().map(|claim| claim.node).collect::<Vec<_>>(),
        until_ms.cast_signed(),
        now_ms.cast_signed()
    )
    .fetch_all(executor)
    .await?;
    let mut said: HashMap<(Uuid, String), _> =
        rows.into_iter().map(|mut row| ((row.identity_id, std::mem::take(&mut row.command_key)), row)).collect();
    claims
        .iter()
        .map(|claim| {
            let row = said.remove(&(claim.identity.uuid(), claim.key.as_str().to_owned()));
            let row = row.ok_or_else(|| StoreError::Malformed("a claim that says nothing".to_owned()))?;
            Ok(if row.fingerprint != claim.fingerprint {
                Claim::Reused
            } else if let Some(answer) = row.answer {
                Claim::Answered(answer.0)
            } else if row.run_id == claim.run {
                Claim::Ours { order: OrderId::from_uuid(row.order_id), is_first: row.is_first }
            } else {
                Claim::Running
            })
        })
        .collect()
}

/// Remembers the answer; the first one counts. False: there is one already, or no such key.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn finish(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    key: &IdempotencyKey,
    answer: &JsonValue,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update order_commands set answer = $3 where identity_id = $1 and command_key = $2 and answer is null",
        identity.uuid(),
        key.as_str(),
        Json(answer) as _
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The answer a key has.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn answer(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    key: &IdempotencyKey,
) -> Result<Option<JsonValue>, StoreError> {
    let answer = sqlx::query_scalar!(
        r#"select answer as "answer: Json<JsonValue>" from order_commands where identity_id = $1 and command_key = $2"#,
        identity.uuid(),
        key.as_str()
    );
    Ok(answer.fetch_optional(executor).await?.flatten().map(|answer| answer.0))
}

/// Ends a claim without an answer: whoever repeats the key runs it again at once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn give_up(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    key: &IdempotencyKey,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update order_commands set running_until_ms = 0
         where identity_id = $1 and command_key = $2 and answer is null",
        identity.uuid(),
        key.as_str()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// A checkout whose run died before it made an order: its hold may be locked for nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCheckout {
    /// Whose.
    pub identity: IdentityId,
    /// Under which key.
    pub key: String,
    /// The order it would have made.
    pub order: OrderId,
    /// The hold it may have locked.
    pub hold: HoldId,
    /// Its claim, for [`take_over`].
    pub running_until_ms: i64,
}

/// Checkouts whose claim ended before `before_ms` without an answer or an order; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_dead(
    executor: impl PgExecutor<'_>,
    before_ms: u64,
    limit: u32,
) -> Result<Vec<DeadCheckout>, StoreError> {
    let rows = sqlx::query!(
        r#"select identity_id, command_key, order_id, hold_id as "hold_id!", running_until_ms from order_commands c
           where answer is null and running_until_ms < $1 and created_ms < $1 and hold_id is not null
             and not exists (select 1 from orders o where o.order_id = c.order_id)
           order by running_until_ms limit $2"#,
        before_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| DeadCheckout {
            identity: IdentityId::from_uuid(row.identity_id),
            key: row.command_key,
            order: OrderId::from_uuid(row.order_id),
            hold: HoldId::from_uuid(row.hold_id),
            running_until_ms: row.running_until_ms,
        })
        .collect())
}

/// Takes a dead checkout over until `until_ms`. False: somebody else did, or it lives.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take_over(executor: impl PgExecutor<'_>, dead: &DeadCheckout, until_ms: u64) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update order_commands c set running_until_ms = $4, run_id = $5
         where identity_id = $1 and command_key = $2 and answer is null and running_until_ms = $3
             and not exists (select 1 from orders o where o.order_id = c.order_id)",
        dead.identity.uuid(),
        dead.key,
        dead.running_until_ms,
        until_ms.cast_signed(),
        Uuid::now_v7()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Forgets a checkout that was taken over and undone.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn forget(executor: impl PgExecutor<'_>, dead: &DeadCheckout) -> Result<(), StoreError> {
    sqlx::query!(
        "delete from order_commands where identity_id = $1 and command_key = $2 and answer is null",
        dead.identity.uuid(),
        dead.key
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Forgets answers older than `before_ms`; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn prune(executor: impl PgExecutor<'_>, before_ms: u64, limit: u32) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "delete from order_commands where (identity_id, command_key) in (
             select identity_id, command_key from order_commands
             where created_ms < $1 and answer is not null order by created_ms limit $2)",
        before_ms.cast_signed(),
        i64::from(limit)
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}
