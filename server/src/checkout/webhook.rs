//! What the provider says by itself: brought to our door with a signature, or read in its own list. Every word is kept before
//! it is applied. `http/payment_webhook.rs` and `job/poll_provider` come in here; `apply` goes on with what is kept.

mod apply;

pub(super) use apply::Applied;

use super::payment::ProviderError;
use super::payment::signature::{SignatureError, verify};
use super::{CheckoutError, Inner};
use crate::store::unreadable_event;
use crate::store::webhook_inbox::{self, InboxEvent};
use serde::Deserialize;
use serde_json::Value;
use std::time::Instant;

/// Events of one page of the provider's list.
const PAGE: u32 = 100;
/// Pages read in one round; the next round goes on.
const MAX_PAGES: u32 = 20;

/// What became of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Kept; applied soon.
    Kept,
    /// We had it.
    Repeated,
    /// Not believed.
    Forged(SignatureError),
    /// Signed, but not an event.
    Unreadable,
}

/// What a reading of the provider's list came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// Events that were new.
    pub new_n: u64,
    /// There are more to be read at once.
    pub is_behind: bool,
}

/// The events that are applied: those an endpoint at the provider's should be subscribed to, and those asked for in its
/// list. At most 20 names fit into a question.
pub const APPLIED: &[&str] = &[
    "payment_intent.succeeded",
    "payment_intent.payment_failed",
    "payment_intent.processing",
    "payment_intent.requires_action",
    "payment_intent.canceled",
    "charge.refunded",
    "charge.refund.updated",
    "refund.created",
    "refund.updated",
    "refund.failed",
    "charge.dispute.created",
    "charge.dispute.updated",
    "charge.dispute.closed",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.funds_reinstated",
];

#[derive(Deserialize)]
struct RawEvent {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    /// When it happened, seconds since 1970.
    #[serde(default)]
    created: i64,
    data: RawData,
}

#[derive(Deserialize)]
struct RawData {
    object: Value,
}

/// The intent an event's object is about; by its name, or whole where the account asks for that.
fn intent_of(object: &Value) -> Option<String> {
    let field = if object["object"] == "payment_intent" { "id" } else { "payment_intent" };
    let intent = &object[field];
    intent.as_str().or_else(|| intent["id"].as_str()).map(str::to_owned)
}

fn read_event(body: &str, received_ms: u64, is_from_list: bool) -> Option<InboxEvent> {
    let raw: RawEvent = serde_json::from_str(body).ok()?;
    let intent = intent_of(&raw.data.object);
    // Postgres takes no NUL, and no name of the provider's has one: asking for it again would not help.
    if [&raw.id, &raw.kind].into_iter().chain(&intent).any(|text| text.contains('\0')) {
        return None;
    }
    Some(InboxEvent {
        intent,
        id: raw.id,
        kind: raw.kind,
        body: body.to_owned(),
        received_ms,
        tries_n: 0,
        is_from_list,
    })
}

impl Inner {
    /// Keeps a webhook.
    pub(super) async fn receive(&self, signature: &str, body: &[u8]) -> Result<Received, CheckoutError> {
        let now_ms = self.clock.now_ms();
        if let Err(error) = verify(&self.config.webhook_secrets, signature, body, now_ms / 1_000) {
            return Ok(Received::Forged(error));
        }
        let event = std::str::from_utf8(body).ok().and_then(|text| read_event(text, now_ms, false));
        let Some(event) = event else {
            self.keep_unreadable(body).await?;
            return Ok(Received::Unreadable);
        };
        let is_new = self.keep_event(event).await?;
        self.inbox_nudge.notify_one();
        Ok(if is_new { Received::Kept } else { Received::Repeated })
    }

    /// A word that is the provider's and makes no sense to us: not lost, a person reads it.
    async fn keep_unreadable(&self, body: &[u8]) -> Result<(), CheckoutError> {
        let pool = self.store.pool();
        if unreadable_event::insert(pool, &self.provider_name, body, self.clock.now_ms()).await? {
            tracing::error!("a word of the provider cannot be read; a person must look");
        }
        Ok(())
    }

    /// Reads the provider's own list of events from where it was last read, so that a webhook endpoint nobody can reach
    /// costs time and nothing else.
    pub(super) async fn poll_events(&self) -> Result<Polled, CheckoutError> {
        let pool = self.store.pool();
        let mut cursor = webhook_inbox::cursor(pool, &self.provider_name).await?;
        let mut polled = Polled { new_n: 0, is_behind: false };
        for _ in 0..MAX_PAGES {
            let page = match self.provider.events_after(cursor.as_deref(), APPLIED, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    if let (ProviderError::Refused { reason, .. }, Some(unknown)) = (&error, cursor.take()) {
                        // It keeps events for some weeks only. What was missed is asked about order by order.
                        tracing::warn!(cursor = unknown, reason, "the provider does not know the event read last");
                        webhook_inbox::forget_cursor(pool, &self.provider_name, &unknown).await?;
                        continue;
                    }
                    tracing::debug!(%error, "the provider's events cannot be read now");
                    polled.is_behind = false;
                    break;
                }
            };
            let now_ms = self.clock.now_ms();
            let mut events = Vec::with_capacity(page.events.len());
            // Also behind what cannot be read: it is kept for a person, and must not come back with each reading.
            let mut last = None;
            // Newest first on the wire; oldest first here.
            for object in page.events.iter().rev() {
                let body = object.to_string();
                last = object["id"].as_str().filter(|id| !id.contains('\0')).or(last);
                match read_event(&body, now_ms, true) {
                    Some(event) => events.push(event),
                    None => self.keep_unreadable(body.as_bytes()).await?,
                }
            }
            polled.new_n += webhook_inbox::insert(pool, &self.provider_name, &events).await?.len() as u64;
            if let Some(last) = last {
                webhook_inbox::set_cursor(pool, &self.provider_name, last).await?;
                cursor = Some(last.to_owned());
            }
            polled.is_behind = page.has_more && last.is_some();
            if !polled.is_behind {
                break;
            }
        }
        if !polled.is_behind && self.provider.is_back() {
            // What the list tells is kept; now what it does not tell is asked for, order by order and word by word.
            webhook_inbox::hasten(pool, &self.provider_name, self.clock.now_ms()).await?;
            self.pace.lock().lift(Instant::now());
            self.provider.caught_up();
            self.inbox_nudge.notify_one();
        }
        if polled.new_n > 0 {
            self.inbox_nudge.notify_one();
        }
        Ok(polled)
    }
}
