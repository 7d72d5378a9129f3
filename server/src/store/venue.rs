//! Places and performers. Written by imports and the demo, read with the events that take place there.

use super::StoreError;
use seatwire_proto::id::{PerformerId, VenueId};
use seatwire_proto::server::Venue;
use sqlx::PgExecutor;

/// A place to be entered; its name and city together are unique.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVenue {
    /// Its name.
    pub name: String,
    /// Its city; may be empty.
    pub city: String,
    /// ISO 3166-1 alpha-2.
    pub country: String,
    /// Degrees north.
    pub lat: f64,
    /// Degrees east.
    pub lon: f64,
    /// IANA name.
    pub time_zone: String,
}

/// Enters a venue, or finds the one of that name in that city and leaves it as it is.
///
/// # Errors
/// Postgres' own.
pub async fn insert_venue(executor: impl PgExecutor<'_>, venue: &NewVenue, now_ms: u64) -> Result<VenueId, StoreError> {
    let id = sqlx::query_scalar!(
        r#"insert into venues (id, name, city, country, lat, lon, time_zone, created_ms)
           values ($1, $2, $3, $4, $5, $6, $7, $8)
           on conflict on constraint venues_name_city_key do update set name = excluded.name
           returning id"#,
        VenueId::generate().uuid(),
        venue.name,
        venue.city,
        venue.country,
        venue.lat,
        venue.lon,
        venue.time_zone,
        now_ms as i64,
    )
    .fetch_one(executor)
    .await?;
    Ok(VenueId::from_uuid(id))
}

/// Venues of that name, at most two: one is the answer, two are ambiguous.
///
/// # Errors
/// Postgres' own.
pub async fn venues_named(executor: impl PgExecutor<'_>, name: &str) -> Result<Vec<Venue>, StoreError> {
    let rows = sqlx::query!(
        "select id, name, city, country, lat, lon, time_zone from venues where name = $1 order by id limit 2",
        name
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Venue {
            id: VenueId::from_uuid(row.id),
            name: row.name,
            city: row.city,
            country: row.country,
            lat: row.lat,
            lon: row.lon,
            time_zone: row.time_zone,
        })
        .collect())
}

/// Enters a performer, or finds the one of that name.
///
/// # Errors
/// Postgres' own.
pub async fn insert_performer(
    executor: impl PgExecutor<'_>,
    name: &str,
    now_ms: u64,
) -> Result<PerformerId, StoreError> {
    let id = sqlx::query_scalar!(
        r#"insert into performers (id, name, created_ms) values ($1, $2, $3)
           on conflict on constraint performers_name_key do update set name = excluded.name
           returning id"#,
        PerformerId::generate().uuid(),
        name,
        now_ms as i64,
    )
    .fetch_one(executor)
    .await?;
    Ok(PerformerId::from_uuid(id))
}
