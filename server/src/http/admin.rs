//! The organiser's API, on the admin listener only: bearer keys with scopes, one scope a route, the same error object as
//! outside. Everything that changes something is done by `organiser`, which writes who did it.

mod door;
mod event;
mod hook;
mod mail;
mod order;
mod seat;

use super::Front;
use super::call::{Call, Id, MaxBody, bad_field};
use super::refusal::Refusal;
use super::reply::{Answer, private_json};
use crate::organiser::{Operator, OrganiserError, Scope, key};
use crate::{error, organiser};
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use axum::{Extension, Router};
use http::request::Parts;
use http::{Response, StatusCode, header};
use seatwire_proto::client::parse_body;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Most bytes of an appended section: 10,000 seats, each with a label, a position and a mark, have room in it.
const MAX_SECTION_BYTES: usize = 2 << 20;

/// Method, address and scope of every route, for whoever must know them all.
#[must_use]
pub fn listed() -> Vec<(Scope, &'static str, &'static str)> {
    table().into_iter().map(|(scope, method, path, _)| (scope, method, path)).collect()
}

/// Every route, with the scope it asks for.
fn table() -> Vec<(Scope, &'static str, &'static str, MethodRouter<Front>)> {
    let append = post(seat::append).layer(Extension(MaxBody(MAX_SECTION_BYTES)));
    vec![
        (Scope::Read, "GET", "/v1/admin/events", get(event::list)),
        (Scope::Read, "GET", "/v1/admin/events/{event}", get(event::read)),
        (Scope::Events, "PATCH", "/v1/admin/events/{event}", patch(event::change)),
        (Scope::Read, "GET", "/v1/admin/events/{event}/log", get(event::log)),
        (Scope::Events, "PUT", "/v1/admin/events/{event}/state", put(event::set_state)),
        (Scope::Events, "PUT", "/v1/admin/events/{event}/prices", put(event::set_prices)),
        (Scope::Door, "GET", "/v1/admin/door/events", get(door::events)),
        (Scope::Door, "GET", "/v1/admin/events/{event}/door", get(door::facts)),
        (Scope::Door, "POST", "/v1/admin/events/{event}/check-in", post(door::check_in)),
        (Scope::Read, "GET", "/v1/admin/log", get(hook::log)),
        (Scope::Read, "GET", "/v1/admin/webhooks", get(hook::list)),
        (Scope::Events, "POST", "/v1/admin/webhooks", post(hook::add)),
        (Scope::Events, "DELETE", "/v1/admin/webhooks/{webhook}", delete(hook::remove)),
        (Scope::Events, "PATCH", "/v1/admin/webhooks/{webhook}", patch(hook::change)),
        (Scope::Read, "GET", "/v1/admin/webhooks/{webhook}/deliveries", get(hook::deliveries)),
        (Scope::Events, "POST", "/v1/admin/webhooks/{webhook}/rotate", post(hook::rotate)),
        (Scope::Events, "POST", "/v1/admin/webhooks/{webhook}/replay", post(hook::replay)),
        (Scope::Orders, "GET", "/v1/admin/mails/open", get(mail::list_open)),
        (Scope::Orders, "POST", "/v1/admin/mails/{mail}/retry", post(mail::retry)),
        (Scope::Read, "GET", "/v1/admin/payments/open", get(order::list_open)),
        (Scope::Orders, "GET", "/v1/admin/payments/unreadable", get(order::list_unreadable)),
        (Scope::Orders, "DELETE", "/v1/admin/payments/unreadable/{id}", delete(order::put_away_unreadable)),
        (Scope::Orders, "GET", "/v1/admin/orders/{order}", get(order::read)),
        (Scope::Orders, "POST", "/v1/admin/orders/{order}/refunds", post(order::refund)),
        (Scope::Orders, "POST", "/v1/admin/orders/{order}/look", post(order::look)),
        (Scope::Inventory, "POST", "/v1/admin/events/{event}/block", post(seat::block)),
        (Scope::Inventory, "POST", "/v1/admin/events/{event}/unblock", post(seat::unblock)),
        (Scope::Inventory, "POST", "/v1/admin/events/{event}/sections", append),
        (Scope::Inventory, "PUT", "/v1/admin/events/{event}/areas", put(seat::set_capacity)),
    ]
}

/// The routes, each behind its scope.
pub(super) fn routes(front: &Front) -> Router<Front> {
    table().into_iter().fold(Router::new(), |router, (scope, _, path, method)| {
        router.route(path, method.route_layer(from_fn_with_state((front.clone(), scope), admit)))
    })
}

/// Lets a call through whose key opens the route: 401 without a key that opens anything, 403 without the scope.
async fn admit(State((front, scope)): State<(Front, Scope)>, mut request: Request, next: Next) -> Answer {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let presented = header.and_then(|text| {
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim().to_owned())
    });
    let presented = presented.ok_or(ErrorCode::Unauthorized)?;
    let operator = key::verify(&front.app.store, &presented).await.map_err(|error| error::store(&error))?;
    let operator = operator.ok_or(ErrorCode::Unauthorized)?;
    if !operator.may(scope) {
        let why = format!("the key has no scope {}", scope.as_str());
        return Err(seatwire_proto::server::ErrorObject::new(ErrorCode::Forbidden, why).into());
    }
    request.extensions_mut().insert(operator);
    Ok(next.run(request).await)
}

/// Who calls; only behind [`admit`].
struct By(Operator);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Operator>().cloned().map(Self).ok_or_else(|| ErrorCode::Unauthorized.into())
    }
}

/// A call that changes something about an event: which one, who changes it, and the body. Refused in this order: bytes
/// that are no JSON, the event, the fields.
struct Change<T> {
    front: Front,
    by: Operator,
    event: EventId,
    body: T,
}

impl<T: DeserializeOwned> FromRequest<Front> for Change<T> {
    type Rejection = Refusal;
    async fn from_request(request: Request, front: &Front) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let By(by) = By::from_request_parts(&mut parts, front).await?;
        let event = Id::from_request_parts(&mut parts, front).await;
        let call = Call::from_request(Request::from_parts(parts, body), front).await?;
        let Id(event) = event?;
        Ok(Self { front: front.clone(), by, event, body: self::body(call)? })
    }
}

/// The body as one struct.
fn body<T: DeserializeOwned>(call: Call) -> Result<T, Refusal> {
    fields(Value::Object(call.fields))
}

/// JSON as one struct. No text of ours has a NUL in it, and Postgres takes none.
fn fields<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
    if let Some(path) = nul_in(&body) {
        return Err(bad_field(&path, "expected text without NUL").into());
    }
    parse_body(body).map_err(|field| bad_field(&field.path, &field.message).into())
}

/// Where the first NUL stands. Bodies are no deeper than the reader of JSON allows.
fn nul_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, item)| nul_in(item).map(|path| format!("/{at}{path}")))
        }
        Value::Object(fields) => {
            fields.iter().find_map(|(name, field)| nul_in(field).map(|path| format!("/{name}{path}")))
        }
        _ => None,
    }
}

fn json(body: &Value) -> Response<Body> {
    private_json(StatusCode::OK, body.to_string().into_bytes())
}

impl From<OrganiserError> for Refusal {
    fn from(error: organiser::OrganiserError) -> Self {
        error::organiser(&error).into()
    }
}
