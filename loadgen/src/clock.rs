//! One time for all processes of a run: microseconds since the run began, the same in every worker of the machine.
//! Each process pairs the wall clock with its own monotonic clock once, at its start; afterwards only the monotonic one counts.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pairs tried; the one with the shortest gap between its two monotonic readings is kept.
const PAIRING_TRIES: u32 = 64;

/// Microseconds since the run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClock {
    anchor: Instant,
    anchor_us: u64,
}

/// Wall-clock microseconds since 1970.
pub(crate) fn wall_us() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the load generator's clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

impl RunClock {
    /// A clock that shows the time since `base_us`, wall-clock microseconds at which the run began.
    pub(crate) fn since(base_us: u64) -> Self {
        let (_, anchor, wall) = (0..PAIRING_TRIES)
            .map(|_| {
                let before = Instant::now();
                let wall = wall_us();
                let gap = before.elapsed();
                (gap, before + gap / 2, wall)
            })
            .min_by_key(|(gap, _, _)| *gap)
            .expect("there is at least one try");
        Self { anchor, anchor_us: wall.saturating_sub(base_us) }
    }

    /// Now.
    pub(crate) fn now_us(&self) -> u64 {
        self.anchor_us + self.anchor.elapsed().as_micros() as u64
    }

    /// The tokio instant of a time of the run.
    pub(crate) fn instant(&self, at_us: u64) -> tokio::time::Instant {
        let at = if at_us >= self.anchor_us {
            self.anchor + Duration::from_micros(at_us - self.anchor_us)
        } else {
            self.anchor
        };
        at.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clocks_of_one_run_agree() {
        let base_us = wall_us();
        let a = RunClock::since(base_us);
        let b = RunClock::since(base_us);
        let (first, second, third) = (a.now_us(), b.now_us(), a.now_us());
        assert!(first.saturating_sub(500) <= second && second <= third + 500, "{first} {second} {third}");
    }
}
