//! A provider that is there and says that it is busy: this node's own questions become fewer, and while buyers wait long to
//! be let through nobody else begins to pay. `stripe` tells what it hears and asks how it stands. Pure: the caller brings the
//! time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A buyer's call that has waited so long for its turn closes the tills to others: as long as an answer is waited for at
/// most, so that whoever came now would only join the queue.
const WAITED_LONG: Duration = Duration::from_secs(5);
/// After a buyer's call that was never let through they stay closed for this, unless another is let through.
const CLOSED_FOR: Duration = Duration::from_secs(5);
/// A provider that is busy says so within this: a call it is silent to for longer waits for something else.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Least share of this node's own questions: orders that wait must still be settled.
const LEAST_SHARE: f64 = 0.1;
/// Of many calls that are told so at once the first counts; a second is as far as a provider's own limits look back.
const HALVED_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// What comes back of the share in a second: the whole within twenty.
const REGAINED_PER_S: f64 = 0.05;

/// How busy it is.
#[derive(Debug)]
pub(super) struct Busy {
    /// Calls of buyers that were told to come again, by number.
    waiting: BTreeMap<u64, Waiting>,
    calls_n: u64,
    closed_until: Option<Instant>,
    share: f64,
    at: Instant,
    halved_at: Option<Instant>,
}

/// A buyer's call that was told to come again.
#[derive(Debug)]
struct Waiting {
    /// When it was told so first.
    since: Instant,
    /// When it was tried again, while that is not answered.
    tried: Option<Instant>,
}

impl Waiting {
    /// Whether it says that the provider is too busy for others. One that is silent to it is not.
    fn is_long(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WAITED_LONG
            && self.tried.is_none_or(|tried| now.saturating_duration_since(tried) < ANSWERED_WITHIN)
    }
}

impl Busy {
    pub(super) const fn new(now: Instant) -> Self {
        Self { waiting: BTreeMap::new(), calls_n: 0, closed_until: None, share: 1.0, at: now, halved_at: None }
    }

    /// A call was told so.
    pub(super) fn told(&mut self, now: Instant) {
        let is_one_of_many = self.halved_at.is_some_and(|at| now.saturating_duration_since(at) < HALVED_AT_MOST_EVERY);
        if !is_one_of_many {
            self.share = (self.share(now) / 2.0).max(LEAST_SHARE);
            (self.at, self.halved_at) = (now, Some(now));
        }
    }

    /// The share of its questions that this node may ask now: 1 when nothing was said for a while.
    pub(super) fn share(&self, now: Instant) -> f64 {
        let passed_s = now.saturating_duration_since(self.at).as_secs_f64();
        passed_s.mul_add(REGAINED_PER_S, self.share).min(1.0)
    }

    /// A buyer's call waits from now on; its number.
    pub(super) fn begin_wait(&mut self, now: Instant) -> u64 {
        self.calls_n += 1;
        self.waiting.insert(self.calls_n, Waiting { since: now, tried: None });
        self.calls_n
    }

    /// It is tried again.
    pub(super) fn tries(&mut self, number: u64, now: Instant) {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.tried = Some(now);
        }
    }

    /// It was told to come again once more.
    pub(super) fn waits_on(&mut self, number: u64) {
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.tried = None;
        }
    }

    /// It waits no more, however it ended.
    pub(super) fn end_wait(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// A buyer's call was let through.
    pub(super) const fn let_through(&mut self) {
        self.closed_until = None;
    }

    /// A buyer's call was never let through.
    pub(super) fn gave_up(&mut self, now: Instant) {
        self.closed_until = Some(now + CLOSED_FOR);
    }

    /// Whether nobody should begin to pay now.
    pub(super) fn is_jammed(&self, now: Instant) -> bool {
        self.waiting.values().any(|waiting| waiting.is_long(now)) || self.closed_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn own_questions_become_fewer_once_a_second_never_none_and_come_back() {
        let start = Instant::now();
        let mut busy = Busy::new(start);
        assert_eq!(busy.share(start), 1.0);
        for _ in 0..100 {
            busy.told(start);
        }
        assert_eq!(busy.share(start), 0.5, "many told at once are told one thing");
        for n in 1..60 {
            busy.told(start + s(n));
        }
        let last = start + s(59);
        assert!((LEAST_SHARE..0.13).contains(&busy.share(last)), "{}", busy.share(last));
        assert!(busy.share(last + s(9)) < 0.6 && busy.share(last + s(20)) == 1.0);
    }

    #[test]
    fn others_wait_outside_while_one_has_waited_long() {
        let start = Instant::now();
        let mut busy = Busy::new(start);
        let first = busy.begin_wait(start);
        let second = busy.begin_wait(start + s(4));
        assert!(!busy.is_jammed(start + s(4)));
        assert!(busy.is_jammed(start + s(5)));
        busy.end_wait(first);
        assert!(!busy.is_jammed(start + s(5)), "the other has not waited long");
        assert!(busy.is_jammed(start + s(9)));
        busy.end_wait(second);
        assert!(!busy.is_jammed(start + s(9)));
    }

    #[test]
    fn one_call_that_the_provider_is_silent_to_keeps_nobody_out() {
        let start = Instant::now();
        let mut busy = Busy::new(start);
        let call = busy.begin_wait(start);
        busy.tries(call, start + s(6));
        assert!(busy.is_jammed(start + s(6)), "it may be answered in a moment");
        assert!(!busy.is_jammed(start + s(7)));
        busy.waits_on(call);
        assert!(busy.is_jammed(start + s(7)), "told to come again");
    }

    #[test]
    fn behind_one_who_was_never_let_through_they_stay_closed_until_another_is() {
        let start = Instant::now();
        let mut busy = Busy::new(start);
        busy.gave_up(start);
        assert!(busy.is_jammed(start) && busy.is_jammed(start + s(4)) && !busy.is_jammed(start + s(5)));
        busy.gave_up(start);
        busy.let_through();
        assert!(!busy.is_jammed(start));
    }
}
