//! The one place that reads the time. Rooms take a `Clock`, so that tests can move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time in epoch milliseconds, and time that only goes forward; cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<Manual>),
}

#[derive(Debug)]
struct Manual {
    now_ms: AtomicU64,
    /// When it was made, and what it showed then.
    made: (Instant, u64),
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
        Self(Source::Manual(Arc::new(Manual { now_ms: AtomicU64::new(now_ms), made: (Instant::now(), now_ms) })))
    }

    /// Epoch milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            Source::System => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            Source::Manual(manual) => manual.now_ms.load(Ordering::Relaxed),
        }
    }

    /// A moment to measure from: nobody who sets the machine's clock moves it.
    #[must_use]
    pub fn instant(&self) -> Instant {
        match &self.0 {
            Source::System => Instant::now(),
            Source::Manual(manual) => {
                let (made, made_ms) = manual.made;
                made + Duration::from_millis(self.now_ms() - made_ms)
            }
        }
    }

    /// Moves a manual clock; the machine's clock stays as it is.
    pub fn advance_ms(&self, by_ms: u64) {
        if let Source::Manual(manual) = &self.0 {
            manual.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }
}
