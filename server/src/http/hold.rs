//! Holds over HTTP: the same commands as on a socket, built from path, header and body, so that a key means the same on
//! both roads.

use super::Front;
use super::call::{self, Call, Who, bad_field};
use super::refusal::Refusal;
use super::reply::{answer, private_json};
use crate::inventory::FoundHold;
use crate::{command, error};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::{Response, StatusCode};
use seatwire_proto::client::{ClientMessage, Command, FieldError, parse_body};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::HoldId;
use seatwire_proto::server::{ErrorObject, Reply};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The body as one of the structs of the protocol, with the id of the address in it.
pub(super) fn body_of<T: DeserializeOwned>(
    mut fields: Map<String, Value>,
    name: &str,
    id: &str,
    within: &str,
) -> Result<T, ErrorObject> {
    fields.insert(name.to_owned(), Value::from(id));
    parse_body(Value::Object(fields)).map_err(|field| inside(within, field))
}

/// A field of the struct, as the client wrote it: the struct may be a member of the body.
fn inside(within: &str, field: FieldError) -> ErrorObject {
    error::bad_field(&FieldError { path: format!("{within}{}", field.path), message: field.message })
}

/// Answers a command that changes something. It runs by itself: a client that goes away does not stop it half way.
pub(super) async fn run(
    front: &Front,
    who: Who,
    call: &Call,
    command: Command,
    within: &str,
) -> Result<Reply, Refusal> {
    command.validate().map_err(|field| inside(within, field))?;
    let message = ClientMessage { id: 0, key: Some(call.key()?), command };
    let app = front.app.clone();
    let task = tokio::spawn(async move { command::run(&app, who.0, message).await });
    task.await.map_err(|error| error::internal(&error).into())
}

/// Answers a command that only reads.
pub(super) async fn ask(front: &Front, who: Who, command: Command) -> Reply {
    command::run(&front.app, who.0, ClientMessage { id: 0, key: None, command }).await
}

pub(super) async fn create(
    State(front): State<Front>,
    Path(event): Path<String>,
    who: Who,
    mut call: Call,
) -> Result<Response<Body>, Refusal> {
    call::id::<seatwire_proto::id::EventId>(&event, ErrorCode::EventUnknown)?;
    let fields = std::mem::take(&mut call.fields);
    let kinds = ["seats", "best", "area"].iter().filter(|kind| fields.contains_key(**kind)).count();
    if kinds != 1 {
        return Err(bad_field("", "expected one of seats, best, area").into());
    }
    let (command, within) = if fields.contains_key("seats") {
        (Command::Hold(body_of(fields, "event", &event, "")?), "")
    } else if let Some(best) = fields.get("best") {
        let Value::Object(best) = best else { return Err(bad_field("/best", "expected an object").into()) };
        (Command::HoldBest(body_of(best.clone(), "event", &event, "/best")?), "/best")
    } else {
        (Command::HoldArea(body_of(fields, "event", &event, "")?), "")
    };
    let reply = run(&front, who, &call, command, within).await?;
    Ok(answer(reply, |_| StatusCode::CREATED))
}

pub(super) async fn extend(
    State(front): State<Front>,
    Path(hold): Path<String>,
    who: Who,
    mut call: Call,
) -> Result<Response<Body>, Refusal> {
    call::id::<HoldId>(&hold, ErrorCode::HoldNotFound)?;
    let command = Command::Extend(body_of(std::mem::take(&mut call.fields), "hold", &hold, "")?);
    Ok(answer(run(&front, who, &call, command, "").await?, |_| StatusCode::OK))
}

pub(super) async fn release(
    State(front): State<Front>,
    Path(hold): Path<String>,
    who: Who,
    mut call: Call,
) -> Result<Response<Body>, Refusal> {
    call::id::<HoldId>(&hold, ErrorCode::HoldNotFound)?;
    let command = Command::Release(body_of(std::mem::take(&mut call.fields), "hold", &hold, "")?);
    Ok(answer(run(&front, who, &call, command, "").await?, |_| StatusCode::OK))
}

pub(super) async fn unlock(
    State(front): State<Front>,
    Path(event): Path<String>,
    who: Who,
    mut call: Call,
) -> Result<Response<Body>, Refusal> {
    call::id::<seatwire_proto::id::EventId>(&event, ErrorCode::EventUnknown)?;
    let command = Command::Unlock(body_of(std::mem::take(&mut call.fields), "event", &event, "")?);
    Ok(answer(run(&front, who, &call, command, "").await?, |_| StatusCode::OK))
}

/// The hold, if it is this identity's open one. Only its owner asks, so this may go to the booking Redis.
pub(super) async fn read(
    State(front): State<Front>,
    Path(hold): Path<String>,
    who: Who,
) -> Result<Response<Body>, Refusal> {
    let id: HoldId = call::id(&hold, ErrorCode::HoldNotFound)?;
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
    let hold = record.to_wire(&facts, app.inventory.now_ms());
    let body = json!({"hold": hold, "epoch": position.epoch, "seq": position.seq});
    Ok(private_json(StatusCode::OK, body.to_string().into_bytes()))
}
