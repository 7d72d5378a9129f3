//! The embedded servers, tried on real Postgres and Redis: start, restart, sudden deaths on every side.
//! Everything happens in a folder of its own under /tmp, which is gone afterwards.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fred::prelude::*;
use seatwire::embedded::{self, Embedded, EmbeddedConfig, EmbeddedError};
use sqlx::{Connection, PgConnection};

/// No step of these tests takes longer than this, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that dies once is started again after a twentieth of a second; one that dies again and again waits up to five.
/// The rest is for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(4);
const DATA_VARIABLE: &str = "SEATWIRE_TEST_EMBEDDED_DATA";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/tmp/seatwire-it-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    fn config(&self) -> EmbeddedConfig {
        config(&self.0)
    }

    fn pid(&self, file: &str) -> Option<i32> {
        fs::read_to_string(self.0.join(file)).ok()?.lines().next()?.trim().parse().ok()
    }

    fn postgres_pid(&self) -> Option<i32> {
        self.pid("postgres/postmaster.pid")
    }

    fn redis_pid(&self) -> Option<i32> {
        self.pid("redis/redis.pid")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn config(data: &Path) -> EmbeddedConfig {
    EmbeddedConfig {
        guard_program: Some(PathBuf::from(env!("CARGO_BIN_EXE_seatwire"))),
        durable: false,
        ..EmbeddedConfig::new(data)
    }
}

async fn start(folder: &Folder) -> Embedded {
    Embedded::start(folder.config()).await.expect("the embedded servers start")
}

async fn refusal(config: EmbeddedConfig) -> EmbeddedError {
    Embedded::start(config).await.expect_err("it is refused")
}

async fn redis(url: &str) -> Client {
    let client = Client::new(Config::from_url(url).expect("a redis url"), None, None, None);
    client.init().await.expect("redis answers");
    client
}

async fn postgres(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("postgres answers")
}

fn pongs(socket: &Path) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        std::io::Result::Ok(&answer == b"+PONG")
    };
    ask().unwrap_or(false)
}

/// Waits for a condition, however long the machine needs within reason; returns how long it took.
async fn until(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

fn lives(pid: i32) -> bool {
    // A husk that nobody has collected yet is dead.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill(pid: i32) {
    let status = Command::new("sh").args(["-c", "kill -9 \"$0\"", &pid.to_string()]).status();
    assert!(status.expect("sh runs").success(), "process {pid} can be killed");
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let after_name = stat.rsplit(')').next().expect("there is a name");
    after_name.split_whitespace().nth(1).and_then(|field| field.parse().ok()).expect("a parent")
}

#[tokio::test]
async fn both_servers_start_unprivileged_and_a_restart_keeps_their_data() {
    let folder = Folder::new();
    let first = start(&folder).await;
    let (database_url, redis_url) = (first.database_url(), first.redis_url());
    let mut connection = postgres(&database_url).await;
    sqlx::raw_sql("create table kept (word text); insert into kept values ('Zoë')")
        .execute(&mut connection)
        .await
        .expect("a table can be made");
    connection.close().await.expect("a clean goodbye");
    redis(&redis_url).await;
    for pid in [folder.postgres_pid(), folder.redis_pid()] {
        let pid = pid.expect("the server wrote its process id");
        assert_ne!(fs::metadata(format!("/proc/{pid}")).expect("it lives").uid(), 0, "no server runs as root");
    }
    first.stop().await;
    assert_eq!(folder.postgres_pid(), None, "postgres shut down and removed its lock");

    let second = start(&folder).await;
    assert_eq!((second.database_url(), second.redis_url()), (database_url, redis_url), "the addresses are the same");
    let mut connection = postgres(&second.database_url()).await;
    let word: String =
        sqlx::query_scalar("select upper(word) from kept").fetch_one(&mut connection).await.expect("kept");
    assert_eq!(word, "ZOË", "text is understood beyond ASCII");
    redis(&second.redis_url()).await;
    second.stop().await;
}

#[tokio::test]
async fn a_dead_redis_is_back_at_once_at_the_same_address() {
    let folder = Folder::new();
    let embedded = start(&folder).await;
    redis(&embedded.redis_url()).await;
    let before = folder.redis_pid().expect("redis runs");
    let socket = PathBuf::from(embedded.redis_url().trim_start_matches("redis+unix://"));
    kill(before);
    until("redis is dead", || !lives(before)).await;
    let took = until("redis is back", || folder.redis_pid() != Some(before) && pongs(&socket)).await;
    assert!(took < AT_ONCE, "it took {took:?}");
    redis(&embedded.redis_url()).await;
    embedded.stop().await;
}

#[tokio::test]
async fn a_dead_postgres_is_started_again_at_the_same_address() {
    let folder = Folder::new();
    let embedded = start(&folder).await;
    // A session in the middle of something holds on to the dead server's memory for a moment.
    let mut busy = postgres(&embedded.database_url()).await;
    let _cut_off = tokio::spawn(async move { sqlx::query("select pg_sleep(60)").execute(&mut busy).await });
    let before = folder.postgres_pid().expect("postgres runs");
    kill(before);
    let took =
        until("another postgres runs", || folder.postgres_pid().is_some_and(|pid| pid != before && lives(pid))).await;
    assert!(took < AT_ONCE, "it took {took:?}");
    let began = Instant::now();
    while PgConnection::connect(&embedded.database_url()).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "postgres did not answer again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    embedded.stop().await;
}

#[tokio::test]
async fn a_server_that_lost_its_guard_is_replaced() {
    let folder = Folder::new();
    let embedded = start(&folder).await;
    let before = folder.postgres_pid().expect("postgres runs");
    kill(parent(before));
    until("the orphan has ended", || !lives(before)).await;
    until("another postgres runs", || folder.postgres_pid().is_some_and(|pid| pid != before && lives(pid))).await;
    embedded.stop().await;
}

/// Not a test by itself: the process that the next test kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn a_process_that_is_going_to_be_killed() {
    let Some(data) = std::env::var_os(DATA_VARIABLE) else { return };
    let _embedded = Embedded::start(config(Path::new(&data))).await.expect("the embedded servers start");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn the_servers_die_with_their_parent_even_when_it_is_killed() {
    let folder = Folder::new();
    let mut command = Command::new(std::env::current_exe().expect("the test binary has a path"));
    command.args(["--exact", "--ignored", "embedded::a_process_that_is_going_to_be_killed"]);
    command.env(DATA_VARIABLE, &folder.0).stdout(Stdio::null()).stderr(Stdio::null());
    let parent = Killed(command.spawn().expect("the test binary starts"));
    until("the servers run", || folder.0.join("embedded.json").exists()).await;
    assert!(embedded::attach(&folder.0).await.is_some(), "other commands find the servers");
    let pids = [folder.postgres_pid().expect("postgres runs"), folder.redis_pid().expect("redis runs")];
    drop(parent);
    for pid in pids {
        until("the server has ended", || !lives(pid)).await;
    }
    assert_eq!(folder.postgres_pid(), None, "postgres was stopped properly, not killed");
    assert!(embedded::attach(&folder.0).await.is_none(), "what is written down leads nowhere any more");
    start(&folder).await.stop().await;
}

#[tokio::test]
async fn a_lock_left_by_another_life_is_recognised() {
    let folder = Folder::new();
    let embedded = start(&folder).await;
    let sockets = PathBuf::from(embedded.database_url().split("host=").nth(1).expect("a socket folder"));
    embedded.stop().await;
    // After a reboot the number in a lock may belong to anyone.
    // Of the same user, because Postgres itself tells other users' processes apart.
    let user = fs::metadata(folder.0.join("postgres")).expect("the database is there").uid();
    let mut stranger = Killed(Command::new("sleep").arg("600").uid(user).spawn().expect("sleep runs"));
    let note = format!("{}\n{}\n1700000000\n5432\n\n\n", stranger.0.id(), folder.0.join("postgres").display());
    fs::write(folder.0.join("postgres/postmaster.pid"), &note).expect("a left-over lock");
    fs::create_dir_all(&sockets).expect("the socket folder");
    fs::set_permissions(&sockets, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("made private");
    fs::write(sockets.join(".s.PGSQL.5432.lock"), &note).expect("a left-over socket lock");
    fs::write(folder.0.join("embedded.lock"), format!("{}\n", stranger.0.id())).expect("a left-over data lock");
    let embedded = start(&folder).await;
    postgres(&embedded.database_url()).await;
    embedded.stop().await;
    assert!(stranger.0.try_wait().expect("it can be asked").is_none(), "the stranger was left alone");
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let folder = Folder::new();
    let embedded = start(&folder).await;
    let line = refusal(folder.config()).await.to_string();
    assert!(line.contains("already served by process"), "{line}");
    assert!(line.contains(&std::process::id().to_string()), "{line}");
    postgres(&embedded.database_url()).await;
    embedded.stop().await;
}

#[tokio::test]
async fn a_missing_program_is_named_with_how_to_install_it() {
    let folder = Folder::new();
    let nowhere = EmbeddedConfig { search: Some(vec![folder.0.clone()]), ..folder.config() };
    let line = refusal(nowhere).await.to_string();
    assert!(line.contains("redis-server was not found"), "{line}");
    assert!(line.contains("apt-get install redis-server") && line.contains("brew install redis"), "{line}");
    assert_eq!(line.lines().count(), 1);
    assert_eq!(fs::read_dir(&folder.0).expect("it is there").count(), 0, "nothing was made");
}

#[tokio::test]
async fn a_socket_folder_that_is_open_to_others_is_refused() {
    let folder = Folder::new();
    let embedded = start(&folder).await;
    let sockets = PathBuf::from(embedded.database_url().split("host=").nth(1).expect("a socket folder"));
    embedded.stop().await;
    fs::create_dir_all(&sockets).expect("the socket folder");
    fs::set_permissions(&sockets, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("opened");
    let line = refusal(folder.config()).await.to_string();
    fs::remove_dir_all(&sockets).expect("it can be removed");
    assert!(line.contains("not a private folder"), "{line}");
}

#[tokio::test]
async fn a_data_folder_with_any_name_that_others_cannot_enter_works_for_root_too() {
    let folder = Folder::new();
    fs::set_permissions(&folder.0, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("closed");
    let data = folder.0.join("a data folder's name");
    let embedded = Embedded::start(config(&data)).await.expect("the embedded servers start");
    let servers = embedded.servers().to_path_buf();
    postgres(&embedded.database_url()).await;
    embedded.stop().await;
    let open = Folder::new();
    let named =
        Embedded::start(config(&open.0.join("a data folder's name"))).await.expect("the embedded servers start");
    redis(&named.redis_url()).await;
    named.stop().await;
    let as_root = fs::metadata("/proc/self").expect("we live").uid() == 0;
    assert_eq!(servers != data, as_root, "the files are in {}", servers.display());
    if as_root {
        fs::remove_dir_all(&servers).expect("the files can be removed");
    }
}
