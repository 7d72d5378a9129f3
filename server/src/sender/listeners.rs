//! The sessions of one identity on this node, and how far they know its holds. Pushes about a hold come from several nodes by
//! several ways; the last one that a page hears must be the truth, so one that is overtaken is not told any more.

use super::{Change, Recipient};
use bytes::Bytes;
use seatwire_proto::client::Position;
use seatwire_proto::id::{HoldId, SessionId};
use std::sync::Arc;

/// Holds of an identity whose last change is remembered: one an event is open at a time. The longest known gives way; the
/// next push about it is told whatever it says.
const MAX_KNOWN_HOLDS: usize = 8;

#[derive(Default)]
pub(super) struct Listeners {
    /// The oldest first.
    pub(super) recipients: Vec<Arc<dyn Recipient>>,
    /// The last change told of each hold; `None` = it is over.
    known: Vec<(HoldId, Option<Position>)>,
}

impl Listeners {
    /// Whether nothing later is known of the hold.
    pub(super) fn is_news(&self, change: &Change) -> bool {
        let known = self.known.iter().find(|(hold, _)| *hold == change.hold).map(|(_, at)| at);
        match (change.at, known) {
            (Some(_), Some(None)) => false,
            (Some(at), Some(Some(known))) => (at.epoch, at.seq) >= (known.epoch, known.seq),
            // The end is told whenever it comes, and what nothing is known of.
            (None, _) | (Some(_), None) => true,
        }
    }

    /// Tells all sessions but one, unless it is no news.
    pub(super) fn tell(&mut self, change: Option<&Change>, but: Option<SessionId>, frame: &Bytes) {
        if let Some(change) = change {
            if !self.is_news(change) {
                return;
            }
            self.known.retain(|(hold, _)| *hold != change.hold);
            if self.known.len() >= MAX_KNOWN_HOLDS {
                self.known.remove(0);
            }
            self.known.push((change.hold, change.at));
        }
        for recipient in &self.recipients {
            if but.is_none_or(|session| recipient.session_id() != session) {
                recipient.tell(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use seatwire_proto::code::CloseCode;

    struct Page(SessionId, Mutex<Vec<Bytes>>);

    impl Recipient for Page {
        fn session_id(&self) -> SessionId {
            self.0
        }
        fn tell(&self, text: &Bytes) {
            self.1.lock().push(text.clone());
        }
        fn dismiss(&self, _: CloseCode) {}
    }

    #[test]
    fn what_was_overtaken_is_not_told_and_the_end_is_the_end() {
        let page = Arc::new(Page(SessionId::generate(), Mutex::default()));
        let mut listeners =
            Listeners { recipients: vec![Arc::clone(&page) as Arc<dyn Recipient>], ..Listeners::default() };
        let (hold, other) = (HoldId::generate(), HoldId::generate());
        let at = |epoch, seq| Some(Position { epoch, seq });
        let mut tell = |hold, at, text: &'static str| {
            listeners.tell(Some(&Change { hold, at }), None, &Bytes::from_static(text.as_bytes()));
        };
        tell(hold, at(1, 5), "5");
        tell(hold, at(1, 4), "4, overtaken");
        tell(other, at(1, 3), "another hold's");
        tell(hold, at(1, 5), "5 again: extended");
        tell(hold, at(2, 1), "a new life");
        tell(hold, None, "over");
        tell(hold, at(2, 9), "after the end");
        tell(hold, None, "over, said twice");
        let told: Vec<Bytes> = page.1.lock().clone();
        assert_eq!(told, ["5", "another hold's", "5 again: extended", "a new life", "over", "over, said twice"]);
    }

    #[test]
    fn the_session_that_gets_it_with_its_reply_is_left_out_and_few_holds_are_remembered() {
        let page = Arc::new(Page(SessionId::generate(), Mutex::default()));
        let mut listeners =
            Listeners { recipients: vec![Arc::clone(&page) as Arc<dyn Recipient>], ..Listeners::default() };
        let first = Change { hold: HoldId::generate(), at: Some(Position { epoch: 1, seq: 9 }) };
        listeners.tell(Some(&first), Some(page.0), &Bytes::new());
        assert!(page.1.lock().is_empty());
        let older = Change { at: Some(Position { epoch: 1, seq: 8 }), ..first };
        assert!(!listeners.is_news(&older));
        for _ in 0..MAX_KNOWN_HOLDS {
            listeners.tell(Some(&Change { hold: HoldId::generate(), at: None }), None, &Bytes::new());
        }
        assert_eq!(listeners.known.len(), MAX_KNOWN_HOLDS);
        assert!(listeners.is_news(&older), "forgotten");
    }
}
