//! The one place that reads the time. Rooms take a `Clock`, so that tests can move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time in epoch milliseconds; cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that moves only when told to.
    #[must_use]
    pub fn manual(now_ms: u64) -> Self {
        Self(Source::Manual(Arc::new(AtomicU64::new(now_ms))))
    }

    /// Epoch milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            Source::System => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            Source::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }

    /// Moves a manual clock; the machine's clock stays as it is.
    pub fn advance_ms(&self, by_ms: u64) {
        if let Source::Manual(now_ms) = &self.0 {
            now_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }
}
