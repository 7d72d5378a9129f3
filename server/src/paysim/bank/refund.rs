//! Money on its way back at the simulator: made by a call, pending or failing by the card, and by script failing after it
//! had succeeded.

use super::{Bank, Books, Line, no_such, word};
use crate::paysim::method::{Behaviour, behaviour};
use crate::paysim::object::Refund;
use crate::paysim::reply::Reply;
use std::collections::BTreeMap;

impl Bank {
    /// Gives money back; all that is left without an amount.
    pub(in crate::paysim) fn refund(
        &self,
        intent_id: &str,
        amount_minor: Option<i64>,
        reason: Option<String>,
        metadata: BTreeMap<String, String>,
    ) -> Reply {
        let mut books = self.books.lock();
        let Some(intent) = books.intents.get(intent_id) else { return no_such("payment_intent", intent_id) };
        let mut intent = intent.clone();
        let Some(charge) = intent.charges.iter_mut().find(|charge| charge.is_paid) else {
            return Reply::error(
                400,
                "invalid_request_error",
                None,
                "This PaymentIntent does not have a successful charge to refund.",
            );
        };
        let left_minor = intent.amount_minor - charge.refunded_minor;
        let amount_minor = amount_minor.unwrap_or(left_minor);
        if left_minor == 0 {
            let text = format!("Charge {} has already been refunded.", charge.id);
            return Reply::error(400, "invalid_request_error", Some("charge_already_refunded"), &text);
        }
        if !(1..=left_minor).contains(&amount_minor) {
            let text =
                format!("Refund amount ({amount_minor}) is greater than unrefunded amount on charge ({left_minor})");
            return Reply::error(400, "invalid_request_error", None, &text).with("param", "amount".into());
        }
        let behaviour = behaviour(&charge.method);
        let fails = behaviour == Some(Behaviour::RefundFails);
        let succeeds_ms = match behaviour {
            Some(Behaviour::RefundPends { after_ms }) => Some(self.clock.now_ms() + after_ms),
            _ => None,
        };
        if !fails {
            charge.refunded_minor += amount_minor;
        }
        let refund = Refund {
            id: format!("re_{}", word(24)),
            intent: intent.id.clone(),
            charge: charge.id.clone(),
            amount_minor,
            currency: intent.currency.clone(),
            created_s: self.clock.now_ms() / 1_000,
            status: match (fails, succeeds_ms) {
                (true, _) => "failed",
                (false, Some(_)) => "pending",
                (false, None) => "succeeded",
            }
            .to_owned(),
            succeeds_ms,
            failure_reason: fails.then(|| "expired_or_canceled_card".to_owned()),
            reason,
            metadata,
        };
        let reply = Reply::ok(refund.to_json());
        let kinds: &[&str] = if fails { &[] } else { &["charge.refunded"] };
        self.record(&mut books, intent_id, intent, kinds);
        let happened: &[&str] = if fails { &["refund.created", "refund.failed"] } else { &["refund.created"] };
        for kind in happened {
            let event = self.event(kind, refund.to_json());
            self.happened(&mut books, event);
        }
        if let Some(at_ms) = refund.succeeds_ms {
            books.pending_refunds.insert((at_ms, refund.id.clone()));
        }
        books.append(&self.ledger, &Line::Refund(refund.clone()));
        books.refund_order.push(refund.id.clone());
        books.refunds.insert(refund.id.clone(), refund);
        reply
    }

    /// Refunds that were pending and succeed by now; how many.
    pub(super) fn settle_refunds(&self, books: &mut Books, now_ms: u64) -> usize {
        let mut settled = 0;
        while let Some((at_ms, id)) = books.pending_refunds.first().cloned() {
            if at_ms > now_ms {
                break;
            }
            books.pending_refunds.pop_first();
            let Some(refund) = books.refunds.get_mut(&id) else { continue };
            "succeeded".clone_into(&mut refund.status);
            refund.succeeds_ms = None;
            let refund = refund.clone();
            let event = self.event("refund.updated", refund.to_json());
            self.happened(books, event);
            books.append(&self.ledger, &Line::Refund(refund));
            settled += 1;
        }
        settled
    }

    /// A refund that had succeeded comes back: the bank of the buyer did not take it. The charge counts it no more.
    pub(in crate::paysim) fn fail_refund(&self, id: &str) -> Reply {
        let mut books = self.books.lock();
        let Some(refund) = books.refunds.get(id) else { return no_such("refund", id) };
        if refund.status != "succeeded" {
            let text = format!("This refund has a status of {}.", refund.status);
            return Reply::error(400, "invalid_request_error", None, &text);
        }
        let mut refund = refund.clone();
        "failed".clone_into(&mut refund.status);
        refund.failure_reason = Some("lost_or_stolen_card".to_owned());
        if let Some(intent) = books.intents.get(&refund.intent) {
            let mut intent = intent.clone();
            for charge in intent.charges.iter_mut().filter(|charge| charge.id == refund.charge) {
                charge.refunded_minor -= refund.amount_minor;
            }
            self.record(&mut books, &refund.intent, intent, &[]);
        }
        let reply = Reply::ok(refund.to_json());
        for kind in ["charge.refund.updated", "refund.failed"] {
            let event = self.event(kind, refund.to_json());
            self.happened(&mut books, event);
        }
        books.append(&self.ledger, &Line::Refund(refund.clone()));
        books.refunds.insert(refund.id.clone(), refund);
        reply
    }
}
