//! Keeps one embedded server running: starts it under a guard, waits until it answers, starts it again when it
//! dies, stops it when told. `embedded` comes in here with an order; `guard` is what gets started.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process, test_kill_process};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::guard::Manner;
use super::owner::Owner;
use super::{EmbeddedError, home};

/// Pause before a dead server is started again; doubled while it keeps dying young, up to `PAUSE_MAX`.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// A server that cannot run is tried this often for ever: the cause (a full disk) may go away.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A server that lived at least this long did not die young.
const YOUNG: Duration = Duration::from_secs(10);
/// Between two looks whether a starting server answers, or a signalled process is gone.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The guard is given up after this; its own ladder of signals ends well before.
const GUARD_STOP_MAX: Duration = Duration::from_secs(20);
/// How much of a log's end is searched for its last line.
const TAIL_BYTES: u64 = 2048;

/// Everything needed to start a server, and to start it again.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) name: &'static str,
    pub(super) manner: Manner,
    pub(super) guard_program: Option<PathBuf>,
    pub(super) owner: Option<Owner>,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) log: PathBuf,
    pub(super) orphan: Orphan,
}

/// How to recognise a server of ours that outlived its guard, and what it leaves behind.
#[derive(Debug, Clone)]
pub(super) struct Orphan {
    /// The server writes its process id as the first line of this.
    pub(super) pid_file: PathBuf,
    /// A string only a server of this data folder has in its command line.
    pub(super) mark: String,
    /// Lock files whose process is not ours: left over from another life (another container, another boot).
    pub(super) locks: Vec<PathBuf>,
}

/// A server under supervision.
#[derive(Debug)]
pub(super) struct Supervised {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The guard's process, and the pipe that keeps it guarding.
#[derive(Debug)]
struct Guarded {
    process: Child,
    pipe: Option<ChildStdin>,
    born: Instant,
}

/// Starts the server and waits until `answers` says so, at most `within`.
pub(super) async fn start<F>(
    order: Order,
    answers: impl Fn() -> F,
    within: Duration,
) -> Result<Supervised, EmbeddedError>
where
    F: Future<Output = bool>,
{
    order.orphan.end(order.manner).await;
    let mut guarded = order.spawn()?;
    let ready = async {
        while !answers().await {
            sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        _ = guarded.process.wait() => {
            return Err(EmbeddedError::Ended { name: order.name, tail: last_words(&order.log), log: order.log });
        }
        ready = timeout(within, ready) => if ready.is_err() {
            guarded.stop().await;
            return Err(EmbeddedError::NotReady { name: order.name, waited_s: within.as_secs(), log: order.log });
        }
    }
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(keep_running(order, guarded, stopped));
    Ok(Supervised { stop, task })
}

impl Supervised {
    /// Stops the server and waits for its end.
    pub(super) async fn stop(self) {
        // The task only ends by itself when it panicked, and then its pipe is closed already.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

impl Order {
    fn spawn(&self) -> Result<Guarded, EmbeddedError> {
        let log = home::open_log(&self.log)?;
        let log_too = log.try_clone().map_err(EmbeddedError::file("opening", &self.log))?;
        let guard_program = self.guard_program.clone().unwrap_or_else(own_program);
        let owner = self.owner.as_ref().map_or_else(|| "-".to_owned(), |owner| format!("{}:{}", owner.uid, owner.gid));
        let mut command = Command::new(&guard_program);
        command
            .args(["guard", "--", self.manner.word(), &owner])
            .arg(&self.program)
            .args(&self.args)
            .arg0("seatwire")
            // A broken LANG stops Redis from starting.
            .env("LC_ALL", "C")
            .env_remove("DATABASE_URL")
            .env_remove("REDIS_URL")
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(log_too)
            .process_group(0);
        let mut process = command.spawn().map_err(EmbeddedError::file("starting", &guard_program))?;
        let pipe = process.stdin.take();
        Ok(Guarded { process, pipe, born: Instant::now() })
    }
}

impl Guarded {
    async fn stop(&mut self) {
        drop(self.pipe.take());
        if timeout(GUARD_STOP_MAX, self.process.wait()).await.is_err() {
            tracing::warn!("a guard did not end in time and is left to itself");
        }
    }
}

async fn keep_running(order: Order, mut guarded: Guarded, mut stopped: oneshot::Receiver<()>) {
    let mut pause = PAUSE_FIRST;
    loop {
        let status = tokio::select! {
            // Also when the handle was dropped.
            _ = &mut stopped => return guarded.stop().await,
            status = guarded.process.wait() => status,
        };
        pause = if guarded.born.elapsed() < YOUNG { pause } else { PAUSE_FIRST };
        tracing::warn!(
            server = order.name,
            ?status,
            pause_ms = pause.as_millis(),
            "an embedded server ended; starting it again"
        );
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
            order.orphan.end(order.manner).await;
            match order.spawn() {
                Ok(again) => {
                    guarded = again;
                    break;
                }
                Err(error) => tracing::error!(server = order.name, %error, "cannot start an embedded server again"),
            }
        }
    }
}

impl Orphan {
    /// Ends a server of ours that nobody guards any more, and removes locks nobody holds.
    async fn end(&self, manner: Manner) {
        if let Some(pid) = self.living() {
            tracing::warn!(pid = pid.as_raw_nonzero().get(), "ending an embedded server that outlived its guard");
            'ladder: for &(signal, within) in manner.ladder() {
                // It may have ended in between, which is what we want.
                let _ = kill_process(pid, signal);
                let began = Instant::now();
                while began.elapsed() < within {
                    if self.living() != Some(pid) {
                        break 'ladder;
                    }
                    sleep(LOOK_EVERY).await;
                }
            }
        }
        for lock in &self.locks {
            // A dead process's lock is judged by the server itself, which also looks for its surviving children.
            // Only a number that now belongs to a stranger would keep it from starting.
            if let Some(pid) = first_line_pid(lock)
                && test_kill_process(pid).is_ok()
                && !self.is_ours(pid)
            {
                tracing::warn!(lock = %lock.display(), "removing a lock whose process id now belongs to a stranger");
                let _ = fs::remove_file(lock);
            }
        }
    }

    fn living(&self) -> Option<Pid> {
        first_line_pid(&self.pid_file).filter(|&pid| self.is_ours(pid))
    }

    fn is_ours(&self, pid: Pid) -> bool {
        command_line(pid).contains(&self.mark)
    }
}

fn first_line_pid(file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(file).ok()?;
    // Postgres writes its number negative while it runs without a postmaster.
    let number: i32 = text.lines().next()?.trim().trim_start_matches('-').parse().ok()?;
    Pid::from_raw(number)
}

/// Empty when there is no such process, or only its husk.
fn command_line(pid: Pid) -> String {
    let number = pid.as_raw_nonzero().get().to_string();
    if cfg!(target_os = "linux") {
        let bytes = fs::read(Path::new("/proc").join(number).join("cmdline")).unwrap_or_default();
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let output = std::process::Command::new("ps").args(["-o", "command=", "-p", &number]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Ourselves. On Linux by the link the kernel keeps, which still works after the file was replaced by a new build.
fn own_program() -> PathBuf {
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        link.to_path_buf()
    } else {
        std::env::current_exe().unwrap_or_else(|_| PathBuf::from("seatwire"))
    }
}

/// The line of the log that most likely says why the server ended.
fn last_words(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    // Postgres says goodbye after it said why.
    let why = lines.clone().find(|line| line.contains("FATAL") || line.contains("PANIC")).or_else(|| lines.next());
    why.unwrap_or("it wrote nothing").trim().to_owned()
}
