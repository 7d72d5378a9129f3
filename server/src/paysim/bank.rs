//! The simulator's books: every change to intents, refunds and events happens here, under one lock and without waiting,
//! and is appended to the ledger in the same order. Answers are already in the provider's shape.

mod dispute;
mod key;
mod refund;

pub(super) use key::KeyCheck;

use super::ledger::Ledger;
use super::method::{Behaviour, DeclineWords, behaviour};
use super::object::{Charge, Dispute, Event, Intent, IntentStatus, PayError, Refund, Settlement};
use super::reply::Reply;
use super::webhook::Webhooks;
use crate::clock::Clock;
use key::KeyState;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// Events kept for `GET /v1/events`; the oldest go first. A reader that is further behind asks for the intents.
const MAX_EVENTS: usize = 200_000;
/// Largest amount a provider takes, in minor units.
const MAX_AMOUNT_MINOR: i64 = 99_999_999;

/// One line of the ledger.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Intent(Box<Intent>),
    Refund(Refund),
    Dispute(Dispute),
    Event(Event),
    Key { key: String, fingerprint: String, status: u16, body: Value },
}

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) intents: HashMap<String, Intent>,
    pub(super) intent_order: Vec<String>,
    pub(super) refunds: HashMap<String, Refund>,
    pub(super) refund_order: Vec<String>,
    pub(super) disputes: BTreeMap<String, Dispute>,
    pub(super) events: VecDeque<Event>,
    keys: HashMap<String, KeyState>,
    settlements: BTreeSet<(u64, String)>,
    /// Refunds that succeed later, by when.
    pending_refunds: BTreeSet<(u64, String)>,
    was_busy: HashSet<String>,
    last_line: u64,
}

/// The books and the ledger behind them.
#[derive(Debug)]
pub(super) struct Bank {
    pub(super) books: Mutex<Books>,
    ledger: Ledger,
    pub(super) webhooks: Webhooks,
    clock: Clock,
}

/// What a new intent is made of.
#[derive(Debug, Clone)]
pub(super) struct NewIntent {
    /// Amount.
    pub amount_minor: i64,
    /// Any case.
    pub currency: String,
    /// The caller's own words.
    pub metadata: BTreeMap<String, String>,
    /// For people.
    pub description: Option<String>,
    /// Attached at once.
    pub method: Option<String>,
}

/// How a confirmation ends, once it ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    /// Charged.
    Charge,
    /// Declined.
    Decline(DeclineWords),
    /// The buyer must approve.
    Action,
    /// Later.
    Process(Settlement),
}

fn word(length: usize) -> String {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..length).map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())])).collect()
}

fn unexpected_state(intent: &Intent, doing: &str) -> Reply {
    Reply::error(
        400,
        "invalid_request_error",
        Some("payment_intent_unexpected_state"),
        &format!("You cannot {doing} this PaymentIntent because it has a status of {}.", intent.status.as_str()),
    )
    .with("payment_intent", intent.to_json(&[]))
}

pub(super) fn no_such(what: &str, id: &str) -> Reply {
    Reply::error(404, "invalid_request_error", Some("resource_missing"), &format!("No such {what}: '{id}'"))
}

impl Bank {
    /// The books as the ledger's lines tell them.
    ///
    /// # Errors
    /// The line that cannot be read.
    pub(super) fn open(
        ledger: Ledger,
        lines: &[String],
        webhooks: Webhooks,
        clock: Clock,
    ) -> Result<Self, serde_json::Error> {
        let mut books = Books::default();
        for line in lines {
            match serde_json::from_str(line)? {
                Line::Intent(intent) => {
                    if let Some(settlement) = intent.settlement {
                        books.settlements.insert((settlement.at_ms, intent.id.clone()));
                    }
                    if !books.intents.contains_key(&intent.id) {
                        books.intent_order.push(intent.id.clone());
                    }
                    books.intents.insert(intent.id.clone(), *intent);
                }
                Line::Refund(refund) => {
                    // A later line of the same refund takes it off again: nothing is done twice.
                    if let Some(at_ms) = refund.succeeds_ms {
                        books.pending_refunds.insert((at_ms, refund.id.clone()));
                    } else {
                        books.pending_refunds.retain(|(_, id)| *id != refund.id);
                    }
                    if !books.refunds.contains_key(&refund.id) {
                        books.refund_order.push(refund.id.clone());
                    }
                    books.refunds.insert(refund.id.clone(), refund);
                }
                Line::Dispute(dispute) => {
                    books.disputes.insert(dispute.id.clone(), dispute);
                }
                Line::Event(event) => books.push_event(event),
                Line::Key { key, fingerprint, status, body } => {
                    books.keys.insert(key, KeyState::Done { fingerprint, status, body });
                }
            }
        }
        Ok(Self { books: Mutex::new(books), ledger, webhooks, clock })
    }

    /// Waits until everything changed so far is in the ledger.
    pub(super) async fn settled(&self) -> bool {
        let last = self.books.lock().last_line;
        self.ledger.settled(last).await
    }

    /// Makes an intent.
    pub(super) fn create(&self, new: NewIntent) -> Reply {
        if !(1..=MAX_AMOUNT_MINOR).contains(&new.amount_minor) {
            return Reply::error(
                400,
                "invalid_request_error",
                Some("parameter_invalid_integer"),
                "Invalid positive integer",
            )
            .with("param", "amount".into())
            .not_stored();
        }
        let currency = new.currency.to_ascii_lowercase();
        if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_lowercase()) {
            return Reply::error(400, "invalid_request_error", None, &format!("Invalid currency: {currency}"))
                .with("param", "currency".into())
                .not_stored();
        }
        let id = format!("pi_{}", word(24));
        let intent = Intent {
            client_secret: format!("{id}_secret_{}", word(25)),
            id,
            amount_minor: new.amount_minor,
            currency,
            created_s: self.clock.now_ms() / 1_000,
            metadata: new.metadata,
            description: new.description,
            status: if new.method.is_some() {
                IntentStatus::RequiresConfirmation
            } else {
                IntentStatus::RequiresPaymentMethod
            },
            method: new.method,
            return_url: None,
            action_url: None,
            charges: Vec::new(),
            last_error: None,
            settlement: None,
            canceled_s: None,
            cancellation_reason: None,
        };
        let reply = Reply::ok(intent.to_json(&[]));
        let mut books = self.books.lock();
        books.intent_order.push(intent.id.clone());
        self.record(&mut books, &intent.id.clone(), intent, &["payment_intent.created"]);
        reply
    }

    /// Whether this is the first call for an intent whose provider is busy once.
    pub(super) fn is_busy_now(&self, id: &str) -> bool {
        self.books.lock().was_busy.insert(id.to_owned())
    }

    /// The method attached to an intent.
    pub(super) fn method_of(&self, id: &str) -> Option<String> {
        self.books.lock().intents.get(id)?.method.clone()
    }

    /// Whether an intent is there and may be confirmed now; else the answer.
    pub(super) fn may_confirm(&self, id: &str) -> Result<(), Reply> {
        let books = self.books.lock();
        let intent = books.intents.get(id).ok_or_else(|| no_such("payment_intent", id))?;
        match intent.status {
            IntentStatus::RequiresPaymentMethod | IntentStatus::RequiresConfirmation | IntentStatus::RequiresAction => {
                Ok(())
            }
            _ => Err(unexpected_state(intent, "confirm")),
        }
    }

    /// Confirms an intent with a method; the verdict is the caller's.
    pub(super) fn confirm(
        &self,
        id: &str,
        method: &str,
        verdict: Verdict,
        return_url: Option<String>,
        action_url: impl FnOnce(&Intent) -> String,
        expand: &[String],
    ) -> Reply {
        let mut books = self.books.lock();
        let Some(intent) = books.intents.get(id) else { return no_such("payment_intent", id) };
        if matches!(intent.status, IntentStatus::Processing | IntentStatus::Succeeded | IntentStatus::Canceled) {
            return unexpected_state(intent, "confirm");
        }
        let mut intent = intent.clone();
        intent.method = Some(method.to_owned());
        if return_url.is_some() {
            intent.return_url = return_url;
        }
        let kinds: &[&str] = match verdict {
            Verdict::Charge => {
                self.charge(&mut intent);
                &["charge.succeeded", "payment_intent.succeeded"]
            }
            Verdict::Decline(words) => {
                self.decline(&mut intent, words);
                &["charge.failed", "payment_intent.payment_failed"]
            }
            Verdict::Action => {
                intent.status = IntentStatus::RequiresAction;
                intent.last_error = None;
                intent.action_url = Some(action_url(&intent));
                &["payment_intent.requires_action"]
            }
            Verdict::Process(settlement) => {
                intent.status = IntentStatus::Processing;
                intent.last_error = None;
                intent.settlement = Some(settlement);
                books.settlements.insert((settlement.at_ms, intent.id.clone()));
                &["payment_intent.processing"]
            }
        };
        let reply = if intent.status == IntentStatus::RequiresPaymentMethod {
            declined(&intent)
        } else {
            Reply::ok(intent.to_json(expand))
        };
        self.record(&mut books, id, intent, kinds);
        if behaviour(method) == Some(Behaviour::Dispute) {
            self.open_dispute(&mut books, id, None, "fraudulent");
        }
        reply
    }

    /// Ends an approval.
    pub(super) fn act(&self, id: &str, is_approved: bool) -> Result<Option<String>, Reply> {
        let mut books = self.books.lock();
        let intent = books.intents.get(id).ok_or_else(|| no_such("payment_intent", id))?;
        let mut intent = intent.clone();
        if intent.status == IntentStatus::RequiresAction {
            let kinds: &[&str] = if is_approved {
                self.charge(&mut intent);
                &["charge.succeeded", "payment_intent.succeeded"]
            } else {
                let words = DeclineWords {
                    code: "payment_intent_authentication_failure",
                    decline_code: "authentication_failed",
                    message: "The buyer did not approve the payment.",
                };
                self.decline(&mut intent, words);
                &["payment_intent.payment_failed"]
            };
            self.record(&mut books, id, intent.clone(), kinds);
        }
        Ok(intent.return_url.map(|url| {
            let joint = if url.contains('?') { '&' } else { '?' };
            let status = if intent.status == IntentStatus::Succeeded { "succeeded" } else { "failed" };
            let (base, fragment) = url.split_once('#').map_or((url.as_str(), None), |(b, f)| (b, Some(f)));
            let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
            format!("{base}{joint}payment_intent={}&redirect_status={status}{fragment}", intent.id)
        }))
    }

    /// Cancels an intent.
    pub(super) fn cancel(&self, id: &str, reason: Option<String>) -> Reply {
        let mut books = self.books.lock();
        let Some(intent) = books.intents.get(id) else { return no_such("payment_intent", id) };
        if matches!(intent.status, IntentStatus::Processing | IntentStatus::Succeeded | IntentStatus::Canceled) {
            return unexpected_state(intent, "cancel");
        }
        let mut intent = intent.clone();
        intent.status = IntentStatus::Canceled;
        intent.canceled_s = Some(self.clock.now_ms() / 1_000);
        intent.cancellation_reason = reason;
        let reply = Reply::ok(intent.to_json(&[]));
        self.record(&mut books, id, intent, &["payment_intent.canceled"]);
        reply
    }

    /// Settles what is due; how many.
    pub(super) fn settle_due(&self) -> usize {
        let now_ms = self.clock.now_ms();
        let mut books = self.books.lock();
        let mut settled = 0;
        while let Some((at_ms, id)) = books.settlements.first().cloned() {
            if at_ms > now_ms {
                break;
            }
            books.settlements.pop_first();
            let Some(intent) = books.intents.get(&id) else { continue };
            let mut intent = intent.clone();
            let Some(settlement) = intent.settlement.take() else { continue };
            let kinds: &[&str] = if settlement.is_charged {
                self.charge(&mut intent);
                &["charge.succeeded", "payment_intent.succeeded"]
            } else {
                let words = DeclineWords {
                    code: "card_declined",
                    decline_code: "generic_decline",
                    message: "Your card was declined.",
                };
                self.decline(&mut intent, words);
                &["charge.failed", "payment_intent.payment_failed"]
            };
            self.record(&mut books, &id, intent, kinds);
            settled += 1;
        }
        settled + self.settle_refunds(&mut books, now_ms)
    }

    fn charge(&self, intent: &mut Intent) {
        let method = intent.method.clone().unwrap_or_default();
        let id = format!("ch_{}", word(24));
        let created_s = self.clock.now_ms() / 1_000;
        intent.charges.push(Charge { id, created_s, is_paid: true, method, failure: None, refunded_minor: 0 });
        intent.status = IntentStatus::Succeeded;
        intent.last_error = None;
        intent.settlement = None;
    }

    fn decline(&self, intent: &mut Intent, words: DeclineWords) {
        let id = format!("ch_{}", word(24));
        let failure = PayError {
            code: words.code.to_owned(),
            decline_code: words.decline_code.to_owned(),
            message: words.message.to_owned(),
            charge: Some(id.clone()),
        };
        let method = intent.method.take().unwrap_or_default();
        let created_s = self.clock.now_ms() / 1_000;
        let failure_of_charge = Some(failure.clone());
        intent.charges.push(Charge {
            id,
            created_s,
            is_paid: false,
            method,
            failure: failure_of_charge,
            refunded_minor: 0,
        });
        intent.status = IntentStatus::RequiresPaymentMethod;
        intent.last_error = Some(failure);
        intent.settlement = None;
    }

    fn happened(&self, books: &mut Books, event: Event) {
        books.append(&self.ledger, &Line::Event(event.clone()));
        self.webhooks.push(&event);
        books.push_event(event);
    }

    fn event(&self, kind: &str, object: Value) -> Event {
        let created_s = self.clock.now_ms() / 1_000;
        Event { id: format!("evt_{}", word(24)), kind: kind.to_owned(), created_s, object }
    }

    fn record(&self, books: &mut Books, id: &str, intent: Intent, kinds: &[&str]) {
        for kind in kinds {
            let object = match (kind.starts_with("charge."), intent.charges.last()) {
                (true, Some(charge)) => charge.to_json(&intent),
                _ => intent.to_json(&[]),
            };
            let event = self.event(kind, object);
            self.happened(books, event);
        }
        books.append(&self.ledger, &Line::Intent(Box::new(intent.clone())));
        books.intents.insert(id.to_owned(), intent);
    }
}

/// A decline as the API answers it.
fn declined(intent: &Intent) -> Reply {
    let Some(error) = &intent.last_error else { return Reply::ok(intent.to_json(&[])) };
    Reply::error(402, "card_error", Some(&error.code), &error.message)
        .with("decline_code", error.decline_code.as_str().into())
        .with("charge", error.charge.as_deref().into())
        .with("payment_intent", intent.to_json(&[]))
}

impl Books {
    fn append(&mut self, ledger: &Ledger, line: &Line) {
        let text = serde_json::to_string(line).expect("the books are plain data");
        self.last_line = ledger.append(&text);
    }

    fn push_event(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
