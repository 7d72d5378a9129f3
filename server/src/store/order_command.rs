//! First answers of checkout, pay and cancel, by identity and key. A row is claimed before anything happens and finished
//! with the answer; a claim whose run died is taken over after its time.

use super::StoreError;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use sqlx::PgExecutor;
use sqlx::types::{Json, JsonValue, Uuid};

/// A claim to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewClaim<'a> {
    /// Whose.
    pub identity: IdentityId,
    /// Which key.
    pub key: &'a IdempotencyKey,
    /// Of op and fields.
    pub fingerprint: &'a [u8; 32],
    /// Which order it is about, or will make.
    pub order: OrderId,
    /// What a checkout locks.
    pub hold: Option<HoldId>,
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

/// Claims a key until `until_ms`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn claim(
    executor: impl PgExecutor<'_>,
    new: NewClaim<'_>,
    now_ms: u64,
    until_ms: u64,
) -> Result<Claim, StoreError> {
    let run = Uuid::now_v7();
    // One statement: insert, or take a dead run over, or read what is there. The update runs on every conflict, so that
    // `returning` always has the row; it changes the row only when its run is dead.
    let row = sqlx::query!(
        r#"insert into order_commands as c
               (identity_id, command_key, fingerprint, order_id, hold_id, run_id, running_until_ms, created_ms)
           values ($1, $2, $3, $4, $5, $8, $7, $6)
           on conflict (identity_id, command_key) do update set (run_id, running_until_ms) = (
               select excluded.run_id, excluded.running_until_ms
               where c.answer is null and c.running_until_ms <= $6 and c.fingerprint = excluded.fingerprint
               union all
               select c.run_id, c.running_until_ms
               where c.answer is not null or c.running_until_ms > $6 or c.fingerprint <> excluded.fingerprint)
           returning fingerprint, order_id, answer as "answer: Json<JsonValue>", run_id, xmax = 0 as "is_first!""#,
        new.identity.uuid(),
        new.key.as_str(),
        &new.fingerprint[..],
        new.order.uuid(),
        new.hold.map(HoldId::uuid),
        now_ms.cast_signed(),
        until_ms.cast_signed(),
        run
    )
    .fetch_one(executor)
    .await?;
    Ok(if row.fingerprint != new.fingerprint {
        Claim::Reused
    } else if let Some(answer) = row.answer {
        Claim::Answered(answer.0)
    } else if row.run_id == run {
        Claim::Ours { order: OrderId::from_uuid(row.order_id), is_first: row.is_first }
    } else {
        Claim::Running
    })
}

/// Remembers the answer; the first one counts.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn finish(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    key: &IdempotencyKey,
    answer: &JsonValue,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update order_commands set answer = $3 where identity_id = $1 and command_key = $2 and answer is null",
        identity.uuid(),
        key.as_str(),
        Json(answer) as _
    )
    .execute(executor)
    .await?;
    Ok(())
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
