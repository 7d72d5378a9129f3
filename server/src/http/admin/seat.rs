//! Seats taken out of the sale, put back and appended, and how many places an area has.

use crate::http::operator::{Change, json};
use crate::http::reply::Answer;
use crate::organiser::Blocked;
use crate::organiser::append::{Appended, NewSection};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use serde::Deserialize;
use serde_json::{Value, json as value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seats {
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
pub(super) async fn block(Change { front, by, event, body }: Change<Seats>) -> Answer {
    Ok(json(&shown(&front.app.organiser.block(by, event, body.seats).await?)))
}

pub(super) async fn unblock(Change { front, by, event, body }: Change<Seats>) -> Answer {
    Ok(json(&shown(&front.app.organiser.unblock(by, event, body.seats).await?)))
}

/// Appends a section; its seats get the next indices.
pub(super) async fn append(Change { front, by, event, body }: Change<NewSection>) -> Answer {
    let Appended { facts, first_seat } = front.app.organiser.append_section(by, event, body).await?;
    Ok(json(&value!({"layout": facts.layout, "seat_count": facts.seat_count(), "first_seat": first_seat})))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCapacity {
    area: AreaIndex,
    capacity: u32,
}

/// Sets how many places an area has; answers with what that leaves.
pub(super) async fn set_capacity(Change { front, by, event, body }: Change<NewCapacity>) -> Answer {
    let NewCapacity { area, capacity } = body;
    let facts = front.app.organiser.set_capacity(by, event, area, capacity).await?;
    let stock = front.app.inventory.stock(&facts).await.ok();
    let remaining = stock.and_then(|stock| stock.areas.get(area.position()).copied());
    Ok(json(&value!({"area": area, "capacity": capacity, "remaining": remaining})))
}
