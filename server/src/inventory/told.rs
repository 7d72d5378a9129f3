//! What this node told buyers of their holds a moment ago. The journal is a moment behind Redis, so a hold may be lost that
//! its owner has been told of; only the node that told it knows. `call` comes in with each answer, `job/tell_restored` asks
//! after a rebuild. A hint: what matters is read again.

use super::HoldRecord;
use super::life::Lives;
use parking_lot::Mutex;
use seatwire_proto::client::Position;
use seatwire_proto::id::{EventId, IdentityId};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Longer than a journal that has a writer is behind, and than the silence after which it gets another.
const KEEP: Duration = Duration::from_secs(8);
/// Answers kept, about 20 MB at ten seats each; of more the oldest go, whose holds the journal has long written: at ten
/// thousand answers a second these are four seconds.
const MAX_TOLD: usize = 40_000;
/// Answers that are too old, let go of with each new one.
const MAX_LET_GO: usize = 2;

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
    event: EventId,
    identity: IdentityId,
    position: Position,
    /// `None` for one that is gone, or that has an order: nobody's to miss.
    hold: Option<HoldRecord>,
}

/// The answers of the last seconds in the order in which they were given. Only added to while all is well; sorted out when
/// a life was followed by another.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<VecDeque<Entry>>);

impl Told {
    /// Notes an answer: the hold as it is now.
    pub(super) fn note(&self, event: EventId, identity: IdentityId, position: Position, hold: Option<&HoldRecord>) {
        let hold = hold.filter(|hold| hold.locked_by.is_none()).cloned();
        let at = Instant::now();
        let mut entries = self.0.lock();
        for _ in 0..MAX_LET_GO {
            let goes = |oldest: &Entry| entries.len() >= MAX_TOLD || at.saturating_duration_since(oldest.at) >= KEEP;
            if !entries.front().is_some_and(goes) {
                break;
            }
            entries.pop_front();
        }
        entries.push_back(Entry { at, event, identity, position, hold });
    }

    /// Takes out what was told shortly before the end of lives that were followed by others since the last look; `None` when
    /// none was.
    pub(super) fn take_outlived(&self, lives: &Lives) -> Option<Vec<ToldHold>> {
        let mut found: Option<Vec<ToldHold>> = None;
        for life in lives.all() {
            let Some((epoch, ended)) = life.outlived() else { continue };
            let event = life.facts().id;
            let mut entries = self.0.lock();
            let (of_life, others) = std::mem::take(&mut *entries)
                .into_iter()
                .partition(|entry| entry.event == event && entry.position.epoch < epoch);
            *entries = others;
            drop(entries);
            let newest = newest_of_each(of_life).into_values();
            let recent = newest.filter(|(at, _)| ended.saturating_duration_since(*at) < KEEP);
            found.get_or_insert_default().extend(recent.filter_map(|(_, told)| told));
        }
        found
    }
}

/// The newest answer to each identity. Said again it stands where it was said first: nothing was written for the repetition.
fn newest_of_each(entries: VecDeque<Entry>) -> HashMap<IdentityId, (Instant, Option<ToldHold>)> {
    let mut newest: HashMap<IdentityId, (Instant, Option<ToldHold>)> = HashMap::with_capacity(entries.len());
    for Entry { at, identity, position, hold, .. } in entries {
        let told = hold.map(|hold| ToldHold { position, hold });
        let (known_at, known) = newest.entry(identity).or_insert((at, None));
        *known_at = at;
        let is_repeated = known
            .as_ref()
            .zip(told.as_ref())
            .is_some_and(|(known, told)| known.hold == told.hold && known.position.epoch == told.position.epoch);
        if !is_repeated {
            *known = told;
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::id::{HoldId, OrderId};

    fn hold(event: EventId, identity: IdentityId) -> HoldRecord {
        HoldRecord {
            id: HoldId::from_uuid(event.uuid()),
            identity,
            expires_ms: 1,
            is_extended: false,
            locked_by: None,
            is_offer: false,
            lines: Vec::new(),
        }
    }

    fn newest(told: &Told) -> HashMap<IdentityId, (Instant, Option<ToldHold>)> {
        newest_of_each(std::mem::take(&mut *told.0.lock()))
    }

    #[test]
    fn of_too_many_answers_the_oldest_go() {
        let told = Told::default();
        let (event, first) = (EventId::generate(), IdentityId::generate());
        let at = Position { epoch: 1, seq: 1 };
        told.note(event, first, at, Some(&hold(event, first)));
        let other = IdentityId::generate();
        for _ in 1..MAX_TOLD {
            told.note(event, other, at, None);
        }
        let oldest = || {
            let entries = told.0.lock();
            (entries.len(), entries[0].identity)
        };
        assert_eq!(oldest(), (MAX_TOLD, first));
        told.note(event, other, at, None);
        assert_eq!(oldest(), (MAX_TOLD, other));
    }

    #[test]
    fn a_hold_that_is_given_back_or_being_paid_is_nobody_s_to_miss() {
        let told = Told::default();
        let event = EventId::generate();
        let at = Position { epoch: 1, seq: 1 };
        let [kept, given_back, paid] = [(); 3].map(|()| IdentityId::generate());
        for identity in [kept, given_back, paid] {
            told.note(event, identity, at, Some(&hold(event, identity)));
        }
        told.note(event, given_back, at, None);
        let locked = HoldRecord { locked_by: Some(OrderId::generate()), ..hold(event, paid) };
        told.note(event, paid, at, Some(&locked));
        let newest = newest(&told);
        assert_eq!(newest[&kept].1.as_ref().map(|told| &told.hold), Some(&hold(event, kept)));
        assert_eq!((&newest[&given_back].1, &newest[&paid].1), (&None, &None));
    }

    #[test]
    fn what_is_said_again_stands_where_it_was_said_first() {
        let told = Told::default();
        let (event, identity) = (EventId::generate(), IdentityId::generate());
        let first = hold(event, identity);
        let extended = HoldRecord { is_extended: true, ..first.clone() };
        let said = [(1, 5, &first), (1, 9, &first), (1, 11, &extended), (1, 12, &extended), (2, 3, &extended)];
        let stands = |n: usize| {
            let told = Told::default();
            for (epoch, seq, hold) in &said[..n] {
                told.note(event, identity, Position { epoch: *epoch, seq: *seq }, Some(hold));
            }
            newest(&told)[&identity].1.as_ref().map(|told| told.position.seq)
        };
        assert_eq!([1, 2, 3, 4, 5].map(stands), [5, 5, 11, 11, 3].map(Some), "the last is of another life");
        told.note(event, identity, Position { epoch: 1, seq: 1 }, None);
        told.note(event, identity, Position { epoch: 1, seq: 2 }, Some(&first));
        assert_eq!(newest(&told)[&identity].1.as_ref().map(|told| told.position.seq), Some(2));
    }
}
