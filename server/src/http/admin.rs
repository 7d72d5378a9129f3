//! The organiser's API, on the admin listener only: bearer keys with scopes, one scope a route, the same error object as
//! outside. Everything that changes something is done by `organiser`, which writes who did it.

mod door;
mod event;
mod hook;
mod order;
mod seat;

use super::Front;
use super::call::{Call, bad_field};
use super::refusal::Refusal;
use super::reply::private_json;
use crate::organiser::{Operator, OrganiserError, Scope, key};
use crate::{error, organiser};
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use http::request::Parts;
use http::{Response, StatusCode, header};
use seatwire_proto::client::parse_body;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Every route, with the scope it asks for.
fn table() -> Vec<(Scope, &'static str, MethodRouter<Front>)> {
    vec![
        (Scope::Read, "/v1/admin/events", get(event::list)),
        (Scope::Read, "/v1/admin/events/{event}", get(event::read)),
        (Scope::Events, "/v1/admin/events/{event}", patch(event::change)),
        (Scope::Read, "/v1/admin/events/{event}/log", get(event::log)),
        (Scope::Events, "/v1/admin/events/{event}/state", put(event::set_state)),
        (Scope::Events, "/v1/admin/events/{event}/prices", put(event::set_prices)),
        (Scope::Door, "/v1/admin/events/{event}/check-in", post(door::check_in)),
        (Scope::Read, "/v1/admin/log", get(hook::log)),
        (Scope::Read, "/v1/admin/webhooks", get(hook::list)),
        (Scope::Events, "/v1/admin/webhooks", post(hook::add)),
        (Scope::Events, "/v1/admin/webhooks/{webhook}", delete(hook::remove)),
        (Scope::Events, "/v1/admin/webhooks/{webhook}/rotate", post(hook::rotate)),
        (Scope::Events, "/v1/admin/webhooks/{webhook}/replay", post(hook::replay)),
        (Scope::Read, "/v1/admin/payments/open", get(order::list_open)),
        (Scope::Orders, "/v1/admin/orders/{order}", get(order::read)),
        (Scope::Orders, "/v1/admin/orders/{order}/refunds", post(order::refund)),
        (Scope::Orders, "/v1/admin/orders/{order}/look", post(order::look)),
        (Scope::Inventory, "/v1/admin/events/{event}/block", post(seat::block)),
        (Scope::Inventory, "/v1/admin/events/{event}/unblock", post(seat::unblock)),
        (Scope::Inventory, "/v1/admin/events/{event}/sections", post(seat::append)),
    ]
}

/// The routes, each behind its scope.
pub(super) fn routes(front: &Front) -> Router<Front> {
    table().into_iter().fold(Router::new(), |router, (scope, path, method)| {
        router.route(path, method.route_layer(from_fn_with_state((front.clone(), scope), admit)))
    })
}

/// Lets a call through whose key opens the route: 401 without a key that opens anything, 403 without the scope.
async fn admit(
    State((front, scope)): State<(Front, Scope)>,
    mut request: Request,
    next: Next,
) -> Result<Response<Body>, Refusal> {
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

fn event_id(text: &str) -> Result<EventId, Refusal> {
    Ok(super::call::id(text, ErrorCode::EventUnknown)?)
}

/// The body as one struct.
fn body<T: DeserializeOwned>(call: Call) -> Result<T, Refusal> {
    parse_body(Value::Object(call.fields)).map_err(|field| bad_field(&field.path, &field.message).into())
}

fn json(body: &Value) -> Response<Body> {
    private_json(StatusCode::OK, body.to_string().into_bytes())
}

impl From<OrganiserError> for Refusal {
    fn from(error: organiser::OrganiserError) -> Self {
        error::organiser(&error).into()
    }
}
