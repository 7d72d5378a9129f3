//! Allocations: seats kept for those who have a presale code. Written by organisers, read with their event.

use super::StoreError;
use seatwire_proto::id::{AllocationId, EventId};
use sqlx::{PgConnection, PgExecutor};

/// Most allocations an event may ever have: bits of a word that Redis keeps of each identity.
pub const MAX_ALLOCATIONS: usize = 31;

/// An allocation, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationRow {
    /// Its bit.
    pub slot: u8,
    /// Its id.
    pub id: AllocationId,
    /// For people.
    pub name: String,
    /// See `catalogue::code_hash`.
    pub code_hash: Vec<u8>,
    /// Roaring set, portable format.
    pub seats: Vec<u8>,
    /// From when on the code opens it.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// Whether its seats are given back.
    pub is_closed: bool,
}

/// What became of a new allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It has a slot.
    Done,
    /// The event has used every slot.
    NoSlot,
    /// The code opens another allocation of the event.
    CodeUsed,
}

/// All allocations of an event, closed ones included, by slot.
///
/// # Errors
/// Postgres' own.
pub async fn of_event(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<AllocationRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select slot, id, name, code_hash, seats, from_ms, until_ms, closed_ms is not null as "is_closed!"
             from event_allocations where event_id = $1 order by slot"#,
        event.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AllocationRow {
            slot: row.slot as u8,
            id: AllocationId::from_uuid(row.id),
            name: row.name,
            code_hash: row.code_hash,
            seats: row.seats,
            from_ms: row.from_ms as u64,
            until_ms: row.until_ms as u64,
            is_closed: row.is_closed,
        })
        .collect())
}

/// Enters an allocation in the event's next slot; `slot` and `is_closed` of the row are ignored. In a transaction that has
/// locked the event ([`lock_event`]), so that slots are given out one after another.
///
/// # Errors
/// Postgres' own.
pub async fn insert(
    connection: &mut PgConnection,
    event: EventId,
    row: &AllocationRow,
    now_ms: u64,
) -> Result<Entered, StoreError> {
    let known = of_event(&mut *connection, event).await?;
    if known.len() >= MAX_ALLOCATIONS {
        return Ok(Entered::NoSlot);
    }
    if known.iter().any(|other| other.code_hash == row.code_hash) {
        return Ok(Entered::CodeUsed);
    }
    sqlx::query!(
        "insert into event_allocations (event_id, slot, id, name, code_hash, seats, from_ms, until_ms, created_ms)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        event.uuid(),
        known.len() as i16,
        row.id.uuid(),
        row.name,
        row.code_hash,
        row.seats,
        row.from_ms as i64,
        row.until_ms as i64,
        now_ms as i64
    )
    .execute(connection)
    .await?;
    Ok(Entered::Done)
}

/// Keeps others from changing the event until the transaction ends; false when there is no such event.
///
/// # Errors
/// Postgres' own.
pub async fn lock_event(connection: &mut PgConnection, event: EventId) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(r#"select 1 as "one!" from events where id = $1 for update"#, event.uuid())
        .fetch_optional(connection)
        .await?;
    Ok(found.is_some())
}

/// Closes an allocation: its unsold seats go back to everyone. The event it belongs to; `None` when there is none such.
///
/// # Errors
/// Postgres' own.
pub async fn close(
    executor: impl PgExecutor<'_>,
    id: AllocationId,
    now_ms: u64,
) -> Result<Option<EventId>, StoreError> {
    let event = sqlx::query_scalar!(
        "update event_allocations set closed_ms = coalesce(closed_ms, $2) where id = $1 returning event_id",
        id.uuid(),
        now_ms as i64
    )
    .fetch_optional(executor)
    .await?;
    Ok(event.map(EventId::from_uuid))
}
