//! Looking into the simulator's books: single objects, lists newest first, and everything that moved money.

use super::bank::{Bank, no_such};
use super::list::Page;
use super::object::{Dispute, Event, Refund};
use super::reply::Reply;
use serde_json::{Value, json};

impl Bank {
    /// Reads an intent.
    pub(super) fn intent(&self, id: &str, expand: &[String]) -> Reply {
        let books = self.books.lock();
        books.intents.get(id).map_or_else(|| no_such("payment_intent", id), |intent| Reply::ok(intent.to_json(expand)))
    }

    /// Reads a refund.
    pub(super) fn refund_by_id(&self, id: &str) -> Reply {
        let books = self.books.lock();
        books.refunds.get(id).map_or_else(|| no_such("refund", id), |refund| Reply::ok(refund.to_json()))
    }

    /// Reads a dispute.
    pub(super) fn dispute_by_id(&self, id: &str) -> Reply {
        let books = self.books.lock();
        books.disputes.get(id).map_or_else(|| no_such("dispute", id), |dispute| Reply::ok(dispute.to_json()))
    }

    /// Reads a charge.
    pub(super) fn charge_by_id(&self, id: &str) -> Reply {
        let books = self.books.lock();
        books
            .intents
            .values()
            .find_map(|intent| intent.charges.iter().find(|c| c.id == id).map(|c| Reply::ok(c.to_json(intent))))
            .unwrap_or_else(|| no_such("charge", id))
    }

    /// Newest first: intents.
    pub(super) fn intents(&self, page: &Page) -> Reply {
        let books = self.books.lock();
        let items = books.intent_order.iter().rev().map(|id| (id.as_str(), &books.intents[id]));
        page.reply("/v1/payment_intents", items, |_| true, |intent| intent.to_json(&[]))
    }

    /// Newest first: refunds, of one intent if asked for.
    pub(super) fn refunds(&self, page: &Page, intent: Option<&str>) -> Reply {
        let books = self.books.lock();
        let items = books.refund_order.iter().rev().map(|id| (id.as_str(), &books.refunds[id]));
        page.reply("/v1/refunds", items, |r| intent.is_none_or(|id| r.intent == id), Refund::to_json)
    }

    /// Newest first: events, of some kinds if asked for.
    pub(super) fn events(&self, page: &Page, kinds: &[String]) -> Reply {
        let books = self.books.lock();
        let items = books.events.iter().rev().map(|event| (event.id.as_str(), event));
        page.reply("/v1/events", items, |e| kinds.is_empty() || kinds.contains(&e.kind), Event::to_json)
    }

    /// Everything that moved money, for tests and audits: intents with their charges, and refunds.
    pub(super) fn ledger(&self) -> Value {
        let books = self.books.lock();
        let intents: Vec<Value> = books
            .intent_order
            .iter()
            .map(|id| &books.intents[id])
            .map(|intent| {
                json!({
                    "id": intent.id,
                    "status": intent.status.as_str(),
                    "amount": intent.amount_minor,
                    "currency": intent.currency,
                    "metadata": intent.metadata,
                    "charges": intent.charges.iter().map(|c| c.to_json(intent)).collect::<Vec<_>>(),
                })
            })
            .collect();
        let refunds: Vec<Value> = books.refund_order.iter().map(|id| books.refunds[id].to_json()).collect();
        let disputes: Vec<Value> = books.disputes.values().map(Dispute::to_json).collect();
        json!({"intents": intents, "refunds": refunds, "disputes": disputes})
    }
}
