//! How often this node asks the provider on its own account: one budget for all looks, so that neither an outage nor the
//! refunds of a cancelled event take the provider's limit from those who are paying. Pure: the caller brings the time.

use std::time::Instant;

/// Looks a second: what a provider allows on one endpoint.
const LOOKS_PER_S: f64 = 25.0;
/// Looks saved up while there is nothing to do: one second's.
const MAX_SAVED: f64 = 25.0;

/// What is left of the budget.
#[derive(Debug)]
pub(super) struct Pace {
    left: f64,
    at: Instant,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: MAX_SAVED, at: now }
    }

    /// How many of `wanted` looks may be made now; they are taken off.
    pub(super) fn take(&mut self, wanted: usize, now: Instant) -> usize {
        self.left = (self.left + now.saturating_duration_since(self.at).as_secs_f64() * LOOKS_PER_S).min(MAX_SAVED);
        self.at = now;
        let taken = wanted.min(self.left as usize);
        self.left -= taken as f64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_second_has_its_looks_and_no_more_however_often_it_is_asked() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!((pace.take(10, start), pace.take(200, start), pace.take(1, start)), (10, 15, 0));
        let taken: usize = (1..=100).map(|n| pace.take(200, start + Duration::from_millis(10 * n))).sum();
        assert!((24..=25).contains(&taken), "{taken}");
        assert_eq!(pace.take(200, start + Duration::from_secs(3_600)), 25, "nothing is saved beyond a second");
    }
}
