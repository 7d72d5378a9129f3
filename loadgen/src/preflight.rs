//! Can this machine carry the run? File descriptors, ports, clock, cores, and whether the server answers; each with the
//! real cause when not. Ends with 98 when something would spoil the numbers.

use crate::clock::{RunClock, wall_us};
use crate::coordinator;
use crate::process::{self, MachineCpu};
use crate::scenario::Scenario;
use seatwire_proto::id::EventId;
use std::time::{Duration, Instant};

/// File descriptors of a worker beside its sockets.
const SPARE_FDS: u64 = 64;
/// Timers sampled for the machine's own lateness.
const LATENESS_SAMPLES: u32 = 200;
/// A machine busier than this before the run leaves too little for it.
const MAX_BUSY_PCT: f64 = 50.0;

/// One look.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) is_good: bool,
    pub(crate) words: String,
}

fn check(name: &'static str, is_good: bool, words: String) -> Check {
    Check { name, is_good, words }
}

/// All looks.
pub(crate) async fn preflight(
    scenario: &Scenario,
    url: &str,
    event: Option<EventId>,
    workers: Option<u32>,
) -> Vec<Check> {
    vec![
        file_descriptors(scenario, workers),
        ports(scenario, url),
        clock().await,
        headroom().await,
        server(url, event).await,
    ]
}

fn file_descriptors(scenario: &Scenario, workers: Option<u32>) -> Check {
    let limit = process::raise_fd_limit();
    let workers = coordinator::viewer_workers(scenario.viewers, workers);
    let needed = u64::from(scenario.viewers.div_ceil(workers.max(1)).max(scenario.buyers)) + SPARE_FDS;
    let words = format!("{needed} needed in the largest of {} workers, {limit} allowed a process", workers + 1);
    if needed <= limit {
        check("file descriptors", true, words)
    } else {
        let enough = u64::from(scenario.viewers).div_ceil(limit.saturating_sub(SPARE_FDS).max(1));
        check("file descriptors", false, format!("{words}: raise `ulimit -Hn`, or run with --workers {enough}"))
    }
}

fn ports(scenario: &Scenario, url: &str) -> Check {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let bounds: Vec<u32> = range.split_whitespace().filter_map(|bound| bound.parse().ok()).collect();
    let ports = match bounds[..] {
        [low, high] if high > low => high - low + 1,
        _ => 28_000,
    };
    let is_loopback = url.contains("//127.") || url.contains("//localhost");
    let sockets = scenario.viewers + scenario.buyers;
    if is_loopback {
        return check("ports", true, format!("{sockets} sockets from many addresses 127.x.y.z, {ports} ports each"));
    }
    let words = format!("{sockets} sockets from one address, which has {ports} ports");
    check(
        "ports",
        sockets < ports,
        if sockets < ports { words } else { format!("{words}: widen net.ipv4.ip_local_port_range") },
    )
}

async fn clock() -> Check {
    let base_us = wall_us();
    let first = RunClock::since(base_us);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let second = RunClock::since(base_us);
    let difference_us = first.now_us().abs_diff(second.now_us());
    let words = format!("wall clock and monotonic clock drift {difference_us} us in 200 ms");
    check("clock", difference_us < 1_000, words)
}

async fn headroom() -> Check {
    let before = MachineCpu::read();
    let mut late_us = Vec::new();
    for _ in 0..LATENESS_SAMPLES {
        let due = Instant::now() + Duration::from_millis(5);
        tokio::time::sleep_until(due.into()).await;
        late_us.push(due.elapsed().as_micros());
    }
    late_us.sort_unstable();
    let p99_us = late_us[late_us.len() * 99 / 100];
    let busy_pct = MachineCpu::read().busy_pct_since(before);
    let words = format!(
        "{} cores, {busy_pct:.0} % busy before the run, timers {:.1} ms late at p99",
        process::cores(),
        p99_us as f64 / 1e3
    );
    let is_good = busy_pct < MAX_BUSY_PCT && p99_us < 10_000;
    check(
        "headroom",
        is_good,
        if is_good { words } else { format!("{words}: other work on this machine will be in the numbers") },
    )
}

async fn server(url: &str, event: Option<EventId>) -> Check {
    let http = match reqwest::Client::builder().timeout(Duration::from_secs(5)).build() {
        Ok(http) => http,
        Err(error) => return check("server", false, error.to_string()),
    };
    match coordinator::find_event(&http, url, event).await {
        Ok(event) => check(
            "server",
            true,
            format!(
                "{} ({}), {} of {} seats available",
                event.summary.name, event.summary.id, event.summary.available, event.summary.seat_count
            ),
        ),
        Err(error) => check("server", false, format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named() {
        let check = server("http://127.0.0.1:1", None).await;
        assert!(!check.is_good && check.words.contains("no server at http://127.0.0.1:1"), "{}", check.words);
    }

    #[test]
    fn too_many_sockets_for_a_process_say_how_many_workers_would_do() {
        let mut scenario = Scenario::preset("smoke").expect("it exists");
        assert!(file_descriptors(&scenario, None).is_good);
        scenario.buyers = u32::MAX / 2;
        assert!(!file_descriptors(&scenario, None).is_good);
    }
}
