//! One Postgres for the whole test binary; every test gets a database of its own, cloned from a migrated template.
//! The server runs under its guard and ends with this process, however it ends.

use seatwire::config::Config;
use seatwire::embedded::{Embedded, EmbeddedConfig};
use seatwire::store::Store;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc;

struct Shared {
    admin_url: String,
    /// Names of databases nobody needs any more.
    over: mpsc::Sender<String>,
}

static SHARED: OnceLock<Shared> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Databases that wait to be dropped: more than tests that run at once.
const MAX_OVER: usize = 64;
const TEMPLATE: &str = "seatwire_template";

/// Whether every test runs on HASH-partitioned hot tables, as scripts/test.sh wants it of the sale's.
pub(crate) fn is_partitioned() -> bool {
    std::env::var_os("SEATWIRE_TEST_PARTITIONED").is_some()
}

/// Address of a fresh database with the newest schema.
pub(crate) async fn fresh_database() -> String {
    let shared = tokio::task::spawn_blocking(|| SHARED.get_or_init(start)).await.expect("the shared Postgres starts");
    let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut admin = PgConnection::connect(&shared.admin_url).await.expect("the shared Postgres answers");
    let create = format!("create database {name} template {TEMPLATE}");
    // Postgres clones a template only while nobody else clones it.
    sqlx::raw_sql("select pg_advisory_lock(1)").execute(&mut admin).await.expect("locks");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.expect("clones the template");
    admin.close().await.expect("closes");
    with_database(&shared.admin_url, &name)
}

/// Held by who uses a database: when it is dropped, the database goes away soon. All of them together fill a small disk.
pub(crate) struct Lease(String);

impl Lease {
    /// Of the database at this address.
    pub(crate) fn of(database_url: &str) -> Self {
        let address = database_url.split_once('?').map_or(database_url, |(address, _)| address);
        Self(address.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(shared) = SHARED.get() {
            // Where too many wait already this one stays, until the process ends.
            let _ = shared.over.try_send(std::mem::take(&mut self.0));
        }
    }
}

/// Drops what was let go, one after the other.
async fn clean(admin_url: &str, mut over: mpsc::Receiver<String>) {
    while let Some(name) = over.recv().await {
        let Ok(mut admin) = PgConnection::connect(admin_url).await else { return };
        // What its nodes still do is of no interest; that it is there a little longer, neither.
        let gone = format!("drop database if exists {name} with (force)");
        let _ = sqlx::raw_sql(AssertSqlSafe(gone)).execute(&mut admin).await;
        let _ = admin.close().await;
    }
}

fn with_database(url: &str, name: &str) -> String {
    let (base, query) = url.split_once('?').map_or((url, ""), |(base, query)| (base, query));
    let (host, _) = base.rsplit_once('/').expect("a URL with a database");
    format!("{host}/{name}?{query}")
}

/// Starts Postgres on a thread of its own, whose runtime lives as long as the process.
fn start() -> Shared {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let data = PathBuf::from(format!("/tmp/seatwire-it-{}", std::process::id()));
            remove_leftovers();
            let config =
                EmbeddedConfig { guard_program: Some(super::program()), durable: false, ..EmbeddedConfig::new(&data) };
            let embedded = Embedded::start(config).await.expect("Postgres and Redis start");
            let admin_url = embedded.database_url();
            let mut admin = PgConnection::connect(&admin_url).await.expect("Postgres answers");
            sqlx::raw_sql(AssertSqlSafe(format!("create database {TEMPLATE}")))
                .execute(&mut admin)
                .await
                .expect("makes the template");
            admin.close().await.expect("closes");
            let config = Config::from_pairs([("SEATWIRE_DB_CONNECTIONS", "2"), super::UNHURRIED[0]]).expect("fits");
            let store = Store::connect(&with_database(&admin_url, TEMPLATE), &config.store).await.expect("migrates");
            if is_partitioned() {
                super::super::partition::partition(store.pool()).await;
            }
            store.pool().close().await;
            let (over, let_go) = mpsc::channel(MAX_OVER);
            tell.send(Shared { admin_url: admin_url.clone(), over }).expect("the first test waits");
            clean(&admin_url, let_go).await;
            // Keeps the children's pipes open until the process ends.
            std::future::pending::<()>().await;
            drop(embedded);
        });
    });
    told.recv().expect("Postgres starts")
}

/// Folders of test processes that are gone.
fn remove_leftovers() {
    let Ok(entries) = std::fs::read_dir("/tmp") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("seatwire-it-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
