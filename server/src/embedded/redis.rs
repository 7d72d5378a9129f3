//! The embedded Redis: one socket in a private folder, and no file of its own. `embedded` comes in here. After every
//! start of Redis the events are filled anew from Postgres, the truth and the journal, so a copy on disk would never be
//! read; writing it took a tenth of Redis' time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::EmbeddedError;
use super::guard::Manner;
use super::home::Home;
use super::supervise::{self, Order, Orphan, Supervised};

/// There is nothing to read; a busy machine may take its time all the same.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Long enough for any answer to PING.
const ANSWER_BYTES: usize = 64;

/// Starts it, empty.
pub(super) async fn start(
    home: &Home,
    program: PathBuf,
    guard_program: Option<PathBuf>,
) -> Result<Supervised, EmbeddedError> {
    let order = Order {
        name: "redis",
        manner: Manner::Redis,
        guard_program,
        owner: home.owner.clone(),
        program,
        args: arguments(home),
        log: home.log("redis"),
        orphan: Orphan {
            pid_file: pid_file(home),
            // Redis shows its address in its command line.
            mark: socket(&home.sockets).display().to_string(),
            locks: Vec::new(),
        },
    };
    supervise::start(order, || answers(socket(&home.sockets)), READY_WITHIN).await
}

/// The address for fred.
pub(super) fn url(home: &Home) -> String {
    format!("redis+unix://{}", socket(&home.sockets).display())
}

/// The socket file Redis listens on.
pub(super) fn socket(sockets: &Path) -> PathBuf {
    sockets.join("redis.sock")
}

fn pid_file(home: &Home) -> PathBuf {
    home.redis().join("redis.pid")
}

fn arguments(home: &Home) -> Vec<String> {
    let folder = home.redis().display().to_string();
    let socket = socket(&home.sockets).display().to_string();
    let pid_file = pid_file(home).display().to_string();
    let settings: [(&str, &str); 11] = [
        ("--dir", &folder),
        ("--unixsocket", &socket),
        ("--unixsocketperm", "700"),
        ("--port", "0"),
        ("--daemonize", "no"),
        ("--pidfile", &pid_file),
        ("--appendonly", "no"),
        ("--save", ""),
        // An evicted hold would be a seat given to two.
        ("--maxmemory-policy", "noeviction"),
        // A burst of deltas may fill a subscriber's buffer; past this it is cut off and repairs itself.
        ("--client-output-buffer-limit", "pubsub 32mb 8mb 60"),
        ("--loglevel", "notice"),
    ];
    settings.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
}

async fn answers(socket: PathBuf) -> bool {
    let ask = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; ANSWER_BYTES];
        let length = stream.read(&mut answer).await?;
        std::io::Result::Ok(answer[..length].starts_with(b"+PONG"))
    };
    ask.await.unwrap_or(false)
}
