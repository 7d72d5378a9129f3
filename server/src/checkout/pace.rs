//! How often this node asks the provider on its own account: one budget for all looks, so that neither an outage nor the
//! refunds of a cancelled event take the provider's limit from those who are paying. Pure: the caller brings the time.

use std::time::{Duration, Instant};

/// Looks a second: what a provider allows on one endpoint.
const LOOKS_PER_S: f64 = 25.0;
/// Looks a second once the provider is back from an outage: thousands of orders want to know, and hardly anybody pays yet.
/// Still below what a provider allows in all; when it says that it is busy, a round ends all the same.
const LIFTED_PER_S: f64 = 75.0;
/// For so long: thousands of looks.
const LIFTED_FOR: Duration = Duration::from_secs(60);
/// Looks saved up while there is nothing to do: one second's.
const MAX_SAVED: f64 = 25.0;

/// What is left of the budget.
#[derive(Debug)]
pub(super) struct Pace {
    left: f64,
    at: Instant,
    /// Until when the budget is lifted.
    lifted_until: Instant,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: MAX_SAVED, at: now, lifted_until: now }
    }

    /// The provider is back: more for a while.
    pub(super) fn lift(&mut self, now: Instant) {
        self.lifted_until = now + LIFTED_FOR;
    }

    /// How many of `wanted` looks may be made now; they are taken off. `share`: of the budget, while the provider says that
    /// it is busy less than 1.
    pub(super) fn take(&mut self, wanted: usize, share: f64, now: Instant) -> usize {
        let per_s = share * if now < self.lifted_until { LIFTED_PER_S } else { LOOKS_PER_S };
        let saved = now.saturating_duration_since(self.at).as_secs_f64() * per_s;
        // At least one, or a small share would never come to a whole look.
        self.left = (self.left + saved).min((share * MAX_SAVED).max(1.0));
        self.at = now;
        let taken = wanted.min(self.left as usize);
        self.left -= taken as f64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_looks_and_no_more_however_often_it_is_asked() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!((pace.take(10, 1.0, start), pace.take(200, 1.0, start), pace.take(1, 1.0, start)), (10, 15, 0));
        let taken: usize = (1..=100).map(|n| pace.take(200, 1.0, start + Duration::from_millis(10 * n))).sum();
        assert!((24..=25).contains(&taken), "{taken}");
        assert_eq!(pace.take(200, 1.0, start + Duration::from_secs(3_600)), 25, "nothing is saved beyond a second");
    }

    #[test]
    fn behind_an_outage_thousands_are_looked_at_within_a_minute_and_then_no_more_than_ever() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.lift(start);
        let in_a_minute = |pace: &mut Pace, from_s: u64| {
            let at = |tick: u64| start + Duration::from_millis(from_s * 1_000 + tick * 100);
            (1..=600).map(|tick| pace.take(200, 1.0, at(tick))).sum::<usize>()
        };
        let first = in_a_minute(&mut pace, 0);
        assert!((4_000..=4_600).contains(&first), "{first}");
        let second = in_a_minute(&mut pace, 60);
        assert!((1_400..=1_500).contains(&second), "{second}");
    }

    #[test]
    fn a_provider_that_is_busy_is_asked_less() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.take(200, 0.2, start), 5, "nor is what was saved asked at once");
        let taken: usize = (1..=100).map(|n| pace.take(200, 0.2, start + Duration::from_millis(100 * n))).sum();
        assert!((49..=50).contains(&taken), "{taken}");
        let least: usize = (1..=100).map(|n| pace.take(200, 0.01, start + Duration::from_secs(10 + n))).sum();
        assert!((24..=26).contains(&least), "{least}");
    }
}
