//! Offers as the list knows them: who has which, in which life of the inventory it was last seen, and what orders say became of
//! it. `waitlist/offers` comes in; the hold itself stands in Redis.

use crate::store::StoreError;
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use sqlx::PgExecutor;
use uuid::Uuid;

/// An offer that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedPlace {
    /// To whom.
    pub identity: IdentityId,
    /// What.
    pub hold: HoldId,
    /// In which life of the inventory it was last seen.
    pub epoch: Option<u32>,
}

struct OfferRow {
    identity_id: Uuid,
    hold_id: Uuid,
    offered_epoch: Option<i32>,
}

impl From<OfferRow> for OfferedPlace {
    fn from(row: OfferRow) -> Self {
        Self {
            identity: IdentityId::from_uuid(row.identity_id),
            hold: HoldId::from_uuid(row.hold_id),
            epoch: row.offered_epoch.map(i32::cast_unsigned),
        }
    }
}

/// Those who have an offer.
///
/// # Errors
/// Postgres' own.
pub async fn offered(
    executor: impl PgExecutor<'_>,
    event: EventId,
    limit: u32,
) -> Result<Vec<OfferedPlace>, StoreError> {
    let rows = sqlx::query_as!(
        OfferRow,
        r#"select identity_id, hold_id as "hold_id!", offered_epoch from waitlist_places
           where event_id = $1 and state = 'offered' order by place_n limit $2"#,
        event.uuid(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(OfferedPlace::from).collect())
}

/// The offer that the identity's place has.
///
/// # Errors
/// Postgres' own.
pub async fn offered_to(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
) -> Result<Option<OfferedPlace>, StoreError> {
    let row = sqlx::query_as!(
        OfferRow,
        r#"select identity_id, hold_id as "hold_id!", offered_epoch from waitlist_places
           where event_id = $1 and identity_id = $2 and state = 'offered'"#,
        event.uuid(),
        identity.uuid()
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(OfferedPlace::from))
}

/// What an offer was made of: seats, or as many places of one area as were waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfferedWhat {
    /// Seats.
    pub seats: Vec<SeatIndex>,
    /// An area.
    pub area: Option<AreaIndex>,
}

/// Notes what the place's offer was made of.
///
/// # Errors
/// Postgres' own.
pub async fn note_offered(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    hold: HoldId,
    what: &OfferedWhat,
) -> Result<(), StoreError> {
    let seats: Vec<i32> = what.seats.iter().map(|seat| seat.0.cast_signed()).collect();
    sqlx::query!(
        "update waitlist_places set offered_seats = $4, offered_area = $5
         where event_id = $1 and identity_id = $2 and hold_id = $3",
        event.uuid(),
        identity.uuid(),
        hold.uuid(),
        &seats,
        what.area.map(|area| area.0.cast_signed())
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// The place has an offer now, seen in this life of the inventory; `false` where the hold came of a place the identity had before.
///
/// # Errors
/// Postgres' own.
pub async fn set_offered(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    hold: HoldId,
    epoch: Option<u32>,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update waitlist_places set state = 'offered', hold_id = $3, offered_epoch = $4
         where event_id = $1 and identity_id = $2 and earlier_hold_id is distinct from $3",
        event.uuid(),
        identity.uuid(),
        hold.uuid(),
        epoch.map(u32::cast_signed)
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The offer was lost: the place waits again, where it stood.
///
/// # Errors
/// Postgres' own.
pub async fn put_back(
    executor: impl PgExecutor<'_>,
    event: EventId,
    identity: IdentityId,
    hold: HoldId,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update waitlist_places
         set state = 'waiting', hold_id = null, offered_epoch = null, offered_seats = '{}', offered_area = null
         where event_id = $1 and identity_id = $2 and hold_id = $3",
        event.uuid(),
        identity.uuid(),
        hold.uuid()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// What came of the hold of an offer, as far as orders say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferFate {
    /// It was paid for, or cost nothing; what was given back later counts too.
    Bought,
    /// An order of it is being paid.
    Undecided,
    /// No order, or one that was cancelled, or one whose seats were let go.
    NotBought,
}

/// What came of the hold of an offer.
///
/// # Errors
/// Postgres' own.
pub async fn fate_of(executor: impl PgExecutor<'_>, hold: HoldId) -> Result<OfferFate, StoreError> {
    // A hold has at most one order that is not cancelled.
    let is_undecided = sqlx::query_scalar!(
        r#"select captured_minor = 0 and state in ('creating', 'payable', 'confirming', 'action_required', 'processing',
               'payment_unknown', 'cancelling', 'late_success') as "is!"
           from orders where hold_id = $1 and state <> 'cancelled' and (captured_minor > 0 or state <> 'released_unresolved')"#,
        hold.uuid()
    )
    .fetch_optional(executor)
    .await?;
    Ok(match is_undecided {
        None => OfferFate::NotBought,
        Some(true) => OfferFate::Undecided,
        Some(false) => OfferFate::Bought,
    })
}
