//! The embedded Redis: one socket in a private folder, an append-only file written out every second. `embedded`
//! comes in here. The truth is in Postgres, so a Redis file that cannot be read is put aside, not mourned.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::EmbeddedError;
use super::guard::Manner;
use super::home::Home;
use super::supervise::{self, Order, Orphan, Supervised};

/// Reading a large append-only file takes some seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Long enough for any answer to PING.
const ANSWER_BYTES: usize = 64;

/// Starts it. When it ends at once, most likely over a damaged file, that file is put aside and it starts empty:
/// the events are then rebuilt from Postgres, as after any loss of Redis.
pub(super) async fn start(
    home: &Home,
    program: PathBuf,
    guard_program: Option<PathBuf>,
    durable: bool,
) -> Result<Supervised, EmbeddedError> {
    let order = Order {
        name: "redis",
        manner: Manner::Redis,
        guard_program,
        owner: home.owner.clone(),
        program,
        args: arguments(home, durable),
        log: home.log("redis"),
        orphan: Orphan {
            pid_file: pid_file(home),
            // Redis shows its address in its command line.
            mark: socket(&home.sockets).display().to_string(),
            locks: Vec::new(),
        },
    };
    let answers = || answers(socket(&home.sockets));
    match supervise::start(order.clone(), answers, READY_WITHIN).await {
        Err(EmbeddedError::Ended { tail, .. }) if home.redis().join("appendonlydir").exists() => {
            let aside = home.redis().with_extension("damaged");
            tracing::error!(aside = %aside.display(), reason = tail, "redis cannot start on its files: they are put aside and it starts empty");
            if aside.exists() {
                fs::remove_dir_all(&aside).map_err(EmbeddedError::file("removing", &aside))?;
            }
            fs::rename(home.redis(), &aside).map_err(EmbeddedError::file("renaming", &aside))?;
            home.own_folder(&home.redis())?;
            supervise::start(order, answers, READY_WITHIN).await
        }
        other => other,
    }
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

fn arguments(home: &Home, durable: bool) -> Vec<String> {
    let folder = home.redis().display().to_string();
    let socket = socket(&home.sockets).display().to_string();
    let pid_file = pid_file(home).display().to_string();
    let settings: [(&str, &str); 12] = [
        ("--dir", &folder),
        ("--unixsocket", &socket),
        ("--unixsocketperm", "700"),
        ("--port", "0"),
        ("--daemonize", "no"),
        ("--pidfile", &pid_file),
        ("--appendonly", "yes"),
        ("--appendfsync", if durable { "everysec" } else { "no" }),
        // The append-only file is the one copy; a second one by snapshot would only double the writing.
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
    // While it reads its files it answers LOADING.
    ask.await.unwrap_or(false)
}
