//! Buyers' banks that want money back, by script (`POST /_sim/disputes`, `POST /_sim/disputes/{id}`) or by the test card
//! that is always disputed. The money leaves the account at once and comes back with a dispute that is won.

use super::{Bank, Books, Line, no_such, word};
use crate::paysim::object::Dispute;
use crate::paysim::reply::Reply;

impl Bank {
    /// Opens a dispute of an intent's charge, of all of it without an amount.
    pub(in crate::paysim) fn dispute(&self, intent: &str, amount_minor: Option<i64>, reason: &str) -> Reply {
        let mut books = self.books.lock();
        match self.open_dispute(&mut books, intent, amount_minor, reason) {
            Some(dispute) => Reply::ok(dispute.to_json()),
            None => no_such("charge of", intent),
        }
    }

    pub(super) fn open_dispute(
        &self,
        books: &mut Books,
        intent: &str,
        amount_minor: Option<i64>,
        reason: &str,
    ) -> Option<Dispute> {
        let paid = books.intents.get(intent)?;
        let charge = paid.charges.iter().find(|charge| charge.is_paid)?;
        let dispute = Dispute {
            id: format!("du_{}", word(24)),
            intent: intent.to_owned(),
            charge: charge.id.clone(),
            amount_minor: amount_minor.unwrap_or(paid.amount_minor),
            currency: paid.currency.clone(),
            created_s: self.clock.now_ms() / 1_000,
            reason: reason.to_owned(),
            status: "needs_response".to_owned(),
        };
        self.tell_dispute(books, &dispute, &["charge.dispute.created", "charge.dispute.funds_withdrawn"]);
        Some(dispute)
    }

    /// Takes a dispute further: `won` and `lost` close it.
    pub(in crate::paysim) fn move_dispute(&self, id: &str, status: &str) -> Reply {
        let mut books = self.books.lock();
        let Some(dispute) = books.disputes.get(id) else { return no_such("dispute", id) };
        let mut dispute = dispute.clone();
        status.clone_into(&mut dispute.status);
        let kinds: &[&str] = match status {
            "won" => &["charge.dispute.closed", "charge.dispute.funds_reinstated"],
            "lost" => &["charge.dispute.closed"],
            _ => &["charge.dispute.updated"],
        };
        self.tell_dispute(&mut books, &dispute, kinds);
        Reply::ok(dispute.to_json())
    }

    fn tell_dispute(&self, books: &mut Books, dispute: &Dispute, kinds: &[&str]) {
        for kind in kinds {
            let event = self.event(kind, dispute.to_json());
            self.happened(books, event);
        }
        books.append(&self.ledger, &Line::Dispute(dispute.clone()));
        books.disputes.insert(dispute.id.clone(), dispute.clone());
    }
}
