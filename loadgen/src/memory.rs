//! What one more idle viewer costs the server: open a thousand, read its heap, open the rest, read again, send a
//! snapshot to all, read again. Nothing else is asked of the server meanwhile. Ends with 99 above the bound.

use crate::clock::{RunClock, wall_us};
use crate::coordinator::{self, find_event};
use crate::fleet::{Fleet, Heard};
use crate::pipe::{Instruction, Plan, Report, Role, ViewerPlan};
use crate::process;
use crate::tally::{Count, Window};
use anyhow::{Context as _, bail};
use seatwire_proto::id::EventId;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Viewers whose cost is not counted: what the server allocates once.
const FIRST: u32 = 1_000;
/// Readings of the heap; the smallest counts, so that what a request borrowed for a moment does not.
const READINGS: u32 = 10;
const BETWEEN_READINGS: Duration = Duration::from_millis(300);
/// Time for the server to give back what joining needed.
const REST: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);

/// What was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) url: String,
    pub(crate) event: Option<EventId>,
    pub(crate) viewers: u32,
    pub(crate) workers: Option<u32>,
    pub(crate) connects_per_s: f64,
    pub(crate) server_pid: u32,
}

/// Heap a viewer, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) idle_bytes: f64,
    pub(crate) after_snapshot_bytes: f64,
    pub(crate) viewers: u32,
    pub(crate) snapshots: u64,
}

struct Crowd {
    fleet: Fleet,
    ready: Vec<u32>,
    counted: Window,
}

impl Crowd {
    /// Listens until enough viewers have a map and enough snapshots came.
    async fn wait(&mut self, viewers: u32, snapshots: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.ready.iter().sum::<u32>() < viewers || self.counted.count(Count::Snapshots) < snapshots {
            let heard = timeout_at(deadline, self.fleet.next()).await;
            let Some((worker, heard)) = heard.ok().flatten() else {
                bail!(
                    "only {} of {viewers} viewers and {} of {snapshots} snapshots after {} s",
                    self.ready.iter().sum::<u32>(),
                    self.counted.count(Count::Snapshots),
                    PATIENCE.as_secs()
                );
            };
            match heard {
                Heard::Said(Report::Progress(progress)) => self.ready[worker] = progress.ready,
                Heard::Said(Report::Windows { windows }) => {
                    for line in windows {
                        let window =
                            line.window().map_err(|bad| anyhow::anyhow!("a window does not read: {}", bad.0))?;
                        self.counted.merge(&window);
                    }
                }
                Heard::Said(Report::Failed { reason }) | Heard::Lost(reason) => bail!("a worker was lost: {reason}"),
                Heard::Said(_) => {}
            }
        }
        Ok(())
    }

    /// Tells each worker its share of so many viewers.
    async fn grow(&mut self, viewers: u32) {
        let workers = self.ready.len() as u32;
        for worker in 0..workers {
            let share = viewers / workers + u32::from(worker < viewers % workers);
            self.fleet.tell(worker as usize, &Instruction::Grow { viewers: share }).await;
        }
    }
}

async fn heap(pid: u32) -> anyhow::Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..READINGS {
        let usage = process::usage(pid).with_context(|| format!("process {pid} cannot be read"))?;
        least = least.min(usage.heap_bytes);
        sleep(BETWEEN_READINGS).await;
    }
    Ok(least)
}

/// Measures, telling each step to `say`.
pub(crate) async fn measure(options: &Options, say: impl Fn(&str)) -> anyhow::Result<Cost> {
    if options.viewers <= FIRST {
        bail!("--viewers must be above {FIRST}: the first thousand are the floor");
    }
    let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?;
    let event = find_event(&http, &options.url, options.event).await?;
    let base_us = wall_us();
    let workers = coordinator::viewer_workers(options.viewers, options.workers);
    let run = coordinator::run_number();
    let plan = |worker| Plan {
        worker,
        run,
        seed: 0,
        base_us,
        url: options.url.clone(),
        event: event.summary.id,
        role: Role::Viewers(ViewerPlan {
            viewers: 0,
            whole_maps: 0,
            connects_per_s: options.connects_per_s / f64::from(workers),
            accepts_packed2: false,
        }),
    };
    let fleet = Fleet::start((0..workers).map(plan).collect()).await?;
    let mut crowd = Crowd { fleet, ready: vec![0; workers as usize], counted: Window::default() };
    crowd.fleet.clock_offsets(RunClock::since(base_us)).await;
    say(&format!("heap before anybody came: {} B", heap(options.server_pid).await?));
    crowd.grow(FIRST).await;
    crowd.wait(FIRST, u64::from(FIRST)).await?;
    sleep(REST).await;
    let floor = heap(options.server_pid).await?;
    say(&format!("heap with {FIRST} viewers: {floor} B"));
    crowd.grow(options.viewers).await;
    crowd.wait(options.viewers, u64::from(options.viewers)).await?;
    sleep(REST).await;
    let full = heap(options.server_pid).await?;
    say(&format!("heap with {} viewers: {full} B", options.viewers));
    for worker in 0..workers as usize {
        crowd.fleet.tell(worker, &Instruction::ResyncAll).await;
    }
    crowd.wait(options.viewers, 2 * u64::from(options.viewers)).await?;
    sleep(REST).await;
    let after = heap(options.server_pid).await?;
    say(&format!("heap after a snapshot to all: {after} B"));
    let more = f64::from(options.viewers - FIRST);
    Ok(Cost {
        idle_bytes: (full as f64 - floor as f64) / more,
        after_snapshot_bytes: (after as f64 - floor as f64) / more,
        viewers: options.viewers,
        snapshots: crowd.counted.count(Count::Snapshots),
    })
}
