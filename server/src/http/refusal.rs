//! Every refusal over HTTP has one shape: `{"error":{..}}` with the status of its code, also for unknown routes, wrong
//! methods and bodies that are too large.

use crate::error;
use axum::body::Body;
use axum::response::IntoResponse;
use http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use seatwire_proto::client::Position;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;
use serde::Serialize;

/// An error object and the status that carries it.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    object: ErrorObject,
    position: Option<Position>,
    is_replayed: bool,
}

#[derive(Serialize)]
struct Shape<'a> {
    error: &'a ErrorObject,
    #[serde(flatten)]
    position: Option<Position>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
}

impl From<ErrorObject> for Refusal {
    fn from(object: ErrorObject) -> Self {
        let status = StatusCode::from_u16(object.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, object, position: None, is_replayed: false }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        error::refuse(code).into()
    }
}

impl Refusal {
    /// With another status than the code's own: where HTTP has a word that the codes have not.
    pub(super) const fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// With where the map stood and whether the refusal is a remembered one.
    pub(super) const fn with_answer(mut self, position: Option<Position>, is_replayed: bool) -> Self {
        self.position = position;
        self.is_replayed = is_replayed;
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let body = Shape { error: &self.object, position: self.position, replayed: self.is_replayed };
        let bytes = serde_json::to_vec(&body).expect("strings and numbers always serialise");
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait_ms) = self.object.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1_000)));
        }
        response
    }
}

/// Characters of an unknown path that are said back.
const SHOWN_CHARS: usize = 100;

/// No route here.
pub(super) async fn no_route(uri: Uri) -> Refusal {
    let object = ErrorObject::new(ErrorCode::UnknownOp, format!("there is no {}", shown(&uri)));
    Refusal::from(object).with_status(StatusCode::NOT_FOUND)
}

/// As much of a path as helps; the rest of a long one is the caller's own.
fn shown(uri: &Uri) -> String {
    uri.path().chars().take(SHOWN_CHARS).collect()
}

/// A route, but not for this method.
pub(super) async fn no_method(method: Method, uri: Uri) -> Refusal {
    let object = ErrorObject::new(ErrorCode::UnknownOp, format!("{} does not take {method}", shown(&uri)));
    Refusal::from(object).with_status(StatusCode::METHOD_NOT_ALLOWED)
}
