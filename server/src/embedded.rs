//! Private Postgres and Redis as child processes, for a start without DATABASE_URL and REDIS_URL.
//! `main` comes in here before anything connects, takes the two URLs, and stops the children last.
//! Leads to `program` (find), `home` (folders, lock, sockets), `postgres`, `redis`, `supervise` and `guard`.
//!
//! Every server runs under a guard process that holds the other end of a pipe: when this process dies, in whatever
//! way, the pipe closes and the guard stops the server properly.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;

pub mod guard;
mod home;
mod owner;
mod postgres;
mod program;
mod redis;
mod supervise;

use home::Home;
use supervise::{Order, Supervised};

/// What the embedded servers need to know.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// The folder everything is kept in; made when missing. One server process at a time.
    pub data: PathBuf,
    /// The binary that answers to the hidden subcommand `guard`. `None` = the running program itself.
    pub guard_program: Option<PathBuf>,
    /// `false` skips every fsync: faster, and a power cut may lose the database. For tests only.
    pub durable: bool,
    /// Where to look for `postgres`, `initdb` and `redis-server`. `None` = PATH and the usual install folders.
    pub search: Option<Vec<PathBuf>>,
}

impl EmbeddedConfig {
    /// Durable servers under `data`, programs from the usual places.
    pub fn new(data: impl Into<PathBuf>) -> EmbeddedConfig {
        EmbeddedConfig { data: data.into(), guard_program: None, durable: true, search: None }
    }
}

/// Why the embedded servers could not be started. Each prints as one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// A program is not installed.
    #[error(
        "{program} was not found on PATH or in the usual places; install it with `apt-get install {debian}` (Debian, \
         Ubuntu) or `brew install {homebrew}` (macOS), or give DATABASE_URL and REDIS_URL"
    )]
    ProgramMissing {
        /// The program looked for.
        program: &'static str,
        /// The Debian package that holds it.
        debian: &'static str,
        /// The Homebrew formula that holds it.
        homebrew: &'static str,
    },
    /// A program is there, but too old.
    #[error("{program} at {path} is version {found}; version {needed} or later is needed")]
    ProgramTooOld {
        /// The program looked for.
        program: &'static str,
        /// The one that was found.
        path: PathBuf,
        /// Its major version.
        found: u32,
        /// The least major version that works.
        needed: u32,
    },
    /// The data folder was made by another major version of Postgres than any installed one.
    #[error(
        "the database in {data} was made by PostgreSQL {made_by}, which is not installed; install that version, or \
         choose another SEATWIRE_DATA"
    )]
    OtherPostgres {
        /// The database folder.
        data: PathBuf,
        /// The major version that made it.
        made_by: u32,
    },
    /// Another live process serves this data folder.
    #[error(
        "the data folder {data} is already served by process {pid}; stop that one, or choose another SEATWIRE_DATA"
    )]
    InUse {
        /// The data folder.
        data: PathBuf,
        /// What the lock file says about its holder.
        pid: String,
    },
    /// The data folder belongs to someone else.
    #[error(
        "{path} belongs to user id {uid}, not to you; run as that user or as root, or choose another SEATWIRE_DATA"
    )]
    ForeignFolder {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// The socket folder is not private to us.
    #[error("{path} exists but is not a private folder of ours; remove it and start again")]
    UnsafeSocketFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Started as root on a machine without a user the servers could run as.
    #[error("started as root, but there is no user `postgres` or `nobody` to run Postgres as; create one")]
    NoOwner,
    /// Making a new database failed.
    #[error("initdb failed: {tail}")]
    Initdb {
        /// The last line it wrote.
        tail: String,
    },
    /// A server ended before it answered.
    #[error("{name} ended before it was ready: {tail} (log: {log})")]
    Ended {
        /// Which server.
        name: &'static str,
        /// The last line of its log.
        tail: String,
        /// Its log file.
        log: PathBuf,
    },
    /// A server did not answer in time.
    #[error("{name} did not answer within {waited_s} s (log: {log})")]
    NotReady {
        /// Which server.
        name: &'static str,
        /// How long we waited, seconds.
        waited_s: u64,
        /// Its log file.
        log: PathBuf,
    },
    /// A file operation failed.
    #[error("{doing} {path}: {source}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The new Postgres answered with an error.
    #[error("the embedded Postgres refused to set up the database: {0}")]
    Database(#[from] sqlx::Error),
}

impl EmbeddedError {
    fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EmbeddedError {
        let path = path.to_path_buf();
        move |source| EmbeddedError::File { doing, path, source }
    }
}

/// Where the servers of a data folder answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Urls {
    /// For sqlx: `postgres://seatwire@localhost/seatwire?host=<socket folder>`.
    pub database_url: String,
    /// For fred: `redis+unix:///<socket file>`.
    pub redis_url: String,
}

/// The running pair. Dropping it stops both in the background; [`Embedded::stop`] waits for them.
#[derive(Debug)]
pub struct Embedded {
    home: Home,
    urls: Urls,
    postgres: Supervised,
    redis: Supervised,
    started_in: Duration,
}

impl Embedded {
    /// Finds the programs, starts a private Postgres and Redis under `config.data` or takes up what is there, and
    /// returns once both answer and the database exists. A dead server is started again within a second, on the
    /// same socket, until [`Embedded::stop`].
    pub async fn start(config: EmbeddedConfig) -> Result<Embedded, EmbeddedError> {
        let began = Instant::now();
        let search = config.search.clone().unwrap_or_else(program::usual_places);
        let redis_server = program::find_redis(&search)?;
        let candidates = program::find_postgres(&search)?;
        let home = Home::open(&config.data).await?;
        let programs = program::choose_postgres(candidates, &home.postgres())?;

        let postgres_order = |args| Order {
            name: "postgres",
            manner: guard::Manner::Postgres,
            guard_program: config.guard_program.clone(),
            owner: home.owner.clone(),
            program: programs.postgres.clone(),
            args,
            log: home.log("postgres"),
            orphan: postgres::orphan(&home),
        };
        let start_postgres = async {
            postgres::create(&home, &programs, config.durable).await?;
            let order = postgres_order(postgres::arguments(&home, config.durable));
            let running = supervise::start(order, || postgres::answers(&home), postgres::READY_WITHIN).await?;
            postgres::create_database(&home).await?;
            Ok::<_, EmbeddedError>(running)
        };
        let start_redis = redis::start(&home, redis_server, config.guard_program.clone());
        let (postgres, redis) = tokio::try_join!(start_postgres, start_redis)?;

        let urls = Urls { database_url: postgres::url(&home, postgres::DATABASE), redis_url: redis::url(&home) };
        home.record(&urls)?;
        let started_in = began.elapsed();
        tracing::info!(data = %config.data.display(), took_ms = started_in.as_millis(), "embedded Postgres and Redis answer");
        Ok(Embedded { home, urls, postgres, redis, started_in })
    }

    /// The database, for sqlx.
    pub fn database_url(&self) -> String {
        self.urls.database_url.clone()
    }

    /// The Redis, for fred.
    pub fn redis_url(&self) -> String {
        self.urls.redis_url.clone()
    }

    /// Where the servers keep their files: the data folder, or a folder beside it in the system when the data
    /// folder cannot be reached by the user the servers run as.
    pub fn servers(&self) -> &Path {
        &self.home.servers
    }

    /// How long [`Embedded::start`] took.
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Stops both: Postgres by fast shutdown, Redis after writing its log out. Bounded by the guard's ladder of
    /// signals (about 20 s at the very worst), normally well below a second.
    pub async fn stop(self) {
        let Embedded { home, postgres, redis, .. } = self;
        tokio::join!(postgres.stop(), redis.stop());
        home.close();
    }
}

/// The URLs of the servers another process has running on `data`, for commands beside a running `seatwire serve`.
/// `None` when nothing answers there.
pub async fn attach(data: &Path) -> Option<Urls> {
    let (urls, sockets) = home::recorded(data)?;
    for socket in [postgres::socket(&sockets), redis::socket(&sockets)] {
        UnixStream::connect(&socket).await.ok()?;
    }
    Some(urls)
}
