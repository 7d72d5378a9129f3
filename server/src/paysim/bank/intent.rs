//! Intents in the simulator's books: made, confirmed, approved, cancelled, settled when their time comes. `api` comes in here
//! with a call; every change goes through [`Bank::record`], which tells of it.

use super::{Bank, Books, Line, no_such, word};
use crate::paysim::method::{Behaviour, DeclineWords, NOT_APPROVED, behaviour};
use crate::paysim::object::{Charge, Intent, IntentStatus, PayError, Settlement};
use crate::paysim::reply::Reply;
use std::collections::BTreeMap;

/// Largest amount a provider takes, in minor units.
const MAX_AMOUNT_MINOR: i64 = 99_999_999;

/// What a new intent is made of.
#[derive(Debug, Clone)]
pub(in crate::paysim) struct NewIntent {
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
pub(in crate::paysim) enum Verdict {
    /// Charged.
    Charge,
    /// Declined.
    Decline(DeclineWords),
    /// Declined before it came to a charge.
    Refuse(DeclineWords),
    /// The buyer must approve.
    Action,
    /// Later.
    Process(Settlement),
}

impl Bank {
    /// Makes an intent.
    pub(in crate::paysim) fn create(&self, new: NewIntent) -> Reply {
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
    pub(in crate::paysim) fn is_busy_now(&self, id: &str) -> bool {
        self.books.lock().was_busy.insert(id.to_owned())
    }

    /// The method attached to an intent.
    pub(in crate::paysim) fn method_of(&self, id: &str) -> Option<String> {
        self.books.lock().intents.get(id)?.method.clone()
    }

    /// Whether an intent is there and may be confirmed now; else the answer.
    pub(in crate::paysim) fn may_confirm(&self, id: &str) -> Result<(), Reply> {
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
    pub(in crate::paysim) fn confirm(
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
            Verdict::Refuse(words) => {
                refuse(&mut intent, words, None);
                &["payment_intent.payment_failed"]
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
    pub(in crate::paysim) fn act(&self, id: &str, is_approved: bool) -> Result<Option<String>, Reply> {
        let mut books = self.books.lock();
        let intent = books.intents.get(id).ok_or_else(|| no_such("payment_intent", id))?;
        let mut intent = intent.clone();
        if intent.status == IntentStatus::RequiresAction {
            let kinds: &[&str] = if is_approved {
                self.charge(&mut intent);
                &["charge.succeeded", "payment_intent.succeeded"]
            } else {
                self.decline(&mut intent, NOT_APPROVED);
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
    pub(in crate::paysim) fn cancel(&self, id: &str, reason: Option<String>) -> Reply {
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
    pub(in crate::paysim) fn settle_due(&self) -> usize {
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
        let method = intent.method.clone().unwrap_or_default();
        refuse(intent, words, Some(&id));
        let created_s = self.clock.now_ms() / 1_000;
        let failure_of_charge = intent.last_error.clone();
        intent.charges.push(Charge {
            id,
            created_s,
            is_paid: false,
            method,
            failure: failure_of_charge,
            refunded_minor: 0,
        });
    }

    /// Writes an intent as it stands now, and that it came so.
    pub(super) fn record(&self, books: &mut Books, id: &str, intent: Intent, kinds: &[&str]) {
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

/// An intent declined with these words; `charge` is the failed one, where it came to one.
fn refuse(intent: &mut Intent, words: DeclineWords, charge: Option<&str>) {
    intent.method = None;
    intent.status = IntentStatus::RequiresPaymentMethod;
    intent.last_error = Some(PayError {
        code: words.code.to_owned(),
        decline_code: words.decline_code.to_owned(),
        message: words.message.to_owned(),
        charge: charge.map(str::to_owned),
    });
    intent.settlement = None;
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

/// A decline as the API answers it.
fn declined(intent: &Intent) -> Reply {
    let Some(error) = &intent.last_error else { return Reply::ok(intent.to_json(&[])) };
    Reply::error(402, "card_error", Some(&error.code), &error.message)
        .with("decline_code", error.decline_code.as_str().into())
        .with("charge", error.charge.as_deref().into())
        .with("payment_intent", intent.to_json(&[]))
}
