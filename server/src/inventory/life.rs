//! Which life (epoch) of an event this node speaks to, and how far it has seen it go. A life is bound to one Redis: when
//! that is gone, or speaks of an earlier state, the life is over and a rebuild begins the next one.

use crate::catalogue::EventFacts;
use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};
use seatwire_proto::id::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What this node knows of an event's life.
#[derive(Debug)]
pub(super) struct EventLife {
    now: Mutex<Known>,
    /// Whether holds may be open, so that the sweeper looks often.
    pub(super) may_have_holds: AtomicBool,
    /// When this node tried to sweep it last.
    pub(super) swept: Mutex<Option<Instant>>,
    /// When a sweep of this node was answered last: a Redis that slept meanwhile has no wrong clock.
    pub(super) swept_well: Mutex<Option<Instant>>,
    /// What was last brought to Redis of allocations: revision and epoch.
    pub(super) kept: AtomicU64,
    /// One opening at a time on this node.
    pub(super) opening: tokio::sync::Mutex<()>,
    /// The facts last used, for the sweeper.
    facts: RwLock<Arc<EventFacts>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// 0: not known, or no longer to be trusted.
    epoch: u32,
    /// Highest seq seen in this epoch.
    seq: u64,
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
    /// The epoch to speak to in this Redis and the seq it has reached; `None` when the event must be opened first.
    pub(super) fn current(&self, generation: u64) -> Option<(u32, u64)> {
        let now = *self.now.lock();
        (now.epoch != 0 && now.generation == generation).then_some((now.epoch, now.seq))
    }

    /// Epochs up to this one are over.
    pub(super) fn lost_epoch(&self) -> u32 {
        self.now.lock().lost
    }

    /// This epoch is open, in this Redis, and has gone so far.
    pub(super) fn begin(&self, generation: u64, epoch: u32, seq: u64) {
        self.may_have_holds.store(true, Ordering::Relaxed);
        let mut now = self.now.lock();
        let is_other = now.opened != epoch;
        *now = Known {
            epoch,
            seq,
            generation,
            lost: now.lost,
            opened: epoch,
            answered: None,
            answered_before: if is_other { now.answered } else { now.answered_before },
            is_looked_for: !is_other && now.is_looked_for,
        };
    }

    /// Notes how far the life has gone, as far as it is still the same.
    pub(super) fn saw(&self, epoch: u32, seq: u64) {
        let mut now = self.now.lock();
        if now.epoch == epoch {
            now.seq = now.seq.max(seq);
            now.answered = Some(Instant::now());
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
            may_have_holds: AtomicBool::new(true),
            swept: Mutex::default(),
            swept_well: Mutex::default(),
            kept: AtomicU64::new(0),
            opening: tokio::sync::Mutex::new(()),
            facts: RwLock::new(Arc::clone(event)),
        };
        Arc::clone(&self.0.entry(event.id).or_insert_with(|| Arc::new(life)))
    }

    pub(super) fn all(&self) -> Vec<Arc<EventLife>> {
        self.0.iter().map(|entry| Arc::clone(entry.value())).collect()
    }
}
