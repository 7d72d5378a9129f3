//! A real `seatwire serve` process on free ports: what a third party would talk to. Ends when dropped, and with the
//! test process, however that ends.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// One node.
pub(crate) struct Node {
    guard: Child,
    data: PathBuf,
    /// `http://host:port`.
    pub(crate) url: String,
    /// The same for operators.
    pub(crate) admin_url: String,
    /// The same for those who scan tickets.
    pub(crate) door_url: String,
}

impl Node {
    /// Starts one and waits until it listens.
    pub(crate) async fn start(settings: &HashMap<&str, &str>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let data = PathBuf::from(format!("/tmp/seatwire-it-{}-node{number}", std::process::id()));
        let mut command = Command::new(super::program());
        // Under a guard that ends it by SIGTERM, then SIGKILL, as it would a Redis.
        command.args(["guard", "--", "redis", "-"]).arg(super::program()).arg("serve");
        command
            .env("SEATWIRE_LISTEN", "127.0.0.1:0")
            .env("SEATWIRE_ADMIN_LISTEN", "127.0.0.1:0")
            .env("SEATWIRE_DOOR_LISTEN", "127.0.0.1:0")
            .env("SEATWIRE_DATA", &data);
        // All tests share one Postgres.
        command.env("SEATWIRE_DRAIN_MS", "200").env("SEATWIRE_DB_CONNECTIONS", "8").envs(super::UNHURRIED);
        command.envs(settings);
        let mut guard = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the guard starts");
        let stdout = BufReader::new(guard.stdout.take().expect("piped"));
        let (listen, admin, door_url) = tokio::task::spawn_blocking(move || {
            let (mut addresses, mut door_url) = (None, None);
            for line in stdout.lines() {
                let line = line.expect("text");
                if let Some(rest) = line.strip_prefix("seatwire: listening on ") {
                    let (listen, admin) = rest.split_once(", admin on ").expect("both addresses");
                    addresses = Some((listen.to_owned(), admin.to_owned()));
                }
                if let Some(rest) = line.strip_prefix("seatwire: doors scan at ") {
                    door_url = rest.strip_suffix("/scan/").map(str::to_owned);
                }
                if line.starts_with("seatwire: open ") {
                    break;
                }
            }
            let (listen, admin) = addresses.expect("the node listens; its complaint stands above");
            (listen, admin, door_url.expect("the doors' address"))
        })
        .await
        .expect("reads the node's lines");
        Self { guard, data, url: format!("http://{listen}"), admin_url: format!("http://{admin}"), door_url }
    }

    /// The node's own process id.
    pub(crate) fn pid(&self) -> u32 {
        let guard = self.guard.id();
        let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap_or_default();
        let from_threads = || {
            let tasks = std::fs::read_dir(format!("/proc/{guard}/task")).ok()?;
            tasks.flatten().find_map(|task| {
                std::fs::read_to_string(task.path().join("children")).ok().filter(|text| !text.trim().is_empty())
            })
        };
        let children = if children.trim().is_empty() { from_threads().unwrap_or_default() } else { children };
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("the node runs")
    }

    /// Sends a signal by its short name, e.g. `TERM`, `KILL`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.pid().to_string()]).status().expect("kill is there");
        assert!(sent.success(), "the node runs");
    }

    /// Waits until a job has ended so often from now on: with two, one that began after this call.
    pub(crate) async fn until_runs(&self, job: &str, more: u64) {
        let runs = async || {
            let text = reqwest::get(format!("{}/metrics", self.admin_url)).await.ok()?.text().await.ok()?;
            let name = format!("seatwire_job_runs_total{{job=\"{job}\"}} ");
            Some(text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap_or(0))
        };
        let goal = super::eventually("the numbers", &runs).await + more;
        super::eventually(&format!("{more} more runs of {job}"), async || runs().await.filter(|n| *n >= goal)).await;
    }

    /// Waits for the end of the process; its exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        super::eventually("the node to end", || {
            let ended = self.guard.try_wait().expect("our child");
            async move { ended }
        })
        .await
        .code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The guard ends its program when its standard input closes.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
