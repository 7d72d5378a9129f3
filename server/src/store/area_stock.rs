//! Places of general-admission areas that are reserved or sold. A row appears with the first reservation; the check on
//! it refuses to go beyond the capacity.

use super::StoreError;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::AreaIndex;
use sqlx::PgExecutor;

/// What is gone of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AreaStock {
    /// Which.
    pub area: AreaIndex,
    /// Places of orders that are not paid yet.
    pub reserved: u32,
    /// Places of paid orders.
    pub sold: u32,
}

/// Reserves places. `capacity` is what the caller knows of it: it counts for the first reservation alone, since from then on
/// an organiser's change is written here.
///
/// # Errors
/// A broken `AreaFull` when fewer are left.
pub async fn reserve(
    executor: impl PgExecutor<'_>,
    event: EventId,
    area: AreaIndex,
    capacity: u32,
    quantity: u32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into area_stock (event_id, area_index, capacity, reserved) values ($1, $2, $3, $4)
         on conflict (event_id, area_index) do update
         set reserved = area_stock.reserved + excluded.reserved",
        event.uuid(),
        area.0.cast_signed(),
        capacity.cast_signed(),
        quantity.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Sets how many places the area has, for whoever reserves from now on.
///
/// # Errors
/// A broken `AreaFull` when more are reserved and sold.
pub async fn set_capacity(
    executor: impl PgExecutor<'_>,
    event: EventId,
    area: AreaIndex,
    capacity: u32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into area_stock (event_id, area_index, capacity) values ($1, $2, $3)
         on conflict (event_id, area_index) do update set capacity = excluded.capacity",
        event.uuid(),
        area.0.cast_signed(),
        capacity.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Turns reserved places into sold ones. The caller's guard on the order's state makes it happen once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn sell(
    executor: impl PgExecutor<'_>,
    event: EventId,
    area: AreaIndex,
    quantity: u32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update area_stock set reserved = reserved - $3, sold = sold + $3 where event_id = $1 and area_index = $2",
        event.uuid(),
        area.0.cast_signed(),
        quantity.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Gives places back. The caller's guard on the order's state makes it happen once.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn free(
    executor: impl PgExecutor<'_>,
    event: EventId,
    area: AreaIndex,
    quantity: u32,
    was_sold: bool,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update area_stock
         set reserved = reserved - case when $4 then 0 else $3 end, sold = sold - case when $4 then $3 else 0 end
         where event_id = $1 and area_index = $2",
        event.uuid(),
        area.0.cast_signed(),
        quantity.cast_signed(),
        was_sold
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Every area of an event of which something is or was gone.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_event(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<AreaStock>, StoreError> {
    let rows = sqlx::query!(
        "select area_index, reserved, sold from area_stock where event_id = $1 order by area_index",
        event.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AreaStock {
            area: AreaIndex(row.area_index.cast_unsigned()),
            reserved: row.reserved.cast_unsigned(),
            sold: row.sold.cast_unsigned(),
        })
        .collect())
}
