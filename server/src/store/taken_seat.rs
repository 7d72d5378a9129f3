//! Seats that are reserved or sold: one row each, none for an available seat. The primary key refuses a second taker.
//! A checkout reserves, a payment sells, a cancellation frees; a rebuild of the inventory reads them all.

use super::StoreError;
use seatwire_proto::id::{EventId, IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;
use sqlx::PgExecutor;

/// How a seat is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// By an order that is not paid yet.
    Reserved,
    /// By a paid order.
    Sold,
}

/// A taken seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenSeat {
    /// Which.
    pub seat: SeatIndex,
    /// How.
    pub taken: Taken,
    /// By which order.
    pub order: OrderId,
    /// By whom.
    pub identity: IdentityId,
}

/// Reserves these seats for an order, all or (by the error) none; in seat order, so that two orders cannot deadlock.
///
/// # Errors
/// A broken `SeatTaken` when somebody else has one of them.
pub async fn reserve(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    identity: IdentityId,
    epoch: u32,
    seats: &[SeatIndex],
) -> Result<(), StoreError> {
    let mut seats: Vec<i32> = seats.iter().map(|seat| seat.0.cast_signed()).collect();
    seats.sort_unstable();
    sqlx::query!(
        "insert into taken_seats (event_id, seat_index, state, order_id, identity_id, epoch)
         select $1, seat, 'reserved', $2, $3, $4 from unnest($5::integer[]) with ordinality as s(seat, n) order by n",
        event.uuid(),
        order.uuid(),
        identity.uuid(),
        epoch.cast_signed(),
        &seats
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Turns the reserved seats of an order into sold ones; how many. Twice is once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn sell(executor: impl PgExecutor<'_>, event: EventId, order: OrderId) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "update taken_seats set state = 'sold' where event_id = $1 and order_id = $2 and state = 'reserved'",
        event.uuid(),
        order.uuid()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}

/// Gives seats of an order back; those that were its. Twice is once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn free(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    seats: &[SeatIndex],
) -> Result<Vec<SeatIndex>, StoreError> {
    let seats: Vec<i32> = seats.iter().map(|seat| seat.0.cast_signed()).collect();
    let freed = sqlx::query_scalar!(
        "delete from taken_seats where event_id = $1 and order_id = $2 and seat_index = any($3) returning seat_index",
        event.uuid(),
        order.uuid(),
        &seats
    )
    .fetch_all(executor)
    .await?;
    Ok(freed.into_iter().map(|seat| SeatIndex(seat.cast_unsigned())).collect())
}

/// Every taken seat of an event, in seat order.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_event(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<TakenSeat>, StoreError> {
    let rows = sqlx::query!(
        "select seat_index, state, order_id, identity_id from taken_seats where event_id = $1 order by seat_index",
        event.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| TakenSeat {
            seat: SeatIndex(row.seat_index.cast_unsigned()),
            taken: if row.state == "sold" { Taken::Sold } else { Taken::Reserved },
            order: OrderId::from_uuid(row.order_id),
            identity: IdentityId::from_uuid(row.identity_id),
        })
        .collect())
}
