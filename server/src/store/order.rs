//! Orders: one row each, moved from state to state by a guarded update. Reads for a buyer name the identity in the
//! statement itself, so that nobody can see another's order by guessing its id.

use super::StoreError;
use super::order_state::OrderState;
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId};
use seatwire_proto::money::Currency;
use seatwire_proto::server::{Action, Line};
use sqlx::types::{Json, Uuid};
use sqlx::{PgConnection, PgExecutor};

/// An order as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderRow {
    /// Its id.
    pub id: OrderId,
    /// Its event.
    pub event: EventId,
    /// Whose.
    pub identity: IdentityId,
    /// The hold it came from.
    pub hold: HoldId,
    /// The inventory's epoch when its seats were reserved.
    pub epoch: u32,
    /// 8 characters for people.
    pub reference: String,
    /// The key of the checkout that made it.
    pub command_key: String,
    /// Where it stands.
    pub state: OrderState,
    /// What is bought.
    pub lines: Vec<Line>,
    /// Seats and places in all lines.
    pub seats_n: u32,
    /// What it costs.
    pub total_minor: i64,
    /// Money we have.
    pub captured_minor: i64,
    /// Money on its way back.
    pub refunding_minor: i64,
    /// Money given back.
    pub refunded_minor: i64,
    /// Of all amounts.
    pub currency: Currency,
    /// For the provider and notices.
    pub buyer_name: String,
    /// For the provider and notices.
    pub buyer_email: String,
    /// `en` or `de`: what the buyer is written to in.
    pub lang: String,
    /// Opens the order's page on any device.
    pub pay_secret: String,
    /// Which provider.
    pub provider: String,
    /// The provider's name for it.
    pub intent: Option<String>,
    /// Why the last attempt was declined.
    pub decline_reason: Option<String>,
    /// The provider's fingerprint of the card it counts for, where the event limits cards.
    pub instrument: Option<String>,
    /// What the buyer must do.
    pub action: Option<Action>,
    /// Attempts begun.
    pub attempts_n: u32,
    /// When the state was entered.
    pub state_since_ms: u64,
    /// Until when the buyer may pay.
    pub lock_until_ms: u64,
    /// When the reconciler looks next.
    pub check_at_ms: Option<u64>,
    /// Looks in this state so far.
    pub checks_n: u32,
    /// Since when nobody knows whether money moved.
    pub unknown_since_ms: Option<u64>,
    /// When its buyer cancelled it.
    pub given_up_ms: Option<u64>,
    /// When it was made.
    pub created_ms: u64,
}

struct RawOrder {
    order_id: Uuid,
    event_id: Uuid,
    identity_id: Uuid,
    hold_id: Uuid,
    epoch: i32,
    reference: String,
    command_key: String,
    state: String,
    lines: Json<Vec<Line>>,
    seats_n: i32,
    total_minor: i64,
    captured_minor: i64,
    refunding_minor: i64,
    refunded_minor: i64,
    currency: String,
    buyer_name: String,
    buyer_email: String,
    lang: String,
    pay_secret: String,
    provider: String,
    intent_id: Option<String>,
    decline_reason: Option<String>,
    instrument: Option<String>,
    action: Option<Json<Action>>,
    attempts_n: i32,
    state_since_ms: i64,
    lock_until_ms: i64,
    check_at_ms: Option<i64>,
    checks_n: i32,
    unknown_since_ms: Option<i64>,
    given_up_ms: Option<i64>,
    created_ms: i64,
}

impl TryFrom<RawOrder> for OrderRow {
    type Error = StoreError;

    fn try_from(raw: RawOrder) -> Result<Self, StoreError> {
        let malformed = |what: &str| StoreError::Malformed(format!("order {}: {what}", raw.order_id));
        Ok(Self {
            id: OrderId::from_uuid(raw.order_id),
            event: EventId::from_uuid(raw.event_id),
            identity: IdentityId::from_uuid(raw.identity_id),
            hold: HoldId::from_uuid(raw.hold_id),
            epoch: raw.epoch.cast_unsigned(),
            state: OrderState::parse(&raw.state).ok_or_else(|| malformed(&raw.state))?,
            currency: raw.currency.parse().map_err(|_| malformed(&raw.currency))?,
            reference: raw.reference,
            command_key: raw.command_key,
            lines: raw.lines.0,
            seats_n: raw.seats_n.cast_unsigned(),
            total_minor: raw.total_minor,
            captured_minor: raw.captured_minor,
            refunding_minor: raw.refunding_minor,
            refunded_minor: raw.refunded_minor,
            buyer_name: raw.buyer_name,
            buyer_email: raw.buyer_email,
            lang: raw.lang,
            pay_secret: raw.pay_secret,
            provider: raw.provider,
            intent: raw.intent_id,
            decline_reason: raw.decline_reason,
            instrument: raw.instrument,
            action: raw.action.map(|action| action.0),
            attempts_n: raw.attempts_n.cast_unsigned(),
            state_since_ms: raw.state_since_ms.cast_unsigned(),
            lock_until_ms: raw.lock_until_ms.cast_unsigned(),
            check_at_ms: raw.check_at_ms.map(i64::cast_unsigned),
            checks_n: raw.checks_n.cast_unsigned(),
            unknown_since_ms: raw.unknown_since_ms.map(i64::cast_unsigned),
            given_up_ms: raw.given_up_ms.map(i64::cast_unsigned),
            created_ms: raw.created_ms.cast_unsigned(),
        })
    }
}

/// Reads whole orders; the statement ends as given.
macro_rules! select_orders {
    ($end:tt $(, $argument:expr)*) => {
        sqlx::query_as!(
            RawOrder,
            r#"select order_id, event_id, identity_id, hold_id, epoch, reference, command_key, state,
               lines as "lines: Json<Vec<Line>>", seats_n, total_minor, captured_minor, refunding_minor,
               refunded_minor, currency, buyer_name, buyer_email, lang, pay_secret, provider, intent_id, decline_reason,
               instrument,
               action as "action: Json<Action>", attempts_n, state_since_ms, lock_until_ms, check_at_ms, checks_n,
               unknown_since_ms, given_up_ms, created_ms from orders "# + $end
            $(, $argument)*
        )
    };
}

fn one(raw: Option<RawOrder>) -> Result<Option<OrderRow>, StoreError> {
    raw.map(OrderRow::try_from).transpose()
}

fn all(raw: Vec<RawOrder>) -> Result<Vec<OrderRow>, StoreError> {
    raw.into_iter().map(OrderRow::try_from).collect()
}

/// An order, kept from change by others until the transaction ends.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn lock(transaction: &mut PgConnection, id: OrderId) -> Result<Option<OrderRow>, StoreError> {
    one(select_orders!("where order_id = $1 for update", id.uuid()).fetch_optional(transaction).await?)
}

/// An order, whoever it belongs to: for jobs and the provider's words.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn read(executor: impl PgExecutor<'_>, id: OrderId) -> Result<Option<OrderRow>, StoreError> {
    one(select_orders!("where order_id = $1", id.uuid()).fetch_optional(executor).await?)
}

/// Those of these orders that are there.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list(executor: impl PgExecutor<'_>, ids: &[OrderId]) -> Result<Vec<OrderRow>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    all(select_orders!("where order_id = any($1)", &ids).fetch_all(executor).await?)
}

/// An order of this identity.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn read_own(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    id: OrderId,
) -> Result<Option<OrderRow>, StoreError> {
    let raw = select_orders!("where order_id = $1 and identity_id = $2", id.uuid(), identity.uuid());
    one(raw.fetch_optional(executor).await?)
}

/// The order the provider knows by this name.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn read_by_intent(
    executor: impl PgExecutor<'_>,
    provider: &str,
    intent: &str,
) -> Result<Option<OrderRow>, StoreError> {
    let raw = select_orders!("where provider = $1 and intent_id = $2", provider, intent);
    one(raw.fetch_optional(executor).await?)
}

/// The orders the provider knows by these names; those that are there.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_by_intents(
    executor: impl PgExecutor<'_>,
    provider: &str,
    intents: &[String],
) -> Result<Vec<OrderRow>, StoreError> {
    let raw = select_orders!("where provider = $1 and intent_id = any($2)", provider, intents);
    all(raw.fetch_all(executor).await?)
}

/// Orders of this identity, newest first, older than `before` where given; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_own(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    before: Option<OrderId>,
    limit: u32,
) -> Result<Vec<OrderRow>, StoreError> {
    let raw = select_orders!(
        "where identity_id = $1 and ($2::uuid is null or order_id < $2) order by order_id desc limit $3",
        identity.uuid(),
        before.map(OrderId::uuid),
        i64::from(limit)
    );
    all(raw.fetch_all(executor).await?)
}

/// Orders of this identity that are not settled, newest first; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_own_open(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    limit: u32,
) -> Result<Vec<OrderRow>, StoreError> {
    let raw = select_orders!(
        "where identity_id = $1 and state in ('creating', 'payable', 'confirming', 'action_required', 'processing',
             'payment_unknown', 'cancelling', 'released_unresolved', 'late_success')
         order by order_id desc limit $2",
        identity.uuid(),
        i64::from(limit)
    );
    all(raw.fetch_all(executor).await?)
}

/// Orders whose time to be looked at has come; at most `limit`. First those that keep seats while nobody knows whether they
/// are paid, the nearest to its deadline first; then those whose seats were given back; refunds last.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_due(executor: impl PgExecutor<'_>, now_ms: u64, limit: u32) -> Result<Vec<OrderId>, StoreError> {
    let ids = sqlx::query_scalar!(
        "select order_id from orders where check_at_ms <= $1
         order by case when state in ('refund_due', 'refund_submitted', 'refund_pending') then 2
                 when state = 'released_unresolved' then 1 else 0 end,
             coalesce(unknown_since_ms, state_since_ms), order_id
         limit $2",
        now_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(ids.into_iter().map(OrderId::from_uuid).collect())
}

/// Takes the next look at an order for oneself: pushes it to `next_ms` if it is still due. False: another node was faster.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn claim_check(
    executor: impl PgExecutor<'_>,
    id: OrderId,
    now_ms: u64,
    next_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update orders set check_at_ms = $3, checks_n = checks_n + 1 where order_id = $1 and check_at_ms <= $2",
        id.uuid(),
        now_ms.cast_signed(),
        next_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Brings the next look at an order forward to `at_ms`; an order nobody needs to look at stays so.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn hasten_check(executor: impl PgExecutor<'_>, id: OrderId, at_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "update orders set check_at_ms = $2 where order_id = $1 and check_at_ms > $2",
        id.uuid(),
        at_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Makes the next look at an unsettled order due at once, also of one that is not looked at any more. False: there is
/// nothing to look at.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn make_due(executor: impl PgExecutor<'_>, id: OrderId, now_ms: u64) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update orders set check_at_ms = $2 where order_id = $1 and state in ('action_required', 'processing',
             'payment_unknown', 'cancelling', 'released_unresolved', 'refund_due', 'refund_submitted', 'refund_pending')",
        id.uuid(),
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Remembers the provider's name for an order that has none yet.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_intent(executor: impl PgExecutor<'_>, id: OrderId, intent: &str) -> Result<(), StoreError> {
    sqlx::query!(
        "update orders set intent_id = $2 where order_id = $1 and intent_id is null and state = 'payable'",
        id.uuid(),
        intent
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Nobody looks at the order any more.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn stop_checks(executor: impl PgExecutor<'_>, id: OrderId) -> Result<(), StoreError> {
    sqlx::query!("update orders set check_at_ms = null where order_id = $1", id.uuid()).execute(executor).await?;
    Ok(())
}

/// Whether an order was ever made of the identity's hold.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn was_made_of(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    hold: HoldId,
) -> Result<bool, StoreError> {
    let was = sqlx::query_scalar!(
        r#"select exists (select 1 from orders where identity_id = $1 and hold_id = $2) as "was!""#,
        identity.uuid(),
        hold.uuid()
    );
    Ok(was.fetch_one(executor).await?)
}
