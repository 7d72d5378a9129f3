//! The waitlist over HTTP: join, leave, and where one stands.

use super::Front;
use super::call::{self, Call, Who};
use super::hold::{body_of, run};
use super::refusal::Refusal;
use super::reply::{answer, private_json};
use crate::error;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use seatwire_proto::client::Command;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;

pub(super) async fn join(
    State(front): State<Front>,
    Path(event): Path<String>,
    who: Who,
    mut call: Call,
) -> Result<Response<Body>, Refusal> {
    call::id::<EventId>(&event, ErrorCode::EventUnknown)?;
    let command = Command::WaitlistJoin(body_of(std::mem::take(&mut call.fields), "event", &event, "")?);
    Ok(answer(run(&front, who, &call, command, "").await?, |_| StatusCode::CREATED))
}

pub(super) async fn leave(
    State(front): State<Front>,
    Path(event): Path<String>,
    who: Who,
    mut call: Call,
) -> Result<Response<Body>, Refusal> {
    call::id::<EventId>(&event, ErrorCode::EventUnknown)?;
    let command = Command::WaitlistLeave(body_of(std::mem::take(&mut call.fields), "event", &event, "")?);
    Ok(answer(run(&front, who, &call, command, "").await?, |_| StatusCode::OK))
}

pub(super) async fn read(
    State(front): State<Front>,
    Path(event): Path<String>,
    who: Who,
) -> Result<Response<Body>, Refusal> {
    let event = call::id::<EventId>(&event, ErrorCode::EventUnknown)?;
    let place = front.app.waitlist.place(event, who.identity()?).await.map_err(|error| error::waitlist(&error))?;
    let reply = place.map_err(|refusal| error::waitlist_refusal(&refusal))?;
    let bytes = serde_json::to_vec(&reply).map_err(|error| error::internal(&error))?;
    Ok(private_json(StatusCode::OK, bytes))
}
