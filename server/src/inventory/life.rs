//! Which life (epoch) of an event this node speaks to, and how far it has seen it go. A life is bound to one Redis: when
//! that is gone, or speaks of an earlier state, the life is over and a rebuild begins the next one.

use super::InventoryError;
use super::far_clock::FarClock;
use super::key::Life;
use crate::catalogue::EventFacts;
use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};
use seatwire_proto::id::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Before a node begins another life of an event whose last one it could not open; twice as long after each further one.
const FAILED_PAUSE: Duration = Duration::from_millis(250);
/// The longest of these pauses: then a store that is down costs an epoch every few seconds.
const MAX_FAILED_PAUSE: Duration = Duration::from_secs(4);

/// What this node knows of an event's life.
#[derive(Debug)]
pub(super) struct EventLife {
    now: Mutex<Known>,
    /// The event's time, which goes on from one life to the next.
    pub(super) clock: FarClock,
    /// Whether holds may be open, so that the sweeper looks often.
    pub(super) may_have_holds: AtomicBool,
    /// When this node tried to sweep it last.
    pub(super) swept: Mutex<Option<Instant>>,
    /// When a sweep of this node was answered last: a Redis that slept meanwhile has no wrong clock.
    pub(super) swept_well: Mutex<Option<Instant>>,
    /// What was last brought to Redis of allocations: revision and epoch.
    pub(super) kept: AtomicU64,
    /// A life that was begun here and did not open: when, and how many in a row.
    failed: Mutex<Option<(Instant, u32)>>,
    /// One opening at a time on this node.
    pub(super) opening: tokio::sync::Mutex<()>,
    /// The facts last used, for the sweeper.
    facts: RwLock<Arc<EventFacts>>,
}

/// What a call must say of the life it speaks to.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) epoch: u32,
    /// The highest seen.
    pub(super) seq: u64,
    /// Key of the meta, which names the life to a script.
    pub(super) meta_key: Arc<str>,
}

#[derive(Debug, Default)]
struct Known {
    /// 0: not known, or no longer to be trusted.
    epoch: u32,
    /// Highest seq seen in this epoch.
    seq: u64,
    /// Key of the meta in this epoch.
    meta_key: Arc<str>,
    /// The last epoch that was opened, trusted or not.
    opened: u32,
    /// Of the Redis it was opened in.
    generation: u64,
    /// Epochs up to this one are over.
    lost: u32,
    /// When this epoch answered last.
    answered: Option<Instant>,
    /// When the epoch before this one answered last.
    answered_before: Option<Instant>,
    /// Whether those who were answered in the epoch before have been looked for.
    is_looked_for: bool,
}

impl EventLife {
    /// The life to speak to in this Redis; `None` when the event must be opened first.
    pub(super) fn current(&self, generation: u64) -> Option<Current> {
        let now = self.now.lock();
        let Known { epoch, seq, ref meta_key, .. } = *now;
        (epoch != 0 && now.generation == generation).then(|| Current { epoch, seq, meta_key: Arc::clone(meta_key) })
    }

    /// Epochs up to this one are over.
    pub(super) fn lost_epoch(&self) -> u32 {
        self.now.lock().lost
    }

    /// The event's time, if this node has heard it in this epoch: then it needs nobody else's clock to go on from it.
    pub(super) fn time_of(&self, epoch: u32) -> Option<u64> {
        let is_heard = {
            let now = self.now.lock();
            now.opened == epoch && now.answered.is_some()
        };
        is_heard.then(|| self.clock.now_ms()).flatten()
    }

    /// This epoch is open, in this Redis, and has gone so far.
    pub(super) fn begin(&self, generation: u64, epoch: u32, seq: u64) {
        *self.failed.lock() = None;
        self.may_have_holds.store(true, Ordering::Relaxed);
        let meta_key = Life { event: self.facts.read().id, epoch }.key("m").into();
        let mut now = self.now.lock();
        let is_other = now.opened != epoch;
        *now = Known {
            epoch,
            seq,
            meta_key,
            generation,
            lost: now.lost,
            opened: epoch,
            answered: None,
            answered_before: if is_other { now.answered } else { now.answered_before },
            is_looked_for: !is_other && now.is_looked_for,
        };
    }

    /// Somebody swept it so long ago, as far as is known when it is opened here: what Redis' clock says beyond that is a jump.
    pub(super) fn was_swept(&self, ago: Duration) {
        let mut swept_well = self.swept_well.lock();
        *swept_well = swept_well.or_else(|| Instant::now().checked_sub(ago));
    }

    /// A life was begun here that could not be opened.
    pub(super) fn failed_to_open(&self) {
        let mut failed = self.failed.lock();
        let in_a_row = failed.map_or(0, |(_, n)| n);
        *failed = Some((Instant::now(), in_a_row.saturating_add(1)));
    }

    /// Whether it is time to look at the event again: each life that did not open costs an epoch and a pause.
    ///
    /// # Errors
    /// `Unavailable` during the pause.
    pub(super) fn may_open(&self) -> Result<(), InventoryError> {
        let rests = self.failed.lock().is_some_and(|(at, in_a_row)| at.elapsed() < pause_after(in_a_row));
        if rests { Err(InventoryError::Unavailable("the event is opened again in a moment".into())) } else { Ok(()) }
    }

    /// Notes how far the life has gone, as far as it is still the same.
    pub(super) fn saw(&self, epoch: u32, seq: u64, heard: Instant) {
        let mut now = self.now.lock();
        if now.epoch == epoch {
            now.seq = now.seq.max(seq);
            now.answered = Some(heard);
        }
    }

    /// Once after each change of life: the epoch that is open, and when the one before answered last.
    pub(super) fn outlived(&self) -> Option<(u32, Instant)> {
        let mut now = self.now.lock();
        if now.epoch == 0 || now.is_looked_for {
            return None;
        }
        now.is_looked_for = true;
        now.answered_before.map(|answered| (now.epoch, answered))
    }

    /// This life is over, whatever Redis still has of it. Whoever asks next opens another.
    pub(super) fn end(&self, epoch: u32) {
        let mut now = self.now.lock();
        now.lost = now.lost.max(epoch);
        if now.epoch == epoch {
            now.epoch = 0;
        }
    }

    pub(super) fn facts(&self) -> Arc<EventFacts> {
        Arc::clone(&self.facts.read())
    }
}

fn pause_after(failed_in_a_row: u32) -> Duration {
    let doubled = FAILED_PAUSE.saturating_mul(2_u32.saturating_pow(failed_in_a_row.saturating_sub(1)));
    doubled.min(MAX_FAILED_PAUSE)
}

/// Every event this node has touched.
#[derive(Debug, Default)]
pub(super) struct Lives(DashMap<EventId, Arc<EventLife>>);

impl Lives {
    pub(super) fn of(&self, event: &Arc<EventFacts>) -> Arc<EventLife> {
        if let Some(life) = self.0.get(&event.id) {
            let is_older = life.facts.read().rank() < event.rank();
            if is_older {
                *life.facts.write() = Arc::clone(event);
            }
            return Arc::clone(&life);
        }
        let life = EventLife {
            now: Mutex::default(),
            clock: FarClock::default(),
            may_have_holds: AtomicBool::new(true),
            swept: Mutex::default(),
            swept_well: Mutex::default(),
            kept: AtomicU64::new(0),
            failed: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            facts: RwLock::new(Arc::clone(event)),
        };
        Arc::clone(&self.0.entry(event.id).or_insert_with(|| Arc::new(life)))
    }

    /// The event's time; `None` while this node knows nothing of it.
    pub(super) fn time_of(&self, event: EventId) -> Option<u64> {
        self.0.get(&event)?.clock.now_ms()
    }

    pub(super) fn all(&self) -> Vec<Arc<EventLife>> {
        self.0.iter().map(|entry| Arc::clone(entry.value())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_did_not_open_is_followed_by_a_pause_that_grows_and_ends_with_success() {
        let lives = Lives::default();
        let life = lives.of(&Arc::new(EventFacts::on_sale(Vec::new(), Vec::new())));
        assert!(life.may_open().is_ok());
        life.failed_to_open();
        assert!(life.may_open().is_err(), "at once would cost another epoch");
        let pause = |failed: &EventLife| {
            let (at, in_a_row) = failed.failed.lock().expect("failed");
            *failed.failed.lock() = Some((at - pause_after(in_a_row), in_a_row));
            pause_after(in_a_row)
        };
        let mut pauses = vec![pause(&life)];
        for _ in 0..6 {
            assert!(life.may_open().is_ok(), "the pause is over");
            life.failed_to_open();
            assert!(life.may_open().is_err());
            pauses.push(pause(&life));
        }
        assert!(pauses.is_sorted() && pauses[0] == FAILED_PAUSE && pauses[6] == MAX_FAILED_PAUSE, "{pauses:?}");
        life.failed_to_open();
        life.begin(1, 2, 0);
        assert!(life.may_open().is_ok());
    }
}
