//! What a call brings along: who asks, its key, its JSON body, ids and words in the address. Each is read once here, so
//! that every route refuses the same thing in the same words.

use super::Front;
use super::refusal::Refusal;
use crate::error;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path};
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use seatwire_proto::client::{FieldError, IdempotencyKey};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId};
use seatwire_proto::server::ErrorObject;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Where a missing or bad key is said to stand: the header is the field.
const KEY_HEADER: &str = "Idempotency-Key";

/// Longest a body may take: a connection that trickles must not keep its place.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// Most of a refused body that is read; behind it the connection breaks.
const MAX_DISCARDED_BYTES: usize = 1 << 20;
/// Longest a refused body may take.
const DISCARD_WITHIN: Duration = Duration::from_secs(2);

/// Who asks: `None` without an `Authorization` header. A token that is not taken is refused at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who(pub(super) Option<IdentityId>);

impl FromRequestParts<Front> for Who {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, front: &Front) -> Result<Self, Refusal> {
        let Some(value) = parts.headers.get(header::AUTHORIZATION) else { return Ok(Self(None)) };
        let token = value.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let token = token.ok_or(ErrorCode::Unauthorized)?;
        let verified = front.app.identities.verify(token).map_err(error::token)?;
        Ok(Self(Some(verified.identity)))
    }
}

impl Who {
    /// The identity that reads of its own things need.
    pub(super) fn identity(self) -> Result<IdentityId, Refusal> {
        self.0.ok_or_else(|| ErrorCode::Unauthorized.into())
    }
}

/// What a route takes where it takes more than others, in bytes; laid around the route.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaxBody(pub(super) usize);

/// A JSON object, and the key it came with, which is looked at when the command is made.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) fields: Map<String, Value>,
    key: Option<Result<IdempotencyKey, ()>>,
}

impl Call {
    /// The key.
    pub(super) fn key(&self) -> Result<IdempotencyKey, ErrorObject> {
        match &self.key {
            Some(Ok(key)) => Ok(key.clone()),
            Some(Err(())) => {
                Err(bad_field(&format!("/{KEY_HEADER}"), "expected one header of 1 to 64 printable ASCII characters"))
            }
            None => Err(bad_field(&format!("/{KEY_HEADER}"), "the header is missing")),
        }
    }
}

impl FromRequest<Front> for Call {
    type Rejection = Refusal;
    async fn from_request(request: Request<Body>, front: &Front) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let max_bytes = parts.extensions.get::<MaxBody>().map_or(front.app.config.http.max_body_bytes, |max| max.0);
        let announced =
            parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|bytes| bytes > max_bytes as u64) {
            discard(body).await;
            return Err(ErrorCode::TooLarge.into());
        }
        let bytes = whole(body, max_bytes).await?;
        let fields = if bytes.is_empty() {
            Map::new()
        } else {
            if !is_json(&parts.headers) {
                let object = bad_field("/Content-Type", "expected application/json");
                return Err(Refusal::from(object).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
            }
            serde_json::from_slice(&bytes).map_err(|_| ErrorCode::BadJson)?
        };
        let mut keys = parts.headers.get_all(KEY_HEADER).into_iter();
        let key = keys.next().map(|value| value.to_str().ok().and_then(IdempotencyKey::parse).ok_or(()));
        // Two keys are two intentions, and nobody can say which one is meant.
        let key = if keys.next().is_some() { Some(Err(())) } else { key };
        Ok(Self { fields, key })
    }
}

/// Reads a body to its end, within these bytes and in time.
pub(super) async fn whole(body: Body, max_bytes: usize) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(BODY_WITHIN, to_bytes(body, max_bytes)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        // Either it was too long or the client went away, who then does not read this.
        Ok(Err(_)) => Err(ErrorCode::TooLarge.into()),
        Err(_) => {
            let object = ErrorObject::new(ErrorCode::BadJson, "the body did not arrive in time");
            Err(Refusal::from(object).with_status(StatusCode::REQUEST_TIMEOUT))
        }
    }
}

/// Reads a refused body to its end, within bounds: a client that still sends would else see a broken connection instead of
/// the refusal.
async fn discard(mut body: Body) {
    let all = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
            if read > MAX_DISCARDED_BYTES {
                return;
            }
        }
    };
    // Out of time: the connection is closed under the client.
    let _ = tokio::time::timeout(DISCARD_WITHIN, all).await;
}

fn is_json(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// A field that cannot be taken.
pub(super) fn bad_field(path: &str, message: &str) -> ErrorObject {
    error::bad_field(&FieldError::new(path, message))
}

/// What an address can name by its id.
pub(super) trait Named: FromStr + Display + Send {
    /// The member of a command that holds such an id.
    const MEMBER: &'static str;
    /// The refusal of what names nothing that exists.
    const UNKNOWN: ErrorCode;
}

impl Named for EventId {
    const MEMBER: &'static str = "event";
    const UNKNOWN: ErrorCode = ErrorCode::EventUnknown;
}

impl Named for HoldId {
    const MEMBER: &'static str = "hold";
    const UNKNOWN: ErrorCode = ErrorCode::HoldNotFound;
}

impl Named for OrderId {
    const MEMBER: &'static str = "order";
    const UNKNOWN: ErrorCode = ErrorCode::OrderNotFound;
}

/// The one id of an address. Stands behind whatever is refused before an unknown id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Id<T>(pub(super) T);

impl<T: Named, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| T::UNKNOWN)?;
        Ok(Self(id(&text, T::UNKNOWN)?))
    }
}

/// An id in the address; what is no id names nothing that exists.
pub(super) fn id<T: FromStr>(text: &str, unknown: ErrorCode) -> Result<T, ErrorObject> {
    text.parse().map_err(|_| error::refuse(unknown))
}

/// Words behind the question mark, the first of each name.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        pairs.map(|pairs| Self(pairs.0)).map_err(|_| bad_field("", "the query string cannot be read").into())
    }
}

impl Query {
    /// The word, if it is there and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The word as something else.
    pub(super) fn parse<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, ErrorObject> {
        self.text(name).map(|text| text.parse().map_err(|_| bad_field(&format!("/{name}"), expected))).transpose()
    }

    /// `cursor`, where it is the number of the last row seen.
    pub(super) fn before(&self) -> Result<Option<i64>, ErrorObject> {
        let expected = "expected the next_cursor of an earlier answer";
        match self.parse::<i64>("cursor", expected)? {
            Some(number) if number < 1 => Err(bad_field("/cursor", expected)),
            other => Ok(other),
        }
    }

    /// `limit`, at most 100.
    pub(super) fn limit(&self) -> Result<u32, ErrorObject> {
        let limit = self.parse::<u32>("limit", "expected 1 to 100")?.unwrap_or(DEFAULT_LIMIT);
        if (1..=MAX_LIMIT).contains(&limit) { Ok(limit) } else { Err(bad_field("/limit", "expected 1 to 100")) }
    }
}

/// Items of a list when nobody says how many.
const DEFAULT_LIMIT: u32 = 20;
/// Most items of one answer: what one page shows and one query gathers in a few milliseconds.
const MAX_LIMIT: u32 = 100;
