//! The `seatwire-loadgen` command: rehearses an on-sale with real sockets and says whether it may be believed.
//! `run` goes to `coordinator`, which starts this program again as `worker`s; README.md defines every number.

mod buyer;
mod check;
mod clock;
mod coordinator;
mod delivery;
mod fleet;
mod line;
mod memory;
mod pace;
mod pipe;
mod preflight;
mod process;
mod report;
mod scenario;
mod socket;
mod tally;
mod terminal;
mod viewer;
mod worker;

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand};
use scenario::{PRESETS, Scenario};
use seatwire_proto::id::EventId;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal::{Paint, Screen};

/// Bad arguments or a run that could not begin.
const EXIT_USAGE: u8 = 2;

#[derive(Parser)]
#[command(
    name = "seatwire-loadgen",
    version,
    about = "Rehearses an on-sale: viewers, buyers, and a check that nothing was sold twice."
)]
#[command(after_help = "Exit: 0 passed, 99 threshold missed, 98 not to be believed, 97 invariant broken, 2 usage.")]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Args)]
struct Shape {
    /// A TOML file, or a preset: smoke, onsale_5k, holds_500, holds_10k
    #[arg(default_value = "smoke")]
    scenario: String,
    /// Instead of the scenario's
    #[arg(long)]
    viewers: Option<u32>,
    /// Instead of the scenario's
    #[arg(long)]
    buyers: Option<u32>,
    /// Length of all phases together; their shape is kept
    #[arg(long)]
    seconds: Option<f64>,
    /// Mean arrivals a second; the phases' shape is kept
    #[arg(long)]
    holds_per_s: Option<f64>,
    /// New sockets a second
    #[arg(long)]
    connects_per_s: Option<f64>,
    /// Chance: one seed is one schedule
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Args)]
struct Where {
    /// The server
    #[arg(long, env = "SEATWIRE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Which event; the largest on sale if absent
    #[arg(long)]
    event: Option<EventId>,
    /// Processes for viewers; as few as file descriptors allow if absent
    #[arg(long)]
    workers: Option<u32>,
}

#[derive(Subcommand)]
enum Cmd {
    /// Rehearse
    Run {
        #[command(flatten)]
        shape: Shape,
        #[command(flatten)]
        place: Where,
        /// Folder for report.json, report.html and junit.xml
        #[arg(long)]
        out: Option<PathBuf>,
        /// Read CPU and memory of this process and its children
        #[arg(long)]
        server_pid: Option<u32>,
        /// Show nothing while it runs
        #[arg(long)]
        quiet: bool,
    },
    /// Print the schedule of arrivals
    Plan {
        #[command(flatten)]
        shape: Shape,
        /// Every arrival, not only how many a second
        #[arg(long)]
        all: bool,
    },
    /// See whether this machine can carry the run
    Preflight {
        #[command(flatten)]
        shape: Shape,
        #[command(flatten)]
        place: Where,
    },
    /// Put two reports side by side
    Compare {
        /// A report.json
        before: PathBuf,
        /// Another
        after: PathBuf,
    },
    /// Measure the server's heap per idle viewer, before and after a snapshot to all
    Memory {
        #[command(flatten)]
        place: Where,
        /// How many in the end; the first 1,000 are the floor
        #[arg(long, default_value_t = 5_000)]
        viewers: u32,
        /// The server's process
        #[arg(long)]
        server_pid: u32,
        /// New sockets a second
        #[arg(long, default_value_t = 500.0)]
        connects_per_s: f64,
        /// Bytes a viewer that are allowed, both times
        #[arg(long, default_value_t = 1_024.0)]
        max_bytes: f64,
    },
    /// Print a preset
    Preset {
        /// Its name; all names if absent
        name: Option<String>,
    },
    #[command(hide = true)]
    Worker,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    // One thread: a worker's lateness must be that of its loop, and cores are for the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.context("no runtime").and_then(|runtime| runtime.block_on(execute(cli.command)));
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "seatwire-loadgen: {error:#}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn print(text: &str) {
    // A reader that went away, as `head` does, is no failure.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

async fn execute(command: Cmd) -> anyhow::Result<u8> {
    match command {
        Cmd::Worker => worker::run().await.map(|()| 0),
        Cmd::Run { shape, place, out, server_pid, quiet } => {
            let options = coordinator::Options {
                scenario: shape.scenario()?,
                url: place.url(),
                event: place.event,
                seed: shape.seed,
                workers: place.workers,
                server_pid,
            };
            let report = coordinator::run(&options, Screen::new(quiet)).await?;
            print(&report::summary(&report, Paint::for_stdout()));
            if let Some(folder) = out {
                report.write(&folder)?;
                print(&format!("\n{}\n", folder.join("report.html").display()));
            }
            Ok(report.exit_code)
        }
        Cmd::Plan { shape, all } => {
            print(&plan(&shape.scenario()?, shape.seed, all));
            Ok(0)
        }
        Cmd::Preflight { shape, place } => {
            let checks = preflight::preflight(&shape.scenario()?, &place.url(), place.event, place.workers).await;
            let paint = Paint::for_stdout();
            for check in &checks {
                print(&format!("{} {:<17} {}\n", paint.mark(check.is_good), check.name, check.words));
            }
            Ok(if checks.iter().all(|check| check.is_good) { 0 } else { report::Verdict::Invalid.exit_code() })
        }
        Cmd::Compare { before, after } => {
            print(&report::compare(&read_report(&before)?, &read_report(&after)?));
            Ok(0)
        }
        Cmd::Memory { place, viewers, server_pid, connects_per_s, max_bytes } => {
            let options = memory::Options {
                url: place.url(),
                event: place.event,
                viewers,
                workers: place.workers,
                connects_per_s,
                server_pid,
            };
            let cost = memory::measure(&options, |line| print(&format!("  {line}\n"))).await?;
            Ok(print_cost(cost, max_bytes))
        }
        Cmd::Preset { name: None } => {
            for (name, text) in PRESETS {
                let about = Scenario::parse(text).map(|scenario| scenario.about).unwrap_or_default();
                print(&format!("{name:<12} {about}\n"));
            }
            Ok(0)
        }
        Cmd::Preset { name: Some(name) } => {
            let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name).context("there is no such preset")?;
            print(text);
            Ok(0)
        }
    }
}

impl Where {
    fn url(&self) -> String {
        self.url.trim_end_matches('/').to_owned()
    }
}

impl Shape {
    /// The scenario with what the command line changes.
    fn scenario(&self) -> anyhow::Result<Scenario> {
        let mut scenario = match Scenario::preset(&self.scenario) {
            Some(preset) => preset,
            None => read_scenario(Path::new(&self.scenario))?,
        };
        scenario.viewers = self.viewers.unwrap_or(scenario.viewers);
        scenario.buyers = self.buyers.unwrap_or(scenario.buyers);
        if let Some(seconds) = self.seconds {
            if !(seconds.is_finite() && seconds > 0.0) {
                bail!("--seconds must be above 0");
            }
            scenario.set_seconds(seconds);
        }
        if let Some(holds_per_s) = self.holds_per_s {
            if !(holds_per_s.is_finite() && holds_per_s >= 0.0) {
                bail!("--holds-per-s must be from 0 up");
            }
            scenario.set_holds_per_s(holds_per_s);
        }
        if let Some(connects_per_s) = self.connects_per_s {
            if !(connects_per_s.is_finite() && connects_per_s > 0.0) {
                bail!("--connects-per-s must be above 0");
            }
            scenario.joining.connects_per_s = connects_per_s;
        }
        if scenario.phases.is_empty() {
            bail!("the scenario has no phases; add [[phases]] or give --seconds");
        }
        Ok(scenario)
    }
}

fn read_scenario(path: &Path) -> anyhow::Result<Scenario> {
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("{} is neither a file that reads nor a preset ({})", path.display(), names.join(", "))
    })?;
    Scenario::parse(&text).with_context(|| format!("{} is no scenario", path.display()))
}

fn read_report(path: &Path) -> anyhow::Result<report::RunReport> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} does not read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no report of this version", path.display()))
}

fn plan(scenario: &Scenario, seed: u64, all: bool) -> String {
    use std::fmt::Write as _;
    let schedule = pace::schedule(&scenario.phases, scenario.arrivals, seed);
    let mut text = format!(
        "{}: {} viewers, {} buyers, {} arrivals in {:.1} s, seed {seed}\n",
        scenario.name,
        scenario.viewers,
        scenario.buyers,
        schedule.len(),
        scenario.seconds()
    );
    let mut from_s = 0.0;
    for phase in &scenario.phases {
        let to = phase.ramp_to.map(|to| format!(" to {to}")).unwrap_or_default();
        let _ = writeln!(text, "{:>8.1} s  {} {}{to}/s for {} s", from_s, phase.name, phase.holds_per_s, phase.seconds);
        from_s += phase.seconds;
    }
    if all {
        for at_us in schedule {
            let _ = writeln!(text, "{:.6}", at_us as f64 / 1e6);
        }
        return text;
    }
    for second in 0..scenario.seconds().ceil() as u64 {
        let count = schedule.iter().filter(|at_us| **at_us / 1_000_000 == second).count();
        let _ = writeln!(text, "{second:>6} s {count:>7}");
    }
    text
}

fn print_cost(cost: memory::Cost, max_bytes: f64) -> u8 {
    let paint = Paint::for_stdout();
    let (idle, after) = (cost.idle_bytes <= max_bytes, cost.after_snapshot_bytes <= max_bytes);
    print(&format!(
        "\n{} {:.0} B of server heap an idle viewer beyond the first thousand ({} viewers), allowed {max_bytes:.0}\n",
        paint.mark(idle),
        cost.idle_bytes,
        cost.viewers
    ));
    print(&format!(
        "{} {:.0} B after a snapshot to all ({} snapshots were received)\n",
        paint.mark(after),
        cost.after_snapshot_bytes,
        cost.snapshots
    ));
    if idle && after { 0 } else { report::Verdict::Failed.exit_code() }
}
