//! Which Redis an event's epoch lives in. The epoch itself and its fence are in `epoch`; a rebuild writes both in one
//! transaction, and every node compares before it trusts what Redis says.

use super::StoreError;
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use sqlx::{PgConnection, PgExecutor};

/// Keeps rebuilds of one event apart; apart also from the checkout's lock, because it is held while that one is taken.
const REBUILD: i64 = 0x7265_6275_696c_6400;

/// The epoch now, and the Redis it was begun in; `None` before the event was first opened.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn read(executor: impl PgExecutor<'_>, event: EventId) -> Result<Option<(u32, String)>, StoreError> {
    let row = sqlx::query!("select epoch, redis_identity from event_epochs where event_id = $1", event.uuid())
        .fetch_optional(executor)
        .await?;
    Ok(row.map(|row| (row.epoch.cast_unsigned(), row.redis_identity)))
}

/// Notes the Redis the current epoch lives in.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn bind(executor: impl PgExecutor<'_>, event: EventId, redis: &str) -> Result<(), StoreError> {
    sqlx::query!("update event_epochs set redis_identity = $2 where event_id = $1", event.uuid(), redis)
        .execute(executor)
        .await?;
    Ok(())
}

/// Lets one rebuild of the event run at a time, until the transaction ends.
///
/// # Errors
/// `Unavailable` when another one takes too long.
pub async fn lock_rebuild(transaction: &mut PgConnection, event: EventId) -> Result<(), StoreError> {
    let (high, low) = event.uuid().as_u64_pair();
    sqlx::query!("select pg_advisory_xact_lock($1)", (high ^ low).cast_signed() ^ REBUILD).execute(transaction).await?;
    Ok(())
}

/// An order that still has seats or places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivingOrder {
    /// Which.
    pub order: OrderId,
    /// Whose.
    pub identity: IdentityId,
    /// The hold it was made of.
    pub hold: HoldId,
    /// Its seats and places.
    pub seats_n: u32,
    /// Until when its hold is locked, unless that is renewed.
    pub lock_until_ms: u64,
    /// Whether it is paid; otherwise its seats are reserved.
    pub is_sold: bool,
}

/// Orders of an event whose seats or places are reserved or sold.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn living_orders(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<LivingOrder>, StoreError> {
    let rows = sqlx::query!(
        r#"select order_id, identity_id, hold_id, seats_n, lock_until_ms,
             state in ('paid', 'fulfilled', 'refund_due', 'refund_submitted', 'refund_pending', 'refund_failed',
                       'partially_refunded', 'refunded', 'disputed') as "is_sold!"
           from orders where event_id = $1 and state not in ('released_unresolved', 'late_success', 'cancelled')"#,
        event.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| LivingOrder {
            order: OrderId::from_uuid(row.order_id),
            identity: IdentityId::from_uuid(row.identity_id),
            hold: HoldId::from_uuid(row.hold_id),
            seats_n: row.seats_n.cast_unsigned(),
            lock_until_ms: row.lock_until_ms.cast_unsigned(),
            is_sold: row.is_sold,
        })
        .collect())
}

/// Those of these orders that have given back whatever they had.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn orders_over(
    executor: impl PgExecutor<'_>,
    event: EventId,
    orders: &[OrderId],
) -> Result<Vec<OrderId>, StoreError> {
    let orders: Vec<uuid::Uuid> = orders.iter().map(|order| order.uuid()).collect();
    let over = sqlx::query_scalar!(
        "select order_id from orders where event_id = $1 and order_id = any($2)
           and state in ('released_unresolved', 'late_success', 'cancelled')",
        event.uuid(),
        &orders
    )
    .fetch_all(executor)
    .await?;
    Ok(over.into_iter().map(OrderId::from_uuid).collect())
}

/// Places of an order that were given back after they were sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreedPlaces {
    /// Of which order.
    pub order: OrderId,
    /// A seat,
    pub seat: Option<SeatIndex>,
    /// or an area.
    pub area: Option<AreaIndex>,
    /// How many; 1 for a seat.
    pub quantity: u32,
}

/// What was given back of the event's sold orders: the places of their void tickets.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn freed_places(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<FreedPlaces>, StoreError> {
    let rows = sqlx::query!(
        r#"select order_id, seat_index, area_index, count(*) as "n!" from tickets
           where event_id = $1 and state = 'void' group by order_id, seat_index, area_index"#,
        event.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| FreedPlaces {
            order: OrderId::from_uuid(row.order_id),
            seat: row.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
            area: row.area_index.map(|area| AreaIndex(area.cast_unsigned())),
            quantity: row.n.max(0) as u32,
        })
        .collect())
}
