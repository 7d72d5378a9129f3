//! What the coordinator has heard so far: windows, progress, the log, doubts. Pure bookkeeping, no waiting;
//! at the end it becomes the report.

use super::cpu_pct;
use crate::buyer::JsonMap;
use crate::check::{self, Entry, Findings, PaidOrder};
use crate::fleet::Heard;
use crate::pipe::{Progress, Report, Stood};
use crate::process::{self, MachineCpu, Usage};
use crate::report::{Facts, Own, Place, Row, RunReport, ServerProcess, WorkerUse};
use crate::scenario::Scenario;
use crate::tally::{Count, Timing, Window};
use crate::terminal::Status;
use seatwire_proto::digest::Digest;
use std::collections::BTreeMap;

/// A second's row is closed this long after its end: workers ship it four seconds late and then once a second.
const ROW_DELAY_S: u32 = 7;

#[derive(Debug, Default)]
struct WorkerState {
    progress: Progress,
    at_begin: Option<Progress>,
    at_end: Option<Progress>,
    lost: Option<String>,
    is_final: bool,
}

/// Usage of the server's processes at one time.
#[derive(Debug, Clone, Default)]
struct Look {
    at_us: u64,
    machine: MachineCpu,
    family: BTreeMap<String, Usage>,
}

/// Everything heard.
#[derive(Debug)]
pub(crate) struct Books {
    states: Vec<WorkerState>,
    viewer_workers: usize,
    server_pid: Option<u32>,
    /// Name of the server's process among its family.
    server_name: String,
    pub(crate) clock_offsets_us: Vec<i64>,
    /// Whole run, joining included.
    all: Window,
    /// From the barrier on.
    measured: Window,
    open: BTreeMap<u32, Window>,
    rows: Vec<Row>,
    /// Server usage by second.
    looks: BTreeMap<u32, Look>,
    log: Vec<Entry>,
    pub(crate) paid: Vec<PaidOrder>,
    pub(crate) stood: Vec<Stood>,
    pub(crate) absent: u32,
    pub(crate) stands_due: u32,
    pub(crate) behind: u32,
    pub(crate) differing: u32,
    pub(crate) is_served: bool,
    pub(crate) is_interrupted: bool,
    start_us: u64,
    end_us: u64,
    doubts: Vec<String>,
    findings: Findings,
    map_before: BTreeMap<String, u64>,
}

impl Books {
    pub(crate) fn new(workers: usize, viewer_workers: usize, server_pid: Option<u32>) -> Self {
        Self {
            states: (0..workers).map(|_| WorkerState::default()).collect(),
            viewer_workers,
            server_pid,
            server_name: server_pid.and_then(process::name).unwrap_or_default(),
            clock_offsets_us: Vec::new(),
            all: Window::default(),
            measured: Window::default(),
            open: BTreeMap::new(),
            rows: Vec::new(),
            looks: BTreeMap::new(),
            log: Vec::new(),
            paid: Vec::new(),
            stood: Vec::new(),
            absent: 0,
            stands_due: 0,
            behind: 0,
            differing: 0,
            is_served: false,
            is_interrupted: false,
            start_us: u64::MAX,
            end_us: u64::MAX,
            doubts: Vec::new(),
            findings: Findings::default(),
            map_before: BTreeMap::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.states.len()
    }

    /// A reason not to believe the numbers.
    pub(crate) fn doubt(&mut self, reason: String) {
        if !self.doubts.contains(&reason) {
            self.doubts.push(reason);
        }
    }

    pub(crate) fn hear(&mut self, worker: usize, heard: Heard) {
        match heard {
            Heard::Lost(reason) => {
                self.doubt(format!("worker {worker} was lost: {reason}"));
                self.states[worker].lost.get_or_insert(reason);
            }
            Heard::Said(Report::Failed { reason }) => self.doubt(format!("worker {worker} failed: {reason}")),
            Heard::Said(Report::Progress(progress)) => {
                let state = &mut self.states[worker];
                if progress.at_us >= self.start_us && state.at_begin.is_none() {
                    state.at_begin = Some(progress.clone());
                }
                if progress.at_us <= self.end_us {
                    state.at_end = Some(progress.clone());
                }
                state.progress = progress;
            }
            Heard::Said(Report::Windows { windows }) => {
                for line in windows {
                    match line.window() {
                        Ok(window) => self.add_window(line.second, &window),
                        Err(bad) => self.doubt(format!("worker {worker} sent a window that does not read: {}", bad.0)),
                    }
                }
            }
            Heard::Said(Report::Log { entries }) => self.log.extend(entries),
            Heard::Said(Report::Served) => self.is_served = true,
            Heard::Said(Report::Stand { standings, absent }) => {
                self.stood.extend(standings);
                self.absent += absent;
                self.stands_due = self.stands_due.saturating_sub(1);
            }
            Heard::Said(Report::Final { paid }) => {
                self.paid.extend(paid);
                self.states[worker].is_final = true;
            }
            Heard::Said(Report::Clock { .. } | Report::Commits { .. }) => {}
        }
    }

    fn add_window(&mut self, second: u32, window: &Window) {
        self.all.merge(window);
        let first_us = u64::from(second) * 1_000_000;
        if first_us + 999_999 >= self.start_us && first_us <= self.end_us {
            self.measured.merge(window);
        }
        if self.rows.last().is_none_or(|row| row.second < second) {
            self.open.entry(second).or_default().merge(window);
        }
    }

    /// The barrier fell.
    pub(crate) fn begin(&mut self, start_us: u64, now_us: u64) {
        self.start_us = start_us;
        self.look_at_server(now_us);
    }

    /// All buyers are done.
    pub(crate) fn end_phases(&mut self, now_us: u64) {
        self.look_at_server(now_us);
        self.end_us = now_us;
    }

    pub(crate) fn map_before(&mut self, map: &JsonMap) {
        for state in &map.states {
            let name = ["available", "held", "sold", "blocked"].get(usize::from(*state)).copied().unwrap_or("unknown");
            *self.map_before.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Reads the server's processes, at most once a second.
    pub(crate) fn look_at_server(&mut self, now_us: u64) {
        let second = (now_us / 1_000_000) as u32;
        if !self.looks.contains_key(&second) {
            let family = self.server_pid.map(process::family).unwrap_or_default();
            self.looks.insert(second, Look { at_us: now_us, machine: MachineCpu::read(), family });
        }
    }

    pub(crate) fn ready_viewers(&self) -> u32 {
        self.states[..self.viewer_workers].iter().map(|state| state.progress.ready).sum()
    }

    pub(crate) fn ready_buyers(&self) -> u32 {
        self.states[self.viewer_workers..].iter().map(|state| state.progress.ready).sum()
    }

    pub(crate) fn first_failure(&self) -> Option<String> {
        self.states.iter().find_map(|state| state.progress.first_failure.clone())
    }

    pub(crate) fn is_lost(&self, worker: usize) -> bool {
        self.states[worker].lost.is_some()
    }

    pub(crate) fn is_final(&self, worker: usize) -> bool {
        self.states[worker].is_final
    }

    pub(crate) fn has_lost_all(&self) -> bool {
        self.states.iter().all(|state| state.lost.is_some())
    }

    pub(crate) fn has_lost_buyers(&self) -> bool {
        self.states[self.viewer_workers..].iter().all(|state| state.lost.is_some())
    }

    /// Compares where viewers stand with the map.
    pub(crate) fn compare_standings(&mut self, map: &JsonMap, digest: Digest, standings: &[Stood]) {
        let place = |stood: &Stood| (stood.epoch, stood.seq);
        self.behind = standings.iter().filter(|s| place(s) < (map.epoch, map.seq)).map(|s| s.viewers).sum();
        self.differing = standings
            .iter()
            .filter(|s| place(s) == (map.epoch, map.seq) && s.digest != digest.0)
            .map(|s| s.viewers)
            .sum();
    }

    /// Replays the log and compares it with the end.
    pub(crate) fn check(&mut self, before: &[u8], after: &[u8], paid: &[PaidOrder]) {
        let mut findings = check::replay(&self.log, before);
        check::compare(&self.log, after, paid, &mut findings);
        self.findings = findings;
    }

    /// What the screen shows.
    pub(crate) fn status(&mut self, word: &str, share: f64, now_us: u64) -> Status {
        self.close_rows(((now_us / 1_000_000) as u32).saturating_sub(ROW_DELAY_S));
        let (server_cpu_pct, server_heap_bytes) =
            self.looks.keys().next_back().map(|second| self.server_at(*second)).unwrap_or_default();
        Status {
            word: word.to_owned(),
            share: share.clamp(0.0, 1.0),
            now_us,
            viewers: self.ready_viewers(),
            buyers: self.ready_buyers(),
            row: self.rows.last().cloned(),
            won: self.all.count(Count::HoldsWon),
            lost: self.all.count(Count::HoldsLost),
            paid: self.all.count(Count::Paid),
            trouble: self.doubts.last().cloned().or_else(|| self.first_failure()),
            server_cpu_pct,
            server_heap_bytes,
        }
    }

    /// CPU of the server's process since the look before, and its heap.
    fn server_at(&self, second: u32) -> (Option<f64>, Option<u64>) {
        let Some(look) = self.looks.get(&second) else { return (None, None) };
        let heap = look.family.get(&self.server_name).map(|usage| usage.heap_bytes);
        let cpu = self.looks.range(..second).next_back().and_then(|(_, before)| {
            let (now, then) = (look.family.get(&self.server_name)?, before.family.get(&self.server_name)?);
            Some(cpu_pct(now.cpu_us.checked_sub(then.cpu_us)?, look.at_us - before.at_us))
        });
        (cpu, heap)
    }

    fn close_rows(&mut self, before: u32) {
        while let Some(first) = self.open.first_entry() {
            if *first.key() >= before {
                break;
            }
            let (second, window) = first.remove_entry();
            let (server_cpu_pct, server_heap_bytes) = self.server_at(second);
            let machine_cpu_pct = self.looks.get(&second).and_then(|look| {
                let (_, before) = self.looks.range(..second).next_back()?;
                Some(look.machine.busy_pct_since(before.machine))
            });
            self.rows.push(Row::of(second, &window, server_cpu_pct, server_heap_bytes, machine_cpu_pct));
        }
    }

    fn worker_use(&self) -> Vec<WorkerUse> {
        let of = |(worker, state): (usize, &WorkerState)| {
            let (begin, end) = (state.at_begin.clone().unwrap_or_default(), state.at_end.clone().unwrap_or_default());
            WorkerUse {
                role: if worker < self.viewer_workers { "viewers" } else { "buyers" }.to_owned(),
                cpu_pct: cpu_pct(end.cpu_us.saturating_sub(begin.cpu_us), end.at_us.saturating_sub(begin.at_us)),
                rss_bytes: state.progress.rss_bytes,
                sockets: state.progress.ready,
            }
        };
        self.states.iter().enumerate().map(of).collect()
    }

    fn server_processes(&self) -> Vec<ServerProcess> {
        let second = |at_us: u64| u32::try_from(at_us / 1_000_000).unwrap_or(u32::MAX);
        let (start, end) = (second(self.start_us), second(self.end_us));
        let mut inside = self.looks.range(start.min(end)..=end).map(|(_, look)| look);
        let Some(first) = inside.next() else { return Vec::new() };
        let last = inside.next_back().unwrap_or(first);
        let of = |(name, usage): (&String, &Usage)| {
            let cpu_before_us = first.family.get(name).map_or(0, |usage| usage.cpu_us);
            let used_us = usage.cpu_us.saturating_sub(cpu_before_us);
            let heaps = self.looks.values().filter_map(|look| look.family.get(name)).map(|usage| usage.heap_bytes);
            ServerProcess {
                name: name.clone(),
                is_named: *name == self.server_name,
                cpu_us: used_us,
                cpu_pct: cpu_pct(used_us, last.at_us - first.at_us),
                heap_bytes_max: heaps.max().unwrap_or(0),
                rss_bytes: usage.rss_bytes,
            }
        };
        last.family.iter().map(of).collect()
    }

    /// The report.
    pub(crate) fn report(mut self, scenario: &Scenario, place: Place) -> RunReport {
        self.close_rows(u32::MAX);
        let lag_p99_us = [Timing::LagViewers, Timing::LagBuyers]
            .iter()
            .filter_map(|timing| self.measured.timing(*timing))
            .map(|times| times.value_at_quantile(0.99))
            .max()
            .unwrap_or(0);
        let own = Own { lag_p99_us, workers: self.worker_use(), clock_offsets_us: self.clock_offsets_us.clone() };
        let has_begun = self.start_us != u64::MAX;
        let facts = Facts {
            seconds: if has_begun { self.end_us.saturating_sub(self.start_us) as f64 / 1e6 } else { 0.0 },
            start_second: if has_begun { (self.start_us / 1_000_000) as u32 } else { 0 },
            own,
            server: self.server_processes(),
            lost_workers: self.states.iter().filter(|state| state.lost.is_some()).count() as u64,
            viewers_ready: self.ready_viewers(),
            viewers_absent: self.absent,
            viewers_behind: self.behind,
            viewers_differing: self.differing,
            doubts: self.doubts,
            findings: self.findings,
            log_entries: self.log.len() as u64,
            map_before: self.map_before,
            rows: self.rows,
        };
        RunReport::new(scenario, place, facts, &self.all, &self.measured)
    }
}
