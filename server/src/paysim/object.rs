//! What the simulator keeps: intents with their charges, refunds, events; and how each looks on the wire, in the shape
//! Stripe's client libraries expect. Plain data; `bank` changes it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where an intent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IntentStatus {
    /// Made, or declined.
    RequiresPaymentMethod,
    /// A method is attached.
    RequiresConfirmation,
    /// The buyer must approve.
    RequiresAction,
    /// Being settled.
    Processing,
    /// Charged.
    Succeeded,
    /// Will never be charged.
    Canceled,
}

impl IntentStatus {
    /// The word on the wire.
    #[must_use]
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresAction => "requires_action",
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Canceled => "canceled",
        }
    }
}

/// The last decline of an intent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PayError {
    /// `code`.
    pub code: String,
    /// `decline_code`.
    pub decline_code: String,
    /// For people.
    pub message: String,
    /// The failed charge.
    pub charge: Option<String>,
}

/// One try to move money, made or failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Charge {
    /// `ch_..`
    pub id: String,
    /// When, seconds.
    pub created_s: u64,
    /// Whether money moved.
    pub is_paid: bool,
    /// With which method.
    pub method: String,
    /// Why not.
    pub failure: Option<PayError>,
    /// Given back so far.
    pub refunded_minor: i64,
}

/// How a `processing` intent will end.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Settlement {
    /// When, epoch milliseconds.
    pub at_ms: u64,
    /// How.
    pub is_charged: bool,
}

/// A payment intent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Intent {
    /// `pi_..`
    pub id: String,
    /// Lets a browser finish it.
    pub client_secret: String,
    /// Amount.
    pub amount_minor: i64,
    /// Lower case.
    pub currency: String,
    /// When, seconds.
    pub created_s: u64,
    /// The caller's own words.
    pub metadata: BTreeMap<String, String>,
    /// For people.
    pub description: Option<String>,
    /// Where it stands.
    pub status: IntentStatus,
    /// Attached method.
    pub method: Option<String>,
    /// Where the buyer goes after an action.
    pub return_url: Option<String>,
    /// The page for the action.
    pub action_url: Option<String>,
    /// Tries, oldest first.
    pub charges: Vec<Charge>,
    /// The last decline.
    pub last_error: Option<PayError>,
    /// How it will settle.
    pub settlement: Option<Settlement>,
    /// When it was cancelled, seconds.
    pub canceled_s: Option<u64>,
    /// Why.
    pub cancellation_reason: Option<String>,
}

impl Intent {
    /// Money received.
    #[must_use]
    pub(super) fn received_minor(&self) -> i64 {
        if self.status == IntentStatus::Succeeded { self.amount_minor } else { 0 }
    }

    /// The object on the wire; `expand` as asked for.
    #[must_use]
    pub(super) fn to_json(&self, expand: &[String]) -> Value {
        let latest = self.charges.last().map(|charge| {
            if expand.iter().any(|path| path == "latest_charge") {
                charge.to_json(self)
            } else {
                Value::from(charge.id.as_str())
            }
        });
        let next_action =
            (self.status == IntentStatus::RequiresAction).then(|| match (&self.action_url, &self.return_url) {
                (Some(url), Some(return_url)) => json!({
                    "type": "redirect_to_url",
                    "redirect_to_url": {"url": url, "return_url": return_url},
                }),
                _ => json!({"type": "use_stripe_sdk", "use_stripe_sdk": {"type": "three_d_secure_redirect"}}),
            });
        let last_error = self.last_error.as_ref().map(|error| {
            json!({
                "type": "card_error",
                "code": error.code,
                "decline_code": error.decline_code,
                "message": error.message,
                "charge": error.charge,
            })
        });
        json!({
            "id": self.id,
            "object": "payment_intent",
            "amount": self.amount_minor,
            "amount_capturable": 0,
            "amount_received": self.received_minor(),
            "automatic_payment_methods": null,
            "canceled_at": self.canceled_s,
            "cancellation_reason": self.cancellation_reason,
            "capture_method": "automatic",
            "client_secret": self.client_secret,
            "confirmation_method": "automatic",
            "created": self.created_s,
            "currency": self.currency,
            "customer": null,
            "description": self.description,
            "last_payment_error": last_error,
            "latest_charge": latest,
            "livemode": false,
            "metadata": self.metadata,
            "next_action": next_action,
            "payment_method": self.method,
            "payment_method_types": ["card"],
            "receipt_email": null,
            "status": self.status.as_str(),
        })
    }
}

impl Charge {
    /// The object on the wire.
    #[must_use]
    pub(super) fn to_json(&self, intent: &Intent) -> Value {
        json!({
            "id": self.id,
            "object": "charge",
            "amount": intent.amount_minor,
            "amount_captured": if self.is_paid { intent.amount_minor } else { 0 },
            "amount_refunded": self.refunded_minor,
            "captured": self.is_paid,
            "created": self.created_s,
            "currency": intent.currency,
            "failure_code": self.failure.as_ref().map(|failure| failure.code.as_str()),
            "failure_message": self.failure.as_ref().map(|failure| failure.message.as_str()),
            "livemode": false,
            "metadata": intent.metadata,
            "paid": self.is_paid,
            "payment_intent": intent.id,
            "payment_method": self.method,
            "payment_method_details": {
                "type": "card",
                "card": {"brand": "visa", "last4": "4242", "fingerprint": fingerprint(&self.method)},
            },
            "refunded": self.is_paid && self.refunded_minor == intent.amount_minor,
            "status": if self.is_paid { "succeeded" } else { "failed" },
        })
    }
}

/// The same method has the same fingerprint, as the same card has.
#[must_use]
pub(super) fn fingerprint(method: &str) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(&Sha256::digest(method.as_bytes())[..8])
}

/// Money on its way back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Refund {
    /// `re_..`
    pub id: String,
    /// Of which intent.
    pub intent: String,
    /// Of which charge.
    pub charge: String,
    /// How much.
    pub amount_minor: i64,
    /// Lower case.
    pub currency: String,
    /// When, seconds.
    pub created_s: u64,
    /// `pending`, `succeeded` or `failed`.
    pub status: String,
    /// When a pending one succeeds, epoch milliseconds.
    #[serde(default)]
    pub succeeds_ms: Option<u64>,
    /// Why it failed.
    pub failure_reason: Option<String>,
    /// The caller's reason.
    pub reason: Option<String>,
    /// The caller's own words.
    pub metadata: BTreeMap<String, String>,
}

impl Refund {
    /// The object on the wire.
    #[must_use]
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "object": "refund",
            "amount": self.amount_minor,
            "charge": self.charge,
            "created": self.created_s,
            "currency": self.currency,
            "failure_reason": self.failure_reason,
            "metadata": self.metadata,
            "payment_intent": self.intent,
            "reason": self.reason,
            "status": self.status,
        })
    }
}

/// Money a buyer's bank wants back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Dispute {
    /// `du_..`
    pub id: String,
    /// Of which intent.
    pub intent: String,
    /// Of which charge.
    pub charge: String,
    /// How much.
    pub amount_minor: i64,
    /// Lower case.
    pub currency: String,
    /// When, seconds.
    pub created_s: u64,
    /// The bank's reason.
    pub reason: String,
    /// `needs_response`, `under_review`, `won`, `lost`.
    pub status: String,
}

impl Dispute {
    /// The object on the wire.
    #[must_use]
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "object": "dispute",
            "amount": self.amount_minor,
            "charge": self.charge,
            "created": self.created_s,
            "currency": self.currency,
            "is_charge_refundable": false,
            "livemode": false,
            "metadata": {},
            "payment_intent": self.intent,
            "reason": self.reason,
            "status": self.status,
        })
    }
}

/// Something that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Event {
    /// `evt_..`
    pub id: String,
    /// e.g. `payment_intent.succeeded`.
    pub kind: String,
    /// When, seconds.
    pub created_s: u64,
    /// The object as it was then.
    pub object: Value,
}

impl Event {
    /// The object on the wire.
    #[must_use]
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "object": "event",
            "api_version": API_VERSION,
            "created": self.created_s,
            "data": {"object": self.object},
            "livemode": false,
            "pending_webhooks": 0,
            "request": {"id": null, "idempotency_key": null},
            "type": self.kind,
        })
    }
}

/// The version of the API whose shapes these are.
pub(super) const API_VERSION: &str = "2025-03-31.basil";
