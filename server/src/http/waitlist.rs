//! The waitlist over HTTP: join, leave, and where one stands.

use super::Front;
use super::ask::{Ask, created, ok};
use super::call::{Id, Who};
use super::reply::{Answer, private_json};
use crate::error;
use axum::extract::State;
use http::StatusCode;
use seatwire_proto::client::Command;
use seatwire_proto::id::EventId;

pub(super) async fn join(ask: Ask<EventId>) -> Answer {
    ask.run(Command::WaitlistJoin, created).await
}

pub(super) async fn leave(ask: Ask<EventId>) -> Answer {
    ask.run(Command::WaitlistLeave, ok).await
}

pub(super) async fn read(State(front): State<Front>, who: Who, Id(event): Id<EventId>) -> Answer {
    let place = front.app.waitlist.place(event, who.identity()?).await.map_err(|error| error::waitlist(&error))?;
    let reply = place.map_err(|refusal| error::waitlist_refusal(&refusal))?;
    let bytes = serde_json::to_vec(&reply).map_err(|error| error::internal(&error))?;
    Ok(private_json(StatusCode::OK, bytes))
}
