//! Events with their price tiers, sections and areas. Written by organisers, read by the catalogue only, which keeps
//! what commands need in memory. The revision tells whether anything changed since.

mod read;

pub use read::{event, events};

use super::StoreError;
use seatwire_proto::id::{EventId, PerformerId, VenueId};
use seatwire_proto::server::{EventState, Performer, PriceTier, Rules, SalesMode, Venue};
use sqlx::types::Uuid;
use sqlx::{PgConnection, PgExecutor};

/// An event to be entered, whole.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Its id.
    pub id: EventId,
    /// Where.
    pub venue: VenueId,
    /// Hash of its layout.
    pub layout: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// Who plays, in order.
    pub performers: Vec<PerformerId>,
    /// When it begins.
    pub starts_ms: u64,
    /// When selling begins.
    pub on_sale_ms: u64,
    /// Its state.
    pub state: EventState,
    /// ISO 4217.
    pub currency: String,
    /// Limits and times.
    pub rules: Rules,
    /// Whether buyers wait first.
    pub has_waiting_room: bool,
    /// Whether released seats go to a list.
    pub has_waitlist: bool,
    /// Priced classes, at most 256.
    pub price_tiers: Vec<PriceTier>,
    /// One byte a seat.
    pub seat_tiers: Vec<u8>,
    /// Roaring set, portable format.
    pub blocked: Vec<u8>,
    /// In layout order.
    pub sections: Vec<SectionRow>,
    /// In layout order.
    pub areas: Vec<AreaRow>,
}

/// A section of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionRow {
    /// For people.
    pub name: String,
    /// Its first seat.
    pub first_seat: u32,
    /// One past its last seat.
    pub end_seat: u32,
    /// How it sells.
    pub sales_mode: SalesMode,
}

/// An area of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaRow {
    /// For people.
    pub name: String,
    /// Index into the price tiers.
    pub price_tier: u8,
    /// Places in all.
    pub capacity: u32,
}

/// What lists show of an event, as stored.
#[derive(Debug, Clone)]
pub struct SummaryRow {
    /// Its id.
    pub id: EventId,
    /// For people.
    pub name: String,
    /// Who plays.
    pub performers: Vec<Performer>,
    /// Where.
    pub venue: Venue,
    /// When it begins.
    pub starts_ms: u64,
    /// When the presale begins.
    pub presale_ms: Option<u64>,
    /// When selling begins.
    pub on_sale_ms: u64,
    /// As set.
    pub state: EventState,
    /// ISO 4217.
    pub currency: String,
    /// Hash of the layout.
    pub layout: String,
    /// Seats in the layout.
    pub seat_count: u32,
    /// Priced classes.
    pub price_tiers: Vec<PriceTier>,
    /// Places in all areas.
    pub area_places: u32,
    /// Whether buyers wait first.
    pub has_waiting_room: bool,
    /// Whether released seats go to a list.
    pub has_waitlist: bool,
}

/// A whole event, as stored.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// What lists show.
    pub summary: SummaryRow,
    /// Allocations, closed ones included.
    pub allocations: Vec<super::allocation::AllocationRow>,
    /// Its short number.
    pub number: u32,
    /// Grows with every change.
    pub revision: u64,
    /// For people.
    pub description: String,
    /// Why it is in its state, for people.
    pub state_reason: Option<String>,
    /// Limits and times.
    pub rules: Rules,
    /// Seats and places one payment instrument may pay for; `None` = no limit.
    pub seats_per_instrument: Option<u32>,
    /// One byte a seat.
    pub seat_tiers: Vec<u8>,
    /// Roaring set, portable format.
    pub blocked: Vec<u8>,
    /// In layout order.
    pub sections: Vec<SectionRow>,
    /// In layout order.
    pub areas: Vec<AreaRow>,
}

/// A circle on the globe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// Degrees north.
    pub lat: f64,
    /// Degrees east.
    pub lon: f64,
    /// Its radius.
    pub within_km: f64,
}

/// Which events a list shows, in order of (starts_ms, id).
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Every word occurs in the event's, a performer's or the venue's name, or in the city. Empty = all.
    pub words: Vec<String>,
    /// Only around a place.
    pub near: Option<Near>,
    /// Beginning at or after.
    pub from_ms: Option<u64>,
    /// Beginning before.
    pub to_ms: Option<u64>,
    /// Behind this one.
    pub after: Option<(u64, EventId)>,
    /// At most so many.
    pub limit: u32,
}

/// Reads one of the wire's words back from a column.
pub(super) fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_value(serde_json::Value::from(text))
        .map_err(|error| StoreError::Malformed(format!("{text:?}: {error}")))
}

/// One of the wire's words, as a column keeps it.
pub(super) fn column<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Enters an event with everything that belongs to it; the caller owns the transaction. Answers its short number.
///
/// # Errors
/// Postgres' own.
pub async fn insert_event(connection: &mut PgConnection, event: &NewEvent, now_ms: u64) -> Result<u32, StoreError> {
    let number = sqlx::query_scalar!(
        r#"insert into events (id, venue_id, layout_hash, name, description, starts_ms, on_sale_ms, state, currency,
                               seats_per_identity, hold_ttl_ms, orphans, has_waiting_room, has_waitlist, seat_count,
                               seat_tiers, blocked, created_ms)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
           returning number"#,
        event.id.uuid(),
        event.venue.uuid(),
        event.layout,
        event.name,
        event.description,
        event.starts_ms as i64,
        event.on_sale_ms as i64,
        column(&event.state),
        event.currency,
        event.rules.seats_per_identity as i32,
        event.rules.hold_ttl_ms as i64,
        column(&event.rules.orphans),
        event.has_waiting_room,
        event.has_waitlist,
        event.seat_tiers.len() as i32,
        event.seat_tiers,
        event.blocked,
        now_ms as i64,
    )
    .fetch_one(&mut *connection)
    .await?;
    for (position, performer) in event.performers.iter().enumerate() {
        sqlx::query!(
            "insert into event_performers (event_id, position, performer_id) values ($1, $2, $3)",
            event.id.uuid(),
            position as i16,
            performer.uuid()
        )
        .execute(&mut *connection)
        .await?;
    }
    for (position, tier) in event.price_tiers.iter().enumerate() {
        sqlx::query!(
            r#"insert into event_price_tiers (event_id, position, code, name, color, price_minor, fee_minor)
               values ($1, $2, $3, $4, $5, $6, $7)"#,
            event.id.uuid(),
            position as i16,
            tier.code,
            tier.name,
            tier.color,
            tier.price_minor,
            tier.fee_minor
        )
        .execute(&mut *connection)
        .await?;
    }
    insert_sections(connection, event).await?;
    for (index, area) in event.areas.iter().enumerate() {
        sqlx::query!(
            "insert into event_areas (event_id, area_index, name, price_tier, capacity) values ($1, $2, $3, $4, $5)",
            event.id.uuid(),
            index as i32,
            area.name,
            i16::from(area.price_tier),
            area.capacity as i32
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(number as u32)
}

/// Sections are many: one statement for all of them.
async fn insert_sections(connection: &mut PgConnection, event: &NewEvent) -> Result<(), StoreError> {
    let names: Vec<String> = event.sections.iter().map(|section| section.name.clone()).collect();
    let first: Vec<i32> = event.sections.iter().map(|section| section.first_seat as i32).collect();
    let end: Vec<i32> = event.sections.iter().map(|section| section.end_seat as i32).collect();
    let modes: Vec<String> = event.sections.iter().map(|section| column(&section.sales_mode)).collect();
    sqlx::query!(
        r#"insert into event_sections (event_id, section_index, name, first_seat, end_seat, sales_mode)
           select $1, s.ordinality - 1, s.name, s.first_seat, s.end_seat, s.sales_mode
           from unnest($2::text[], $3::integer[], $4::integer[], $5::text[])
                with ordinality as s (name, first_seat, end_seat, sales_mode, ordinality)"#,
        event.id.uuid(),
        &names,
        &first,
        &end,
        &modes
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The event's revision, if there is such an event.
///
/// # Errors
/// Postgres' own.
pub async fn revision(executor: impl PgExecutor<'_>, id: EventId) -> Result<Option<u64>, StoreError> {
    let revision =
        sqlx::query_scalar!("select revision from events where id = $1", id.uuid()).fetch_optional(executor).await?;
    Ok(revision.map(|revision| revision as u64))
}

/// The id behind a short number.
///
/// # Errors
/// Postgres' own.
pub async fn id_of_number(executor: impl PgExecutor<'_>, number: u32) -> Result<Option<EventId>, StoreError> {
    let id =
        sqlx::query_scalar!("select id from events where number = $1", number as i32).fetch_optional(executor).await?;
    Ok(id.map(EventId::from_uuid))
}

/// Whether there is any event.
///
/// # Errors
/// Postgres' own.
pub async fn is_empty(executor: impl PgExecutor<'_>) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(r#"select not exists (select 1 from events) as "is_empty!""#).fetch_one(executor).await?)
}

/// Seats and places reserved or sold, one number an id, in the order of `ids`.
///
/// # Errors
/// Postgres' own.
pub async fn taken_counts(executor: impl PgExecutor<'_>, ids: &[EventId]) -> Result<Vec<u32>, StoreError> {
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let counts = sqlx::query_scalar!(
        r#"select ((select count(*) from taken_seats t where t.event_id = u.id)
                 + (select coalesce(sum(s.reserved + s.sold), 0) from area_stock s where s.event_id = u.id))::bigint
                  as "taken!"
             from unnest($1::uuid[]) with ordinality as u (id, ordinality)
            order by u.ordinality"#,
        &uuids
    )
    .fetch_all(executor)
    .await?;
    Ok(counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect())
}
