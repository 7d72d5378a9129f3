//! Plans by content hash, each with what its importer proposes for prices and capacities. Rows never change.

use super::StoreError;
use seatwire_proto::id::VenueId;
use serde::{Deserialize, Serialize};
use sqlx::PgExecutor;
use sqlx::types::Json;

/// A class of seats as the source drew it; an event makes a price tier of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Category {
    /// For people.
    pub name: String,
    /// `#rrggbb`.
    pub color: String,
}

/// What an importer proposes for one area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaProposal {
    /// Index into the categories.
    pub category: u8,
    /// Places, where the source says so.
    pub capacity: Option<u32>,
}

/// What an importer read besides the drawing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// At most 256.
    pub categories: Vec<Category>,
    /// One byte a seat: index into `categories`.
    pub seat_categories: Vec<u8>,
    /// One an area.
    pub areas: Vec<AreaProposal>,
}

/// A plan to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewLayout<'a> {
    /// Where it is.
    pub venue: VenueId,
    /// First 32 hex digits of SHA-256 of `stored_json`.
    pub hash: &'a str,
    /// For people.
    pub name: &'a str,
    /// Seats.
    pub seat_count: u32,
    /// JSON without `hash`.
    pub stored_json: &'a [u8],
    /// The rest.
    pub proposal: &'a Proposal,
}

/// A plan as an event is made from it.
#[derive(Debug, Clone)]
pub struct LayoutRow {
    /// Its hash.
    pub hash: String,
    /// Where it is.
    pub venue: VenueId,
    /// JSON without `hash`.
    pub stored_json: Vec<u8>,
    /// Categories and capacities.
    pub proposal: Proposal,
}

/// Stores a plan; one that is there already stays as it is. Says whether it is new.
///
/// # Errors
/// Postgres' own.
pub async fn insert_layout(
    executor: impl PgExecutor<'_>,
    layout: NewLayout<'_>,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        r#"insert into layouts (hash, venue_id, name, seat_count, area_count, stored_json, categories, seat_categories,
                                area_proposals, created_ms)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
           on conflict (hash) do nothing"#,
        layout.hash,
        layout.venue.uuid(),
        layout.name,
        layout.seat_count as i32,
        layout.proposal.areas.len() as i32,
        layout.stored_json,
        Json(&layout.proposal.categories) as _,
        layout.proposal.seat_categories,
        Json(&layout.proposal.areas) as _,
        now_ms as i64,
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The JSON of a plan, as it was hashed.
///
/// # Errors
/// Postgres' own.
pub async fn stored_json(executor: impl PgExecutor<'_>, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(sqlx::query_scalar!("select stored_json from layouts where hash = $1", hash).fetch_optional(executor).await?)
}

/// A whole plan.
///
/// # Errors
/// Postgres' own.
pub async fn layout(executor: impl PgExecutor<'_>, hash: &str) -> Result<Option<LayoutRow>, StoreError> {
    let row = sqlx::query!(
        r#"select hash, venue_id, stored_json, categories as "categories: Json<Vec<Category>>", seat_categories,
                  area_proposals as "area_proposals: Json<Vec<AreaProposal>>"
           from layouts where hash = $1"#,
        hash
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(|row| LayoutRow {
        hash: row.hash,
        venue: VenueId::from_uuid(row.venue_id),
        stored_json: row.stored_json,
        proposal: Proposal {
            categories: row.categories.0,
            seat_categories: row.seat_categories,
            areas: row.area_proposals.0,
        },
    }))
}

/// The hash of a venue's newest plan.
///
/// # Errors
/// Postgres' own.
pub async fn newest_of_venue(executor: impl PgExecutor<'_>, venue: VenueId) -> Result<Option<String>, StoreError> {
    Ok(sqlx::query_scalar!(
        "select hash from layouts where venue_id = $1 order by created_ms desc, hash limit 1",
        venue.uuid()
    )
    .fetch_optional(executor)
    .await?)
}
