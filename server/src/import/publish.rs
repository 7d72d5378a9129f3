//! From an imported place to an event on sale: stores the plan, gives every category a price and enters the event.
//! The command line and the demo come in; what cannot be sold is refused in one line before anything is written.

use super::Imported;
use crate::store::event::{AreaRow, NewEvent, SectionRow, insert_event};
use crate::store::layout::{self, LayoutRow, NewLayout};
use crate::store::venue::{NewVenue, insert_performer, insert_venue};
use crate::store::{Store, StoreError};
use seatwire_proto::id::{EventId, VenueId};
use seatwire_proto::layout::{Layout, LayoutHash};
use seatwire_proto::money::{Currency, MAX_MINOR};
use seatwire_proto::server::{EventState, OrphanRule, PriceTier, Rules, SalesMode};
use sqlx::PgConnection;
use std::collections::HashMap;

/// Longest name of an event, a performer or a tier, in characters: what a page can show.
const MAX_NAME_CHARS: usize = 200;
/// Longest code of a price tier: it stands in every line of an order.
const MAX_CODE_BYTES: usize = 16;
/// Most price tiers: one byte a seat.
const MAX_TIERS: usize = 256;

/// Why something was not entered.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// It cannot be sold like this; one line for the organiser.
    #[error("{0}")]
    Refused(String),
    /// Postgres did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for PublishError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, PublishError> {
    Err(PublishError::Refused(why.into()))
}

/// A price for one category of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSpec {
    /// Short code, e.g. `A`.
    pub code: String,
    /// Which category of the plan; by position when absent.
    pub category: Option<String>,
    /// Per seat.
    pub price_minor: i64,
    /// Per seat.
    pub fee_minor: i64,
}

/// An event to be entered.
#[derive(Debug, Clone)]
pub struct EventSpec {
    /// Hash of the plan.
    pub layout: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// Names, in order.
    pub performers: Vec<String>,
    /// When it begins.
    pub starts_ms: u64,
    /// When selling begins.
    pub on_sale_ms: u64,
    /// Of every price.
    pub currency: Currency,
    /// One a category; a single one without a category is the price of everything.
    pub tiers: Vec<TierSpec>,
    /// Capacities by name of the area; they replace those of the plan.
    pub capacities: HashMap<String, u32>,
    /// Seats and places an identity may have.
    pub seats_per_identity: u32,
    /// Life of a hold.
    pub hold_ttl_ms: u64,
    /// What may be left between seats.
    pub orphans: OrphanRule,
    /// Names of the sections whose seats are given out and not picked.
    pub best_available: Vec<String>,
}

/// Stores a plan under its venue, which is entered when it is new. Answers the plan's hash.
///
/// # Errors
/// Postgres' own.
pub async fn store_layout(
    connection: &mut PgConnection,
    venue: &NewVenue,
    imported: &Imported,
    now_ms: u64,
) -> Result<(VenueId, String), PublishError> {
    let venue = insert_venue(&mut *connection, venue, now_ms).await?;
    let stored_json = imported.layout.stored_json();
    let hash = LayoutHash::of(&stored_json).to_string();
    let new = NewLayout {
        venue,
        hash: &hash,
        name: &imported.layout.name,
        seat_count: imported.layout.seat_count,
        stored_json: &stored_json,
        proposal: &imported.proposal,
    };
    layout::insert_layout(connection, new, now_ms).await?;
    Ok((venue, hash))
}

/// Enters an event. Answers its id.
///
/// # Errors
/// `Refused` with one line when the plan is unknown, a category has no price or a number is out of bounds.
pub async fn create_event(
    connection: &mut PgConnection,
    spec: &EventSpec,
    now_ms: u64,
) -> Result<EventId, PublishError> {
    let Some(row) = layout::layout(&mut *connection, &spec.layout).await? else {
        return refuse(format!("there is no layout {}", spec.layout));
    };
    let plan = Layout::from_json(&row.stored_json).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let mut event = priced(spec, &row, &plan)?;
    for name in &spec.performers {
        check_name("a performer", name)?;
        event.performers.push(insert_performer(&mut *connection, name, now_ms).await?);
    }
    insert_event(connection, &event, now_ms).await?;
    Ok(event.id)
}

/// The same in a transaction of its own.
///
/// # Errors
/// As [`create_event`].
pub async fn create_event_in(store: &Store, spec: &EventSpec, now_ms: u64) -> Result<EventId, PublishError> {
    let mut transaction = crate::store::begin(store.pool()).await?;
    let id = create_event(&mut transaction, spec, now_ms).await?;
    transaction.commit().await?;
    Ok(id)
}

fn check_name(what: &str, name: &str) -> Result<(), PublishError> {
    if name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        return refuse(format!("{what} needs a name of 1 to {MAX_NAME_CHARS} characters"));
    }
    Ok(())
}

fn priced(spec: &EventSpec, row: &LayoutRow, plan: &Layout) -> Result<NewEvent, PublishError> {
    check_name("an event", &spec.name)?;
    if !(1..=200).contains(&spec.seats_per_identity) {
        return refuse("the limit is 1 to 200 seats");
    }
    if !(1_000..=86_400_000).contains(&spec.hold_ttl_ms) {
        return refuse("a hold lives 1 second to 24 hours");
    }
    let (price_tiers, tier_of_category) = tiers(spec, row)?;
    let tier = |category: u8| tier_of_category.get(usize::from(category)).copied().flatten();
    let mut seat_tiers = Vec::with_capacity(row.proposal.seat_categories.len());
    for &category in &row.proposal.seat_categories {
        match tier(category) {
            Some(tier) => seat_tiers.push(tier),
            None => return unpriced(row, category),
        }
    }
    if let Some(name) =
        spec.best_available.iter().find(|name| plan.sections.iter().all(|section| section.name != **name))
    {
        return refuse(format!("there is no section {name:?} in this layout"));
    }
    let mut next_seat = 0;
    let sections = plan
        .sections
        .iter()
        .map(|section| {
            let first_seat = next_seat;
            next_seat += section.rows.iter().map(|row| row.seats.len() as u32).sum::<u32>();
            let name = section.name.clone();
            let sales_mode =
                if spec.best_available.contains(&name) { SalesMode::BestAvailable } else { SalesMode::PickSeat };
            SectionRow { name, first_seat, end_seat: next_seat, sales_mode }
        })
        .collect();
    if let Some(name) = spec.capacities.keys().find(|name| plan.areas.iter().all(|area| area.name != **name)) {
        return refuse(format!("there is no area {name:?} in this layout"));
    }
    let mut areas = Vec::with_capacity(plan.areas.len());
    for (area, proposal) in plan.areas.iter().zip(&row.proposal.areas) {
        let Some(price_tier) = tier(proposal.category) else { return unpriced(row, proposal.category) };
        let Some(capacity) = spec.capacities.get(&area.name).copied().or(proposal.capacity) else {
            return refuse(format!("area {:?} has no capacity; give one", area.name));
        };
        if capacity > i32::MAX as u32 {
            return refuse(format!("area {:?}: a capacity of {capacity} is too large", area.name));
        }
        areas.push(AreaRow { name: area.name.clone(), price_tier, capacity });
    }
    let mut blocked = Vec::new();
    roaring::RoaringBitmap::new().serialize_into(&mut blocked).expect("a Vec takes everything");
    Ok(NewEvent {
        id: EventId::generate(),
        venue: row.venue,
        layout: row.hash.clone(),
        name: spec.name.trim().to_owned(),
        description: spec.description.clone(),
        performers: Vec::new(),
        starts_ms: spec.starts_ms,
        on_sale_ms: spec.on_sale_ms,
        state: EventState::Scheduled,
        currency: spec.currency.to_string(),
        rules: Rules {
            seats_per_identity: spec.seats_per_identity,
            hold_ttl_ms: spec.hold_ttl_ms,
            orphans: spec.orphans,
        },
        has_waiting_room: false,
        has_waitlist: false,
        price_tiers,
        seat_tiers,
        blocked,
        sections,
        areas,
    })
}

fn unpriced<T>(row: &LayoutRow, category: u8) -> Result<T, PublishError> {
    let seats = row.proposal.seat_categories.iter().filter(|found| **found == category).count();
    let name = row.proposal.categories.get(usize::from(category)).map_or("?", |category| &category.name);
    refuse(format!("category {name:?} ({seats} seats) has no price tier"))
}

/// The tiers, and for every category which of them it is sold as.
fn tiers(spec: &EventSpec, row: &LayoutRow) -> Result<(Vec<PriceTier>, Vec<Option<u8>>), PublishError> {
    let categories = &row.proposal.categories;
    if spec.tiers.is_empty() || spec.tiers.len() > MAX_TIERS {
        return refuse(format!("an event has 1 to {MAX_TIERS} price tiers"));
    }
    let is_one_price = matches!(spec.tiers.as_slice(), [only] if only.category.is_none());
    let mut of_category: Vec<Option<u8>> = vec![None; categories.len()];
    let mut tiers: Vec<PriceTier> = Vec::with_capacity(spec.tiers.len());
    for (position, tier) in spec.tiers.iter().enumerate() {
        let code = &tier.code;
        let is_code = (1..=MAX_CODE_BYTES).contains(&code.len())
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !is_code {
            return refuse(format!("price tier {code:?}: a code is 1 to {MAX_CODE_BYTES} letters, digits, - or _"));
        }
        if tiers.iter().any(|other| other.code == *code) {
            return refuse(format!("price tier {code:?} is named twice"));
        }
        if !(0..=MAX_MINOR).contains(&tier.price_minor) || !(0..=MAX_MINOR).contains(&tier.fee_minor) {
            return refuse(format!("price tier {code:?}: a price is not negative"));
        }
        let category = match &tier.category {
            Some(name) => match categories.iter().position(|category| category.name == *name) {
                Some(found) => found,
                None => {
                    let known: Vec<&str> = categories.iter().map(|category| category.name.as_str()).collect();
                    return refuse(format!("there is no category {name:?}; there are {}", known.join(", ")));
                }
            },
            None if position < categories.len() => position,
            None => return refuse(format!("price tier {code:?}: the layout has only {} categories", categories.len())),
        };
        if is_one_price {
            of_category.fill(Some(0));
        } else if of_category[category].replace(position as u8).is_some() {
            return refuse(format!("category {:?} has two price tiers", categories[category].name));
        }
        tiers.push(PriceTier {
            code: code.clone(),
            name: if is_one_price { code.clone() } else { categories[category].name.clone() },
            color: categories[category].color.clone(),
            price_minor: tier.price_minor,
            fee_minor: tier.fee_minor,
        });
    }
    Ok((tiers, of_category))
}
