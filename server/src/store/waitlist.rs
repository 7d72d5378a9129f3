//! Who waits for seats of a sold-out event, in which order, and who has an offer. Places survive every restart; what is
//! kept for them stands in Redis and is found again by a rebuild.

mod answer;
mod offer;

pub use answer::{first_answer, forget_answers, remember};
pub use offer::{
    OfferFate, OfferedPlace, OfferedWhat, fate_of, note_offered, offered, offered_to, put_back, set_offered,
};

use super::StoreError;
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Whose.
    pub identity: IdentityId,
    /// Orders the list: earlier is first.
    pub place_n: i64,
    /// Seats or places wanted.
    pub quantity: u32,
    /// Codes; empty = any.
    pub price_tiers: Vec<String>,
}

struct WishRow {
    identity_id: Uuid,
    place_n: i64,
    quantity: i32,
    price_tiers: Vec<String>,
}

impl From<WishRow> for Wish {
    fn from(row: WishRow) -> Self {
        Self {
            identity: IdentityId::from_uuid(row.identity_id),
            place_n: row.place_n,
            quantity: row.quantity.cast_unsigned(),
            price_tiers: row.price_tiers,
        }
    }
}

/// A place in the list, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Seats or places wanted.
    pub quantity: u32,
    /// Codes; empty = any.
    pub price_tiers: Vec<String>,
    /// The offer's hold, while there is one.
    pub hold: Option<HoldId>,
    /// What the offer was made of; nothing where that is not known.
    pub offered: OfferedWhat,
    /// Waiting places before this one.
    pub ahead: u32,
}

/// Serialises what decides whether an event's list is empty; held until the transaction ends.
///
/// # Errors
/// `Unavailable` when somebody keeps it too long.
pub async fn lock(transaction: &mut PgConnection, event: EventId) -> Result<(), StoreError> {
    sqlx::query!("select pg_advisory_xact_lock($1)", lock_key(event)).execute(transaction).await?;
    Ok(())
}

/// As [`lock`], but only if nobody has it.
///
/// # Errors
/// Postgres' own.
pub async fn try_lock(transaction: &mut PgConnection, event: EventId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock($1) as "is_ours!""#, lock_key(event))
        .fetch_one(transaction)
        .await?)
}

/// Another key than the event's epoch: checkouts do not wait for the list.
fn lock_key(event: EventId) -> i64 {
    let (high, low) = event.uuid().as_u64_pair();
    (high ^ low).rotate_left(17).cast_signed()
}

/// Takes a place, or changes what the one that is there wants; an offered one stays as it is. `earlier_offer`: a hold that
/// came of a place the identity had before, so that it is not taken for one of this place.
///
/// # Errors
/// Postgres' own.
pub async fn join(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    quantity: u32,
    price_tiers: &[String],
    earlier_offer: Option<HoldId>,
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into waitlist_places
             (event_id, identity_id, quantity, price_tiers, state, joined_ms, earlier_hold_id)
         values ($1, $2, $3, $4, 'waiting', $5, $6)
         on conflict (event_id, identity_id) do update
         set quantity = excluded.quantity, price_tiers = excluded.price_tiers
         where waitlist_places.state = 'waiting'",
        event.uuid(),
        identity.uuid(),
        quantity.cast_signed(),
        price_tiers,
        now_ms as i64,
        earlier_offer.map(HoldId::uuid)
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Gives a place up; an offer that came of it is not touched here.
///
/// # Errors
/// Postgres' own.
pub async fn leave(executor: impl PgExecutor<'_>, event: EventId, identity: IdentityId) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "delete from waitlist_places where event_id = $1 and identity_id = $2",
        event.uuid(),
        identity.uuid()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The identity's place.
///
/// # Errors
/// Postgres' own.
pub async fn find(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
) -> Result<Option<Place>, StoreError> {
    let row = sqlx::query!(
        r#"select p.quantity, p.price_tiers, p.hold_id, p.offered_seats, p.offered_area,
                  (select count(*) from waitlist_places o
                    where o.event_id = p.event_id and o.state = 'waiting' and o.place_n < p.place_n) as "ahead!"
           from waitlist_places p where p.event_id = $1 and p.identity_id = $2"#,
        event.uuid(),
        identity.uuid()
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(|row| Place {
        quantity: row.quantity.cast_unsigned(),
        price_tiers: row.price_tiers,
        hold: row.hold_id.map(HoldId::from_uuid),
        offered: OfferedWhat {
            seats: row.offered_seats.into_iter().map(|seat| SeatIndex(seat.cast_unsigned())).collect(),
            area: row.offered_area.map(|area| AreaIndex(area.cast_unsigned())),
        },
        ahead: u32::try_from(row.ahead).unwrap_or(u32::MAX),
    }))
}

/// Whether what becomes free is for those who wait: the list is on and anybody has a place; one whose offer is lost goes on
/// waiting.
///
/// # Errors
/// Postgres' own.
pub async fn keeps(executor: impl PgExecutor<'_>, event: EventId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"select exists (select 1 from waitlist_places p join events e on e.id = p.event_id
               where p.event_id = $1 and e.has_waitlist) as "keeps!""#,
        event.uuid()
    )
    .fetch_one(executor)
    .await?)
}

/// Whether somebody waits for what becomes free: of an event that is not over, whose list is not switched off.
///
/// # Errors
/// Postgres' own.
pub async fn has_waiting(executor: impl PgExecutor<'_>, event: EventId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"select exists (select 1 from waitlist_places p join events e on e.id = p.event_id
               where p.event_id = $1 and p.state = 'waiting' and e.has_waitlist
                 and e.state not in ('closed', 'cancelled')) as "has!""#,
        event.uuid()
    )
    .fetch_one(executor)
    .await?)
}

/// Whether the shelf may keep for the list: somebody has a place, or it was not told yet that nobody has.
///
/// # Errors
/// Postgres' own.
pub async fn may_keep(executor: impl PgExecutor<'_>, event: EventId) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"select exists (select 1 from waitlist_keepings where event_id = $1)
               or exists (select 1 from waitlist_places where event_id = $1) as "may!""#,
        event.uuid()
    )
    .fetch_one(executor)
    .await?)
}

/// Notes that the shelf may keep for the list from now on: the job looks at the event until [`end_keeping`].
///
/// # Errors
/// Postgres' own.
pub async fn begin_keeping(executor: impl PgExecutor<'_>, event: EventId) -> Result<(), StoreError> {
    sqlx::query!("insert into waitlist_keepings (event_id) values ($1) on conflict do nothing", event.uuid())
        .execute(executor)
        .await?;
    Ok(())
}

/// Nothing is kept any more; only with the list's lock, and nothing while anybody has a place.
///
/// # Errors
/// Postgres' own.
pub async fn end_keeping(executor: impl PgExecutor<'_>, event: EventId) -> Result<(), StoreError> {
    sqlx::query!(
        "delete from waitlist_keepings where event_id = $1
         and not exists (select 1 from waitlist_places where event_id = $1)",
        event.uuid()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// The first who wait, in order.
///
/// # Errors
/// Postgres' own.
pub async fn waiting(executor: impl PgExecutor<'_>, event: EventId, limit: u32) -> Result<Vec<Wish>, StoreError> {
    let rows = sqlx::query_as!(
        WishRow,
        "select identity_id, place_n, quantity, price_tiers from waitlist_places
         where event_id = $1 and state = 'waiting' order by place_n limit $2",
        event.uuid(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(Wish::from).collect())
}

/// How much of a price tier is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOfTier {
    /// Its code.
    pub code: String,
    /// Seats of it.
    pub seats_n: u32,
    /// Places of the area of it that has most.
    pub places_n: u32,
}

/// The first who wait for no more than what is kept, in order, behind the place `after`: many who want much do not stand
/// before those whom it fits.
///
/// # Errors
/// Postgres' own.
pub async fn fitting(
    executor: impl PgExecutor<'_>,
    event: EventId,
    kept: &[KeptOfTier],
    after: i64,
    limit: u32,
) -> Result<Vec<Wish>, StoreError> {
    let codes: Vec<String> = kept.iter().map(|tier| tier.code.clone()).collect();
    let seats_n: Vec<i32> = kept.iter().map(|tier| tier.seats_n.cast_signed()).collect();
    let places_n: Vec<i32> = kept.iter().map(|tier| tier.places_n.cast_signed()).collect();
    let rows = sqlx::query_as!(
        WishRow,
        "select identity_id, place_n, quantity, price_tiers from waitlist_places
         where event_id = $1 and state = 'waiting' and place_n > $5 and quantity <= (
             select greatest(sum(seats_n), max(places_n)) from unnest($2::text[], $3::int[], $4::int[])
                 as kept(code, seats_n, places_n)
             where price_tiers = '{}' or code = any(price_tiers))
         order by place_n limit $6",
        event.uuid(),
        &codes,
        &seats_n,
        &places_n,
        after,
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(Wish::from).collect())
}

/// Ends the places of an event that is over: closed, cancelled, or begun before `begun_before_ms`. A bounded number; whose.
/// What was offered before the event was closed may still be taken, so that place stays until it has had its turn.
///
/// # Errors
/// Postgres' own.
pub async fn end_if_over(
    executor: impl PgExecutor<'_>,
    event: EventId,
    begun_before_ms: u64,
    limit: u32,
) -> Result<Vec<IdentityId>, StoreError> {
    let ended = sqlx::query_scalar!(
        "delete from waitlist_places where event_id = $1 and identity_id in (
             select p.identity_id from waitlist_places p join events e on e.id = p.event_id
             where p.event_id = $1 and (e.state = 'cancelled' or e.starts_ms < $2
                 or e.state = 'closed' and p.state = 'waiting') limit $3)
         returning identity_id",
        event.uuid(),
        begun_before_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(ended.into_iter().map(IdentityId::from_uuid).collect())
}

/// Events with a list, or whose list may still keep, by id, behind `after`; at most `limit`.
///
/// # Errors
/// Postgres' own.
pub async fn events(
    executor: impl PgExecutor<'_>,
    after: Option<EventId>,
    limit: u32,
) -> Result<Vec<EventId>, StoreError> {
    let ids = sqlx::query_scalar!(
        r#"select event_id as "event_id!" from (
               select event_id from waitlist_keepings union select event_id from waitlist_places) as lists
           where $1::uuid is null or event_id > $1 order by event_id limit $2"#,
        after.map(EventId::uuid),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(ids.into_iter().map(EventId::from_uuid).collect())
}
