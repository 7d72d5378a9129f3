//! What this node told buyers of their holds a moment ago. The journal is a moment behind Redis, so a hold may be lost that
//! its owner has been told of; only the node that told it knows. `call` comes in with each answer, `job/tell_restored` asks
//! after a rebuild. A hint: what matters is read again.

use super::HoldRecord;
use super::life::Lives;
use parking_lot::Mutex;
use seatwire_proto::client::Position;
use seatwire_proto::id::{EventId, IdentityId};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longer than a journal that has a writer is behind, and than the silence after which it gets another.
const KEEP: Duration = Duration::from_secs(8);
/// Answers kept, about 10 MB at ten seats each; beyond, owners learn of a loss at their next hello.
const MAX_TOLD: usize = 20_000;
/// Between two clearances of a full list.
const CLEAR_EVERY: Duration = Duration::from_millis(250);

/// A hold as this node told it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldHold {
    /// Where the event stood when this was said first.
    pub position: Position,
    /// The hold.
    pub hold: HoldRecord,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    told: ToldHold,
}

/// The newest answer to each identity about its hold.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    of: HashMap<(EventId, IdentityId), Entry>,
    cleared: Option<Instant>,
}

impl Told {
    /// Notes an answer: the hold as it is now. One that is gone, or that has an order, is nobody's to miss.
    /// Said again it stands where it was said first: nothing was written for the repetition.
    pub(super) fn note(&self, event: EventId, identity: IdentityId, position: Position, hold: Option<&HoldRecord>) {
        let at = Instant::now();
        let mut entries = self.0.lock();
        let Some(hold) = hold.filter(|hold| hold.locked_by.is_none()) else {
            entries.of.remove(&(event, identity));
            return;
        };
        if let Some(entry) = entries.of.get_mut(&(event, identity))
            && entry.told.hold == *hold
            && entry.told.position.epoch == position.epoch
        {
            entry.at = at;
            return;
        }
        if entries.of.len() >= MAX_TOLD && !entries.of.contains_key(&(event, identity)) {
            if entries.cleared.is_none_or(|cleared| at.duration_since(cleared) >= CLEAR_EVERY) {
                entries.cleared = Some(at);
                entries.of.retain(|_, entry| at.duration_since(entry.at) < KEEP);
            }
            if entries.of.len() >= MAX_TOLD {
                return;
            }
        }
        entries.of.insert((event, identity), Entry { at, told: ToldHold { position, hold: hold.clone() } });
    }

    /// Takes out what was told shortly before the end of lives that were followed by others since the last look.
    pub(super) fn take_outlived(&self, lives: &Lives) -> Vec<ToldHold> {
        let mut found = Vec::new();
        for life in lives.all() {
            let Some((epoch, ended)) = life.outlived() else { continue };
            let event = life.facts().id;
            let of_life =
                |(of, _): &(EventId, IdentityId), entry: &mut Entry| *of == event && entry.told.position.epoch < epoch;
            let mut entries = self.0.lock();
            let told = entries.of.extract_if(of_life);
            let recent = told.filter(|(_, entry)| ended.saturating_duration_since(entry.at) < KEEP);
            found.extend(recent.map(|(_, entry)| entry.told));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::id::HoldId;

    #[test]
    fn the_list_is_bounded_and_a_hold_that_is_given_back_or_being_paid_is_not_in_it() {
        let told = Told::default();
        let event = EventId::generate();
        let hold = HoldRecord {
            id: HoldId::from_uuid(event.uuid()),
            identity: IdentityId::generate(),
            expires_ms: 1,
            is_extended: false,
            locked_by: None,
            is_offer: false,
            lines: Vec::new(),
        };
        let at = Position { epoch: 1, seq: 1 };
        for _ in 0..MAX_TOLD + 10 {
            told.note(event, IdentityId::generate(), at, Some(&hold));
        }
        let len = || told.0.lock().of.len();
        assert_eq!(len(), MAX_TOLD);
        let known = *told.0.lock().of.keys().next().expect("full");
        told.note(event, known.1, at, None);
        assert_eq!(len(), MAX_TOLD - 1);
        told.note(event, known.1, at, Some(&hold));
        let locked = HoldRecord { locked_by: Some(seatwire_proto::id::OrderId::generate()), ..hold };
        told.note(event, known.1, at, Some(&locked));
        assert_eq!(len(), MAX_TOLD - 1);
    }
    #[test]
    fn what_is_said_again_stands_where_it_was_said_first() {
        let told = Told::default();
        let (event, identity) = (EventId::generate(), IdentityId::generate());
        let mut hold = HoldRecord {
            id: HoldId::from_uuid(event.uuid()),
            identity,
            expires_ms: 1,
            is_extended: false,
            locked_by: None,
            is_offer: false,
            lines: Vec::new(),
        };
        let seq = || told.0.lock().of[&(event, identity)].told.position.seq;
        for seq in [5, 9] {
            told.note(event, identity, Position { epoch: 1, seq }, Some(&hold));
        }
        assert_eq!(seq(), 5);
        hold.is_extended = true;
        told.note(event, identity, Position { epoch: 1, seq: 11 }, Some(&hold));
        assert_eq!(seq(), 11);
        told.note(event, identity, Position { epoch: 2, seq: 3 }, Some(&hold));
        assert_eq!(seq(), 3, "another life");
    }
}
