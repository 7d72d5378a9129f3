//! What a run was and whether it passed: the numbers, the judgement, and where they go (JSON, HTML, JUnit, terminal).
//! `coordinator` hands in facts; nothing here waits or reads anything. `report.schema.json` beside the crate describes the JSON.

mod chart;
mod compare;
mod html;
mod judge;
mod junit;
mod text;

pub(crate) use compare::compare;
pub(crate) use judge::{Invariant, Judged, Verdict};
pub(crate) use text::summary;

use crate::check::Findings;
use crate::scenario::Scenario;
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

impl RunReport {
    pub(crate) fn new(scenario: &Scenario, place: Place, facts: Facts, all: &Window, measured: &Window) -> Self {
        let window_of = |timing| if judge::is_of_joining(timing) { all } else { measured };
        let timings = Timing::ALL
            .iter()
            .filter_map(|timing| Some((timing.as_str().to_owned(), Summary::of(window_of(*timing).timing(*timing)?))))
            .collect();
        let counts = Count::ALL.iter().map(|count| (count.as_str().to_owned(), all.count(*count))).collect();
        let numbers = judge::numbers(&facts, measured);
        let invariants = judge::invariants(&facts, all);
        let measures = judge::Measures { all, measured, numbers: &numbers, seconds: facts.seconds };
        let thresholds: Vec<Judged> = scenario.thresholds.iter().map(|threshold| measures.judge(threshold)).collect();
        let doubts = judge::own_doubts(&scenario.own_limits, &facts, all);
        let (verdict, reasons) = judge::verdict(&invariants, &facts.findings, doubts, &thresholds);
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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

    #[test]
    fn the_json_is_what_its_schema_says() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../report.schema.json")).expect("the schema is JSON");
        let report = serde_json::to_value({
            let (scenario, place, facts, window) = good();
            RunReport::new(&scenario, place, facts, &window, &window)
        })
        .expect("plain data");
        let keys =
            |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&report), keys(&schema["properties"]), "every key is described and none is missing");
        assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
        assert_eq!(keys(&report["timings"]["hold.won"]), keys(&schema["$defs"]["timing"]["properties"]));
        assert_eq!(keys(&report["timeline"][0]), keys(&schema["$defs"]["second"]["properties"]));
        assert_eq!(keys(&report["own"]["workers"][0]), keys(&schema["$defs"]["worker"]["properties"]));
    }
}
