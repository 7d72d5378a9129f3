//! What Linux says of processes: CPU time, memory, file descriptors, children. Read from /proc, once a second.
//! `worker` looks at itself, `coordinator` at the server, `preflight` at the machine.

use std::collections::BTreeMap;
use std::fs;

/// Ticks a second in /proc/PID/stat: fixed for user space on every Linux architecture that Rust has a std for.
const TICKS_PER_S: u64 = 100;

/// CPU and memory of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// User and system, since it began.
    pub(crate) cpu_us: u64,
    /// Resident.
    pub(crate) rss_bytes: u64,
    /// Resident and of no file: heap and stacks.
    pub(crate) heap_bytes: u64,
}

struct Stat {
    name: String,
    parent: u32,
    cpu_us: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name stands in parentheses and may contain any of them.
    let (front, rest) = text.rsplit_once(')')?;
    let name = front.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let cpu_us = (number(11)? + number(12)?) * (1_000_000 / TICKS_PER_S);
    Some(Stat { name, parent: u32::try_from(number(1)?).ok()?, cpu_us })
}

/// CPU and memory of a process; None when it is gone.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let stat = stat(pid)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |field: &str| {
        let line = status.lines().find(|line| line.starts_with(field))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(Usage {
        cpu_us: stat.cpu_us,
        rss_bytes: kib("VmRSS:").unwrap_or(0) * 1_024,
        heap_bytes: kib("RssAnon:").unwrap_or(0) * 1_024,
    })
}

/// What a process is called.
pub(crate) fn name(pid: u32) -> Option<String> {
    stat(pid).map(|stat| stat.name)
}

/// This process.
pub(crate) fn own_usage() -> Usage {
    usage(std::process::id()).unwrap_or_default()
}

/// A process and everything it started, by name: the server, and in embedded mode its Postgres and Redis.
pub(crate) fn family(root: u32) -> BTreeMap<String, Usage> {
    let mut stats = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some(stat) = stat(pid)
        {
            stats.insert(pid, stat);
        }
    }
    let is_of_family = |mut pid: u32| {
        // Bounded: a chain of parents is short, and a reused pid must not make a ring of it.
        for _ in 0..32 {
            if pid == root {
                return true;
            }
            match stats.get(&pid) {
                Some(stat) if stat.parent != 0 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    };
    let root_name = stats.get(&root).map(|stat| stat.name.clone()).unwrap_or_default();
    let mut family: BTreeMap<String, Usage> = BTreeMap::new();
    for (pid, stat) in &stats {
        if is_of_family(*pid)
            && let Some(usage) = usage(*pid)
        {
            let is_namesake = *pid != root && stat.name == root_name;
            let name = if is_namesake { format!("{root_name} (child)") } else { stat.name.clone() };
            let sum = family.entry(name).or_default();
            sum.cpu_us += usage.cpu_us;
            sum.rss_bytes += usage.rss_bytes;
            sum.heap_bytes += usage.heap_bytes;
        }
    }
    family
}

/// Raises the soft limit of file descriptors to the hard one and returns it.
pub(crate) fn raise_fd_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum.unwrap_or(u64::MAX);
    }
    limit.current.unwrap_or(u64::MAX)
}

/// Cores this machine shows.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Model of the CPU, kernel, memory: what a report must say about where it was made.
pub(crate) fn machine() -> BTreeMap<String, String> {
    let first = |path: &str, field: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(field))?.to_owned();
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let mut machine = BTreeMap::from([("cores".to_owned(), cores().to_string())]);
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            machine.insert(name.to_owned(), value);
        }
    };
    put("cpu", first("/proc/cpuinfo", "model name"));
    put("memory", first("/proc/meminfo", "MemTotal"));
    put("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()));
    machine
}

/// Busy share of all cores since the two readings, from /proc/stat.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MachineCpu {
    busy: u64,
    all: u64,
}

impl MachineCpu {
    /// Now.
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields: Vec<u64> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|field| field.parse().ok())
            .collect();
        let all: u64 = fields.iter().sum();
        let idle: u64 = fields.iter().skip(3).take(2).sum();
        Self { busy: all - idle, all }
    }

    /// Percent of all cores together since `before`.
    pub(crate) fn busy_pct_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 0.0 } else { self.busy.saturating_sub(before.busy) as f64 * 100.0 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "77 (a) b) S 5 77 77 0 -1 4194560 100 0 0 0 12 30 0 0 20 0 1 0 1 1 1";
        let stat = parse_stat(text).expect("it is a stat line");
        assert_eq!((stat.name.as_str(), stat.parent, stat.cpu_us), ("a) b", 5, 420_000));
    }

    #[test]
    fn this_process_uses_memory_and_is_of_its_own_family() {
        let own = own_usage();
        assert!(own.rss_bytes > 100_000 && own.heap_bytes <= own.rss_bytes);
        assert!(!family(std::process::id()).is_empty());
    }
}
