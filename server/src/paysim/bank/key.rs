//! The simulator's idempotency: a key stands for one call, and its first answer is given again.

use super::{Bank, Line};
use crate::paysim::reply::Reply;
use serde_json::Value;

#[derive(Debug)]
pub(super) enum KeyState {
    Running { fingerprint: String },
    Done { fingerprint: String, status: u16, body: Value },
}

/// What an idempotency key says of a call.
#[derive(Debug, PartialEq)]
pub(in crate::paysim) enum KeyCheck {
    /// Never seen: run it.
    Fresh,
    /// Run before: this was the answer.
    Replay(u16, Value),
    /// Still running.
    InUse,
    /// Used for another call.
    Mismatch,
}

impl Bank {
    /// Claims an idempotency key for a call.
    pub(in crate::paysim) fn claim_key(&self, key: &str, fingerprint: &str) -> KeyCheck {
        let mut books = self.books.lock();
        match books.keys.get(key) {
            None => {
                books.keys.insert(key.to_owned(), KeyState::Running { fingerprint: fingerprint.to_owned() });
                KeyCheck::Fresh
            }
            Some(KeyState::Running { fingerprint: other } | KeyState::Done { fingerprint: other, .. })
                if other != fingerprint =>
            {
                KeyCheck::Mismatch
            }
            Some(KeyState::Running { .. }) => KeyCheck::InUse,
            Some(KeyState::Done { status, body, .. }) => KeyCheck::Replay(*status, body.clone()),
        }
    }

    /// Remembers the answer of a claimed key.
    pub(in crate::paysim) fn finish_key(&self, key: &str, reply: &Reply) {
        let mut books = self.books.lock();
        let Some(KeyState::Running { fingerprint }) = books.keys.remove(key) else { return };
        let (status, body) = (reply.status, reply.body.clone());
        books.append(&self.ledger, &Line::Key { key: key.to_owned(), fingerprint: fingerprint.clone(), status, body });
        books.keys.insert(key.to_owned(), KeyState::Done { fingerprint, status, body: reply.body.clone() });
    }

    /// Gives a claimed key up: the call did not run.
    pub(in crate::paysim) fn forget_key(&self, key: &str) {
        let mut books = self.books.lock();
        if matches!(books.keys.get(key), Some(KeyState::Running { .. })) {
            books.keys.remove(key);
        }
    }
}
