//! The doors of the house, on a listener of their own: a scanner asks whether a ticket admits. It does so once. Before that
//! it asks what it can be a door of, and for what it needs to judge tickets while it has no network: the key and the plan.

use super::Front;
use super::call::{Id, bad_field};
use super::operator::{Change, Route, json};
use super::reply::Answer;
use crate::checkout::Admission;
use crate::error;
use crate::organiser::Scope;
use crate::store::event::EventFilter;
use crate::store::ticket::DoorView;
use axum::extract::State;
use axum::routing::{get, post};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;
use seatwire_proto::server::{EventState, EventSummary};
use serde::Deserialize;
use serde_json::{Value, json as value};

/// Longest text of a scan: a QR code of ours has fewer than 200 characters.
const MAX_CHARS: usize = 512;
/// Events a door chooses from: the next on the calendar. Another one is opened by its id.
const MAX_EVENTS: u32 = 100;
/// An event that began so long ago is over; those of last night that still go on are not.
const OVER_AFTER_MS: u64 = 24 * 3_600_000;

/// Method, address and scope of every route, for whoever must know them all.
#[must_use]
pub fn listed() -> Vec<(Scope, &'static str, &'static str)> {
    table().into_iter().map(|(scope, method, path, _)| (scope, method, path)).collect()
}

/// Every route, with the scope it asks for.
pub(super) fn table() -> Vec<Route> {
    vec![
        (Scope::Door, "GET", "/v1/door/events", get(events)),
        (Scope::Door, "GET", "/v1/door/events/{event}", get(facts)),
        (Scope::Door, "POST", "/v1/door/events/{event}/check-in", post(check_in)),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scan {
    /// What the reader read: the text of the QR code, or the code typed in.
    ticket: String,
    /// Which door.
    door: String,
    /// A name for this scan, new each time; the same one when the answer was lost.
    scan: String,
}

fn shown(view: &DoorView) -> Value {
    value!({
        "id": view.id,
        "state": view.state,
        "seat": view.seat,
        "area": view.area,
        "holder": view.holder,
        "used_ms": view.used_ms,
        "used_door": view.used_door,
    })
}

async fn check_in(Change { front, event, body, .. }: Change<Scan>) -> Answer {
    let Scan { ticket, door, scan } = body;
    for (name, text) in [("ticket", &ticket), ("door", &door), ("scan", &scan)] {
        if text.is_empty() || text.chars().count() > MAX_CHARS {
            return Err(bad_field(&format!("/{name}"), "expected 1 to 512 characters").into());
        }
    }
    let admission = front.app.checkout.admit(event, ticket, door, scan).await;
    Ok(json(&match admission.map_err(|error| error::checkout(&error))? {
        Admission::Admitted(view) => value!({"admitted": true, "ticket": shown(&view)}),
        Admission::Refused(view) => value!({"admitted": false, "reason": view.state, "ticket": shown(&view)}),
        Admission::OtherEvent => value!({"admitted": false, "reason": "wrong_event"}),
        Admission::Forged => value!({"admitted": false, "reason": "forged"}),
        Admission::Unknown => value!({"admitted": false, "reason": "unknown"}),
    }))
}

fn named(summary: &EventSummary) -> Value {
    value!({
        "id": summary.id,
        "name": summary.name,
        "starts_ms": summary.starts_ms,
        "time_zone": summary.venue.time_zone,
        "venue": summary.venue.name,
        "city": summary.venue.city,
    })
}

/// The events a door can be of.
async fn events(State(front): State<Front>) -> Answer {
    let from_ms = Some(front.app.clock.now_ms().saturating_sub(OVER_AFTER_MS));
    let filter = EventFilter { from_ms, limit: MAX_EVENTS, ..EventFilter::default() };
    let found = front.app.catalogue.list(&filter).await.map_err(|error| error::store(&error))?;
    let items: Vec<Value> = found.iter().filter(|summary| summary.state != EventState::Cancelled).map(named).collect();
    Ok(json(&value!({"items": items})))
}

/// What a door keeps, so that it can tell our tickets of this event without a network.
async fn facts(State(front): State<Front>, Id(event): Id<EventId>) -> Answer {
    let page = front.app.catalogue.page(event).await.map_err(|error| error::store(&error))?;
    let page = page.ok_or(ErrorCode::EventUnknown)?;
    let mut body = named(&page.body.summary);
    body["layout"] = value!(page.facts.layout);
    body["areas"] = page.body.areas.iter().map(|area| value!(area.name)).collect();
    body["public_key"] = front.app.checkout.ticket_key().into();
    Ok(json(&body))
}
