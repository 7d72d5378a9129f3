//! The embedded Postgres: made once by initdb, reached only by a socket in a private folder, sized for a small
//! machine. `embedded` comes in here; the migrations fill the database later.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::EmbeddedError;
use super::home::Home;
use super::program::PostgresPrograms;
use super::supervise::Orphan;

/// The database everything is kept in, and the role that owns it.
pub(super) const DATABASE: &str = "seatwire";
const ROLE: &str = "seatwire";
/// A start after a crash replays the log since the last checkpoint: up to `max_wal_size`, some tens of seconds.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(120);
/// Only part of the socket's name: nothing listens on the network.
const PORT: u16 = 5432;
/// Locales that order text by code point and know letters beyond ASCII, the best first (macOS may lack the first).
const LOCALES: [&str; 2] = ["C.UTF-8", "en_US.UTF-8"];

/// What is always set, with the reason.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", ""),
    ("unix_socket_permissions", "0700"),
    // Two pools of a node, jobs, a console: far below. Each costs memory only when used.
    ("max_connections", "100"),
    ("shared_buffers", "128MB"),
    ("synchronous_commit", "on"),
    // The statements here are short; compiling them costs more than it saves.
    ("jit", "off"),
    // Fewer full pages in the log during an on-sale.
    ("checkpoint_timeout", "15min"),
    ("max_wal_size", "1GB"),
    ("random_page_cost", "1.1"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_min_messages", "warning"),
    ("log_line_prefix", "%m [%p] "),
];
/// For tests: a power cut may lose the database, and many nodes of many tests share it.
const NOT_DURABLE: &[(&str, &str)] =
    &[("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off"), ("max_connections", "400")];

/// Makes the database folder when there is none. Made beside and renamed, so a killed initdb leaves nothing half.
pub(super) async fn create(home: &Home, programs: &PostgresPrograms, durable: bool) -> Result<(), EmbeddedError> {
    let folder = home.postgres();
    if folder.join("PG_VERSION").exists() {
        return home.own_folder(&folder);
    }
    let unfinished = folder.with_extension("new");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(EmbeddedError::file("removing", &unfinished))?;
    }
    let mut tail = String::new();
    for locale in LOCALES {
        home.own_folder(&unfinished)?;
        let mut initdb = std::process::Command::new(&programs.initdb);
        initdb.arg("-D").arg(&unfinished).args(["-U", ROLE, "-A", "trust", "-E", "UTF8", "--no-instructions"]);
        initdb.args(["--data-checksums", "--locale", locale]).env("LC_ALL", "C").current_dir("/");
        if !durable {
            initdb.arg("--no-sync");
        }
        if let Some(owner) = &home.owner {
            owner.apply(&mut initdb);
        }
        let output = tokio::process::Command::from(initdb).kill_on_drop(true).output().await;
        let output = output.map_err(EmbeddedError::file("running", &programs.initdb))?;
        if output.status.success() {
            return fs::rename(&unfinished, &folder).map_err(EmbeddedError::file("renaming", &unfinished));
        }
        tail = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it wrote nothing").to_owned();
        fs::remove_dir_all(&unfinished).map_err(EmbeddedError::file("removing", &unfinished))?;
    }
    Err(EmbeddedError::Initdb { tail })
}

/// The command line after the program.
pub(super) fn arguments(home: &Home, durable: bool) -> Vec<String> {
    let mut args = vec!["-D".to_owned(), home.postgres().display().to_string(), "-p".to_owned(), PORT.to_string()];
    let mut set = |name: &str, value: &str| args.extend(["-c".to_owned(), format!("{name}={value}")]);
    set("unix_socket_directories", &home.sockets.display().to_string());
    let test_settings = if durable { &[] } else { NOT_DURABLE };
    for (name, value) in SETTINGS.iter().chain(test_settings) {
        set(name, value);
    }
    args
}

/// The socket file Postgres listens on.
pub(super) fn socket(sockets: &Path) -> PathBuf {
    sockets.join(format!(".s.PGSQL.{PORT}"))
}

/// A server of this home that outlived its guard.
pub(super) fn orphan(home: &Home) -> Orphan {
    let pid_file = home.postgres().join("postmaster.pid");
    let socket_lock = socket(&home.sockets).with_extension(format!("{PORT}.lock"));
    let locks = vec![pid_file.clone(), socket_lock];
    Orphan { pid_file, mark: home.postgres().display().to_string(), locks }
}

/// The address of one database of this home.
pub(super) fn url(home: &Home, database: &str) -> String {
    format!("postgres://{ROLE}@localhost:{PORT}/{database}?host={}", home.sockets.display())
}

/// Whether it takes connections.
pub(super) async fn answers(home: &Home) -> bool {
    let Ok(connection) = PgConnection::connect(&url(home, "postgres")).await else { return false };
    // It answered; how the goodbye goes does not matter.
    let _ = connection.close().await;
    true
}

/// Makes the database when there is none. The only SQL outside the store: it stands before there is a store.
pub(super) async fn create_database(home: &Home) -> Result<(), EmbeddedError> {
    let mut connection = PgConnection::connect(&url(home, "postgres")).await?;
    let found = sqlx::query("select 1 from pg_database where datname = $1")
        .bind(DATABASE)
        .fetch_optional(&mut connection)
        .await?;
    if found.is_none() {
        sqlx::query("create database seatwire").execute(&mut connection).await?;
    }
    connection.close().await?;
    Ok(())
}
