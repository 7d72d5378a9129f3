//! Where the payment provider tells us things. Only the signature counts; an error after the word is kept is ours and never
//! shown to the provider.

use super::Front;
use super::call::whole;
use super::reply::Answer;
use crate::checkout::Received;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderMap, StatusCode};

/// Largest webhook read; a provider's events are far smaller.
const MAX_WEBHOOK_BYTES: usize = 256 * 1024;

pub(super) async fn receive(State(front): State<Front>, headers: HeaderMap, body: Body) -> Answer {
    let body = whole(body, MAX_WEBHOOK_BYTES).await?;
    let signature = headers.get("stripe-signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let status = match front.app.checkout.receive_webhook(signature.to_owned(), body).await {
        Ok(Received::Kept | Received::Repeated) => StatusCode::OK,
        Ok(Received::Forged(error)) => {
            // Anyone may send these, as many as they like: they are counted, not written to the log.
            front.app.metrics.webhooks_forged.inc();
            tracing::debug!(%error, "a webhook is not believed");
            StatusCode::BAD_REQUEST
        }
        Ok(Received::Unreadable) => StatusCode::OK,
        Err(error) => {
            // Nothing was kept: the provider sends it again.
            tracing::warn!(%error, "a webhook could not be kept");
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    Ok(status.into_response())
}
