//! Who calls on the listeners of the house: bearer keys with scopes, one scope a route. `admin` and `door` hang their routes
//! behind it, and take from here what every changing call brings along.

use super::Front;
use super::call::{Call, Id, bad_field};
use super::refusal::Refusal;
use super::reply::{Answer, private_json};
use crate::organiser::key::Presented;
use crate::organiser::{Operator, OrganiserError, Scope};
use crate::{error, organiser};
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::MethodRouter;
use http::request::Parts;
use http::{Response, StatusCode, header};
use seatwire_proto::client::parse_body;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A route: the scope it asks for, method and address, and what answers.
pub(super) type Route = (Scope, &'static str, &'static str, MethodRouter<Front>);

/// These routes, each behind its scope.
pub(super) fn gated(front: &Front, table: Vec<Route>) -> Router<Front> {
    table.into_iter().fold(Router::new(), |router, (scope, _, path, method)| {
        router.route(path, method.route_layer(from_fn_with_state((front.clone(), scope), admit)))
    })
}

/// When those come back who were not looked at.
const CROWDED_RETRY_MS: u64 = 1_000;

/// Lets a call through whose key opens the route: 401 without a key that opens anything, 403 without the scope, 503 when too many
/// unknown keys are being tried.
async fn admit(State((front, scope)): State<(Front, Scope)>, mut request: Request, next: Next) -> Answer {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let presented = header.and_then(|text| {
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim().to_owned())
    });
    let presented = presented.ok_or(ErrorCode::Unauthorized)?;
    let verified = front.app.keyring.verify(&presented).await.map_err(|error| error::store(&error))?;
    let operator = match verified {
        Presented::Good(operator) => operator,
        Presented::False => {
            front.app.metrics.keys_refused.inc();
            return Err(ErrorCode::Unauthorized.into());
        }
        Presented::Crowded => {
            front.app.metrics.keys_refused.inc();
            return Err(error::refuse(ErrorCode::Overloaded).with_retry_after_ms(CROWDED_RETRY_MS).into());
        }
    };
    if !operator.may(scope) {
        let why = format!("the key has no scope {}", scope.as_str());
        return Err(seatwire_proto::server::ErrorObject::new(ErrorCode::Forbidden, why).into());
    }
    request.extensions_mut().insert(operator);
    Ok(next.run(request).await)
}

/// Who calls; only behind [`admit`].
pub(super) struct By(pub(super) Operator);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Operator>().cloned().map(Self).ok_or_else(|| ErrorCode::Unauthorized.into())
    }
}

/// A call that changes something about an event: which one, who changes it, and the body. Refused in this order: bytes
/// that are no JSON, the event, the fields.
pub(super) struct Change<T> {
    pub(super) front: Front,
    pub(super) by: Operator,
    pub(super) event: EventId,
    pub(super) body: T,
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
pub(super) fn body<T: DeserializeOwned>(call: Call) -> Result<T, Refusal> {
    fields(Value::Object(call.fields))
}

/// JSON as one struct. No text of ours has a NUL in it, and Postgres takes none.
pub(super) fn fields<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
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

pub(super) fn json(body: &Value) -> Response<Body> {
    private_json(StatusCode::OK, body.to_string().into_bytes())
}

impl From<OrganiserError> for Refusal {
    fn from(error: organiser::OrganiserError) -> Self {
        error::organiser(&error).into()
    }
}
