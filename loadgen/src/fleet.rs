//! The worker processes of a run: started, told, listened to. A worker that ends before its last word is reported as
//! lost and never silently left out. `coordinator` and `memory` command it.

use crate::clock::RunClock;
use crate::pipe::{Instruction, Plan, Report};
use anyhow::Context as _;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

/// Reports that may wait for the coordinator; a full queue slows the readers, and through the pipe the workers.
const MAX_REPORTS: usize = 1_024;

/// What came from a worker.
#[derive(Debug)]
pub(crate) enum Heard {
    Said(Report),
    /// Ended, or said what nobody understands.
    Lost(String),
}

struct Worker {
    /// Killed when it is dropped.
    _child: Child,
    input: ChildStdin,
}

/// All workers.
pub(crate) struct Fleet {
    workers: Vec<Worker>,
    reports: mpsc::Receiver<(usize, Heard)>,
}

impl Fleet {
    /// Starts a worker for each plan.
    pub(crate) async fn start(plans: Vec<Plan>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("where is this program?")?;
        let (heard, reports) = mpsc::channel(MAX_REPORTS);
        let mut workers = Vec::new();
        for plan in plans {
            let mut child = Command::new(&program)
                .arg("worker")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .context("a worker process cannot be started")?;
            let output = child.stdout.take().context("a worker has no output")?;
            let input = child.stdin.take().context("a worker has no input")?;
            tokio::spawn(listen(workers.len(), output, heard.clone()));
            workers.push(Worker { _child: child, input });
            let no = workers.len() - 1;
            tell(&mut workers[no].input, &Instruction::Plan(Box::new(plan))).await.context("a worker takes no plan")?;
        }
        Ok(Self { workers, reports })
    }

    /// The next thing a worker says.
    pub(crate) async fn next(&mut self) -> Option<(usize, Heard)> {
        self.reports.recv().await
    }

    /// Tells one worker. One that is gone will be heard of as lost.
    pub(crate) async fn tell(&mut self, worker: usize, instruction: &Instruction) {
        let _ = tell(&mut self.workers[worker].input, instruction).await;
    }

    /// How far each worker's clock is from ours, in microseconds: half the round trip bounds what cannot be known.
    pub(crate) async fn clock_offsets(&mut self, clock: RunClock) -> Vec<ClockOffset> {
        let mut offsets = Vec::new();
        for worker in 0..self.workers.len() {
            let asked_us = clock.now_us();
            self.tell(worker, &Instruction::Clock).await;
            while let Some((who, heard)) = self.next().await {
                match heard {
                    Heard::Said(Report::Clock { now_us }) if who == worker => {
                        let answered_us = clock.now_us();
                        let middle_us = i64::try_from(asked_us.midpoint(answered_us)).unwrap_or(i64::MAX);
                        offsets.push(ClockOffset {
                            offset_us: i64::try_from(now_us).unwrap_or(i64::MAX) - middle_us,
                            uncertainty_us: (answered_us - asked_us) / 2,
                        });
                        break;
                    }
                    Heard::Lost(_) => return offsets,
                    Heard::Said(_) => {}
                }
            }
        }
        offsets
    }
}

/// A worker's clock against the coordinator's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockOffset {
    pub(crate) offset_us: i64,
    pub(crate) uncertainty_us: u64,
}

impl ClockOffset {
    /// What is certainly wrong, whatever the pipe did.
    pub(crate) fn error_us(self) -> u64 {
        self.offset_us.unsigned_abs().saturating_sub(self.uncertainty_us)
    }
}

async fn tell(input: &mut ChildStdin, instruction: &Instruction) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(instruction)?;
    line.push(b'\n');
    input.write_all(&line).await?;
    input.flush().await?;
    Ok(())
}

async fn listen(no: usize, output: tokio::process::ChildStdout, heard: mpsc::Sender<(usize, Heard)>) {
    let mut lines = BufReader::new(output).lines();
    let mut is_final = false;
    let reason = loop {
        match lines.next_line().await {
            Ok(Some(line)) => match serde_json::from_str::<Report>(&line) {
                Ok(report) => {
                    is_final |= matches!(report, Report::Final { .. });
                    if heard.send((no, Heard::Said(report))).await.is_err() {
                        return;
                    }
                }
                Err(error) => break format!("said what is no report: {error}"),
            },
            Ok(None) => break "its process ended".to_owned(),
            Err(error) => break format!("cannot be heard: {error}"),
        }
    };
    if !is_final {
        let _ = heard.send((no, Heard::Lost(reason))).await;
    }
}
