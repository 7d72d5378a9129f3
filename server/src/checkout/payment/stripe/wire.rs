//! The shapes of Stripe's answers, and what they mean. `stripe` comes in here with bytes; nothing leads on.

use crate::checkout::payment::{Intent, IntentStatus, ProviderError, RefundAnswer, RefundStatus, SeenDecline};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Deserialize)]
pub(super) struct RawIntent {
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
    pub events: Vec<Value>,
    /// Whether there are more beyond it.
    pub has_more: bool,
}

/// The intent in an event; `None` when it cannot be read.
#[must_use]
pub fn read_intent(object: Value) -> Option<Intent> {
    serde_json::from_value::<RawIntent>(object).ok()?.try_into().ok()
}

/// An id, or the object where it was expanded.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RawId {
    Id(String),
    Object { id: String },
}

impl RawId {
    pub(super) fn into_id(self) -> String {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct RawAction {
    redirect_to_url: Option<RawRedirect>,
}

#[derive(Deserialize)]
pub(super) struct RawRedirect {
    url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawPaymentError {
    code: Option<String>,
    decline_code: Option<String>,
    charge: Option<RawId>,
}

#[derive(Deserialize)]
pub(super) struct RawError {
    error: RawErrorBody,
}

#[derive(Deserialize)]
pub(super) struct RawErrorBody {
    #[serde(rename = "type")]
    kind: String,
    code: Option<String>,
    decline_code: Option<String>,
    message: Option<String>,
    charge: Option<RawId>,
    payment_intent: Option<Box<RawIntent>>,
}

#[derive(Deserialize)]
pub(super) struct RawRefund {
    id: String,
    status: Option<String>,
    failure_reason: Option<String>,
    metadata: Option<HashMap<String, Value>>,
}

impl RawRefund {
    /// Whether it carries our name. Whatever else stands in a refund of somebody else must not hide ours.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.metadata.as_ref().and_then(|metadata| metadata.get("refund")).is_some_and(|text| text == name)
    }
}

#[derive(Deserialize)]
pub(super) struct RawCharge {
    pub(super) amount_refunded: i64,
}

#[derive(Deserialize)]
pub(super) struct RawPage<T> {
    pub(super) data: Vec<T>,
    pub(super) has_more: bool,
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

/// What an answer that is not a success means.
pub(super) fn read_error(status: StatusCode, body: &[u8]) -> ProviderError {
    let error = serde_json::from_slice::<RawError>(body).ok().map(|raw| raw.error);
    let Some(error) = error else { return ProviderError::Unknown(format!("{status} without an error object")) };
    let message = error.message.clone().unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ProviderError::Unauthorized(message),
        StatusCode::TOO_MANY_REQUESTS if error.code.as_deref() == Some("lock_timeout") => {
            ProviderError::Locked(message)
        }
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

/// A payment method: under the name of its kind stands what is known of the card or account.
#[derive(Deserialize)]
pub(super) struct RawMethod {
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    rest: HashMap<String, Value>,
}

impl RawMethod {
    /// The same card has the same one, whoever it is used by.
    pub(super) fn fingerprint(&self) -> Option<String> {
        self.rest.get(&self.kind)?["fingerprint"].as_str().filter(|text| !text.contains('\0')).map(str::to_owned)
    }
}

impl TryFrom<RawRefund> for RefundAnswer {
    type Error = ProviderError;

    fn try_from(raw: RawRefund) -> Result<Self, ProviderError> {
        let status = match raw.status.as_deref() {
            Some("succeeded") => RefundStatus::Succeeded,
            // Stripe may leave the word out: the refund is there, so it is asked for again.
            Some("pending" | "requires_action") | None => RefundStatus::Pending,
            Some("failed" | "canceled") => RefundStatus::Failed,
            Some(other) => return Err(ProviderError::Unknown(format!("refund status {other}"))),
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
    fn a_refund_without_names_or_status_hides_no_other() {
        let page = r#"{"object":"list","has_more":false,"data":[
            {"id":"re_1","status":"succeeded","failure_reason":null,"metadata":null},
            {"id":"re_2","status":null},
            {"id":"re_3","status":"pending","metadata":{"refund":null}},
            {"id":"re_4","status":"succeeded","metadata":{"refund":"ours","more":"x"}}]}"#;
        let page: RawPage<RawRefund> = serde_json::from_str(page).expect("readable");
        let named: Vec<bool> = page.data.iter().map(|refund| refund.is_named("ours")).collect();
        assert_eq!(named, [false, false, false, true]);
        let answers: Vec<RefundAnswer> =
            page.data.into_iter().map(|refund| refund.try_into().expect("a known status")).collect();
        assert_eq!(answers[1].status, RefundStatus::Pending);
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
