//! The guard: a small process between `seatwire` and one embedded server, so that the server dies with `seatwire`
//! even when that is killed outright. `main` comes in here for the hidden subcommand `guard`; nothing leads on.
//! It waits for its standard input to end, which happens exactly when the process that started it is gone.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::owner::Owner;

/// Ended with this when the guard was called wrongly or could not start its program.
const EXIT_CANNOT_START: u8 = 70;
/// Standard input carries nothing; whatever comes is thrown away in pieces of this size.
const INPUT_BYTES: usize = 64;

/// The last rung cannot be refused; it only waits for the kernel.
const LAST_RUNG: (Signal, Duration) = (Signal::KILL, Duration::from_secs(2));
/// Ten seconds write out a 128 MB buffer pool even on a slow disk.
const POSTGRES_LADDER: &[(Signal, Duration)] =
    &[(Signal::INT, Duration::from_secs(10)), (Signal::QUIT, Duration::from_secs(3)), LAST_RUNG];
/// The append-only file is at most a second behind.
const REDIS_LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(5)), LAST_RUNG];

/// How a server wants to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// SIGINT is Postgres's fast shutdown, SIGQUIT its immediate one.
    Postgres,
    /// SIGTERM makes Redis write its append-only file out and end.
    Redis,
}

impl Manner {
    /// Signals in turn, each with how long it may take before the next one. The last cannot be refused.
    pub(super) fn ladder(self) -> &'static [(Signal, Duration)] {
        match self {
            Manner::Postgres => POSTGRES_LADDER,
            Manner::Redis => REDIS_LADDER,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Manner::Postgres => "postgres",
            Manner::Redis => "redis",
        }
    }

    fn from_word(word: &OsString) -> Option<Manner> {
        [Manner::Postgres, Manner::Redis].into_iter().find(|manner| word == manner.word())
    }
}

/// Runs the guard: `[--] MANNER OWNER PROGRAM ARGS..`, where OWNER is `uid:gid` or `-`. Blocks until the program
/// has ended, and returns its exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().skip_while(|arg| arg == "--").collect();
    let Some((manner, command)) = parse(&args) else {
        complain("expected MANNER OWNER PROGRAM ARGS");
        return ExitCode::from(EXIT_CANNOT_START);
    };
    let program = command.get_program().to_owned();
    // A thread of its own, so that it does not matter whether the caller already stands in a runtime.
    let guarding = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(watch(manner, command))
    });
    match guarding.join() {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(error)) => {
            complain(&format!("cannot run {}: {error}", program.to_string_lossy()));
            ExitCode::from(EXIT_CANNOT_START)
        }
        Err(_) => ExitCode::from(EXIT_CANNOT_START),
    }
}

/// Standard error is the server's log file here, and no telemetry runs.
fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "guard: {what}");
}

fn parse(args: &[OsString]) -> Option<(Manner, Command)> {
    let [manner, owner, program, rest @ ..] = args else { return None };
    let manner = Manner::from_word(manner)?;
    let mut command = Command::new(program);
    // The working folder of the caller may be closed to the owner.
    command.args(rest).stdin(Stdio::null()).current_dir("/").process_group(0);
    if owner != "-" {
        let (uid, gid) = owner.to_str()?.split_once(':')?;
        Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? }.apply(&mut command);
    }
    Some((manner, command))
}

async fn watch(manner: Manner, command: Command) -> std::io::Result<u8> {
    // Ctrl-C and a service manager's SIGTERM reach every process; only the pipe decides here, because the server
    // must outlive the drain of the process that uses it. A handler that does nothing is how a signal is ignored
    // without passing that on to the program.
    let mut deaf = Vec::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
        deaf.push(signal(kind)?);
    }
    let mut child = tokio::process::Command::from(command).spawn()?;
    let (gone, parent_gone) = oneshot::channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut thrown_away = [0; INPUT_BYTES];
        while matches!(input.read(&mut thrown_away), Ok(1..)) {}
        // Nobody listens any more when the program ended first.
        let _ = gone.send(());
    });
    tokio::select! {
        status = child.wait() => return Ok(exit_code(status?)),
        _ = parent_gone => {}
    }
    for &(signal, within) in manner.ladder() {
        send(&child, signal);
        if let Ok(status) = timeout(within, child.wait()).await {
            return Ok(exit_code(status?));
        }
    }
    Ok(EXIT_CANNOT_START)
}

fn send(child: &Child, signal: Signal) {
    let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
    // It may have ended in between, which is what we want.
    let _ = kill_process(pid, signal);
}

fn exit_code(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_CANNOT_START)
}
