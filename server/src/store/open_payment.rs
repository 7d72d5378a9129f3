//! Money that is not settled, for people: orders that wait for the provider for long, and those only a person can end.
//! Disputes that are open or lost put an order on it by themselves, whatever else stands there. Operators read the list;
//! refunds of a cancelled event are found here too.

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId};
use sqlx::{PgConnection, PgExecutor};

/// Why a person must look at an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// The provider speaks of another amount or currency than the order.
    AmountDiffers,
    /// No word of the payment for three days.
    NoWord,
    /// The provider said something of it that could not be applied again and again.
    EventNotApplied,
}

impl Concern {
    /// Its name in the database and on the list.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AmountDiffers => "amount_differs",
            Self::NoWord => "no_word",
            Self::EventNotApplied => "event_not_applied",
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

/// Puts the order of an intent on the list because of an event that cannot be applied; a concern that stands
/// is kept while its state still lists it.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_unapplied(executor: impl PgExecutor<'_>, provider: &str, intent: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "update orders set concern = $3 where provider = $1 and intent_id = $2
             and (concern is null or state in ('paid', 'fulfilled', 'partially_refunded', 'refunded', 'cancelled'))",
        provider,
        intent,
        Concern::EventNotApplied.as_str()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Takes the order off that list: the event was applied after all.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn clear_unapplied(executor: impl PgExecutor<'_>, provider: &str, intent: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "update orders set concern = null where provider = $1 and intent_id = $2 and concern = $3",
        provider,
        intent,
        Concern::EventNotApplied.as_str()
    )
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
             coalesce((select case when bool_or(d.status = 'lost') then 'dispute_lost'
                     when bool_or(d.final_ms is null) then 'disputed' end
                 from disputes d where d.order_id = orders.order_id),
                 concern, case when state in ('refund_failed', 'disputed') then state end) as concern
         from orders
         where (state in ('refund_failed', 'disputed') or concern = 'event_not_applied'
             or order_id = any(array(select d.order_id from disputes d where d.final_ms is null or d.status = 'lost'))
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

/// The lock of the node whose turn it is to refund cancelled events.
const REFUND_TURN: i64 = 0x7365_6174_7265_6675;

/// Takes the turn to refund cancelled events until the transaction ends. False: another node has it.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take_turn_to_refund(transaction: &mut PgConnection) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock($1) as "is_ours!""#, REFUND_TURN)
        .fetch_one(transaction)
        .await?)
}

/// Paid orders of cancelled events of which something must go back, money or a ticket that still admits; the oldest first,
/// behind `after` where given, at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_of_cancelled_events(
    executor: impl PgExecutor<'_>,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<OrderId>, StoreError> {
    let ids = sqlx::query_scalar!(
        "select o.order_id from orders o join events e on e.id = o.event_id
         where e.state = 'cancelled' and o.state in ('paid', 'fulfilled', 'partially_refunded')
             and (o.captured_minor > o.refunded_minor + o.refunding_minor or exists (
                 select from tickets t
                 where t.event_id = o.event_id and t.order_id = o.order_id and t.state = 'valid'))
             and ($1::uuid is null or o.order_id > $1)
         order by o.order_id limit $2",
        after.map(OrderId::uuid),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(ids.into_iter().map(OrderId::from_uuid).collect())
}

/// Orders of cancelled events that wait for their buyers and are not being paid; the oldest first, at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_unpaid_of_cancelled_events(
    executor: impl PgExecutor<'_>,
    limit: u32,
) -> Result<Vec<OrderId>, StoreError> {
    let ids = sqlx::query_scalar!(
        "select o.order_id from orders o join events e on e.id = o.event_id
         where e.state = 'cancelled' and o.state in ('payable', 'action_required')
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
             or concern = 'event_not_applied'
             or order_id = any(array(select d.order_id from disputes d where d.final_ms is null or d.status = 'lost'))
             or (concern is not null and state in ('payment_unknown', 'processing', 'cancelling',
                 'released_unresolved', 'late_success', 'refund_due', 'refund_submitted', 'refund_pending'))"#
    )
    .fetch_one(executor)
    .await?;
    Ok(n.cast_unsigned())
}
