//! Whether a run passed: invariants, the generator's belief in itself, thresholds, in this order. Pure; `report` calls it.

use super::{Facts, text};
use crate::check::Findings;
use crate::scenario::{OwnLimits, Stat, Subject, Threshold};
use crate::tally::{Count, Times, Timing, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run ended. The number is the exit code; of several reasons the first in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Something happened that must never happen.
    Broken,
    /// The generator does not believe its own numbers.
    Invalid,
    /// A threshold was not met.
    Failed,
    Passed,
}

impl Verdict {
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Broken => 97,
            Self::Invalid => 98,
            Self::Failed => 99,
            Self::Passed => 0,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Broken => "INVARIANT BROKEN",
            Self::Invalid => "INVALID",
            Self::Failed => "THRESHOLD MISSED",
            Self::Passed => "PASSED",
        }
    }
}

/// A threshold and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) name: String,
    pub(crate) bound: String,
    /// Microseconds for timings; None when nothing was measured, which does not pass.
    pub(crate) actual: Option<f64>,
    pub(crate) is_time: bool,
    pub(crate) passed: bool,
}

/// An invariant and whether it held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Invariant {
    pub(crate) name: String,
    pub(crate) means: String,
    pub(crate) violations: u64,
}

/// Which windows a timing's statistics are taken from: joining belongs to the ramp, everything else to the phases.
pub(super) const fn is_of_joining(timing: Timing) -> bool {
    matches!(timing, Timing::Connect | Timing::Hello | Timing::Snapshot | Timing::Ready)
}

/// What thresholds look at.
pub(super) struct Measures<'a> {
    pub(super) all: &'a Window,
    pub(super) measured: &'a Window,
    pub(super) numbers: &'a BTreeMap<String, f64>,
    pub(super) seconds: f64,
}

impl Measures<'_> {
    const fn window_of(&self, timing: Timing) -> &Window {
        if is_of_joining(timing) { self.all } else { self.measured }
    }

    /// Whether a threshold is met.
    pub(super) fn judge(&self, threshold: &Threshold) -> Judged {
        let actual = match &threshold.subject {
            Subject::Timing(timing, stat) => {
                let times = self.window_of(*timing).timing(*timing);
                times.filter(|times| !times.is_empty() || *stat == Stat::Samples).map(|times| statistic(times, *stat))
            }
            Subject::Count(count) => Some(self.all.count(*count) as f64),
            Subject::Rate(count) => Some(self.measured.count(*count) as f64 / self.seconds.max(1e-3)),
            Subject::Number(name) => self.numbers.get(*name).copied(),
        };
        Judged {
            name: threshold.name.clone(),
            bound: threshold.bound.clone(),
            actual,
            is_time: matches!(&threshold.subject, Subject::Timing(_, stat) if *stat != Stat::Samples),
            passed: actual.is_some_and(|actual| threshold.passes(actual)),
        }
    }
}

/// A statistic in microseconds, or a number of samples.
fn statistic(times: &Times, stat: Stat) -> f64 {
    match stat {
        Stat::Quantile(hundredths) => times.value_at_quantile(f64::from(hundredths) / 10_000.0) as f64,
        Stat::Min => times.min() as f64,
        Stat::Max => times.max() as f64,
        Stat::Mean => times.mean(),
        Stat::Samples => times.len() as f64,
    }
}

/// Names of a Redis among the server's children.
const REDIS: [&str; 2] = ["redis-server", "valkey-server"];

/// What neither is timed nor counted by workers.
pub(super) fn numbers(facts: &Facts, measured: &Window) -> BTreeMap<String, f64> {
    let seconds = facts.seconds.max(1e-3);
    let mut numbers = BTreeMap::from([
        ("oversells".to_owned(), facts.findings.oversells as f64),
        ("viewers_behind".to_owned(), f64::from(facts.viewers_behind)),
        ("viewers_absent".to_owned(), f64::from(facts.viewers_absent)),
        ("lost_workers".to_owned(), facts.lost_workers as f64),
        ("log_entries".to_owned(), facts.log_entries as f64),
        (
            "bytes_per_viewer_s".to_owned(),
            measured.count(Count::BytesIn) as f64 / seconds / f64::from(facts.viewers_ready.max(1)),
        ),
        ("deliveries_per_s".to_owned(), measured.count(Count::Deliveries) as f64 / seconds),
        ("frames_per_s".to_owned(), measured.count(Count::Frames) as f64 / seconds),
        ("holds_won_per_s".to_owned(), measured.count(Count::HoldsWon) as f64 / seconds),
    ]);
    if let Some(server) = facts.server.iter().find(|process| process.is_named) {
        numbers.insert("server_cpu_pct".to_owned(), server.cpu_pct);
        let frames = measured.count(Count::Frames).max(1) as f64;
        numbers.insert("server_cpu_us_per_frame".to_owned(), server.cpu_us as f64 / frames);
        numbers.insert("server_heap_mb".to_owned(), server.heap_bytes_max as f64 / 1e6);
        let holds = measured.count(Count::HoldsWon).max(1) as f64;
        numbers.insert("server_cpu_us_per_hold".to_owned(), server.cpu_us as f64 / holds);
        if let Some(redis) = facts.server.iter().find(|process| REDIS.contains(&process.name.as_str())) {
            numbers.insert("redis_cpu_us_per_hold".to_owned(), redis.cpu_us as f64 / holds);
            numbers.insert("server_cpu_per_redis_cpu".to_owned(), server.cpu_us as f64 / redis.cpu_us.max(1) as f64);
        }
    }
    numbers
}

/// Everything that must never be, with how often it was.
pub(super) fn invariants(facts: &Facts, all: &Window) -> Vec<Invariant> {
    let invariant =
        |name: &str, means: &str, violations| Invariant { name: name.to_owned(), means: means.to_owned(), violations };
    vec![
        invariant("oversells", "no seat had two owners", facts.findings.oversells),
        invariant(
            "orders and map agree",
            "what was paid is listed alike and shown sold, and seq agrees with time",
            facts.findings.count - facts.findings.oversells,
        ),
        invariant(
            "digest_mismatches",
            "every whole map equals the server's at each frame",
            all.count(Count::DigestMismatches) + u64::from(facts.viewers_differing),
        ),
        invariant(
            "digest_disagreements",
            "all frames that lead to one position name one digest",
            all.count(Count::DigestDisagreements),
        ),
        invariant("viewers_behind", "every viewer got the last change", u64::from(facts.viewers_behind)),
        invariant("invalid_frames", "every map frame reads", all.count(Count::InvalidFrames)),
        invariant(
            "protocol_violations",
            "every message is what the protocol allows",
            all.count(Count::ProtocolViolations),
        ),
    ]
}

/// Why the generator does not believe its numbers.
pub(super) fn own_doubts(limits: &OwnLimits, facts: &Facts, all: &Window) -> Vec<String> {
    let mut doubts = facts.doubts.clone();
    let lag_ms = facts.own.lag_p99_us as f64 / 1e3;
    if lag_ms > limits.lag_p99_ms {
        doubts.push(format!("own timers ran {lag_ms:.1} ms late at p99, allowed {} ms", limits.lag_p99_ms));
    }
    if let Some(busiest) = facts.own.workers.iter().max_by(|a, b| a.cpu_pct.total_cmp(&b.cpu_pct))
        && busiest.cpu_pct > limits.cpu_pct
    {
        doubts.push(format!(
            "a worker of {} used {:.0} % of its core, allowed {} %: more --workers, or another machine",
            busiest.role, busiest.cpu_pct, limits.cpu_pct
        ));
    }
    let (waited, dropped) = (all.count(Count::WaitedForBuyer), all.count(Count::ArrivalsDropped));
    let waited_pct = (waited + dropped) as f64 * 100.0 / all.count(Count::Arrivals).max(1) as f64;
    if waited_pct > limits.waited_pct {
        doubts.push(format!(
            "{waited_pct:.1} % of arrivals found no buyer free ({dropped} were dropped), allowed {} %: more buyers",
            limits.waited_pct
        ));
    }
    if all.count(Count::LateCommits) * 100 > all.count(Count::Commits) {
        doubts.push(format!(
            "{} commits reached the viewers' workers too late to be matched",
            all.count(Count::LateCommits)
        ));
    }
    doubts
}

/// The verdict and all reasons, worst first.
pub(super) fn verdict(
    invariants: &[Invariant],
    findings: &Findings,
    doubts: Vec<String>,
    thresholds: &[Judged],
) -> (Verdict, Vec<String>) {
    let mut reasons: Vec<String> = invariants
        .iter()
        .filter(|invariant| invariant.violations > 0)
        .map(|invariant| format!("{}: {} times not so that {}", invariant.name, invariant.violations, invariant.means))
        .collect();
    reasons.extend(findings.told.iter().take(5).map(ToString::to_string));
    let is_broken = !reasons.is_empty();
    let is_doubted = !doubts.is_empty();
    reasons.extend(doubts);
    let mut is_missed = false;
    for judged in thresholds.iter().filter(|judged| !judged.passed) {
        is_missed = true;
        reasons.push(format!("{} is {}, asked {}", judged.name, text::judged_value(judged), judged.bound));
    }
    let verdict = match (is_broken, is_doubted, is_missed) {
        (true, ..) => Verdict::Broken,
        (_, true, _) => Verdict::Invalid,
        (.., true) => Verdict::Failed,
        _ => Verdict::Passed,
    };
    (verdict, reasons)
}

#[cfg(test)]
mod tests {
    use super::super::RunReport;
    use super::super::tests::good;
    use super::*;
    use crate::check::{Finding, Who};
    use crate::scenario::Scenario;
    use seatwire_proto::seat::SeatIndex;

    fn judge(change: impl FnOnce(&mut Scenario, &mut Facts, &mut Window)) -> RunReport {
        let (mut scenario, place, mut facts, mut window) = good();
        change(&mut scenario, &mut facts, &mut window);
        RunReport::new(&scenario, place, facts, &window, &window)
    }

    #[test]
    fn a_good_run_passes() {
        let report = judge(|_, _, _| ());
        assert_eq!((report.verdict, report.exit_code, report.reasons.len()), (Verdict::Passed, 0, 0));
        assert!(report.thresholds.iter().all(|judged| judged.passed));
    }

    #[test]
    fn an_oversell_is_97_whatever_else_is_wrong() {
        let report = judge(|_, facts, _| {
            let finding = Finding::WonSold { seat: SeatIndex(1), who: Who(2), epoch: 1, seq: 3 };
            facts.findings = Findings { told: vec![finding], count: 1, oversells: 1 };
            facts.own.lag_p99_us = 999_000;
        });
        assert_eq!(report.exit_code, 97);
        assert!(report.reasons.iter().any(|reason| reason.contains("sold before the run")), "{:?}", report.reasons);
    }

    #[test]
    fn a_digest_that_differs_is_97() {
        assert_eq!(judge(|_, _, window| window.add(Count::DigestMismatches, 1)).exit_code, 97);
        assert_eq!(judge(|_, facts, _| facts.viewers_differing = 1).exit_code, 97);
    }

    #[test]
    fn a_late_or_lost_or_busy_generator_is_98_even_when_thresholds_are_met() {
        let late = judge(|scenario, facts, _| {
            scenario.own_limits.lag_p99_ms = 250.0;
            facts.own.lag_p99_us = 251_000;
        });
        assert_eq!(late.exit_code, 98);
        assert_eq!(judge(|_, facts, _| facts.doubts.push("worker 1 was lost: x".to_owned())).exit_code, 98);
        let busy = judge(|scenario, facts, _| {
            scenario.own_limits.cpu_pct = 85.0;
            facts.own.workers[0].cpu_pct = 86.0;
        });
        assert_eq!(busy.exit_code, 98);
        assert!(busy.reasons[0].contains("86 % of its core"), "{:?}", busy.reasons);
        let short_of_buyers = judge(|scenario, _, window| {
            scenario.own_limits.waited_pct = 25.0;
            window.add(Count::WaitedForBuyer, 26);
        });
        assert_eq!(short_of_buyers.exit_code, 98);
    }

    #[test]
    fn a_missed_threshold_is_99_and_one_without_samples_is_missed() {
        let threshold = |name, bound| crate::scenario::Threshold::parse(name, bound).expect("it is good");
        let missed = judge(|scenario, _, _| scenario.thresholds.push(threshold("commit_to_viewer.p99", "< 99ms")));
        assert_eq!(missed.exit_code, 99);
        assert!(missed.reasons[0].contains("99.0 ms"), "{:?}", missed.reasons);
        assert_eq!(judge(|scenario, _, _| scenario.thresholds.push(threshold("checkout.p99", "< 9s"))).exit_code, 99);
    }
}
