//! Payments whose buyers' banks want the money back, as the provider tells of them. Won and lost are final, and
//! of other words the newest by the provider's clock counts: one that comes late changes nothing.

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

/// When the provider said something of a dispute, and what else it said by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// When it happened, seconds since 1970, by the provider's clock.
    pub said_s: i64,
    /// Nothing can have been said before it, also within its second.
    pub is_first: bool,
    /// Where it says whether the money is off our account, which may come after the end.
    pub withdrawn: Option<bool>,
}

/// Writes what the provider says. Only a newer word changes what stands, whichever comes first: the clock of its words is a
/// second, so within one the later arrival counts as newer, but never the first word, and money comes back after it went.
/// False: the dispute is final already and stays as it is, or something newer or the same was said before.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn upsert(
    connection: &mut PgConnection,
    provider: &str,
    order: OrderId,
    event: EventId,
    said: &DisputeRow,
    word: Word,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "insert into disputes (provider, dispute_id, order_id, event_id, charge_id, amount_minor, currency, reason,
             status, created_ms, final_ms, said_s)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         on conflict (provider, dispute_id) do update
         set amount_minor = excluded.amount_minor, reason = excluded.reason, status = excluded.status,
             final_ms = excluded.final_ms, said_s = greatest(disputes.said_s, excluded.said_s)
         where disputes.final_ms is null and disputes.status <> excluded.status
             and (excluded.final_ms is not null or excluded.said_s > disputes.said_s
                 or (excluded.said_s = disputes.said_s and not $13))",
        provider,
        said.id,
        order.uuid(),
        event.uuid(),
        said.charge,
        said.amount_minor,
        said.currency,
        said.reason,
        said.status,
        now_ms.cast_signed(),
        said.is_final().then_some(now_ms.cast_signed()),
        word.said_s,
        word.is_first
    )
    .execute(&mut *connection)
    .await?;
    if let Some(withdrawn) = word.withdrawn {
        sqlx::query!(
            "update disputes set is_withdrawn = $3, withdrawn_said_s = $4
             where provider = $1 and dispute_id = $2
                 and ($4 > withdrawn_said_s or ($4 = withdrawn_said_s and not $3))",
            provider,
            said.id,
            withdrawn,
            word.said_s
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
