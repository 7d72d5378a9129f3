//! What the bench runs beside itself, and what that costs: real processes under a guard, and the CPU time of each kind of
//! process by what the kernel counted.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A `seatwire` command that runs until it is dropped, also when this process is killed.
pub(crate) struct Running {
    guard: Child,
    /// Its lines up to the one that was waited for.
    lines: Vec<String>,
}

impl Running {
    /// Starts `seatwire ARGS` and waits for a line that begins so.
    pub(crate) fn start(args: &[&str], settings: &[(&str, &str)], until: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_seatwire");
        let mut command = Command::new(program);
        // Under a guard that ends it by SIGTERM, then SIGKILL, as it would a Redis.
        command.args(["guard", "--", "redis", "-", program]).args(args);
        for name in ["DATABASE_URL", "DATABASE_READ_URL", "REDIS_URL"] {
            command.env_remove(name);
        }
        command.env("SEATWIRE_LOG", "error").envs(settings.iter().copied());
        let mut guard = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the guard starts");
        let mut lines = Vec::new();
        for line in BufReader::new(guard.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            let is_last = line.starts_with(until);
            lines.push(line);
            if is_last {
                return Self { guard, lines };
            }
        }
        let _ = guard.wait();
        panic!("seatwire {args:?} ended; its complaint stands above");
    }

    /// What follows these words on one of its lines.
    pub(crate) fn said(&self, words: &str) -> &str {
        let rest = self.lines.iter().find_map(|line| line.split_once(words)).expect("the line was waited for").1;
        rest.split([',', ' ']).next().unwrap_or(rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The guard ends its program when its standard input closes.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// The shop with its private stores, and where it is reached.
pub(crate) struct Shop {
    _running: Running,
    pub(crate) url: String,
}

impl Shop {
    pub(crate) fn start(data: &Path, payment_url: &str, settings: &[(&str, &str)]) -> Self {
        let data = data.display().to_string();
        let mut all = vec![
            ("SEATWIRE_LISTEN", "127.0.0.1:0"),
            ("SEATWIRE_ADMIN_LISTEN", "127.0.0.1:0"),
            ("SEATWIRE_DOOR_LISTEN", "127.0.0.1:0"),
            ("SEATWIRE_DATA", data.as_str()),
            ("SEATWIRE_PAYMENT_URL", payment_url),
            ("SEATWIRE_WEBHOOK_SECRETS", crate::SECRET),
            // A machine that is full shall be seen in the times, not as refusals.
            ("SEATWIRE_DB_ACQUIRE_MS", "10000"),
            ("SEATWIRE_REDIS_TIMEOUT_MS", "5000"),
        ];
        all.extend(settings.iter().copied());
        let running = Running::start(&["serve"], &all, "seatwire: open ");
        let url = format!("http://{}", running.said("listening on "));
        Self { _running: running, url }
    }
}

/// The simulator as a process of its own.
pub(crate) struct Sim {
    _running: Running,
    pub(crate) url: String,
}

impl Sim {
    pub(crate) fn start(data: &Path) -> Self {
        let data = data.display().to_string();
        let args = ["paysim", "--listen", "127.0.0.1:0"];
        let running = Running::start(&args, &[("SEATWIRE_DATA", &data)], "seatwire: payment simulator at ");
        let url = running.said("payment simulator at ").to_owned();
        Self { _running: running, url }
    }
}

/// CPU seconds by kind of process, and of the whole machine.
#[derive(Clone)]
pub(crate) struct Cpu {
    at: Instant,
    used: BTreeMap<&'static str, f64>,
    idle: f64,
    all: f64,
}

const TICKS_PER_S: f64 = 100.0;

impl Cpu {
    /// As the kernel has counted so far.
    pub(crate) fn now() -> Self {
        let mut parents = HashMap::new();
        let mut processes = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("Linux").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((head, fields)) = stat.rsplit_once(") ") else { continue };
            let fields: Vec<&str> = fields.split(' ').collect();
            let number = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
            parents.insert(pid, number(1) as u32);
            let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
            let own = number(11) + number(12);
            // Those of ended children: the backends of a database come and go.
            let children = if name == "postgres" { number(13) + number(14) } else { 0.0 };
            processes.push((pid, name, (own + children) / TICKS_PER_S));
        }
        let me = std::process::id();
        let is_ours = |mut pid: u32| {
            while pid != me {
                match parents.get(&pid) {
                    Some(&parent) if parent > 0 => pid = parent,
                    _ => return false,
                }
            }
            true
        };
        let mut used = BTreeMap::new();
        for (pid, name, seconds) in processes {
            let kind = match name.as_str() {
                _ if pid == me => "this bench",
                _ if !is_ours(pid) => continue,
                "postgres" => "Postgres",
                "redis-server" => "Redis",
                _ if is_paysim(pid) => "paysim",
                _ => "server",
            };
            *used.entry(kind).or_insert(0.0) += seconds;
        }
        let stat = std::fs::read_to_string("/proc/stat").expect("Linux");
        let line = stat.lines().next().expect("a line for all cores");
        let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|text| text.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let all = ticks.iter().take(8).sum::<f64>() / TICKS_PER_S;
        Self { at: Instant::now(), used, idle: (ticks[3] + ticks[4]) / TICKS_PER_S, all }
    }

    /// The shares of the machine since then and what each of `n` calls cost, which says something also beside other work;
    /// and what there was most of.
    pub(crate) fn since(&self, before: &Self, n: usize) -> String {
        let all = self.all - before.all;
        let (mut shares, mut costs) = (Vec::new(), Vec::new());
        for (kind, seconds) in &self.used {
            let seconds = seconds - before.used.get(kind).copied().unwrap_or(0.0);
            shares.push((*kind, 100.0 * seconds / all));
            costs.push(format!("{kind} {:.2}", 1_000.0 * seconds / n as f64));
        }
        let idle = 100.0 * (self.idle - before.idle) / all;
        // What nobody here used: processes come and go, so they cannot be added up.
        shares.push(("others", 100.0 - idle - shares.iter().map(|(_, share)| share).sum::<f64>()));
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = match shares.first() {
            Some((kind, share)) if idle < 5.0 => format!("the machine is full, most of it {kind} ({share:.0} %)"),
            _ => format!("the CPU does not limit ({idle:.0} % idle)"),
        };
        let cores = all / (self.at - before.at).as_secs_f64();
        let list: Vec<String> = shares.iter().map(|(kind, share)| format!("{kind} {share:.1} %")).collect();
        let (list, costs) = (list.join(", "), costs.join(", "));
        format!("CPU of {cores:.0} cores: {list}, idle {idle:.1} %; {most}; ms of CPU a call: {costs}")
    }
}

fn is_paysim(pid: u32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).any(|word| word == b"paysim")
}
