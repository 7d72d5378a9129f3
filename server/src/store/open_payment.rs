//! Money that is not settled, for people: orders that wait for the provider for long, and those only a person can end.
//! Operators read the list; refunds of a cancelled event are found here too.

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId};
use sqlx::PgExecutor;

/// Why a person must look at an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// The provider speaks of another amount or currency than the order.
    AmountDiffers,
    /// No word of the payment for three days.
    NoWord,
}

impl Concern {
    /// Its name in the database and on the list.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AmountDiffers => "amount_differs",
            Self::NoWord => "no_word",
        }
    }
}

/// Puts an order on the list of those a person must look at, until it is settled.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_concern(executor: impl PgExecutor<'_>, id: OrderId, concern: Concern) -> Result<(), StoreError> {
    sqlx::query!("update orders set concern = $2 where order_id = $1", id.uuid(), concern.as_str())
        .execute(executor)
        .await?;
    Ok(())
}

/// An order somebody may have to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPayment {
    /// Which.
    pub id: OrderId,
    /// Of which event.
    pub event: EventId,
    /// For people.
    pub reference: String,
    /// Where it stands.
    pub state: String,
    /// Since when.
    pub since_ms: u64,
    /// Why a person must look; `None`: it is still asked about.
    pub concern: Option<String>,
    /// When the provider is asked next; `None`: not any more.
    pub next_look_ms: Option<u64>,
    /// Looks in this state so far.
    pub looks_n: u32,
    /// The provider's name for it.
    pub intent: Option<String>,
    /// What it costs.
    pub total_minor: i64,
    /// Money we have.
    pub captured_minor: i64,
    /// Money given back.
    pub refunded_minor: i64,
    /// Of all amounts.
    pub currency: String,
}

/// Orders whose money is not settled and has not been since `before_ms`, or that a person must look at; the oldest order
/// first, behind `after` where given; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list(
    executor: impl PgExecutor<'_>,
    before_ms: u64,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<OpenPayment>, StoreError> {
    let rows = sqlx::query!(
        "select order_id, event_id, reference, state, state_since_ms, check_at_ms, checks_n, intent_id, total_minor,
             captured_minor, refunded_minor, currency,
             coalesce(concern, case when state in ('refund_failed', 'disputed') then state end) as concern
         from orders
         where (state in ('refund_failed', 'disputed')
             or (state in ('payment_unknown', 'processing', 'cancelling', 'released_unresolved', 'late_success',
                 'refund_due', 'refund_submitted', 'refund_pending')
                 and (concern is not null or coalesce(unknown_since_ms, state_since_ms) <= $1)))
             and ($2::uuid is null or order_id > $2)
         order by order_id limit $3",
        before_ms.cast_signed(),
        after.map(OrderId::uuid),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| OpenPayment {
            id: OrderId::from_uuid(row.order_id),
            event: EventId::from_uuid(row.event_id),
            reference: row.reference,
            state: row.state,
            since_ms: row.state_since_ms.cast_unsigned(),
            concern: row.concern,
            next_look_ms: row.check_at_ms.map(i64::cast_unsigned),
            looks_n: row.checks_n.cast_unsigned(),
            intent: row.intent_id,
            total_minor: row.total_minor,
            captured_minor: row.captured_minor,
            refunded_minor: row.refunded_minor,
            currency: row.currency,
        })
        .collect())
}

/// Paid orders of cancelled events, whose money must go back; the oldest first, at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_of_cancelled_events(executor: impl PgExecutor<'_>, limit: u32) -> Result<Vec<OrderId>, StoreError> {
    let ids = sqlx::query_scalar!(
        "select o.order_id from orders o join events e on e.id = o.event_id
         where e.state = 'cancelled' and o.state in ('paid', 'fulfilled', 'partially_refunded')
         order by o.order_id limit $1",
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(ids.into_iter().map(OrderId::from_uuid).collect())
}

/// How many orders only a person can settle.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn count_for_people(executor: impl PgExecutor<'_>) -> Result<u64, StoreError> {
    let n = sqlx::query_scalar!(
        r#"select count(*) as "n!" from orders where state in ('refund_failed', 'disputed')
             or (concern is not null and state in ('payment_unknown', 'processing', 'cancelling',
                 'released_unresolved', 'late_success', 'refund_due', 'refund_submitted', 'refund_pending'))"#
    )
    .fetch_one(executor)
    .await?;
    Ok(n.cast_unsigned())
}
