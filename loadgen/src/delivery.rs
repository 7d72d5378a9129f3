//! Commit-to-viewer: from the moment a holder had its reply to the moment each watcher had the frame with that change.
//! Watchers note steps ("from seq 10 to 14, now"), buyers' commits come by the coordinator, both are matched by
//! (epoch, seq) when a step has settled. Cost grows with distinct steps, not with watchers.

use crate::tally::{Count, Tally, Timing};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Arrivals are noted in steps of 2^5 = 32 us, rounded up: viewers of one tick that are read together share one note.
const NOTE_SHIFT: u32 = 5;
/// A step is matched this long after its first arrival: by then the reply has crossed the pipes between processes.
/// A commit that comes later still is counted as `late_commits` and belongs to no percentile.
pub(crate) const SETTLE_US: u64 = 2_000_000;
/// A commit is kept this long for viewers that get it late; older ones have no slow viewer left to wait for.
const KEEP_COMMIT_US: u64 = 90_000_000;

/// Positions whose digest is remembered; the oldest are forgotten, and then not compared any more.
const MAX_DIGESTS: usize = 50_000;

/// A change a buyer was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) epoch: u32,
    pub(crate) seq: u64,
    /// When the reply was read.
    pub(crate) reply_us: u64,
    /// When the schedule wanted the command sent.
    pub(crate) intended_us: u64,
}

/// A watcher's move along the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    pub(crate) epoch: u32,
    /// Seq the watcher stood at, 0 if in a lower epoch.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

#[derive(Debug, Default)]
struct Notes {
    first_us: u64,
    /// (time, watchers), ascending as time is.
    arrivals: Vec<(u64, u64)>,
}

/// What watchers of one worker got, and when.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    open: HashMap<Step, Notes>,
    commits: BTreeMap<(u32, u64), Commit>,
    /// What the frames say the state is at a position: all must say the same.
    digests: BTreeMap<(u32, u64), u32>,
    settled_to: (u32, u64),
}

impl Deliveries {
    /// A watcher made a step.
    pub(crate) fn note(&mut self, step: Step, now_us: u64) {
        let at_us = now_us.div_ceil(1 << NOTE_SHIFT) << NOTE_SHIFT;
        let notes = self.open.entry(step).or_insert_with(|| Notes { first_us: now_us, arrivals: Vec::new() });
        match notes.arrivals.last_mut() {
            Some((last_us, watchers)) if *last_us == at_us => *watchers += 1,
            _ => notes.arrivals.push((at_us, 1)),
        }
    }

    /// Compares a frame's digest with what other frames said of the same position. False: they disagree.
    pub(crate) fn agrees(&mut self, epoch: u32, seq: u64, digest: u32) -> bool {
        if self.digests.len() > MAX_DIGESTS {
            self.digests.pop_first();
        }
        *self.digests.entry((epoch, seq)).or_insert(digest) == digest
    }

    /// A buyer was told of a change.
    pub(crate) fn commit(&mut self, commit: Commit, tally: &mut Tally) {
        let position = (commit.epoch, commit.seq);
        if position <= self.settled_to {
            tally.at(commit.reply_us).add(Count::LateCommits, 1);
        }
        self.commits.insert(position, commit);
    }

    /// Matches the steps that began at least `SETTLE_US` ago, or all of them.
    pub(crate) fn settle(&mut self, now_us: u64, everything: bool, tally: &mut Tally) {
        let commits = &self.commits;
        let settled_to = &mut self.settled_to;
        self.open.retain(|step, notes| {
            if !everything && notes.first_us + SETTLE_US > now_us {
                return true;
            }
            *settled_to = (*settled_to).max((step.epoch, step.after));
            for commit in commits.range((step.epoch, step.before + 1)..=(step.epoch, step.after)).map(|(_, c)| c) {
                for (at_us, watchers) in &notes.arrivals {
                    let window = tally.at(*at_us);
                    window.record_n(Timing::CommitToViewer, at_us.saturating_sub(commit.reply_us), *watchers);
                    window.record_n(Timing::IntentToViewer, at_us.saturating_sub(commit.intended_us), *watchers);
                    window.add(Count::Deliveries, *watchers);
                    if *at_us < commit.reply_us {
                        window.add(Count::EarlyDeliveries, *watchers);
                    }
                }
            }
            false
        });
        let oldest_us = now_us.saturating_sub(KEEP_COMMIT_US);
        while let Some(first) = self.commits.first_entry() {
            if first.get().reply_us >= oldest_us {
                break;
            }
            let position = first.remove_entry().0;
            self.digests = self.digests.split_off(&position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(epoch: u32, seq: u64, reply_us: u64) -> Commit {
        Commit { epoch, seq, reply_us, intended_us: reply_us - 1_000 }
    }

    fn step(epoch: u32, before: u64, after: u64) -> Step {
        Step { epoch, before, after }
    }

    #[test]
    fn each_watcher_counts_once_for_each_change_its_step_contains() {
        let (mut deliveries, mut tally) = (Deliveries::default(), Tally::default());
        for (seq, reply_us) in [(11, 100_000), (12, 110_000), (14, 120_000), (15, 500_000)] {
            deliveries.commit(commit(1, seq, reply_us), &mut tally);
        }
        deliveries.note(step(1, 10, 14), 140_000);
        deliveries.note(step(1, 10, 14), 140_001);
        // A slow one got everything in one snapshot, later.
        deliveries.note(step(1, 10, 15), 600_000);
        deliveries.settle(3_000_000, false, &mut tally);
        let window = tally.take_before(1)[0].window().expect("its own window");
        assert_eq!(window.count(Count::Deliveries), 2 * 3 + 4);
        let times = window.timing(Timing::CommitToViewer).expect("recorded");
        assert_eq!(times.len(), 10);
        assert!((19_900..=20_200).contains(&times.min()), "{}", times.min());
        assert!((499_000..=501_000).contains(&times.max()), "{}", times.max());
    }

    #[test]
    fn a_reply_that_comes_by_late_still_matches_and_one_beyond_is_counted() {
        let (mut deliveries, mut tally) = (Deliveries::default(), Tally::default());
        deliveries.note(step(1, 0, 1), 1_000_000);
        deliveries.note(step(1, 1, 2), 1_000_000);
        deliveries.settle(1_000_000 + SETTLE_US - 1, false, &mut tally);
        deliveries.commit(commit(1, 1, 990_000), &mut tally);
        deliveries.settle(1_000_000 + SETTLE_US, false, &mut tally);
        deliveries.commit(commit(1, 2, 990_000), &mut tally);
        let windows: Vec<_> = tally.take_before(9).iter().map(|line| line.window().expect("its own")).collect();
        assert_eq!(windows.iter().map(|window| window.count(Count::Deliveries)).sum::<u64>(), 1);
        assert_eq!(windows.iter().map(|window| window.count(Count::LateCommits)).sum::<u64>(), 1);
    }

    #[test]
    fn a_new_epoch_begins_at_seq_0_and_the_old_one_is_not_matched() {
        let (mut deliveries, mut tally) = (Deliveries::default(), Tally::default());
        deliveries.commit(commit(1, 3, 10_000), &mut tally);
        deliveries.commit(commit(2, 3, 20_000), &mut tally);
        deliveries.note(step(2, 0, 3), 25_000);
        deliveries.settle(0, true, &mut tally);
        let window = tally.take_before(1)[0].window().expect("its own window");
        assert_eq!(window.timing(Timing::CommitToViewer).expect("recorded").len(), 1);
    }

    #[test]
    fn frames_of_one_position_with_two_digests_disagree() {
        let mut deliveries = Deliveries::default();
        assert!(deliveries.agrees(1, 5, 0xabc));
        assert!(deliveries.agrees(1, 5, 0xabc));
        assert!(deliveries.agrees(1, 6, 0xdef));
        assert!(!deliveries.agrees(1, 5, 0xabd));
    }
}
