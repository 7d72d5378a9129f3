//! What the world must still be told, written in the transaction of its cause. The relay takes rows nobody else has, in
//! the order of their making within an order, and deletes them once they are delivered.

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId};
use sqlx::{PgConnection, PgExecutor};

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Errand {
    /// The order's places are sold: the shelf, then the buyer.
    Sell,
    /// The order's places are free: the shelf, then the buyer.
    Free,
    /// The order changed: the buyer.
    Update,
}

impl Errand {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sell => "sell",
            Self::Free => "free",
            Self::Update => "order_update",
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its number.
    pub id: i64,
    /// Of which event.
    pub event: EventId,
    /// Of which order.
    pub order: OrderId,
    /// What.
    pub errand: Errand,
    /// Deliveries that failed.
    pub tries_n: u32,
}

/// Writes a row.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    errand: Errand,
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into outbox (event_id, order_id, kind, body, due_ms, created_ms) values ($1, $2, $3, '{}', $4, $4)",
        event.uuid(),
        order.uuid(),
        errand.as_str(),
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Takes due rows for the length of the transaction: those nobody else has, and of each order only the oldest, so that
/// what happened first is told first.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take(transaction: &mut PgConnection, now_ms: u64, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
    let rows = sqlx::query!(
        "select outbox_id, event_id, order_id, kind, tries_n from outbox o
         where due_ms <= $1
           and not exists (select 1 from outbox p where p.order_id = o.order_id and p.outbox_id < o.outbox_id)
         order by outbox_id limit $2 for update skip locked",
        now_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(transaction)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(OutboxRow {
                id: row.outbox_id,
                event: EventId::from_uuid(row.event_id),
                order: OrderId::from_uuid(row.order_id),
                errand: match row.kind.as_str() {
                    "sell" => Errand::Sell,
                    "free" => Errand::Free,
                    "order_update" => Errand::Update,
                    other => return Err(StoreError::Malformed(format!("outbox kind {other}"))),
                },
                tries_n: row.tries_n.cast_unsigned(),
            })
        })
        .collect()
}

/// Deletes delivered rows.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn delete(executor: impl PgExecutor<'_>, ids: &[i64]) -> Result<(), StoreError> {
    sqlx::query!("delete from outbox where outbox_id = any($1)", ids).execute(executor).await?;
    Ok(())
}

/// Puts rows off after a failed delivery.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn put_off(executor: impl PgExecutor<'_>, ids: &[i64], due_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "update outbox set due_ms = $2, tries_n = tries_n + 1 where outbox_id = any($1)",
        ids,
        due_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Rows that wait, whether due or not.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn count(executor: impl PgExecutor<'_>) -> Result<u64, StoreError> {
    let n = sqlx::query_scalar!(r#"select count(*) as "n!" from outbox"#).fetch_one(executor).await?;
    Ok(n.cast_unsigned())
}
