//! `POST /v1/identities`: a guest's identity and token. No key: two calls make two guests, and nothing hangs on either.

use super::Front;
use super::call::Call;
use super::reply::{Answer, private_json};
use axum::extract::State;
use http::StatusCode;
use serde_json::json;

pub(super) async fn create(State(front): State<Front>, _body: Call) -> Answer {
    let issued = front.app.identities.issue();
    let body = json!({"identity": issued.identity, "token": issued.token, "expires_ms": issued.expires_ms});
    Ok(private_json(StatusCode::CREATED, body.to_string().into_bytes()))
}
