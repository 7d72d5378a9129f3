//! Reading events: summaries for lists, whole events for the catalogue.

use super::{AreaRow, EventFilter, EventRow, SectionRow, SummaryRow, word};
use crate::store::{StoreError, allocation};
use seatwire_proto::id::{EventId, PerformerId, VenueId};
use seatwire_proto::server::{OrphanRule, Performer, PriceTier, Rules, Venue};
use sqlx::types::{Json, Uuid};
use sqlx::{PgConnection, PgExecutor};

/// Events for a list, in order of (starts_ms, id).
///
/// # Errors
/// Postgres' own; `Malformed` for a row that does not make sense.
pub async fn events(executor: impl PgExecutor<'_>, filter: &EventFilter) -> Result<Vec<SummaryRow>, StoreError> {
    let patterns: Vec<String> = filter.words.iter().map(|word| format!("%{}%", escape_like(word))).collect();
    let (after_ms, after_id) = filter.after.map_or((-1, Uuid::nil()), |(ms, id)| (ms as i64, id.uuid()));
    let rows = sqlx::query_as!(
        RawSummary,
        r#"select e.id, e.name, e.starts_ms, e.presale_ms, e.on_sale_ms, e.state, e.currency, e.layout_hash, e.seat_count,
                  e.has_waiting_room, e.has_waitlist,
                  v.id as venue_id, v.name as venue_name, v.city, v.country, v.lat, v.lon, v.time_zone,
                  (select coalesce(jsonb_agg(jsonb_build_object('code', t.code, 'name', t.name, 'color', t.color,
                              'price_minor', t.price_minor, 'fee_minor', t.fee_minor) order by t.position), '[]')
                     from event_price_tiers t where t.event_id = e.id) as "price_tiers!: Json<Vec<PriceTier>>",
                  (select coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'name', p.name) order by ep.position), '[]')
                     from event_performers ep join performers p on p.id = ep.performer_id
                    where ep.event_id = e.id) as "performers!: Json<Vec<RawPerformer>>",
                  (select coalesce(sum(a.capacity), 0)::bigint from event_areas a where a.event_id = e.id)
                     as "area_places!"
             from events e join venues v on v.id = e.venue_id
            where (e.starts_ms, e.id) > ($1, $2)
              and e.starts_ms >= $3 and e.starts_ms < $4
              and not exists (
                  select 1 from unnest($5::text[]) as q (pattern)
                   where not (e.name ilike q.pattern or v.name ilike q.pattern or v.city ilike q.pattern or exists (
                       select 1 from event_performers ep join performers p on p.id = ep.performer_id
                        where ep.event_id = e.id and p.name ilike q.pattern)))
              -- Great-circle distance (haversine) on a globe of 6,371 km; `least` keeps rounding out of asin.
              and ($7::double precision is null or 2 * 6371 * asin(sqrt(least(1,
                      power(sind((v.lat - $7) / 2), 2)
                      + cosd(v.lat) * cosd($7) * power(sind((v.lon - $8) / 2), 2)))) <= $9)
            order by e.starts_ms, e.id
            limit $6"#,
        after_ms,
        after_id,
        filter.from_ms.map_or(i64::MIN, |ms| ms as i64),
        filter.to_ms.map_or(i64::MAX, |ms| ms as i64),
        &patterns,
        i64::from(filter.limit),
        filter.near.map(|near| near.lat),
        filter.near.map_or(0.0, |near| near.lon),
        filter.near.map_or(0.0, |near| near.within_km),
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter().map(SummaryRow::try_from).collect()
}

/// Letters that mean something to `like` stand for themselves.
fn escape_like(word: &str) -> String {
    word.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// A whole event.
///
/// # Errors
/// Postgres' own; `Malformed` for a row that does not make sense.
pub async fn event(connection: &mut PgConnection, id: EventId) -> Result<Option<EventRow>, StoreError> {
    let row = sqlx::query!(
        r#"select e.id, e.name, e.starts_ms, e.presale_ms, e.on_sale_ms, e.state, e.currency, e.layout_hash, e.seat_count,
                  e.has_waiting_room, e.has_waitlist, e.number as "number!", e.revision, e.description,
                  e.state_reason, e.seats_per_identity, e.hold_ttl_ms, e.orphans, e.seat_tiers, e.blocked,
                  e.seats_per_instrument,
                  v.id as venue_id, v.name as venue_name, v.city, v.country, v.lat, v.lon, v.time_zone,
                  (select coalesce(jsonb_agg(jsonb_build_object('code', t.code, 'name', t.name, 'color', t.color,
                              'price_minor', t.price_minor, 'fee_minor', t.fee_minor) order by t.position), '[]')
                     from event_price_tiers t where t.event_id = e.id) as "price_tiers!: Json<Vec<PriceTier>>",
                  (select coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'name', p.name) order by ep.position), '[]')
                     from event_performers ep join performers p on p.id = ep.performer_id
                    where ep.event_id = e.id) as "performers!: Json<Vec<RawPerformer>>"
             from events e join venues v on v.id = e.venue_id
            where e.id = $1"#,
        id.uuid()
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let sections = sections(connection, id).await?;
    let areas = areas(connection, id).await?;
    let allocations = allocation::of_event(&mut *connection, id).await?;
    let rules = Rules {
        seats_per_identity: row.seats_per_identity as u32,
        hold_ttl_ms: row.hold_ttl_ms as u64,
        orphans: word::<OrphanRule>(&row.orphans)?,
    };
    let summary = SummaryRow::try_from(RawSummary {
        id: row.id,
        name: row.name,
        starts_ms: row.starts_ms,
        presale_ms: row.presale_ms,
        on_sale_ms: row.on_sale_ms,
        state: row.state,
        currency: row.currency,
        layout_hash: row.layout_hash,
        seat_count: row.seat_count,
        has_waiting_room: row.has_waiting_room,
        has_waitlist: row.has_waitlist,
        venue_id: row.venue_id,
        venue_name: row.venue_name,
        city: row.city,
        country: row.country,
        lat: row.lat,
        lon: row.lon,
        time_zone: row.time_zone,
        price_tiers: row.price_tiers,
        performers: row.performers,
        area_places: areas.iter().map(|area| i64::from(area.capacity)).sum(),
    })?;
    Ok(Some(EventRow {
        summary,
        allocations,
        number: row.number as u32,
        revision: row.revision as u64,
        description: row.description,
        state_reason: row.state_reason,
        rules,
        seats_per_instrument: row.seats_per_instrument.map(i32::cast_unsigned),
        seat_tiers: row.seat_tiers,
        blocked: row.blocked,
        sections,
        areas,
    }))
}

async fn sections(connection: &mut PgConnection, id: EventId) -> Result<Vec<SectionRow>, StoreError> {
    let rows = sqlx::query!(
        "select name, first_seat, end_seat, sales_mode from event_sections where event_id = $1 order by section_index",
        id.uuid()
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(SectionRow {
                name: row.name,
                first_seat: row.first_seat as u32,
                end_seat: row.end_seat as u32,
                sales_mode: word(&row.sales_mode)?,
            })
        })
        .collect()
}

async fn areas(connection: &mut PgConnection, id: EventId) -> Result<Vec<AreaRow>, StoreError> {
    let rows = sqlx::query!(
        "select name, price_tier, capacity from event_areas where event_id = $1 order by area_index",
        id.uuid()
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AreaRow { name: row.name, price_tier: row.price_tier as u8, capacity: row.capacity as u32 })
        .collect())
}

#[derive(Debug, serde::Deserialize)]
struct RawPerformer {
    id: Uuid,
    name: String,
}

#[derive(Debug)]
struct RawSummary {
    id: Uuid,
    name: String,
    starts_ms: i64,
    presale_ms: Option<i64>,
    on_sale_ms: i64,
    state: String,
    currency: String,
    layout_hash: String,
    seat_count: i32,
    has_waiting_room: bool,
    has_waitlist: bool,
    venue_id: Uuid,
    venue_name: String,
    city: String,
    country: String,
    lat: f64,
    lon: f64,
    time_zone: String,
    price_tiers: Json<Vec<PriceTier>>,
    performers: Json<Vec<RawPerformer>>,
    area_places: i64,
}

impl TryFrom<RawSummary> for SummaryRow {
    type Error = StoreError;
    fn try_from(row: RawSummary) -> Result<Self, StoreError> {
        Ok(Self {
            id: EventId::from_uuid(row.id),
            name: row.name,
            performers: row
                .performers
                .0
                .into_iter()
                .map(|performer| Performer { id: PerformerId::from_uuid(performer.id), name: performer.name })
                .collect(),
            venue: Venue {
                id: VenueId::from_uuid(row.venue_id),
                name: row.venue_name,
                city: row.city,
                country: row.country,
                lat: row.lat,
                lon: row.lon,
                time_zone: row.time_zone,
            },
            starts_ms: row.starts_ms as u64,
            presale_ms: row.presale_ms.map(|ms| ms as u64),
            on_sale_ms: row.on_sale_ms as u64,
            state: word(&row.state)?,
            currency: row.currency,
            layout: row.layout_hash,
            seat_count: row.seat_count as u32,
            price_tiers: row.price_tiers.0,
            area_places: u32::try_from(row.area_places).unwrap_or(u32::MAX),
            has_waiting_room: row.has_waiting_room,
            has_waitlist: row.has_waitlist,
        })
    }
}
