//! The places of an order in the ledger: reserved all or none, given back, counted for whom and for what card they are.
//! `purchase` reserves, `step` and `refund` give back; everything runs inside their transactions.

use crate::store::event_change::Selling;
use crate::store::order::OrderRow;
use crate::store::{StoreError, area_stock, epoch, event_change, identity_use, instrument_use, taken_seat};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use sqlx::PgConnection;

/// What the bounds of a reservation are: the identity's limit and the capacities of the order's areas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) seats_per_identity: u32,
    pub(super) seats_per_instrument: Option<u32>,
    pub(super) capacities: Vec<u32>,
}

impl Limits {
    /// Places of an area, as the event's facts have it.
    pub(super) fn capacity(&self, area: AreaIndex) -> u32 {
        self.capacities.get(area.position()).copied().unwrap_or(0)
    }
}

/// Reserves everything in an order, in one order of tables and seats, so that two orders cannot deadlock.
pub(super) async fn reserve(transaction: &mut PgConnection, row: &OrderRow, limits: &Limits) -> Result<(), StoreError> {
    let seats = seats(row);
    if !seats.is_empty() {
        taken_seat::reserve(&mut *transaction, row.event, row.id, row.identity, row.epoch, &seats).await?;
    }
    reserve_areas(transaction, row, limits).await?;
    identity_use::add(&mut *transaction, row.event, row.identity, row.seats_n, limits.seats_per_identity).await?;
    if let (Some(instrument), Some(limit)) = (&row.instrument, limits.seats_per_instrument) {
        instrument_use::add(transaction, row.event, instrument, row.seats_n, limit).await?;
    }
    Ok(())
}

/// Reserves the places of areas in an order.
pub(super) async fn reserve_areas(
    transaction: &mut PgConnection,
    row: &OrderRow,
    limits: &Limits,
) -> Result<(), StoreError> {
    for (area, quantity) in areas(row) {
        area_stock::reserve(&mut *transaction, row.event, area, limits.capacity(area), quantity).await?;
    }
    Ok(())
}

/// Gives everything in an order back.
pub(super) async fn free(transaction: &mut PgConnection, row: &OrderRow) -> Result<(), StoreError> {
    let seats = seats(row);
    if !seats.is_empty() {
        taken_seat::free(&mut *transaction, row.event, row.id, &seats).await?;
    }
    for (area, quantity) in areas(row) {
        area_stock::free(&mut *transaction, row.event, area, quantity, false).await?;
    }
    give_up_use(transaction, row, row.seats_n).await
}

/// So many of its seats and places count no more for whom and for what card the order was made.
pub(super) async fn give_up_use(
    transaction: &mut PgConnection,
    row: &OrderRow,
    quantity: u32,
) -> Result<(), StoreError> {
    identity_use::subtract(&mut *transaction, row.event, row.identity, quantity).await?;
    if let Some(instrument) = &row.instrument {
        instrument_use::subtract(transaction, row.event, instrument, quantity).await?;
    }
    Ok(())
}

/// How the event stands, behind the fence against a rebuild that ran meanwhile: the epoch must be the one the hold was
/// locked in.
pub(super) async fn behind_fence(transaction: &mut PgConnection, row: &OrderRow) -> Result<Selling, StoreError> {
    epoch::lock_shared(transaction, row.event).await?;
    event_change::selling(transaction, row.event).await
}

/// Its seats.
pub(super) fn seats(row: &OrderRow) -> Vec<SeatIndex> {
    row.lines.iter().filter_map(|line| line.seat).collect()
}

/// Areas in their order, so that rows are locked in one order.
pub(super) fn areas(row: &OrderRow) -> Vec<(AreaIndex, u32)> {
    let mut areas: Vec<_> = row.lines.iter().filter_map(|line| Some((line.area?, line.quantity))).collect();
    areas.sort_unstable();
    areas
}
