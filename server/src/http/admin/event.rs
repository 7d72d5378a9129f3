//! Events as the organiser sees and changes them: everything buyers see, and revision, limits, times and the log besides.

use super::{By, body, event_id, json};
use crate::catalogue::EventFacts;
use crate::error;
use crate::http::Front;
use crate::http::call::{Call, Query, bad_field};
use crate::http::event as pages;
use crate::http::refusal::Refusal;
use crate::organiser::NewPrice;
use crate::store::admin_log;
use crate::store::event::EventFilter;
use crate::store::event_change::EventPatch;
use axum::body::Body;
use axum::extract::{Path, State};
use http::Response;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::{EventState, OrphanRule};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json as value};

fn shown(facts: &EventFacts) -> Value {
    value!({
        "id": facts.id,
        "revision": facts.revision,
        "state": facts.state,
        "reason": facts.state_reason,
        "presale_ms": facts.presale_ms,
        "on_sale_ms": facts.on_sale_ms,
        "layout": facts.layout,
        "seat_count": facts.seat_count(),
        "blocked": facts.blocked.len(),
        "price_tiers": facts.price_tiers,
        "rules": facts.rules,
        "waitlist": facts.has_waitlist,
        "waiting_room": facts.has_waiting_room,
    })
}

pub(super) async fn list(State(front): State<Front>, query: Query) -> Result<Response<Body>, Refusal> {
    let limit = query.limit()?;
    let after = query.text("cursor").map(pages::after).transpose()?;
    let filter = EventFilter { limit: limit + 1, after, ..EventFilter::default() };
    let mut items = front.app.catalogue.list(&filter).await.map_err(|error| error::store(&error))?;
    let has_more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let mut body = value!({"items": items});
    if let Some(last) = items.last().filter(|_| has_more) {
        body["next_cursor"] = pages::cursor(last).into();
    }
    Ok(json(&body))
}

/// The event with what is left of it.
pub(super) async fn read(State(front): State<Front>, Path(event): Path<String>) -> Result<Response<Body>, Refusal> {
    let app = &front.app;
    let found = app.catalogue.refresh(event_id(&event)?).await.map_err(|error| error::store(&error))?;
    let facts = found.ok_or(ErrorCode::EventUnknown)?;
    let mut body = shown(&facts);
    let stock = app.inventory.stock(&facts).await.map_err(|error| error::inventory(&error))?;
    body["stock"] = value!({
        "available": stock.available,
        "areas": stock.areas,
        "open_holds": stock.open_holds,
        "kept_for_waitlist": stock.kept,
    });
    Ok(json(&body))
}

pub(super) async fn log(
    State(front): State<Front>,
    Path(event): Path<String>,
    query: Query,
) -> Result<Response<Body>, Refusal> {
    let before = query.parse::<i64>("cursor", "expected the next_cursor of an earlier answer")?;
    let limit = query.limit()?;
    let entries = admin_log::of_event(front.app.store.pool(), event_id(&event)?, before, limit).await;
    let entries = entries.map_err(|error| error::store(&error))?;
    let next_cursor = entries.last().filter(|_| entries.len() == limit as usize).map(|entry| entry.id.to_string());
    let mut body = value!({"items": entries});
    if let Some(next_cursor) = next_cursor {
        body["next_cursor"] = next_cursor.into();
    }
    Ok(json(&body))
}

/// `null` and absent are two things: no presale, and leave it as it is.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Some)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Change {
    name: Option<String>,
    description: Option<String>,
    starts_ms: Option<u64>,
    on_sale_ms: Option<u64>,
    #[serde(deserialize_with = "given")]
    presale_ms: Option<Option<u64>>,
    rules: RulesChange,
    waitlist: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RulesChange {
    seats_per_identity: Option<u32>,
    hold_ttl_ms: Option<u64>,
    orphans: Option<OrphanRule>,
}

pub(super) async fn change(
    State(front): State<Front>,
    Path(event): Path<String>,
    By(operator): By,
    call: Call,
) -> Result<Response<Body>, Refusal> {
    let event = event_id(&event)?;
    if call.fields.is_empty() {
        return Err(bad_field("", "expected something to change").into());
    }
    let change: Change = body(call)?;
    let patch = EventPatch {
        name: change.name,
        description: change.description,
        starts_ms: change.starts_ms,
        on_sale_ms: change.on_sale_ms,
        presale_ms: change.presale_ms,
        seats_per_identity: change.rules.seats_per_identity,
        hold_ttl_ms: change.rules.hold_ttl_ms,
        orphans: change.rules.orphans,
        has_waitlist: change.waitlist,
    };
    Ok(json(&shown(&*front.app.organiser.change_settings(operator, event, patch).await?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewState {
    state: EventState,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn set_state(
    State(front): State<Front>,
    Path(event): Path<String>,
    By(operator): By,
    call: Call,
) -> Result<Response<Body>, Refusal> {
    let event = event_id(&event)?;
    let NewState { state, reason } = body(call)?;
    Ok(json(&shown(&*front.app.organiser.set_state(operator, event, state, reason).await?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPrices {
    price_tiers: Vec<NewPrice>,
}

pub(super) async fn set_prices(
    State(front): State<Front>,
    Path(event): Path<String>,
    By(operator): By,
    call: Call,
) -> Result<Response<Body>, Refusal> {
    let event = event_id(&event)?;
    let NewPrices { price_tiers } = body(call)?;
    Ok(json(&shown(&*front.app.organiser.set_prices(operator, event, price_tiers).await?)))
}
