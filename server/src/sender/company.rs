//! Whether other nodes listen: a node that is alone has nobody to carry pushes to, and packing and publishing them would be
//! a thirtieth of what a hold costs it. Every node announces itself when it starts to listen, before its doors open, and once
//! a second from then on; whoever hears another node's word, or is told by Redis that somebody else heard its own, carries.

use crate::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two announcements.
pub(super) const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// Announcements in a row that only this node heard, with no word of another, before it takes itself to be alone: a node
/// that lost its connection to Redis is back within two seconds.
const QUIET_ROUNDS: u32 = 5;

/// What this node knows of the others.
#[derive(Debug)]
pub(super) struct Company {
    /// Tells our own batches from others'.
    node: u64,
    /// Whether pushes are carried: also when nobody knows.
    is_there: AtomicBool,
    /// Another node was heard since the last announcement.
    was_heard: AtomicBool,
    metrics: Arc<Metrics>,
}

/// How announcements went, kept by whoever makes them.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    quiet: u32,
}

impl Company {
    pub(super) fn new(node: u64, metrics: Arc<Metrics>) -> Self {
        metrics.has_company.set(1);
        Self { node, is_there: AtomicBool::new(true), was_heard: AtomicBool::new(false), metrics }
    }

    pub(super) const fn node(&self) -> u64 {
        self.node
    }

    /// Whether pushes are to be carried to other nodes.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Another node spoke.
    pub(super) fn heard(&self) {
        self.was_heard.store(true, Ordering::Relaxed);
        if !self.is_there() {
            self.set(true);
        }
    }

    /// An announcement was made: how many heard it, of several channels the most; `None` when that is not known.
    pub(super) fn announced(&self, rounds: &mut Rounds, listeners: Option<u64>) {
        let was_heard = self.was_heard.swap(false, Ordering::Relaxed);
        // This node is one of them.
        let is_quiet = !was_heard && listeners.is_some_and(|count| count <= 1);
        rounds.quiet = if is_quiet { rounds.quiet.saturating_add(1) } else { 0 };
        let is_there = rounds.quiet < QUIET_ROUNDS;
        if self.is_there() != is_there {
            self.set(is_there);
        }
        // Whoever spoke meanwhile was not overlooked.
        if self.was_heard.load(Ordering::Relaxed) && !self.is_there() {
            self.set(true);
        }
    }

    fn set(&self, is_there: bool) {
        self.is_there.store(is_there, Ordering::Relaxed);
        self.metrics.has_company.set(i64::from(is_there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn company() -> (Company, Rounds) {
        (Company::new(7, Arc::new(Metrics::new())), Rounds::default())
    }

    #[test]
    fn a_node_that_only_hears_itself_is_alone_after_some_rounds_and_not_before() {
        let (company, mut rounds) = company();
        for _ in 1..QUIET_ROUNDS {
            company.announced(&mut rounds, Some(1));
            assert!(company.is_there());
        }
        company.announced(&mut rounds, Some(1));
        assert!(!company.is_there());
        assert_eq!(company.metrics.has_company.get(), 0);
    }

    #[test]
    fn a_word_of_another_node_another_listener_and_an_unknown_count_each_end_that_at_once() {
        let (company, mut rounds) = company();
        let listeners: [fn(&Company) -> Option<u64>; 3] = [
            |company| {
                company.heard();
                assert!(company.is_there(), "before the next announcement");
                Some(1)
            },
            |_| Some(2),
            |_| None,
        ];
        for listeners in listeners {
            for _ in 0..QUIET_ROUNDS {
                company.announced(&mut rounds, Some(1));
            }
            assert!(!company.is_there());
            company.announced(&mut rounds, listeners(&company));
            assert!(company.is_there());
            assert_eq!(company.metrics.has_company.get(), 1);
        }
    }
}
