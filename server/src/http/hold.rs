//! Holds over HTTP: take seats, extend, release, unlock an allocation, and read one's own hold.

use super::Front;
use super::ask::{Ask, created, ok};
use super::call::{Id, Who, bad_field};
use super::refusal::Refusal;
use super::reply::{Answer, private_json};
use crate::error;
use crate::inventory::FoundHold;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use seatwire_proto::client::Command;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, HoldId};
use serde_json::{Value, json};

pub(super) async fn create(mut ask: Ask<EventId>) -> Answer {
    let fields = std::mem::take(&mut ask.call.fields);
    let kinds = ["seats", "best", "area"].iter().filter(|kind| fields.contains_key(**kind)).count();
    if kinds != 1 {
        return Err(bad_field("", "expected one of seats, best, area").into());
    }
    let (command, within) = if fields.contains_key("seats") {
        (Command::Hold(ask.read(fields, "")?), "")
    } else if let Some(best) = fields.get("best") {
        let Value::Object(best) = best else { return Err(bad_field("/best", "expected an object").into()) };
        (Command::HoldBest(ask.read(best.clone(), "/best")?), "/best")
    } else {
        (Command::HoldArea(ask.read(fields, "")?), "")
    };
    ask.answer(command, within, created).await
}

pub(super) async fn extend(ask: Ask<HoldId>) -> Answer {
    ask.run(Command::Extend, ok).await
}

pub(super) async fn release(ask: Ask<HoldId>) -> Answer {
    ask.run(Command::Release, ok).await
}

pub(super) async fn unlock(ask: Ask<EventId>) -> Answer {
    ask.run(Command::Unlock, ok).await
}

/// The hold, if it is this identity's open one. Only its owner asks, so this may go to the booking Redis.
pub(super) async fn read(State(front): State<Front>, who: Who, Id(id): Id<HoldId>) -> Answer {
    let identity = who.identity()?;
    let app = &front.app;
    let number = crate::inventory::key::event_number_of(id);
    let found = app.catalogue.event_by_number(number).await.map_err(|error| error::store(&error))?;
    let facts = found.ok_or(ErrorCode::HoldNotFound)?;
    let found = app.inventory.find_hold(&facts, identity, id).await.map_err(|error| error::inventory(&error))?;
    let record = match found {
        FoundHold::Open(record) => record,
        FoundHold::Ended => return Ok(Refusal::from(ErrorCode::HoldExpired).into_response()),
        FoundHold::Unknown => return Ok(Refusal::from(ErrorCode::HoldNotFound).into_response()),
    };
    let live = app.seatmap.live(&facts).await.map_err(|error| error::inventory(&error))?;
    let position = live.position();
    let hold = record.to_wire(&facts, app.inventory.event_ms(facts.id));
    let body = json!({"hold": hold, "epoch": position.epoch, "seq": position.seq});
    Ok(private_json(StatusCode::OK, body.to_string().into_bytes()))
}
