//! What a run was and whether it passed: the numbers, the judgement, and where they go (JSON, HTML, JUnit, terminal).
//! `coordinator` hands in facts; nothing here waits or reads anything. `report.schema.json` beside the crate describes the JSON.

mod chart;
mod compare;
mod html;
mod junit;
mod text;

pub(crate) use compare::compare;
pub(crate) use text::summary;

use crate::check::Findings;
use crate::scenario::{OwnLimits, Scenario, Stat, Subject};
use crate::tally::{Count, Times, Timing, Window, pack};
use anyhow::Context as _;
use seatwire_proto::id::EventId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Name and version of the JSON's form.
pub(crate) const SCHEMA: &str = "seatwire-loadgen/report/1";

/// What the machine says of itself.
pub(crate) type Machine = BTreeMap<String, String>;

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

/// Where a run was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) event: EventId,
    pub(crate) event_name: String,
    pub(crate) seat_count: u32,
    pub(crate) seed: u64,
    /// Viewers' workers.
    pub(crate) workers: usize,
    pub(crate) started_ms: u64,
}

/// How the generator itself did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Own {
    /// Of the worse of viewers' and buyers' workers, from the barrier on.
    pub(crate) lag_p99_us: u64,
    pub(crate) workers: Vec<WorkerUse>,
    pub(crate) clock_offsets_us: Vec<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerUse {
    pub(crate) role: String,
    /// Of one core, mean over the phases.
    pub(crate) cpu_pct: f64,
    pub(crate) rss_bytes: u64,
    pub(crate) sockets: u32,
}

/// A process of the server's family.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerProcess {
    pub(crate) name: String,
    /// The process that was named with --server-pid, not a child of it.
    pub(crate) is_named: bool,
    pub(crate) cpu_us: u64,
    /// Of one core, mean over the phases.
    pub(crate) cpu_pct: f64,
    pub(crate) heap_bytes_max: u64,
    pub(crate) rss_bytes: u64,
}

/// Statistics of a timing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) min_us: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: u64,
    pub(crate) p90_us: u64,
    pub(crate) p95_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) p999_us: u64,
    pub(crate) p9999_us: u64,
    pub(crate) max_us: u64,
    /// The histogram, HDR V2, base64 without padding.
    pub(crate) hdr: String,
}

impl Summary {
    fn of(times: &Times) -> Self {
        let at = |quantile| times.value_at_quantile(quantile);
        Self {
            count: times.len(),
            min_us: times.min(),
            mean_us: times.mean(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: times.max(),
            hdr: pack(times),
        }
    }
}

/// Percentiles of a timing within one second.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) count: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
}

impl Spread {
    fn of(times: &Times) -> Self {
        Self {
            count: times.len(),
            p50_us: times.value_at_quantile(0.5),
            p99_us: times.value_at_quantile(0.99),
            max_us: times.max(),
        }
    }
}

/// One second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Since the run's base; the phases begin at `start_second`.
    pub(crate) second: u32,
    pub(crate) commit_to_viewer: Option<Spread>,
    pub(crate) hold_won: Option<Spread>,
    pub(crate) lag_viewers: Option<Spread>,
    pub(crate) arrivals: u64,
    pub(crate) won: u64,
    pub(crate) lost: u64,
    pub(crate) released: u64,
    pub(crate) paid: u64,
    pub(crate) frames: u64,
    pub(crate) deliveries: u64,
    pub(crate) bytes_in: u64,
    pub(crate) connects: u64,
    pub(crate) server_cpu_pct: Option<f64>,
    pub(crate) server_heap_bytes: Option<u64>,
    pub(crate) machine_cpu_pct: Option<f64>,
}

impl Row {
    pub(crate) fn of(
        second: u32,
        window: &Window,
        server_cpu_pct: Option<f64>,
        server_heap_bytes: Option<u64>,
        machine_cpu_pct: Option<f64>,
    ) -> Self {
        let spread = |timing| window.timing(timing).map(Spread::of);
        Self {
            second,
            commit_to_viewer: spread(Timing::CommitToViewer),
            hold_won: spread(Timing::HoldWon),
            lag_viewers: spread(Timing::LagViewers),
            arrivals: window.count(Count::Arrivals),
            won: window.count(Count::HoldsWon),
            lost: window.count(Count::HoldsLost),
            released: window.count(Count::Releases),
            paid: window.count(Count::Paid),
            frames: window.count(Count::Frames),
            deliveries: window.count(Count::Deliveries),
            bytes_in: window.count(Count::BytesIn),
            connects: window.count(Count::Connects),
            server_cpu_pct,
            server_heap_bytes,
            machine_cpu_pct,
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

/// What the coordinator hands in beside the windows.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) seconds: f64,
    pub(crate) start_second: u32,
    pub(crate) own: Own,
    pub(crate) server: Vec<ServerProcess>,
    pub(crate) lost_workers: u64,
    pub(crate) viewers_ready: u32,
    pub(crate) viewers_absent: u32,
    pub(crate) viewers_behind: u32,
    pub(crate) viewers_differing: u32,
    pub(crate) doubts: Vec<String>,
    pub(crate) findings: Findings,
    pub(crate) log_entries: u64,
    pub(crate) map_before: BTreeMap<String, u64>,
    pub(crate) rows: Vec<Row>,
}

/// All of it, as written to report.json.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunReport {
    pub(crate) schema: String,
    pub(crate) verdict: Verdict,
    pub(crate) exit_code: u8,
    /// Why, when it did not pass.
    pub(crate) reasons: Vec<String>,
    /// L1, L2 or L3, and what that means.
    pub(crate) level: String,
    pub(crate) scenario: serde_json::Value,
    pub(crate) place: Place,
    pub(crate) machine: Machine,
    /// Length of the phases, until the last buyer was done.
    pub(crate) seconds: f64,
    pub(crate) start_second: u32,
    pub(crate) thresholds: Vec<Judged>,
    pub(crate) invariants: Vec<Invariant>,
    pub(crate) findings: Findings,
    pub(crate) timings: BTreeMap<String, Summary>,
    /// Over the whole run.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) by_name: BTreeMap<String, u64>,
    pub(crate) numbers: BTreeMap<String, f64>,
    pub(crate) own: Own,
    pub(crate) server: Vec<ServerProcess>,
    pub(crate) map_before: BTreeMap<String, u64>,
    pub(crate) timeline: Vec<Row>,
}

/// Which windows a timing's statistics are taken from: joining belongs to the ramp, everything else to the phases.
const fn is_of_joining(timing: Timing) -> bool {
    matches!(timing, Timing::Connect | Timing::Hello | Timing::Snapshot | Timing::Ready)
}

impl RunReport {
    pub(crate) fn new(scenario: &Scenario, place: Place, facts: Facts, all: &Window, measured: &Window) -> Self {
        let window_of = |timing| if is_of_joining(timing) { all } else { measured };
        let timings = Timing::ALL
            .iter()
            .filter_map(|timing| Some((timing.as_str().to_owned(), Summary::of(window_of(*timing).timing(*timing)?))))
            .collect();
        let counts = Count::ALL.iter().map(|count| (count.as_str().to_owned(), all.count(*count))).collect();
        let numbers = numbers(&facts, measured);
        let invariants = invariants(&facts, all);
        let judge = |threshold: &crate::scenario::Threshold| {
            let actual = match &threshold.subject {
                Subject::Timing(timing, stat) => {
                    let times = window_of(*timing).timing(*timing);
                    times
                        .filter(|times| !times.is_empty() || *stat == Stat::Samples)
                        .map(|times| statistic(times, *stat))
                }
                Subject::Count(count) => Some(all.count(*count) as f64),
                Subject::Rate(count) => Some(measured.count(*count) as f64 / facts.seconds.max(1e-3)),
                Subject::Number(name) => numbers.get(*name).copied(),
            };
            Judged {
                name: threshold.name.clone(),
                bound: threshold.bound.clone(),
                actual,
                is_time: matches!(&threshold.subject, Subject::Timing(_, stat) if *stat != Stat::Samples),
                passed: actual.is_some_and(|actual| threshold.passes(actual)),
            }
        };
        let thresholds: Vec<Judged> = scenario.thresholds.iter().map(judge).collect();
        let doubts = own_doubts(&scenario.own_limits, &facts, all);
        let (verdict, reasons) = verdict(&invariants, &facts.findings, doubts, &thresholds);
        Self {
            schema: SCHEMA.to_owned(),
            verdict,
            exit_code: verdict.exit_code(),
            reasons,
            level: format!(
                "L1: every one of {} viewers and {} buyers is a real socket; nothing is extrapolated",
                facts.viewers_ready, scenario.buyers
            ),
            scenario: serde_json::to_value(scenario).unwrap_or_default(),
            place,
            machine: crate::process::machine(),
            seconds: facts.seconds,
            start_second: facts.start_second,
            thresholds,
            invariants,
            findings: facts.findings,
            timings,
            counts,
            by_name: all.by_name().clone(),
            numbers,
            own: facts.own,
            server: facts.server,
            map_before: facts.map_before,
            timeline: facts.rows,
        }
    }

    /// Writes report.json, report.html and junit.xml into a folder.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
        };
        write("report.json", serde_json::to_string_pretty(self)?)?;
        write("report.html", html::page(self))?;
        write("junit.xml", junit::suite(self))
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

fn numbers(facts: &Facts, measured: &Window) -> BTreeMap<String, f64> {
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
    }
    numbers
}

fn invariants(facts: &Facts, all: &Window) -> Vec<Invariant> {
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

fn own_doubts(limits: &OwnLimits, facts: &Facts, all: &Window) -> Vec<String> {
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

fn verdict(
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
pub(crate) mod tests {
    use super::*;
    use crate::check::Finding;
    use seatwire_proto::seat::SeatIndex;

    /// A plain run in which all went well.
    pub(crate) fn good() -> (Scenario, Place, Facts, Window) {
        let scenario = Scenario::preset("smoke").expect("it exists");
        let place = Place {
            url: "http://127.0.0.1:8080".to_owned(),
            event: EventId::generate(),
            event_name: "Night & <Day>".to_owned(),
            seat_count: 70_000,
            seed: 42,
            workers: 1,
            started_ms: 1_700_000_000_000,
        };
        let mut window = Window::default();
        for i in 1..=1_000 {
            window.record_n(Timing::CommitToViewer, i * 100, 1);
            window.record_n(Timing::HoldWon, i * 10, 1);
        }
        window.add(Count::HoldsWon, 90);
        window.add(Count::Arrivals, 100);
        window.add(Count::Frames, 4_000);
        let worker = WorkerUse { role: "viewers".to_owned(), cpu_pct: 20.0, rss_bytes: 9_000_000, sockets: 200 };
        let facts = Facts {
            seconds: 10.0,
            start_second: 2,
            own: Own { lag_p99_us: 900, workers: vec![worker], clock_offsets_us: vec![3] },
            server: Vec::new(),
            lost_workers: 0,
            viewers_ready: 200,
            viewers_absent: 0,
            viewers_behind: 0,
            viewers_differing: 0,
            doubts: Vec::new(),
            findings: Findings::default(),
            log_entries: 100,
            map_before: BTreeMap::from([("available".to_owned(), 70_000)]),
            rows: vec![
                Row::of(2, &window, Some(40.0), Some(50_000_000), Some(60.0)),
                Row::of(3, &window, Some(42.0), Some(50_000_000), Some(61.0)),
            ],
        };
        (scenario, place, facts, window)
    }

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
            let finding = Finding::WonSold { seat: SeatIndex(1), who: crate::check::Who(2), epoch: 1, seq: 3 };
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
        assert_eq!(judge(|_, facts, _| facts.own.lag_p99_us = 251_000).exit_code, 98);
        assert_eq!(judge(|_, facts, _| facts.doubts.push("worker 1 was lost: x".to_owned())).exit_code, 98);
        let busy = judge(|scenario, facts, _| {
            scenario.own_limits.cpu_pct = 85.0;
            facts.own.workers[0].cpu_pct = 86.0;
        });
        assert_eq!(busy.exit_code, 98);
        assert!(busy.reasons[0].contains("86 % of its core"), "{:?}", busy.reasons);
        assert_eq!(judge(|_, _, window| window.add(Count::WaitedForBuyer, 26)).exit_code, 98);
    }

    #[test]
    fn a_missed_threshold_is_99_and_one_without_samples_is_missed() {
        let threshold = |name, bound| crate::scenario::Threshold::parse(name, bound).expect("it is good");
        let missed = judge(|scenario, _, _| scenario.thresholds.push(threshold("commit_to_viewer.p99", "< 99ms")));
        assert_eq!(missed.exit_code, 99);
        assert!(missed.reasons[0].contains("99.0 ms"), "{:?}", missed.reasons);
        assert_eq!(judge(|scenario, _, _| scenario.thresholds.push(threshold("checkout.p99", "< 9s"))).exit_code, 99);
    }

    #[test]
    fn the_json_is_what_its_schema_says() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../report.schema.json")).expect("the schema is JSON");
        let report = serde_json::to_value(judge(|_, _, _| ())).expect("plain data");
        let keys =
            |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&report), keys(&schema["properties"]), "every key is described and none is missing");
        assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
        assert_eq!(keys(&report["timings"]["hold.won"]), keys(&schema["$defs"]["timing"]["properties"]));
        assert_eq!(keys(&report["timeline"][0]), keys(&schema["$defs"]["second"]["properties"]));
        assert_eq!(keys(&report["own"]["workers"][0]), keys(&schema["$defs"]["worker"]["properties"]));
    }
}
