//! Real redis-servers, one a test that wants one: killed, restarted and paused at will, gone when dropped.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A redis-server on a Unix socket, without persistence unless told.
pub(crate) struct Redis {
    folder: PathBuf,
    guard: Option<Child>,
    extra: Vec<String>,
}

impl Redis {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one with further settings, e.g. `["--maxmemory", "3mb"]`.
    pub(crate) async fn start_with(extra: &[&str]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/tmp/seatwire-it-{}-redis{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for redis");
        let mut redis = Self { folder, guard: None, extra: extra.iter().map(|&text| text.to_owned()).collect() };
        redis.restart().await;
        redis
    }

    /// Where its files and its socket are.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    /// For `REDIS_URL`.
    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join("redis.pid")
    }

    /// Starts again, empty unless persistence was asked for, on the same socket.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        // Under a guard, so that the server ends with this process, however it ends.
        let mut command = Command::new(super::program());
        command.args(["guard", "--", "redis", "-", "redis-server", "--port", "0", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--pidfile").arg(self.pid_file());
        command.arg("--dir").arg(&self.folder).args(&self.extra);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.guard = Some(child.expect("the guard starts"));
        let socket = self.socket();
        super::eventually("redis to listen (apt-get install redis-server when it is missing)", || async {
            // It listens a moment before it has written its pid.
            let is_known = std::fs::read_to_string(self.pid_file()).is_ok_and(|pid| !pid.trim().is_empty());
            std::os::unix::net::UnixStream::connect(&socket).ok().filter(|_| is_known)
        })
        .await;
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if self.guard.is_some() {
            self.signal("KILL");
            let mut guard = self.guard.take().expect("looked above");
            guard.wait().expect("reaped");
            let _ = std::fs::remove_file(self.socket());
            let _ = std::fs::remove_file(self.pid_file());
        }
    }

    /// Sends a signal by its short name, e.g. `STOP` and `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.pid_file()).expect("redis wrote its pid");
        let sent = Command::new("kill").args(["-s", signal, pid.trim()]).status().expect("kill is there");
        assert!(sent.success(), "redis runs");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
