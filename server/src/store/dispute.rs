//! Payments whose buyers' banks want the money back, as the provider tells of them. Won and lost are final: a word that
//! comes late changes nothing.

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId};
use sqlx::{PgConnection, PgExecutor};

/// What the provider says of a dispute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisputeRow {
    /// The provider's name for it.
    pub id: String,
    /// About which charge.
    pub charge: Option<String>,
    /// How much.
    pub amount_minor: i64,
    /// ISO 4217 in capitals.
    pub currency: String,
    /// The bank's reason, in the provider's word.
    pub reason: String,
    /// The provider's word: `needs_response`, `under_review`, `won`, `lost` ..
    pub status: String,
    /// Whether the money is off our account.
    pub is_withdrawn: bool,
    /// When we first heard of it.
    pub created_ms: u64,
}

impl DisputeRow {
    /// Whether nothing can follow.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "won" | "lost" | "warning_closed" | "prevented")
    }
}

/// Writes what the provider says; `withdrawn` where this word says whether the money is off our account, which may come
/// after the end. False: the dispute is final already and stays as it is, or this was said before.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn upsert(
    connection: &mut PgConnection,
    provider: &str,
    order: OrderId,
    event: EventId,
    said: &DisputeRow,
    withdrawn: Option<bool>,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "insert into disputes (provider, dispute_id, order_id, event_id, charge_id, amount_minor, currency, reason,
             status, is_withdrawn, created_ms, final_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce($10, false), $11, $12)
         on conflict (provider, dispute_id) do update
         set amount_minor = excluded.amount_minor, reason = excluded.reason, status = excluded.status,
             final_ms = excluded.final_ms, is_withdrawn = coalesce($10, disputes.is_withdrawn)
         where disputes.final_ms is null and disputes.status <> excluded.status",
        provider,
        said.id,
        order.uuid(),
        event.uuid(),
        said.charge,
        said.amount_minor,
        said.currency,
        said.reason,
        said.status,
        withdrawn,
        now_ms.cast_signed(),
        said.is_final().then_some(now_ms.cast_signed())
    )
    .execute(&mut *connection)
    .await?;
    if let Some(withdrawn) = withdrawn {
        sqlx::query!(
            "update disputes set is_withdrawn = $3 where provider = $1 and dispute_id = $2",
            provider,
            said.id,
            withdrawn
        )
        .execute(connection)
        .await?;
    }
    Ok(done.rows_affected() == 1)
}

/// Every dispute of an order, oldest first.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_of_order(executor: impl PgExecutor<'_>, order: OrderId) -> Result<Vec<DisputeRow>, StoreError> {
    let rows = sqlx::query!(
        "select dispute_id, charge_id, amount_minor, currency, reason, status, is_withdrawn, created_ms from disputes
         where order_id = $1 order by created_ms, dispute_id",
        order.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| DisputeRow {
            id: row.dispute_id,
            charge: row.charge_id,
            amount_minor: row.amount_minor,
            currency: row.currency,
            reason: row.reason,
            status: row.status,
            is_withdrawn: row.is_withdrawn,
            created_ms: row.created_ms.cast_unsigned(),
        })
        .collect())
}
