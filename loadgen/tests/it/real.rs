//! The generator against the real server: `seatwire serve` with its own Postgres and Redis, on free ports.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A first start makes a database and a stadium.
const START_PATIENCE: Duration = Duration::from_secs(180);

struct Server {
    child: Child,
    data: PathBuf,
    url: String,
}

/// The server's program stands beside ours when the workspace was built; alone, this crate has none to try.
fn program() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_BIN_EXE_seatwire-loadgen")).with_file_name("seatwire");
    beside.exists().then_some(beside)
}

async fn start(program: PathBuf) -> Server {
    let data = PathBuf::from(format!("/tmp/seatwire-lg-{}", std::process::id()));
    let mut child = Command::new(program)
        .arg("serve")
        .env_remove("DATABASE_URL")
        .env_remove("REDIS_URL")
        .env("SEATWIRE_DATA", &data)
        .env("SEATWIRE_LISTEN", "127.0.0.1:0")
        .env("SEATWIRE_ADMIN_LISTEN", "127.0.0.1:0")
        .env("SEATWIRE_DOOR_LISTEN", "127.0.0.1:0")
        .env("SEATWIRE_DRAIN_MS", "200")
        // On a machine that is slow no store is away.
        .env("SEATWIRE_DB_ACQUIRE_MS", "10000")
        .env("SEATWIRE_REDIS_TIMEOUT_MS", "3000")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the server starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let listening = async {
        let mut url = None;
        while let Some(line) = lines.next_line().await.expect("text") {
            if let Some(rest) = line.strip_prefix("seatwire: listening on ") {
                url = Some(format!("http://{}", rest.split(',').next().expect("an address")));
            }
            if line.starts_with("seatwire: open ") {
                break;
            }
        }
        url.expect("the server listens; its complaint stands above")
    };
    let url = tokio::time::timeout(START_PATIENCE, listening).await.expect("the server starts in time");
    // Read on, or the server's next line would break its pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Server { child, data, url }
}

impl Server {
    /// Ends it as an operator would, so that its stores end too.
    async fn stop(mut self) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status().await.expect("kill is there");
        assert!(sent.success());
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        assert!(ended.expect("it ends in time").expect("our child").success(), "SIGTERM is a good end");
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smoke_preset_passes_against_the_real_server() {
    let Some(program) = program() else {
        eprintln!("skipped: no seatwire beside seatwire-loadgen; build the workspace");
        return;
    };
    let server = start(program).await;
    let out = server.data.join("report");
    let pid = server.child.id().expect("it runs").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_seatwire-loadgen"))
        .args(["run", "smoke", "--viewers", "60", "--buyers", "20", "--seconds", "5", "--workers", "2"])
        .args(["--url", &server.url, "--server-pid", &pid, "--out"])
        .arg(&out)
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs");
    let shown = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let text = std::fs::read_to_string(out.join("report.json")).expect("it is written");
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    let n = |name: &str| report["counts"][name].as_u64().expect("a counter");
    assert!(n("holds_won") > 10 && n("paid") > 0 && n("releases") > 0, "{shown}");
    assert_eq!(n("deliveries"), n("commits") * 60, "{shown}");
    assert!(report["numbers"]["server_heap_mb"].as_f64() > Some(1.0), "{shown}");
    server.stop().await;
}
