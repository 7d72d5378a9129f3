//! The circuit to the provider: opens when it fails again and again or does not take our key, so that buyers are told at
//! once and nothing piles up behind a dead server. Pure: the caller brings the time. While open, money is not asked for;
//! questions about what was asked before go on, and the first answer closes it.

use std::time::{Duration, Instant};

/// Failures in a row that open it: one slow call is not an outage.
const FAILURES_TO_OPEN: u32 = 20;
/// How long it stays open before one call may try.
const OPEN_FOR: Duration = Duration::from_secs(5);

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The provider answered, whatever it said.
    Answer,
    /// It did not, or with a failure of its own.
    Failure,
    /// It does not take our key: nothing will work.
    Stranger,
}

/// The circuit.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures_n: u32,
    /// When the next call may try; `None` = closed.
    next_try: Option<Instant>,
}

impl Breaker {
    /// Whether a call that moves money may be made now. Of those that come while it is open, one each time may try.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        match self.next_try {
            None => true,
            Some(at) if at <= now => {
                self.next_try = Some(now + OPEN_FOR);
                true
            }
            Some(_) => false,
        }
    }

    /// Whether it is closed.
    pub(super) const fn is_closed(&self) -> bool {
        self.next_try.is_none()
    }

    /// Takes note of a call.
    pub(super) fn hear(&mut self, heard: Heard, now: Instant) {
        match heard {
            Heard::Answer => *self = Self::default(),
            Heard::Failure => {
                self.failures_n = self.failures_n.saturating_add(1);
                if self.failures_n >= FAILURES_TO_OPEN {
                    self.next_try = Some(now + OPEN_FOR);
                }
            }
            Heard::Stranger => self.next_try = Some(now + OPEN_FOR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_one_answer_closes_it() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 1..FAILURES_TO_OPEN {
            breaker.hear(Heard::Failure, now);
        }
        assert!(breaker.admits(now));
        breaker.hear(Heard::Answer, now);
        for _ in 0..FAILURES_TO_OPEN {
            assert!(breaker.admits(now));
            breaker.hear(Heard::Failure, now);
        }
        assert!(!breaker.admits(now) && !breaker.is_closed());
        let later = now + OPEN_FOR;
        assert!(breaker.admits(later), "one may try");
        assert!(!breaker.admits(later), "and only one");
        breaker.hear(Heard::Answer, later);
        assert!(breaker.admits(later) && breaker.is_closed());
    }

    #[test]
    fn a_refused_key_opens_it_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        breaker.hear(Heard::Stranger, now);
        assert!(!breaker.admits(now));
    }
}
