//! The sessions of one identity on this node, and how far they know its holds and orders. Pushes about them come from several
//! nodes by several ways; the last one that a page hears must be the truth, so one that is overtaken is not told any more.

use super::{Change, Recipient};
use bytes::Bytes;
use seatwire_proto::client::Position;
use seatwire_proto::id::{HoldId, OrderId, SessionId};
use std::sync::Arc;

/// Holds of an identity whose last change is remembered: one an event is open at a time. The longest known gives way; the
/// next push about it is told whatever it says.
const MAX_KNOWN_HOLDS: usize = 8;
/// Orders of an identity that are remembered so: more than anybody has under way at once.
const MAX_KNOWN_ORDERS: usize = 16;

/// How far an order is known.
#[derive(Debug, Clone, Copy)]
struct KnownOrder {
    order: OrderId,
    at: u64,
    is_final: bool,
}

/// How far a hold is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownHold {
    Open(Position),
    /// Since when, if that is known.
    Over(Option<Position>),
}

#[derive(Default)]
pub(super) struct Listeners {
    /// The oldest first.
    pub(super) recipients: Vec<Arc<dyn Recipient>>,
    /// The last change told of each hold.
    holds: Vec<(HoldId, KnownHold)>,
    orders: Vec<KnownOrder>,
}

impl Listeners {
    fn known(&self, hold: HoldId) -> Option<KnownHold> {
        self.holds.iter().find(|(known, _)| *known == hold).map(|(_, known)| *known)
    }

    /// Whether nothing later is known of what changed.
    fn is_news(&self, change: &Change) -> bool {
        match *change {
            Change::Hold { hold, at } => match self.known(hold) {
                Some(KnownHold::Open(known)) => (at.epoch, at.seq) >= (known.epoch, known.seq),
                // That it ended was lost with Redis, and it lives on.
                Some(KnownHold::Over(Some(end))) => at.epoch > end.epoch,
                Some(KnownHold::Over(None)) => false,
                None => true,
            },
            // Its owner gave it back, or was told of the loss already.
            Change::HoldLoss { hold } => !matches!(self.known(hold), Some(KnownHold::Over(_))),
            // The end is told whenever it comes, but in a life behind which the hold goes on.
            Change::HoldEnd { hold, at } => match (self.known(hold), at) {
                (Some(KnownHold::Open(known)), Some(at)) => known.epoch <= at.epoch,
                _ => true,
            },
            // Told again after a failure it has the same number, and may say more.
            Change::Order { order, at, is_final } => match self.orders.iter().find(|known| known.order == order) {
                Some(known) => at >= known.at && (is_final || !known.is_final),
                None => true,
            },
        }
    }

    /// Remembers that an order was shown in a state behind which it never waits for its payment again.
    pub(super) fn note_final(&mut self, order: OrderId) {
        let at = self.orders.iter().find(|known| known.order == order).map_or(0, |known| known.at);
        self.note(&Change::Order { order, at, is_final: true });
    }

    fn note(&mut self, change: &Change) {
        let (hold, known) = match *change {
            Change::Hold { hold, at } => (hold, KnownHold::Open(at)),
            Change::HoldEnd { hold, at } => (hold, KnownHold::Over(at)),
            // What is left of it follows.
            Change::HoldLoss { .. } => return,
            Change::Order { order, at, is_final } => {
                self.orders.retain(|known| known.order != order);
                if self.orders.len() >= MAX_KNOWN_ORDERS {
                    self.orders.remove(0);
                }
                self.orders.push(KnownOrder { order, at, is_final });
                return;
            }
        };
        self.holds.retain(|(of, _)| *of != hold);
        if self.holds.len() >= MAX_KNOWN_HOLDS {
            self.holds.remove(0);
        }
        self.holds.push((hold, known));
    }

    /// Tells all sessions but one, unless it is no news; whether it was.
    pub(super) fn tell(&mut self, change: Option<&Change>, but: Option<SessionId>, frame: &Bytes) -> bool {
        if let Some(change) = change {
            if !self.is_news(change) {
                return false;
            }
            self.note(change);
        }
        for recipient in &self.recipients {
            if but.is_none_or(|session| recipient.session_id() != session) {
                recipient.tell(frame);
            }
        }
        true
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
        let mut tell = |hold, at: Option<Position>, text: &'static str| {
            let change = at.map_or(Change::HoldEnd { hold, at: None }, |at| Change::Hold { hold, at });
            listeners.tell(Some(&change), None, &Bytes::from_static(text.as_bytes()));
        };
        tell(hold, at(1, 5), "5");
        tell(hold, at(1, 4), "4, overtaken");
        tell(other, at(1, 3), "another hold's");
        tell(hold, at(1, 5), "5 again: extended");
        tell(hold, at(2, 1), "a new life");
        tell(hold, None, "over");
        tell(hold, at(2, 9), "after the end");
        tell(hold, None, "over, said twice");
        for (hold, text) in [(hold, "lost, but it was over"), (other, "lost"), (other, "and more of it")] {
            listeners.tell(Some(&Change::HoldLoss { hold }), None, &Bytes::from_static(text.as_bytes()));
        }
        let told: Vec<Bytes> = page.1.lock().clone();
        let (before, after) = told.split_at(6);
        assert_eq!(before, ["5", "another hold's", "5 again: extended", "a new life", "over", "over, said twice"]);
        assert_eq!(after, ["lost", "and more of it"]);
    }

    #[test]
    fn a_hold_whose_end_was_lost_with_redis_goes_on_and_may_be_lost_or_end_again() {
        let page = Arc::new(Page(SessionId::generate(), Mutex::default()));
        let mut listeners =
            Listeners { recipients: vec![Arc::clone(&page) as Arc<dyn Recipient>], ..Listeners::default() };
        let hold = HoldId::generate();
        let at = |epoch, seq| Position { epoch, seq };
        let (ended, again) = (Change::HoldEnd { hold, at: Some(at(1, 7)) }, Change::Hold { hold, at: at(1, 9) });
        let (back, changed) = (Change::Hold { hold, at: at(2, 0) }, Change::Hold { hold, at: at(2, 4) });
        let (loss, over) = (Change::HoldLoss { hold }, Change::HoldEnd { hold, at: Some(at(3, 0)) });
        let said = [
            (ended, true),
            (again, false),
            (loss, false),
            (back, true),
            (ended, false),
            (changed, true),
            (loss, true),
            (over, true),
            (changed, false),
        ];
        for (number, (change, is_news)) in said.into_iter().enumerate() {
            assert_eq!(listeners.tell(Some(&change), None, &Bytes::new()), is_news, "{number}: {change:?}");
        }
        assert_eq!(page.1.lock().len(), said.iter().filter(|(_, is_news)| *is_news).count());
    }

    #[test]
    fn the_session_that_gets_it_with_its_reply_is_left_out_and_few_holds_are_remembered() {
        let page = Arc::new(Page(SessionId::generate(), Mutex::default()));
        let mut listeners =
            Listeners { recipients: vec![Arc::clone(&page) as Arc<dyn Recipient>], ..Listeners::default() };
        let hold = HoldId::generate();
        let first = Change::Hold { hold, at: Position { epoch: 1, seq: 9 } };
        listeners.tell(Some(&first), Some(page.0), &Bytes::new());
        assert!(page.1.lock().is_empty());
        let older = Change::Hold { hold, at: Position { epoch: 1, seq: 8 } };
        assert!(!listeners.is_news(&older));
        for _ in 0..MAX_KNOWN_HOLDS {
            listeners.tell(Some(&Change::HoldEnd { hold: HoldId::generate(), at: None }), None, &Bytes::new());
        }
        assert_eq!(listeners.holds.len(), MAX_KNOWN_HOLDS);
        assert!(listeners.is_news(&older), "forgotten");
    }

    #[test]
    fn an_order_never_stands_as_it_stood_before() {
        let page = Arc::new(Page(SessionId::generate(), Mutex::default()));
        let mut listeners =
            Listeners { recipients: vec![Arc::clone(&page) as Arc<dyn Recipient>], ..Listeners::default() };
        let (order, shown) = (OrderId::generate(), OrderId::generate());
        let tell = |listeners: &mut Listeners, order, at, is_final, text: &'static str| {
            listeners.tell(Some(&Change::Order { order, at, is_final }), None, &Bytes::from_static(text.as_bytes()));
        };
        tell(&mut listeners, order, 7, false, "unknown");
        tell(&mut listeners, order, 5, false, "pending, overtaken");
        tell(&mut listeners, order, 7, true, "paid, told again");
        tell(&mut listeners, order, 8, false, "pending: what is final stays so");
        tell(&mut listeners, order, 9, true, "refund due");
        tell(&mut listeners, order, 8, true, "paid, overtaken");
        tell(&mut listeners, shown, 3, false, "pending");
        listeners.note_final(shown);
        tell(&mut listeners, shown, 4, false, "unknown, after a reply said paid");
        tell(&mut listeners, shown, 5, true, "paid");
        let told: Vec<Bytes> = page.1.lock().clone();
        assert_eq!(told, ["unknown", "paid, told again", "refund due", "pending", "paid"]);
        for _ in 0..MAX_KNOWN_ORDERS {
            tell(&mut listeners, OrderId::generate(), 1, true, "");
        }
        assert_eq!(listeners.orders.len(), MAX_KNOWN_ORDERS);
    }
}
