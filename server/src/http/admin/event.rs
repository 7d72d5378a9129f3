//! Events as the organiser sees and changes them: everything buyers see, and revision, limits, times and the log besides.

use crate::catalogue::EventFacts;
use crate::error;
use crate::http::Front;
use crate::http::call::{Id, Query, bad_field};
use crate::http::event as pages;
use crate::http::operator::{Change, json};
use crate::http::reply::{Answer, cut};
use crate::organiser::NewPrice;
use crate::store::admin_log;
use crate::store::event::EventFilter;
use crate::store::event_change::EventPatch;
use axum::extract::State;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::SectionIndex;
use seatwire_proto::server::{EventState, OrphanRule, SalesMode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json as value};

fn shown(facts: &EventFacts) -> Value {
    let areas = (0..).zip(&facts.areas);
    let areas: Vec<Value> =
        areas.map(|(index, area)| value!({"index": index, "name": area.name, "capacity": area.capacity})).collect();
    let sections = (0..).zip(&facts.sections);
    let sections: Vec<Value> = sections
        .map(|(index, section)| value!({"index": index, "name": section.name, "sales_mode": section.sales_mode}))
        .collect();
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
        "areas": areas,
        "sections": sections,
        "price_tiers": facts.price_tiers,
        "rules": facts.rules,
        "seats_per_instrument": facts.seats_per_instrument,
        "waitlist": facts.has_waitlist,
        "waiting_room": facts.has_waiting_room,
    })
}

/// Items, and where the next ones begin if there are any.
fn listed<T: Serialize>(items: Vec<T>, next_cursor: Option<String>) -> Value {
    let mut body = value!({"items": items});
    if let Some(next_cursor) = next_cursor {
        body["next_cursor"] = next_cursor.into();
    }
    body
}

pub(super) async fn list(State(front): State<Front>, query: Query) -> Answer {
    let limit = query.limit()?;
    let after = query.text("cursor").map(pages::after).transpose()?;
    let filter = EventFilter { limit: limit + 1, after, ..EventFilter::default() };
    let mut items = front.app.catalogue.list(&filter).await.map_err(|error| error::store(&error))?;
    let next_cursor = cut(&mut items, limit).map(pages::cursor);
    Ok(json(&listed(items, next_cursor)))
}

/// The event with what is left of it.
pub(super) async fn read(State(front): State<Front>, Id(event): Id<EventId>) -> Answer {
    let app = &front.app;
    let found = app.catalogue.refresh(event).await.map_err(|error| error::store(&error))?;
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

pub(super) async fn log(State(front): State<Front>, query: Query, Id(event): Id<EventId>) -> Answer {
    let before = query.before()?;
    let limit = query.limit()?;
    let entries = admin_log::of_event(front.app.store.pool(), event, before, limit).await;
    let entries = entries.map_err(|error| error::store(&error))?;
    let next_cursor = entries.last().filter(|_| entries.len() == limit as usize).map(|entry| entry.id.to_string());
    Ok(json(&listed(entries, next_cursor)))
}

/// `null` and absent are two things: no presale or limit, and leave it as it is.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    name: Option<String>,
    description: Option<String>,
    starts_ms: Option<u64>,
    on_sale_ms: Option<u64>,
    #[serde(deserialize_with = "given")]
    presale_ms: Option<Option<u64>>,
    rules: RulesChange,
    waitlist: Option<bool>,
    sections: Vec<SectionChange>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SectionChange {
    index: SectionIndex,
    sales_mode: SalesMode,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RulesChange {
    seats_per_identity: Option<u32>,
    #[serde(deserialize_with = "given")]
    seats_per_instrument: Option<Option<u32>>,
    hold_ttl_ms: Option<u64>,
    orphans: Option<OrphanRule>,
}

impl From<Settings> for EventPatch {
    fn from(settings: Settings) -> Self {
        Self {
            name: settings.name,
            description: settings.description,
            starts_ms: settings.starts_ms,
            on_sale_ms: settings.on_sale_ms,
            presale_ms: settings.presale_ms,
            seats_per_identity: settings.rules.seats_per_identity,
            seats_per_instrument: settings.rules.seats_per_instrument,
            hold_ttl_ms: settings.rules.hold_ttl_ms,
            orphans: settings.rules.orphans,
            has_waitlist: settings.waitlist,
            sales_modes: settings.sections.iter().map(|section| (section.index, section.sales_mode)).collect(),
        }
    }
}

pub(super) async fn change(Change { front, by, event, body }: Change<Settings>) -> Answer {
    if body == Settings::default() {
        return Err(bad_field("", "expected something to change").into());
    }
    Ok(json(&shown(&*front.app.organiser.change_settings(by, event, body.into()).await?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewState {
    state: EventState,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn set_state(Change { front, by, event, body }: Change<NewState>) -> Answer {
    Ok(json(&shown(&*front.app.organiser.set_state(by, event, body.state, body.reason).await?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPrices {
    price_tiers: Vec<NewPrice>,
}

pub(super) async fn set_prices(Change { front, by, event, body }: Change<NewPrices>) -> Answer {
    Ok(json(&shown(&*front.app.organiser.set_prices(by, event, body.price_tiers).await?)))
}
