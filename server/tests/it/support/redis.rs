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
    /// Whether its clock can be moved.
    has_own_clock: bool,
}

/// Moves the clock a program sees.
const CLOCK: &str = include_str!("clock.c");

impl Redis {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one with further settings, e.g. `["--maxmemory", "3mb"]`.
    pub(crate) async fn start_with(extra: &[&str]) -> Self {
        let mut redis = Self::prepare(extra);
        redis.restart().await;
        redis
    }

    /// Starts one whose clock can be moved, also before it is started again.
    pub(crate) async fn start_with_own_clock() -> Self {
        let mut redis = Self::prepare(&[]);
        redis.has_own_clock = true;
        redis.move_clock_ms(0);
        let source = redis.folder.join("clock.c");
        std::fs::write(&source, CLOCK).expect("writes");
        // There is one wherever this test was linked.
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(redis.folder.join("clock.so")).arg(&source).arg("-ldl");
        assert!(cc.status().expect("cc, which also links Rust").success(), "clock.c compiles");
        redis.restart().await;
        redis
    }

    /// How far its clock is ahead of that of this machine, from now on.
    pub(crate) fn move_clock_ms(&self, ahead_ms: i64) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().create(true).truncate(false).write(true).open(self.folder.join("clock"));
        file.and_then(|file| file.write_all_at(&ahead_ms.to_le_bytes(), 0)).expect("writes");
    }

    /// Starts one that listens on a port of this machine as well; the port.
    pub(crate) async fn start_on_port(extra: &[&str]) -> (Self, u16) {
        loop {
            // Free a moment ago; whoever was faster than the server has it, and then it is another one.
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = free.local_addr().expect("bound").port();
            drop(free);
            let port_text = port.to_string();
            let settings: Vec<&str> = ["--port", &port_text].into_iter().chain(extra.iter().copied()).collect();
            let mut redis = Self::prepare(&settings);
            if redis.begin().await {
                return (redis, port);
            }
        }
    }

    fn prepare(extra: &[&str]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/tmp/seatwire-it-{}-redis{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for redis");
        Self { folder, guard: None, extra: extra.iter().map(|&text| text.to_owned()).collect(), has_own_clock: false }
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
        assert!(self.begin().await, "redis-server ends at once (apt-get install redis-server when it is missing)");
    }

    /// Starts and waits until it listens; `false` when it ended instead.
    async fn begin(&mut self) -> bool {
        // Under a guard, so that the server ends with this process, however it ends.
        let mut command = Command::new(super::program());
        command.args(["guard", "--", "redis", "-"]);
        if self.has_own_clock {
            let file = |name: &str| self.folder.join(name).display().to_string();
            command.args([
                "env",
                &format!("LD_PRELOAD={}", file("clock.so")),
                &format!("CLOCK_FILE={}", file("clock")),
            ]);
        }
        command.args(["redis-server", "--port", "0", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--pidfile").arg(self.pid_file());
        command.arg("--dir").arg(&self.folder).args(&self.extra);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut guard = child.expect("the guard starts");
        let (socket, pid_file) = (self.socket(), self.pid_file());
        let is_up = super::eventually("redis to listen", || {
            let has_ended = guard.try_wait().expect("our child").is_some();
            // It listens a moment before it has written its pid.
            let is_known = std::fs::read_to_string(&pid_file).is_ok_and(|pid| !pid.trim().is_empty());
            let is_up = is_known && std::os::unix::net::UnixStream::connect(&socket).is_ok();
            async move { if has_ended { Some(false) } else { is_up.then_some(true) } }
        })
        .await;
        self.guard = is_up.then_some(guard);
        is_up
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
        assert!(self.try_signal(signal), "redis runs");
    }

    fn try_signal(&self, signal: &str) -> bool {
        let Ok(pid) = std::fs::read_to_string(self.pid_file()) else { return false };
        Command::new("kill").args(["-s", signal, pid.trim()]).status().is_ok_and(|sent| sent.success())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A stopped one hears only this; and a second panic on the way out of a failed test would end all tests.
        self.try_signal("KILL");
        if let Some(mut guard) = self.guard.take() {
            // The guard ends its program when its standard input closes.
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
