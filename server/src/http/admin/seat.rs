//! Seats taken out of the sale, put back and appended.

use super::{By, body, event_id, json};
use crate::http::Front;
use crate::http::call::Call;
use crate::http::refusal::Refusal;
use crate::organiser::Blocked;
use crate::organiser::append::NewSection;
use axum::body::Body;
use axum::extract::{Path, State};
use http::Response;
use seatwire_proto::seat::{SeatIndex, SeatState};
use serde::Deserialize;
use serde_json::{Value, json as value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seats {
    seats: Vec<SeatIndex>,
}

fn shown(blocked: &Blocked) -> Value {
    let refused: Vec<Value> = blocked
        .refused
        .iter()
        .map(|(seat, state)| {
            let state = match state {
                SeatState::Sold => "sold",
                SeatState::Held => "held",
                SeatState::Blocked => "allocated",
                SeatState::Available => "available",
            };
            value!({"seat": seat, "state": state})
        })
        .collect();
    value!({"seats": blocked.done, "refused": refused})
}

/// Blocks what is available; answers which seats are blocked now, and which were left alone because they are held, sold
/// or kept for an allocation.
pub(super) async fn block(
    State(front): State<Front>,
    Path(event): Path<String>,
    By(operator): By,
    call: Call,
) -> Result<Response<Body>, Refusal> {
    let event = event_id(&event)?;
    let Seats { seats } = body(call)?;
    Ok(json(&shown(&front.app.organiser.block(operator, event, seats).await?)))
}

pub(super) async fn unblock(
    State(front): State<Front>,
    Path(event): Path<String>,
    By(operator): By,
    call: Call,
) -> Result<Response<Body>, Refusal> {
    let event = event_id(&event)?;
    let Seats { seats } = body(call)?;
    Ok(json(&shown(&front.app.organiser.unblock(operator, event, seats).await?)))
}

/// Appends a section; its seats get the next indices.
pub(super) async fn append(
    State(front): State<Front>,
    Path(event): Path<String>,
    By(operator): By,
    call: Call,
) -> Result<Response<Body>, Refusal> {
    let event = event_id(&event)?;
    let section: NewSection = body(call)?;
    let facts = front.app.organiser.append_section(operator, event, section).await?;
    let first_seat = facts.sections.last().map(|section| section.first);
    Ok(json(&value!({"layout": facts.layout, "seat_count": facts.seat_count(), "first_seat": first_seat})))
}
