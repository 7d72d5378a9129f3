//! Client of a provider that speaks Stripe's HTTP shape: form-encoded bodies, `Idempotency-Key`, JSON back. One call,
//! one reading of its answer; what follows from it is the purchase's business. Only what was not
//! begun is asked again here, by the same key and within the caller's time.

use super::breaker::{Breaker, Heard};
use super::{
    Confirmation, Intent, IntentStatus, NewIntent, NewRefund, ProviderError, RefundAnswer, RefundStatus, SeenDecline,
};
use crate::config::Secret;
use crate::outbound::{Outbound, OutboundError, Reach};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First wait before a call that was not begun is sent again; doubles.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Longest such wait.
const MAX_BACKOFF: Duration = Duration::from_secs(4);
/// Largest answer read; a provider's objects are far smaller.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The API as of which answers are read; the provider keeps it for those who name it.
const API_VERSION: &str = "2024-06-20";
/// Refunds of one intent on a page: the most the API shows, far more than an order has.
const MAX_REFUNDS: u32 = 100;

/// The provider could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("payment provider: {0}")]
pub struct SetupError(#[from] std::io::Error);

/// The client; cheap to clone.
#[derive(Debug, Clone)]
pub struct Provider {
    http: Outbound,
    base_url: String,
    key: Secret,
    timeout: Duration,
    breaker: Arc<Mutex<Breaker>>,
}

#[derive(Deserialize)]
struct RawIntent {
    id: String,
    status: String,
    amount: i64,
    currency: String,
    client_secret: Option<String>,
    latest_charge: Option<RawId>,
    next_action: Option<RawAction>,
    last_payment_error: Option<RawPaymentError>,
}

/// A page of the provider's list of events, newest first, as they came.
#[derive(Debug, Deserialize)]
pub struct EventsPage {
    /// The events.
    #[serde(rename = "data")]
    pub events: Vec<serde_json::Value>,
    /// Whether there are more beyond it.
    pub has_more: bool,
}

/// The intent in an event; `None` when it cannot be read.
#[must_use]
pub fn read_intent(object: serde_json::Value) -> Option<Intent> {
    serde_json::from_value::<RawIntent>(object).ok()?.try_into().ok()
}

/// An id, or the object where it was expanded.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawId {
    Id(String),
    Object { id: String },
}

impl RawId {
    fn into_id(self) -> String {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

#[derive(Deserialize)]
struct RawAction {
    redirect_to_url: Option<RawRedirect>,
}

#[derive(Deserialize)]
struct RawRedirect {
    url: Option<String>,
}

#[derive(Deserialize)]
struct RawPaymentError {
    code: Option<String>,
    decline_code: Option<String>,
    charge: Option<RawId>,
}

#[derive(Deserialize)]
struct RawError {
    error: RawErrorBody,
}

#[derive(Deserialize)]
struct RawErrorBody {
    #[serde(rename = "type")]
    kind: String,
    code: Option<String>,
    decline_code: Option<String>,
    message: Option<String>,
    charge: Option<RawId>,
    payment_intent: Option<Box<RawIntent>>,
}

#[derive(Deserialize)]
struct RawRefund {
    id: String,
    status: String,
    failure_reason: Option<String>,
    #[serde(default)]
    metadata: HashMap<String, String>,
}

#[derive(Deserialize)]
struct RawCharge {
    amount_refunded: i64,
}

#[derive(Deserialize)]
struct RawPage<T> {
    data: Vec<T>,
    has_more: bool,
}

impl TryFrom<RawIntent> for Intent {
    type Error = ProviderError;

    fn try_from(raw: RawIntent) -> Result<Self, ProviderError> {
        let status = match raw.status.as_str() {
            "requires_payment_method" | "requires_confirmation" => IntentStatus::Open,
            "requires_action" => IntentStatus::ActionRequired,
            "processing" => IntentStatus::Processing,
            "succeeded" => IntentStatus::Succeeded,
            "canceled" => IntentStatus::Canceled,
            other => return Err(ProviderError::Unknown(format!("intent status {other}"))),
        };
        Ok(Self {
            id: raw.id,
            status,
            amount_minor: raw.amount,
            currency: raw.currency.to_ascii_uppercase(),
            charge: raw.latest_charge.map(RawId::into_id),
            action_url: raw.next_action.and_then(|action| action.redirect_to_url).and_then(|redirect| redirect.url),
            client_secret: raw.client_secret,
            decline: raw.last_payment_error.map(|error| SeenDecline {
                reason: error.decline_code.or(error.code).unwrap_or_else(|| "declined".to_owned()),
                charge: error.charge.map(RawId::into_id),
            }),
        })
    }
}

impl Provider {
    /// A client of the API at `base_url` (`http://host:port`), which waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(base_url: &str, key: Secret, timeout: Duration) -> Result<Self, SetupError> {
        let http = Outbound::new(Reach::Anywhere)?;
        Ok(Self { http, base_url: base_url.trim_end_matches('/').to_owned(), key, timeout, breaker: Arc::default() })
    }

    /// Makes an intent.
    ///
    /// # Errors
    /// As [`ProviderError`] says; no money can have moved.
    pub async fn create_intent(&self, new: &NewIntent<'_>) -> Result<Intent, ProviderError> {
        let form = [
            ("amount", new.amount_minor.to_string()),
            ("currency", new.currency.as_str().to_ascii_lowercase()),
            ("payment_method_types[]", "card".to_owned()),
            ("description", format!("Order {}", new.reference)),
            ("metadata[order]", new.order.to_string()),
        ];
        self.post_money::<RawIntent>("/v1/payment_intents", new.key, &form).await?.try_into()
    }

    /// Asks for the money.
    ///
    /// # Errors
    /// `Refused` is a definite no; `Unknown` means that money may have moved.
    pub async fn confirm(&self, confirmation: &Confirmation<'_>) -> Result<Intent, ProviderError> {
        let form =
            [("payment_method", confirmation.method.to_owned()), ("return_url", confirmation.return_url.to_owned())];
        let path = format!("/v1/payment_intents/{}/confirm", confirmation.intent);
        self.post_money::<RawIntent>(&path, confirmation.key, &form).await?.try_into()
    }

    /// Looks at an intent.
    ///
    /// # Errors
    /// Any but success says nothing of the intent.
    pub async fn intent(&self, id: &str) -> Result<Intent, ProviderError> {
        let path = format!("/v1/payment_intents/{id}");
        self.call::<RawIntent>(Method::GET, &path, None, &[]).await?.try_into()
    }

    /// Makes sure that an intent will never be charged. Sent without a key: a second cancellation does no harm, and a
    /// remembered failure would stand in the way.
    ///
    /// # Errors
    /// `Moved` tells where it stands instead.
    pub async fn cancel_intent(&self, id: &str) -> Result<Intent, ProviderError> {
        let path = format!("/v1/payment_intents/{id}/cancel");
        self.call::<RawIntent>(Method::POST, &path, None, &[]).await?.try_into()
    }

    /// Gives money back.
    ///
    /// # Errors
    /// `Refused` when it cannot be given back.
    pub async fn refund(&self, new: &NewRefund<'_>) -> Result<RefundAnswer, ProviderError> {
        let form = [
            ("payment_intent", new.intent.to_owned()),
            ("amount", new.amount_minor.to_string()),
            ("metadata[refund]", new.name.to_owned()),
        ];
        self.post::<RawRefund>("/v1/refunds", Some(new.key), &form).await?.try_into()
    }

    /// Looks at a refund.
    ///
    /// # Errors
    /// Any but success says nothing of the refund.
    pub async fn refund_by_id(&self, id: &str) -> Result<RefundAnswer, ProviderError> {
        self.call::<RawRefund>(Method::GET, &format!("/v1/refunds/{id}"), None, &[]).await?.try_into()
    }

    /// The refund of an intent that carries our name, if the provider has it.
    ///
    /// # Errors
    /// Any but success says nothing of the refund.
    pub async fn refund_by_name(&self, intent: &str, name: &str) -> Result<Option<RefundAnswer>, ProviderError> {
        let path = format!("/v1/refunds?payment_intent={intent}&limit={MAX_REFUNDS}");
        let page: RawPage<RawRefund> = self.call(Method::GET, &path, None, &[]).await?;
        let found = page.data.into_iter().find(|refund| refund.metadata.get("refund").is_some_and(|text| text == name));
        match found {
            Some(refund) => refund.try_into().map(Some),
            None if page.has_more => Err(ProviderError::Unknown("more refunds than one page shows".into())),
            None => Ok(None),
        }
    }

    /// How much of a charge went back, whoever asked for it, in minor units.
    ///
    /// # Errors
    /// Any but success says nothing of the charge.
    pub async fn given_back_minor(&self, charge: &str) -> Result<i64, ProviderError> {
        let charge: RawCharge = self.call(Method::GET, &format!("/v1/charges/{charge}"), None, &[]).await?;
        Ok(charge.amount_refunded)
    }

    /// Events that came after this one; without one, the newest.
    ///
    /// # Errors
    /// When the list cannot be read now.
    pub async fn events_after(&self, id: Option<&str>, limit: u32) -> Result<EventsPage, ProviderError> {
        let path = match id {
            Some(id) => format!("/v1/events?limit={limit}&ending_before={id}"),
            None => format!("/v1/events?limit={limit}"),
        };
        self.call(Method::GET, &path, None, &[]).await
    }

    /// Whether it is asked for money now: false while it fails again and again.
    #[must_use]
    pub fn is_admitting(&self) -> bool {
        self.breaker.lock().is_closed()
    }

    /// A call that leads to a charge: not made while the circuit is open.
    async fn post_money<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        key: &str,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        if !self.breaker.lock().admits(Instant::now()) {
            return Err(ProviderError::NotBegun("the provider has failed again and again".into()));
        }
        self.post(path, Some(key), form).await
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        let answer = self.call_once(method, path, key, form).await;
        let heard = match &answer {
            Err(ProviderError::Unknown(_) | ProviderError::NotBegun(_)) => Heard::Failure,
            Err(ProviderError::Unauthorized(_)) => Heard::Stranger,
            // Also when it is busy: a provider that limits our rate is there, and closing the tills would not help it more
            // than asking less does.
            _ => Heard::Answer,
        };
        let mut breaker = self.breaker.lock();
        let was_closed = breaker.is_closed();
        breaker.hear(heard, Instant::now());
        if was_closed != breaker.is_closed() {
            tracing::error!(is_closed = breaker.is_closed(), "the circuit to the payment provider has changed");
        }
        answer
    }

    async fn post<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        key: Option<&str>,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        let began = Instant::now();
        let mut backoff = FIRST_BACKOFF;
        loop {
            match self.call::<T>(Method::POST, path, key, form).await {
                Err(ProviderError::NotBegun(why) | ProviderError::Busy(why) | ProviderError::InFlight(why))
                    if began.elapsed() + backoff < self.timeout =>
                {
                    tracing::debug!(%why, path, "the provider did not begin; asking again by the same key");
                    tokio::time::sleep(backoff.mul_f64(rand::random_range(0.5..1.0))).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
                done => return done,
            }
        }
    }

    async fn call_once<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        let body = if method == Method::POST {
            Bytes::from(form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish())
        } else {
            Bytes::new()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header(AUTHORIZATION, format!("Bearer {}", self.key.reveal()))
            .header("Stripe-Version", API_VERSION)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let request = request.body(Full::new(body)).map_err(|error| ProviderError::NotBegun(error.to_string()))?;
        let response = match self.http.send(request, self.timeout, MAX_ANSWER_BYTES).await {
            Ok(response) => response,
            // The connection was never made, so nothing was sent.
            Err(error @ (OutboundError::NotConnected(_) | OutboundError::NotPublic)) => {
                return Err(ProviderError::NotBegun(error.to_string()));
            }
            Err(error) => return Err(ProviderError::Unknown(error.to_string())),
        };
        let status = response.status();
        let is_replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        let body = response.into_body();
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|error| ProviderError::Unknown(format!("bad answer: {error}")));
        }
        Err(match read_error(status, &body) {
            ProviderError::Unknown(why) if is_replayed => ProviderError::Remembered(why),
            error => error,
        })
    }
}

/// What an answer that is not a success means.
fn read_error(status: StatusCode, body: &[u8]) -> ProviderError {
    let error = serde_json::from_slice::<RawError>(body).ok().map(|raw| raw.error);
    let Some(error) = error else { return ProviderError::Unknown(format!("{status} without an error object")) };
    let message = error.message.clone().unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ProviderError::Unauthorized(message),
        StatusCode::TOO_MANY_REQUESTS => ProviderError::Busy(message),
        StatusCode::CONFLICT => ProviderError::InFlight(message),
        StatusCode::PAYMENT_REQUIRED => ProviderError::Refused {
            reason: error.decline_code.or(error.code).unwrap_or_else(|| "declined".to_owned()),
            charge: error.charge.map(RawId::into_id),
        },
        status if status.is_client_error() => {
            if error.kind == "idempotency_error" {
                // A key of ours stood for two different calls: a defect. What the first did must be asked for.
                tracing::error!(%message, "the provider saw one idempotency key for two calls");
                return ProviderError::Unknown(message);
            }
            match error.payment_intent.map(|raw| Intent::try_from(*raw)) {
                Some(Ok(intent)) => ProviderError::Moved(Box::new(intent)),
                Some(Err(error)) => error,
                None => ProviderError::Refused {
                    reason: error.code.unwrap_or_else(|| "invalid_request".to_owned()),
                    charge: None,
                },
            }
        }
        _ => ProviderError::Unknown(format!("{status}: {message}")),
    }
}

impl TryFrom<RawRefund> for RefundAnswer {
    type Error = ProviderError;

    fn try_from(raw: RawRefund) -> Result<Self, ProviderError> {
        let status = match raw.status.as_str() {
            "succeeded" => RefundStatus::Succeeded,
            "pending" | "requires_action" => RefundStatus::Pending,
            "failed" | "canceled" => RefundStatus::Failed,
            other => return Err(ProviderError::Unknown(format!("refund status {other}"))),
        };
        Ok(Self { id: raw.id, status, failure: raw.failure_reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> ProviderError {
        read_error(StatusCode::from_u16(status).expect("a status"), body.as_bytes())
    }

    #[test]
    fn only_a_definite_word_is_read_as_one() {
        let declined = r#"{"error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds","charge":"ch_1"}}"#;
        assert_eq!(
            error(402, declined),
            ProviderError::Refused { reason: "insufficient_funds".into(), charge: Some("ch_1".into()) }
        );
        for (status, body) in [(500, r#"{"error":{"type":"api_error"}}"#), (502, "<html>"), (402, "<html>"), (400, "")]
        {
            assert!(matches!(error(status, body), ProviderError::Unknown(_)), "{status} {body}");
        }
        let busy = r#"{"error":{"type":"invalid_request_error"}}"#;
        assert!(matches!(error(429, busy), ProviderError::Busy(_)));
        assert!(matches!(error(409, busy), ProviderError::InFlight(_)));
        let mismatch = r#"{"error":{"type":"idempotency_error"}}"#;
        assert!(matches!(error(400, mismatch), ProviderError::Unknown(_)));
        assert!(matches!(error(401, r#"{"error":{"type":"x"}}"#), ProviderError::Unauthorized(_)));
        let moved = r#"{"error":{"type":"invalid_request_error","code":"payment_intent_unexpected_state",
            "payment_intent":{"id":"pi_1","status":"succeeded","amount":5,"currency":"eur"}}}"#;
        assert!(matches!(error(400, moved), ProviderError::Moved(intent) if intent.status == IntentStatus::Succeeded));
    }
}
