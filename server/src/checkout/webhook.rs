//! What the provider says by itself. A signed word is kept before it is applied, and is a nudge: it makes us ask where the
//! intent, refund or charge stands now, and that is applied by finality, not by arrival. A word that says nothing an order
//! that stands so could still do costs no question. A word about an intent nobody knows, or that the provider's own object
//! contradicts, waits a day.

use super::charge::final_event;
use super::order::{OrderState, next};
use super::payment::signature::{SignatureError, verify};
use super::payment::stripe::read_intent;
use super::payment::{Intent, ProviderError};
use super::resolve::Looked;
use super::{CheckoutError, Inner};
use crate::store::order::OrderRow;
use crate::store::webhook_inbox::{self, InboxEvent};
use crate::store::{StoreError, open_payment, order, unreadable_event};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for the answer to a payment whose outcome is in the inbox already.
const ANSWER_FIRST: Duration = Duration::from_millis(200);
/// Events applied in one round.
const BATCH: u32 = 64;
/// An event taken by a node that dies is taken again after this.
const TAKEN_MS: u64 = 30_000;
/// Between two tries to apply an event about an unknown intent.
const UNKNOWN_RETRY_MS: u64 = 60_000;
/// How long such an event waits.
const UNKNOWN_KEEP_MS: u64 = 24 * 3_600_000;
/// How long applied events are kept, so that a repetition is still known: as long as the provider repeats.
const KEEP_MS: u64 = 30 * 24 * 3_600_000;
/// Old events forgotten at once.
const PRUNE_BATCH: u32 = 1_000;
/// Between two such times.
const PRUNE_EVERY_MS: u64 = 60_000;
/// First wait of an event that could not be applied; doubles with each try.
const FIRST_RETRY_MS: u64 = 1_000;
/// Longest such wait.
const MAX_RETRY_MS: u64 = 3_600_000;
/// Tries after which its order is listed for people; it is tried on all the same.
const LISTED_AFTER_TRIES: u32 = 8;
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

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    /// Its work is done.
    Done,
    /// It is ours, and something else comes first. It is tried until it is done.
    NotYet,
    /// Nobody knows its intent, maybe not yet.
    NotOurs,
    /// The provider's object says otherwise, maybe not for long: it may be read from a copy that lags.
    Contradicted,
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

fn read_event(body: &str, received_ms: u64) -> Option<InboxEvent> {
    let raw: RawEvent = serde_json::from_str(body).ok()?;
    let intent = intent_of(&raw.data.object);
    // Postgres takes no NUL, and no name of the provider's has one: asking for it again would not help.
    if [&raw.id, &raw.kind].into_iter().chain(&intent).any(|text| text.contains('\0')) {
        return None;
    }
    Some(InboxEvent { intent, id: raw.id, kind: raw.kind, body: body.to_owned(), received_ms, tries_n: 0 })
}

impl Inner {
    /// Keeps a webhook.
    pub(super) async fn receive(&self, signature: &str, body: &[u8]) -> Result<Received, CheckoutError> {
        let now_ms = self.clock.now_ms();
        if let Err(error) = verify(&self.config.webhook_secrets, signature, body, now_ms / 1_000) {
            return Ok(Received::Forged(error));
        }
        let event = std::str::from_utf8(body).ok().and_then(|text| read_event(text, now_ms));
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

    /// Applies what is due in the inbox; how many.
    pub(super) async fn apply_inbox(&self) -> Result<usize, CheckoutError> {
        let now_ms = self.clock.now_ms();
        let pool = self.store.pool();
        let events = webhook_inbox::take(pool, &self.provider_name, now_ms, now_ms + TAKEN_MS, BATCH).await?;
        let mut orders = self.orders_of(&events).await?;
        if self.answers_first(&orders).await {
            orders = self.orders_of(&events).await?;
        }
        let mut done = Vec::with_capacity(events.len());
        for event in &events {
            let known = event.intent.as_ref().and_then(|intent| orders.remove(intent));
            match self.apply_event(event, known).await {
                Ok(Applied::Done) => {
                    done.push(event.id.clone());
                    if event.tries_n > LISTED_AFTER_TRIES
                        && let Some(intent) = &event.intent
                    {
                        open_payment::clear_unapplied(pool, &self.provider_name, intent).await?;
                    }
                }
                Ok(Applied::Contradicted) if now_ms.saturating_sub(event.received_ms) > UNKNOWN_KEEP_MS => {
                    tracing::error!(event = event.id, kind = event.kind, "an event that was never true is dropped");
                    done.push(event.id.clone());
                }
                Ok(Applied::Contradicted) => self.put_off_longer(event, "the provider's object says otherwise").await?,
                Ok(Applied::NotYet) => self.put_off_longer(event, "something else comes first").await?,
                Ok(Applied::NotOurs) if now_ms.saturating_sub(event.received_ms) > UNKNOWN_KEEP_MS => {
                    tracing::warn!(event = event.id, kind = event.kind, "an event about nothing of ours is dropped");
                    done.push(event.id.clone());
                }
                Ok(Applied::NotOurs) => {
                    webhook_inbox::put_off(pool, &self.provider_name, &event.id, now_ms + UNKNOWN_RETRY_MS).await?;
                }
                // Only this one waits; where the store is away, this fails as well and ends the round.
                Err(error) => self.put_off_longer(event, &error.to_string()).await?,
            }
        }
        if !done.is_empty() {
            webhook_inbox::set_applied(pool, &self.provider_name, &done, now_ms).await?;
        }
        if self.prune_ms.load(Ordering::Relaxed) <= now_ms {
            self.prune_ms.store(now_ms + PRUNE_EVERY_MS, Ordering::Relaxed);
            webhook_inbox::prune(pool, now_ms.saturating_sub(KEEP_MS), PRUNE_BATCH).await?;
        }
        Ok(events.len())
    }

    /// The provider's word often overtakes its own answer, which settles the order anyway and with less: it is waited for a
    /// moment. True: that was so, and the orders may stand elsewhere now.
    async fn answers_first(&self, orders: &HashMap<String, OrderRow>) -> bool {
        let are_asked = || {
            let mut rows = orders.values();
            rows.any(|row| row.state == OrderState::Confirming && self.waiting.contains_key(&row.id))
        };
        if !are_asked() {
            return false;
        }
        let began = Instant::now();
        while are_asked() && began.elapsed() < ANSWER_FIRST {
            tokio::time::sleep(ANSWER_FIRST / 20).await;
        }
        true
    }

    /// The orders of a batch by their intents, in one read. Where one of them cannot be read, each is read by itself, so
    /// that it stands in nobody else's way.
    async fn orders_of(&self, events: &[InboxEvent]) -> Result<HashMap<String, OrderRow>, StoreError> {
        let mut intents: Vec<String> = events.iter().filter_map(|event| event.intent.clone()).collect();
        intents.sort_unstable();
        intents.dedup();
        if intents.is_empty() {
            return Ok(HashMap::new());
        }
        match order::list_by_intents(self.store.pool(), &self.provider_name, &intents).await {
            Ok(rows) => Ok(rows.into_iter().filter_map(|row| Some((row.intent.clone()?, row))).collect()),
            Err(error @ StoreError::Unavailable(_)) => Err(error),
            Err(_) => Ok(HashMap::new()),
        }
    }

    /// An event that could not be applied waits longer each time; after some tries its order is listed for people.
    async fn put_off_longer(&self, event: &InboxEvent, why: &str) -> Result<(), CheckoutError> {
        let pool = self.store.pool();
        let wait_ms = (FIRST_RETRY_MS << event.tries_n.saturating_sub(1).min(20)).min(MAX_RETRY_MS);
        tracing::error!(event = event.id, kind = event.kind, why, wait_ms, "an event could not be applied");
        webhook_inbox::put_off(pool, &self.provider_name, &event.id, self.clock.now_ms() + wait_ms).await?;
        if event.tries_n >= LISTED_AFTER_TRIES
            && let Some(intent) = &event.intent
        {
            open_payment::set_unapplied(pool, &self.provider_name, intent).await?;
        }
        Ok(())
    }

    /// Applies one event.
    async fn apply_event(&self, event: &InboxEvent, known: Option<OrderRow>) -> Result<Applied, CheckoutError> {
        let Some(intent) = &event.intent else { return Ok(Applied::Done) };
        let row = match known {
            Some(row) => row,
            None => match order::read_by_intent(self.store.pool(), &self.provider_name, intent).await? {
                Some(row) => row,
                None => return Ok(Applied::NotOurs),
            },
        };
        let raw = serde_json::from_str::<RawEvent>(&event.body).ok();
        let (object, said_s) = raw.map(|raw| (raw.data.object, raw.created)).unwrap_or_default();
        if event.kind.starts_with("payment_intent.") {
            return self.hear_of_intent(&row, read_intent(object)).await;
        } else if event.kind.starts_with("charge.dispute.") {
            if !self.see_dispute(&row, &event.kind, said_s, &object).await? {
                return Err(CheckoutError::Internal(format!("{} carries no dispute", event.kind)));
            }
        } else if event.kind.starts_with("charge.refund") || event.kind.starts_with("refund.") {
            return self.see_refund(&row, &object).await;
        }
        Ok(Applied::Done)
    }

    /// A word about an intent. The provider's own object decides: who has learnt a signing secret, or kept an old word, can
    /// make us ask and nothing else.
    async fn hear_of_intent(&self, row: &OrderRow, said: Option<Intent>) -> Result<Applied, CheckoutError> {
        let mut last = None;
        if let Some(said) = &said {
            if !self.is_about(row, said).await? {
                return Ok(Applied::Done);
            }
            last = final_event(said.status);
            if last.is_some_and(|event| next(row.state, event).is_none()) {
                // A repetition.
                return Ok(Applied::Done);
            }
        }
        let is_final = last.is_some();
        if !is_final && !row.state.has_open_payment() {
            return Ok(Applied::Done);
        }
        match self.ask(row).await? {
            Looked::Unanswered => {
                order::hasten_check(self.store.pool(), row.id, self.clock.now_ms()).await?;
                // What is not final the reconciler asks about anyway.
                Ok(if is_final { Applied::NotYet } else { Applied::Done })
            }
            Looked::Waiting => {
                let Some(event) = last else { return Ok(Applied::Done) };
                // Somebody else may have moved it meanwhile, by the same truth.
                let now = order::read(self.store.pool(), row.id).await?;
                let is_moved = now.is_none_or(|now| next(now.state, event).is_none());
                Ok(if is_moved { Applied::Done } else { Applied::Contradicted })
            }
            Looked::Moved | Looked::Nothing => Ok(Applied::Done),
        }
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
                match read_event(&body, now_ms) {
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
        if polled.new_n > 0 {
            self.inbox_nudge.notify_one();
        }
        Ok(polled)
    }
}
