//! The simulator's books: every change to intents, refunds and events happens here, under one lock and without waiting,
//! and is appended to the ledger in the same order. Answers are already in the provider's shape.

mod dispute;
mod intent;
mod key;
mod refund;

pub(super) use intent::{NewIntent, Verdict};
pub(super) use key::KeyCheck;

use super::ledger::Ledger;
use super::object::{Dispute, Event, Intent, Refund};
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

fn word(length: usize) -> String {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..length).map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())])).collect()
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

    fn happened(&self, books: &mut Books, event: Event) {
        books.append(&self.ledger, &Line::Event(event.clone()));
        self.webhooks.push(&event);
        books.push_event(event);
    }

    fn event(&self, kind: &str, object: Value) -> Event {
        let created_s = self.clock.now_ms() / 1_000;
        Event { id: format!("evt_{}", word(24)), kind: kind.to_owned(), created_s, object }
    }
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
