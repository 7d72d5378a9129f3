//! Money on its way back: a row is committed with its key before the provider is asked. The sum of all that goes back is
//! bounded on the order (`orders_money`).

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId};
use serde::{Deserialize, Serialize};
use sqlx::types::{Json, Uuid};
use sqlx::{PgConnection, PgExecutor};

/// Tickets that go back: some of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundLine {
    /// Position of the line in the order.
    pub line: u32,
    /// How many of it.
    pub quantity: u32,
}

/// How a refund stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundState {
    /// The provider is to be asked.
    Due,
    /// The provider needs time.
    Pending,
    /// Back.
    Succeeded,
    /// Not possible.
    Failed,
}

impl RefundState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// A refund as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundRow {
    /// Its id.
    pub id: Uuid,
    /// How much.
    pub amount_minor: i64,
    /// `due`, `submitted`, `pending`, `succeeded` or `failed`.
    pub state: String,
    /// Why it was made, for people.
    pub reason: String,
    /// Why it failed.
    pub failure: Option<String>,
    /// The provider's name for it.
    pub provider_refund: Option<String>,
    /// When it was asked for.
    pub created_ms: u64,
}

/// A refund to be made.
#[derive(Debug, Clone)]
pub struct NewRefundRow<'a> {
    /// Its id.
    pub id: Uuid,
    /// Of which order.
    pub order: OrderId,
    /// Of which event.
    pub event: EventId,
    /// By which provider.
    pub provider: &'a str,
    /// How much.
    pub amount_minor: i64,
    /// Why, for people.
    pub reason: &'a str,
    /// Whose tickets go back; `None` = money only.
    pub lines: Option<&'a [RefundLine]>,
    /// SHA-256 of the operator's request.
    pub fingerprint: Option<[u8; 32]>,
}

/// What a refund was asked for as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeAs {
    /// Of which order.
    pub order: OrderId,
    /// SHA-256 of the operator's request.
    pub fingerprint: Option<Vec<u8>>,
}

/// A refund that is not final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRefund {
    /// Its id.
    pub id: Uuid,
    /// How much.
    pub amount_minor: i64,
    /// The key the provider is asked by.
    pub idempotency_key: String,
    /// Times the provider was asked.
    pub tries_n: u32,
    /// The provider's name for it, once it took it.
    pub provider_refund: Option<String>,
}

/// Records a refund that is due.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(executor: impl PgExecutor<'_>, new: &NewRefundRow<'_>, now_ms: u64) -> Result<(), StoreError> {
    let id = new.id;
    sqlx::query!(
        "insert into refunds (refund_id, order_id, event_id, provider, idempotency_key, amount_minor, reason, state,
             lines, created_ms, fingerprint)
         values ($1, $2, $3, $4, $5, $6, $7, 'due', $8, $9, $10)",
        id,
        new.order.uuid(),
        new.event.uuid(),
        new.provider,
        format!("{}:refund:{id}", new.order),
        new.amount_minor,
        new.reason,
        new.lines.map(Json) as _,
        now_ms.cast_signed(),
        new.fingerprint.as_ref().map(|fingerprint| &fingerprint[..])
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Refunds of an order that are not final, oldest first.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn open_of_order(executor: impl PgExecutor<'_>, order: OrderId) -> Result<Vec<OpenRefund>, StoreError> {
    let rows = sqlx::query!(
        "select refund_id, amount_minor, idempotency_key, key_n, tries_n, provider_refund_id from refunds
         where order_id = $1 and state in ('due', 'submitted', 'pending') order by created_ms, refund_id",
        order.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| OpenRefund {
            id: row.refund_id,
            amount_minor: row.amount_minor,
            idempotency_key: match row.key_n {
                1 => row.idempotency_key,
                n => format!("{}:{n}", row.idempotency_key),
            },
            tries_n: row.tries_n.cast_unsigned(),
            provider_refund: row.provider_refund_id,
        })
        .collect())
}

/// What the refund of this id was asked for as; `None`: there is none.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn made_as(executor: impl PgExecutor<'_>, id: Uuid) -> Result<Option<MadeAs>, StoreError> {
    let found = sqlx::query!("select order_id, fingerprint from refunds where refund_id = $1", id)
        .fetch_optional(executor)
        .await?;
    Ok(found.map(|row| MadeAs { order: OrderId::from_uuid(row.order_id), fingerprint: row.fingerprint }))
}

/// Every refund of an order, oldest first.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_of_order(executor: impl PgExecutor<'_>, order: OrderId) -> Result<Vec<RefundRow>, StoreError> {
    let rows = sqlx::query!(
        "select refund_id, amount_minor, state, reason, failure, provider_refund_id, created_ms from refunds
         where order_id = $1 order by created_ms, refund_id",
        order.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| RefundRow {
            id: row.refund_id,
            amount_minor: row.amount_minor,
            state: row.state,
            reason: row.reason,
            failure: row.failure,
            provider_refund: row.provider_refund_id,
            created_ms: row.created_ms.cast_unsigned(),
        })
        .collect())
}

/// The provider is about to be asked for a refund.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn begin_try(executor: impl PgExecutor<'_>, id: Uuid) -> Result<(), StoreError> {
    sqlx::query!(
        "update refunds set tries_n = tries_n + 1, state = 'submitted'
         where refund_id = $1 and state in ('due', 'submitted')",
        id
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// From now on the provider is asked by another key, unless somebody changed it since the refund was read.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn change_key(executor: impl PgExecutor<'_>, open: &OpenRefund) -> Result<(), StoreError> {
    sqlx::query!(
        "update refunds set key_n = key_n + 1
         where refund_id = $1 and state in ('due', 'submitted')
             and idempotency_key || case key_n when 1 then '' else ':' || key_n end = $2",
        open.id,
        open.idempotency_key
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Writes what became of an open refund. False: it is final already.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_state(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    state: RefundState,
    provider_refund: Option<&str>,
    failure: Option<&str>,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let is_final = matches!(state, RefundState::Succeeded | RefundState::Failed);
    let done = sqlx::query!(
        "update refunds set state = $2, provider_refund_id = coalesce($3, provider_refund_id), failure = $4,
             final_ms = $5
         where refund_id = $1 and state in ('due', 'submitted', 'pending')",
        id,
        state.as_str(),
        provider_refund,
        failure,
        is_final.then_some(now_ms.cast_signed())
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What became of a refund that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reversed {
    /// It had succeeded and has failed now.
    Now {
        /// How much.
        amount_minor: i64,
    },
    /// It is ours and had not succeeded (any more).
    Before,
    /// We never asked for it.
    NotOurs,
}

/// A refund that had succeeded has failed after all.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn reverse(
    transaction: &mut PgConnection,
    order: OrderId,
    provider_refund: &str,
    failure: &str,
    now_ms: u64,
) -> Result<Reversed, StoreError> {
    let row = sqlx::query!(
        "select refund_id, amount_minor, state from refunds where order_id = $1 and provider_refund_id = $2",
        order.uuid(),
        provider_refund
    )
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(row) = row else { return Ok(Reversed::NotOurs) };
    if row.state != "succeeded" {
        return Ok(Reversed::Before);
    }
    sqlx::query!(
        "update refunds set state = 'failed', failure = $2, final_ms = $3 where refund_id = $1",
        row.refund_id,
        failure,
        now_ms.cast_signed()
    )
    .execute(transaction)
    .await?;
    Ok(Reversed::Now { amount_minor: row.amount_minor })
}
