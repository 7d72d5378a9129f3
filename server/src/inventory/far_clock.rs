//! A clock that is elsewhere, known by what answers say of it: Redis' own (`master`), or an event's (`life`). An event has a
//! time of its own, which its scripts keep: it passes as Redis' clock does, and where that jumps it does not. Ends of holds
//! are said in it, so whatever is compared with one, or told beside one, is asked here.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// A step of the clock above this is believed at once; below it the fastest answer so far knows best.
const STEP_MS: i64 = 1_000;

/// What is known of it: how far it is ahead of this node's stopwatch.
#[derive(Debug)]
pub(super) struct FarClock {
    started: Instant,
    /// 0 before it said anything.
    offset_ms: AtomicI64,
}

impl Default for FarClock {
    fn default() -> Self {
        Self { started: Instant::now(), offset_ms: AtomicI64::new(0) }
    }
}

impl FarClock {
    /// What it shows now, in epoch milliseconds; `None` before it said anything.
    pub(super) fn now_ms(&self) -> Option<u64> {
        let offset = self.offset_ms.load(Ordering::Relaxed);
        (offset != 0).then(|| offset.saturating_add(self.elapsed_ms(Instant::now())).max(0).cast_unsigned())
    }

    /// It showed this a moment ago. An answer is late by its way back, so the largest offset is the best, until the clock
    /// steps.
    pub(super) fn learn(&self, shown_ms: u64) {
        self.learn_at(Instant::now(), shown_ms);
    }

    /// The same of an answer that came at `heard`.
    pub(super) fn learn_at(&self, heard: Instant, shown_ms: u64) {
        let offset = shown_ms.cast_signed() - self.elapsed_ms(heard);
        let known = self.offset_ms.load(Ordering::Relaxed);
        if offset > known || offset < known - STEP_MS {
            self.offset_ms.store(offset, Ordering::Relaxed);
        }
    }

    fn elapsed_ms(&self, now: Instant) -> i64 {
        let elapsed = now.saturating_duration_since(self.started);
        elapsed.as_secs().cast_signed() * 1_000 + i64::from(elapsed.subsec_millis())
    }
}
