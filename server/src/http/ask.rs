//! Commands over HTTP: the same as on a socket, built from path, header and body, so that a key means the same on both
//! roads. A route takes an [`Ask`] about the thing its address names and says which command that is; `command` answers.

use super::Front;
use super::call::{Call, Id, Named, Who};
use super::refusal::Refusal;
use super::reply::{Answer, answer};
use crate::{command, error};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts};
use http::{Request, StatusCode};
use seatwire_proto::client::{ClientMessage, Command, FieldError, parse_body};
use seatwire_proto::server::{ErrorObject, Reply};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A call that asks for something about the one thing its address names. Refused in this order: the token, the body, the
/// id.
pub(super) struct Ask<T> {
    pub(super) front: Front,
    pub(super) who: Who,
    pub(super) id: T,
    pub(super) call: Call,
}

impl<T: Named> FromRequest<Front> for Ask<T> {
    type Rejection = Refusal;
    async fn from_request(request: Request<Body>, front: &Front) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let who = Who::from_request_parts(&mut parts, front).await?;
        let id = Id::from_request_parts(&mut parts, front).await;
        let call = Call::from_request(Request::from_parts(parts, body), front).await?;
        Ok(Self { front: front.clone(), who, id: id?.0, call })
    }
}

impl<T: Named> Ask<T> {
    /// Answers a command whose fields are the body and the id in the address.
    pub(super) async fn run<B: DeserializeOwned>(
        mut self,
        command: fn(B) -> Command,
        status: fn(&str) -> StatusCode,
    ) -> Answer {
        let fields = std::mem::take(&mut self.call.fields);
        let command = command(self.read(fields, "")?);
        self.answer(command, "", status).await
    }

    /// Fields of the body as one of the structs of the protocol, with the id of the address in it; `within` is where in the
    /// body they stand.
    pub(super) fn read<B: DeserializeOwned>(
        &self,
        mut fields: Map<String, Value>,
        within: &str,
    ) -> Result<B, ErrorObject> {
        fields.insert(T::MEMBER.to_owned(), Value::from(self.id.to_string()));
        parse_body(Value::Object(fields)).map_err(|field| inside(within, field))
    }

    /// Answers a command that changes something. It runs by itself: a client that goes away does not stop it half way.
    pub(super) async fn answer(self, command: Command, within: &str, status: fn(&str) -> StatusCode) -> Answer {
        command.validate().map_err(|field| inside(within, field))?;
        let message = ClientMessage { id: 0, key: Some(self.call.key()?), command };
        let task = tokio::spawn(async move { command::run(&self.front.app, self.who.0, message).await });
        Ok(answer(task.await.map_err(|error| error::internal(&error))?, status))
    }
}

/// A field of the struct, as the client wrote it: the struct may be a member of the body.
fn inside(within: &str, field: FieldError) -> ErrorObject {
    error::bad_field(&FieldError { path: format!("{within}{}", field.path), message: field.message })
}

/// Answers a command that only reads.
pub(super) async fn look(front: &Front, who: Who, command: Command) -> Reply {
    command::run(&front.app, who.0, ClientMessage { id: 0, key: None, command }).await
}

/// The status of what was done and made nothing new.
pub(super) fn ok(_: &str) -> StatusCode {
    StatusCode::OK
}

/// The status of what made something new.
pub(super) fn created(_: &str) -> StatusCode {
    StatusCode::CREATED
}
