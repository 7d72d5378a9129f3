//! What an organiser changes of an event while it sells. Each function is one statement of a transaction that first took
//! the event's row (`lock`), so that two changes never mix. The catalogue notices them by the revision.

use super::StoreError;
use super::event::{SectionRow, column, word};
use seatwire_proto::id::{EventId, VenueId};
use seatwire_proto::seat::{AreaIndex, SectionIndex};
use seatwire_proto::server::{EventState, OrphanRule, SalesMode};
use sqlx::{PgConnection, PgExecutor};

/// An event whose row is held until the transaction ends.
#[derive(Debug, Clone)]
pub struct LockedEvent {
    /// Grows with every change.
    pub revision: u64,
    /// As set, not as time makes it.
    pub state: EventState,
    /// Where.
    pub venue: VenueId,
    /// Hash of the layout.
    pub layout: String,
    /// One byte a seat.
    pub seat_tiers: Vec<u8>,
    /// Roaring set, portable format; may be empty.
    pub blocked: Vec<u8>,
}

/// Takes the event's row; `None` when there is no such event.
///
/// # Errors
/// `Unavailable` when another change keeps it too long.
pub async fn lock(transaction: &mut PgConnection, id: EventId) -> Result<Option<LockedEvent>, StoreError> {
    let row = sqlx::query!(
        "select revision, state, venue_id, layout_hash, seat_tiers, blocked from events where id = $1 for update",
        id.uuid()
    )
    .fetch_optional(transaction)
    .await?;
    row.map(|row| {
        Ok(LockedEvent {
            revision: row.revision as u64,
            state: word(&row.state)?,
            venue: VenueId::from_uuid(row.venue_id),
            layout: row.layout_hash,
            seat_tiers: row.seat_tiers,
            blocked: row.blocked,
        })
    })
    .transpose()
}

/// Sets the state and why.
///
/// # Errors
/// Postgres' own.
pub async fn set_state(
    executor: impl PgExecutor<'_>,
    id: EventId,
    state: EventState,
    reason: Option<&str>,
) -> Result<(), StoreError> {
    sqlx::query!("update events set state = $2, state_reason = $3 where id = $1", id.uuid(), column(&state), reason)
        .execute(executor)
        .await?;
    Ok(())
}

/// Moves from one state to another; `false` when it was not in the first.
///
/// # Errors
/// Postgres' own.
pub async fn move_state(
    executor: impl PgExecutor<'_>,
    id: EventId,
    from: &[EventState],
    to: EventState,
) -> Result<bool, StoreError> {
    let from: Vec<String> = from.iter().map(column).collect();
    let done = sqlx::query!(
        "update events set state = $3, state_reason = null where id = $1 and state = any($2)",
        id.uuid(),
        &from,
        column(&to)
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What to set anew; `None` leaves it.
#[derive(Debug, Clone, Default)]
pub struct EventPatch {
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// When it begins.
    pub starts_ms: Option<u64>,
    /// When selling begins.
    pub on_sale_ms: Option<u64>,
    /// When the presale begins; `Some(None)` = no presale.
    pub presale_ms: Option<Option<u64>>,
    /// Seats and places an identity may have.
    pub seats_per_identity: Option<u32>,
    /// Seats and places one payment instrument may pay for; `Some(None)` = no limit.
    pub seats_per_instrument: Option<Option<u32>>,
    /// Life of a new hold.
    pub hold_ttl_ms: Option<u64>,
    /// What may be left between seats.
    pub orphans: Option<OrphanRule>,
    /// Whether released seats go to a list.
    pub has_waitlist: Option<bool>,
    /// How sections sell, each named once.
    pub sales_modes: Vec<(SectionIndex, SalesMode)>,
}

/// Sets what the patch names.
///
/// # Errors
/// Postgres' own.
pub async fn patch(transaction: &mut PgConnection, id: EventId, patch: &EventPatch) -> Result<(), StoreError> {
    sqlx::query!(
        r#"update events set name = coalesce($2, name), description = coalesce($3, description),
                  starts_ms = coalesce($4, starts_ms), on_sale_ms = coalesce($5, on_sale_ms),
                  presale_ms = case when $6 then $7 else presale_ms end,
                  seats_per_identity = coalesce($8, seats_per_identity), hold_ttl_ms = coalesce($9, hold_ttl_ms),
                  orphans = coalesce($10, orphans), has_waitlist = coalesce($11, has_waitlist),
                  seats_per_instrument = case when $12 then $13 else seats_per_instrument end
           where id = $1"#,
        id.uuid(),
        patch.name,
        patch.description,
        patch.starts_ms.map(|ms| ms as i64),
        patch.on_sale_ms.map(|ms| ms as i64),
        patch.presale_ms.is_some(),
        patch.presale_ms.flatten().map(|ms| ms as i64),
        patch.seats_per_identity.map(u32::cast_signed),
        patch.hold_ttl_ms.map(|ms| ms as i64),
        patch.orphans.as_ref().map(column),
        patch.has_waitlist,
        patch.seats_per_instrument.is_some(),
        patch.seats_per_instrument.flatten().map(u32::cast_signed),
    )
    .execute(&mut *transaction)
    .await?;
    if !patch.sales_modes.is_empty() {
        let (indices, modes): (Vec<i32>, Vec<String>) =
            patch.sales_modes.iter().map(|(index, mode)| (index.0.cast_signed(), column(mode))).unzip();
        sqlx::query!(
            r#"update event_sections s set sales_mode = n.sales_mode
               from unnest($2::integer[], $3::text[]) as n (section_index, sales_mode)
               where s.event_id = $1 and s.section_index = n.section_index and s.sales_mode <> n.sales_mode"#,
            id.uuid(),
            &indices,
            &modes
        )
        .execute(transaction)
        .await?;
    }
    Ok(())
}

/// Sets the price of a tier; `false` when there is no such code.
///
/// # Errors
/// Postgres' own.
pub async fn set_price(
    executor: impl PgExecutor<'_>,
    id: EventId,
    code: &str,
    price_minor: i64,
    fee_minor: i64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update event_price_tiers set price_minor = $3, fee_minor = $4 where event_id = $1 and code = $2",
        id.uuid(),
        code,
        price_minor,
        fee_minor
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Sets how many places an area has; `None` when there is no such area, else how many it had.
///
/// # Errors
/// Postgres' own.
pub async fn set_capacity(
    executor: impl PgExecutor<'_>,
    id: EventId,
    area: AreaIndex,
    capacity: u32,
) -> Result<Option<u32>, StoreError> {
    let had = sqlx::query_scalar!(
        "update event_areas a set capacity = $3
         from (select event_id, area_index, capacity from event_areas where event_id = $1 and area_index = $2) b
         where a.event_id = b.event_id and a.area_index = b.area_index returning b.capacity",
        id.uuid(),
        area.0.cast_signed(),
        capacity.cast_signed()
    );
    Ok(had.fetch_optional(executor).await?.map(i32::cast_unsigned))
}

/// Sets which seats the open channel does not sell.
///
/// # Errors
/// Postgres' own.
pub async fn set_blocked(executor: impl PgExecutor<'_>, id: EventId, blocked: &[u8]) -> Result<(), StoreError> {
    sqlx::query!("update events set blocked = $2 where id = $1", id.uuid(), blocked).execute(executor).await?;
    Ok(())
}

/// Points the event to a longer layout and enters the section that came with it, behind the others.
///
/// # Errors
/// Postgres' own.
pub async fn append_section(
    transaction: &mut PgConnection,
    id: EventId,
    layout: &str,
    seat_tiers: &[u8],
    section: &SectionRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update events set layout_hash = $2, seat_tiers = $3, seat_count = $4 where id = $1",
        id.uuid(),
        layout,
        seat_tiers,
        seat_tiers.len() as i32
    )
    .execute(&mut *transaction)
    .await?;
    sqlx::query!(
        r#"insert into event_sections (event_id, section_index, name, first_seat, end_seat, sales_mode)
           select $1, (select count(*) from event_sections where event_id = $1), $2, $3, $4, $5"#,
        id.uuid(),
        section.name,
        section.first_seat.cast_signed(),
        section.end_seat.cast_signed(),
        column(&section.sales_mode)
    )
    .execute(transaction)
    .await?;
    Ok(())
}

/// Events that have a life in Redis which was not yet told of their newest revision, or is owed a telling.
///
/// # Errors
/// Postgres' own.
pub async fn behind(executor: impl PgExecutor<'_>, limit: u32) -> Result<Vec<EventId>, StoreError> {
    let ids = sqlx::query_scalar!(
        r#"select e.id from event_epochs l join events e on e.id = l.event_id
           left join event_shelves s on s.event_id = e.id
           where coalesce(s.revision, 0) < e.revision or s.told_n < s.owed_n limit $1"#,
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(ids.into_iter().map(EventId::from_uuid).collect())
}

/// The shelf must be told of the event, whatever becomes of the change that begins now.
///
/// # Errors
/// Postgres' own.
pub async fn owe(executor: impl PgExecutor<'_>, id: EventId) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into event_shelves (event_id, revision, owed_n) values ($1, 0, 1)
         on conflict (event_id) do update set owed_n = event_shelves.owed_n + 1",
        id.uuid()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// How many tellings were owed so far.
///
/// # Errors
/// Postgres' own.
pub async fn owed(executor: impl PgExecutor<'_>, id: EventId) -> Result<u64, StoreError> {
    let owed_n = sqlx::query_scalar!("select owed_n from event_shelves where event_id = $1", id.uuid());
    Ok(owed_n.fetch_optional(executor).await?.unwrap_or(0).cast_unsigned())
}

/// The shelf knows the event up to this revision, and all that was owed up to `owed_n`.
///
/// # Errors
/// Postgres' own.
pub async fn shelf_knows(
    executor: impl PgExecutor<'_>,
    id: EventId,
    revision: u64,
    owed_n: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into event_shelves (event_id, revision, told_n) values ($1, $2, $3)
         on conflict (event_id) do update set revision = greatest(event_shelves.revision, excluded.revision),
             told_n = greatest(event_shelves.told_n, excluded.told_n)",
        id.uuid(),
        revision as i64,
        owed_n as i64
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// What a checkout must know of its event behind the epoch's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selling {
    /// The state as it is set now, without waiting for whoever changes it; `None`: there is no such event.
    pub state: Option<EventState>,
    /// The life of its inventory; `None` before it was first opened.
    pub epoch: Option<u32>,
}

/// How an event stands for a checkout. Behind `epoch::lock_shared` it must be a statement of its own.
///
/// # Errors
/// Postgres' own.
pub async fn selling(executor: impl PgExecutor<'_>, id: EventId) -> Result<Selling, StoreError> {
    let row = sqlx::query!(
        r#"select (select state from events where id = $1) as state,
               (select epoch from event_epochs where event_id = $1) as epoch"#,
        id.uuid()
    )
    .fetch_one(executor)
    .await?;
    Ok(Selling { state: row.state.map(|state| word(&state)).transpose()?, epoch: row.epoch.map(i32::cast_unsigned) })
}

/// The state as it is set now, without waiting for whoever changes it; `None` when there is no such event.
///
/// # Errors
/// Postgres' own.
pub async fn state(executor: impl PgExecutor<'_>, id: EventId) -> Result<Option<EventState>, StoreError> {
    let state = sqlx::query_scalar!("select state from events where id = $1", id.uuid());
    state.fetch_optional(executor).await?.map(|state| word(&state)).transpose()
}
