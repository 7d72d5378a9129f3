//! What the provider said is applied. A word that was brought to us is a nudge: it makes us ask where the intent, refund or
//! charge stands now, and that is applied by finality, not by arrival. No question is asked for a word that says nothing an
//! order that stands so could still do, nor for a final one that we have read in the provider's own list. A word about an
//! intent nobody knows, or that the provider's own object contradicts, waits a day.

use super::RawEvent;
use crate::checkout::charge::final_event;
use crate::checkout::order::{OrderState, next};
use crate::checkout::payment::stripe::read_intent;
use crate::checkout::payment::{Intent, IntentStatus};
use crate::checkout::resolve::Looked;
use crate::checkout::{CheckoutError, Inner};
use crate::store::order::OrderRow;
use crate::store::webhook_inbox::{self, InboxEvent, Tried};
use crate::store::{StoreError, open_payment, order};
use futures_util::StreamExt;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for the answer to a payment whose outcome is in the inbox already.
const ANSWER_FIRST: Duration = Duration::from_millis(200);
/// Events applied in one round.
const BATCH: u32 = 64;
/// An event taken by a node that dies is taken again after this: longer than a round lasts.
const TAKEN_MS: u64 = 30_000;
/// Orders whose events are applied at once: so many questions are open at the provider.
const CONCURRENCY: usize = 8;
/// Events are begun so long in a round; with one question that is not answered it ends within [`TAKEN_MS`]. What is left is
/// given back.
const BEGIN_FOR: Duration = Duration::from_secs(6);
/// Between two looks whether the node's pace allows another question.
const PACE_AGAIN: Duration = Duration::from_millis(20);
/// An event given back is due again after this.
const GIVEN_BACK_MS: u64 = 500;
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

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::checkout) enum Applied {
    /// Its work is done.
    Done,
    /// It is ours, and something else comes first. It is tried until it is done.
    NotYet,
    /// It was not tried: the round is over, or the provider does not answer others.
    NotTried,
    /// Nobody knows its intent, maybe not yet.
    NotOurs,
    /// The provider's object says otherwise, maybe not for long: it may be read from a copy that lags.
    Contradicted,
}

/// One round of applying.
struct Round {
    /// Nothing is asked behind this.
    until: Instant,
    /// Nothing is asked any more: the provider did not answer, or the store has gone.
    is_over: AtomicBool,
}

impl Round {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

impl Inner {
    /// Applies what is due in the inbox; how many. Events of one order one after the other, of several side by side.
    pub(in crate::checkout) async fn apply_inbox(&self) -> Result<usize, CheckoutError> {
        let now_ms = self.clock.now_ms();
        let pool = self.store.pool();
        let events = webhook_inbox::take(pool, &self.provider_name, now_ms, now_ms + TAKEN_MS, BATCH).await?;
        let events_n = events.len();
        let mut orders = self.orders_of(&events).await?;
        if self.answers_first(&orders).await {
            orders = self.orders_of(&events).await?;
        }
        let mut groups: BTreeMap<Option<String>, Vec<InboxEvent>> = BTreeMap::new();
        for event in events {
            groups.entry(event.intent.clone()).or_default().push(event);
        }
        let round = Round { until: Instant::now() + BEGIN_FOR, is_over: AtomicBool::new(false) };
        let work: Vec<_> = groups
            .into_iter()
            .map(|(intent, events)| {
                let known = intent.and_then(|intent| orders.remove(&intent));
                self.apply_group(&round, events, known)
            })
            .collect();
        let mut work = futures_util::stream::iter(work).buffer_unordered(CONCURRENCY);
        let mut done = Vec::with_capacity(events_n);
        let mut failed = None;
        // To the end also where the store has gone: a future dropped half way leaves its connection in a transaction.
        while let Some(group) = work.next().await {
            match group {
                Ok(ids) => done.extend(ids),
                Err(error) => {
                    round.is_over.store(true, Ordering::Relaxed);
                    failed.get_or_insert(error);
                }
            }
        }
        drop(work);
        if let Some(error) = failed {
            return Err(error);
        }
        if !done.is_empty() {
            webhook_inbox::set_applied(pool, &self.provider_name, &done, now_ms).await?;
        }
        if self.prune_ms.load(Ordering::Relaxed) <= now_ms {
            self.prune_ms.store(now_ms + PRUNE_EVERY_MS, Ordering::Relaxed);
            webhook_inbox::prune(pool, now_ms.saturating_sub(KEEP_MS), PRUNE_BATCH).await?;
        }
        Ok(events_n)
    }

    /// Applies events of one order, oldest first; which are done.
    async fn apply_group(
        &self,
        round: &Round,
        events: Vec<InboxEvent>,
        mut known: Option<OrderRow>,
    ) -> Result<Vec<String>, CheckoutError> {
        let mut done = Vec::new();
        for event in events {
            let applied = self.apply_event(round, &event, known.take()).await;
            if self.note_applied(&event, applied).await? {
                done.push(event.id);
            }
        }
        Ok(done)
    }

    /// Writes what became of an event; whether it is done.
    async fn note_applied(
        &self,
        event: &InboxEvent,
        applied: Result<Applied, CheckoutError>,
    ) -> Result<bool, CheckoutError> {
        let (pool, name, now_ms) = (self.store.pool(), &self.provider_name, self.clock.now_ms());
        let is_old = now_ms.saturating_sub(event.received_ms) > UNKNOWN_KEEP_MS;
        match applied {
            Ok(Applied::Done) => {
                if event.tries_n > LISTED_AFTER_TRIES
                    && let Some(intent) = &event.intent
                {
                    open_payment::clear_unapplied(pool, name, intent).await?;
                }
                return Ok(true);
            }
            Ok(Applied::Contradicted) if is_old => {
                tracing::error!(event = event.id, kind = event.kind, "an event that was never true is dropped");
                return Ok(true);
            }
            Ok(Applied::Contradicted) => self.put_off_longer(event, "the provider's object says otherwise").await?,
            Ok(Applied::NotYet) => self.put_off_longer(event, "something else comes first").await?,
            Ok(Applied::NotTried) => {
                webhook_inbox::put_off(pool, name, &event.id, Tried::NotAtAll, now_ms + GIVEN_BACK_MS).await?;
            }
            Ok(Applied::NotOurs) if is_old => {
                tracing::warn!(event = event.id, kind = event.kind, "an event about nothing of ours is dropped");
                return Ok(true);
            }
            Ok(Applied::NotOurs) => {
                webhook_inbox::put_off(pool, name, &event.id, Tried::InVain, now_ms + UNKNOWN_RETRY_MS).await?;
            }
            // Only this one waits; where the store is away, this fails as well and ends the round.
            Err(error) => self.put_off_longer(event, &error.to_string()).await?,
        }
        Ok(false)
    }

    /// Waits for a question's place in this node's pace; false: the round is over, or the provider does not answer.
    async fn may_ask(&self, round: &Round) -> bool {
        while !round.is_over() {
            if self.take_looks(1) == 1 {
                return true;
            }
            tokio::time::sleep(PACE_AGAIN).await;
        }
        false
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
        let due_ms = self.clock.now_ms() + wait_ms;
        webhook_inbox::put_off(pool, &self.provider_name, &event.id, Tried::InVain, due_ms).await?;
        if event.tries_n >= LISTED_AFTER_TRIES
            && let Some(intent) = &event.intent
        {
            open_payment::set_unapplied(pool, &self.provider_name, intent).await?;
        }
        Ok(())
    }

    /// Applies one event.
    async fn apply_event(
        &self,
        round: &Round,
        event: &InboxEvent,
        known: Option<OrderRow>,
    ) -> Result<Applied, CheckoutError> {
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
            return self.hear_of_intent(round, &row, read_intent(object), event.is_from_list).await;
        } else if event.kind.starts_with("charge.dispute.") {
            let object = match object["id"].as_str().filter(|_| !event.is_from_list) {
                None => object,
                Some(id) => {
                    if !self.may_ask(round).await {
                        return Ok(Applied::NotTried);
                    }
                    match self.dispute_at_provider(&row, intent, id).await {
                        Ok(object) => object,
                        Err(applied) => {
                            if applied == Applied::NotYet {
                                round.is_over.store(true, Ordering::Relaxed);
                            }
                            return Ok(applied);
                        }
                    }
                }
            };
            if !self.see_dispute(&row, &event.kind, said_s, &object).await? {
                return Err(CheckoutError::Internal(format!("{} carries no dispute", event.kind)));
            }
        } else if event.kind.starts_with("charge.refund") || event.kind.starts_with("refund.") {
            if !self.may_ask(round).await {
                return Ok(Applied::NotTried);
            }
            let applied = self.see_refund(&row, &object).await?;
            if applied == Applied::NotYet {
                round.is_over.store(true, Ordering::Relaxed);
            }
            return Ok(applied);
        }
        Ok(Applied::Done)
    }

    /// A word about an intent. The provider's own object decides: who has learnt a signing secret, or kept an old word, can
    /// make us ask and nothing else.
    async fn hear_of_intent(
        &self,
        round: &Round,
        row: &OrderRow,
        said: Option<Intent>,
        is_from_list: bool,
    ) -> Result<Applied, CheckoutError> {
        // What is said of the amount is not looked at: only what the provider answers is held against the order.
        let last = said.as_ref().and_then(|said| final_event(said.status));
        if last.is_some_and(|event| next(row.state, event).is_none()) {
            // A repetition.
            return Ok(Applied::Done);
        }
        let is_final = last.is_some();
        if !is_final && !row.state.has_open_payment() {
            return Ok(Applied::Done);
        }
        if let Some(said) = said
            && is_from_list
            && (said.status == IntentStatus::Canceled
                || said.status == IntentStatus::Succeeded && said.charge.is_some())
        {
            // Asked for already, and final: after an outage thousands are learnt so in pages.
            self.write_seen(row, &said).await?;
            return Ok(Applied::Done);
        }
        if !self.may_ask(round).await {
            return Ok(Applied::NotTried);
        }
        match self.ask(row).await? {
            Looked::Unanswered => {
                // Others need not wait for the same silence.
                round.is_over.store(true, Ordering::Relaxed);
                order::hasten_check(self.store.pool(), row.id, self.clock.now_ms()).await?;
                // What is not final the reconciler asks about anyway.
                Ok(if is_final { Applied::NotYet } else { Applied::Done })
            }
            Looked::Waiting | Looked::Idle => {
                let Some(event) = last else { return Ok(Applied::Done) };
                // Somebody else may have moved it meanwhile, by the same truth.
                let now = order::read(self.store.pool(), row.id).await?;
                let is_moved = now.is_none_or(|now| next(now.state, event).is_none());
                Ok(if is_moved { Applied::Done } else { Applied::Contradicted })
            }
            Looked::Moved | Looked::Nothing => Ok(Applied::Done),
        }
    }
}
