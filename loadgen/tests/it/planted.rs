//! Each bug a server can have must end a run with the exit code that names it, and a good server with 0.

use crate::fake::{Bug, Fake};
use serde_json::Value;
use std::path::PathBuf;
use tokio::process::Command;

struct Ended {
    code: Option<i32>,
    report: Value,
    shown: String,
    folder: PathBuf,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs `crowded.toml` against a fake with a bug.
async fn run(bug: Bug, arguments: &[&str]) -> Ended {
    let fake = Fake::start(bug).await;
    let folder = std::env::temp_dir().join(format!("seatwire-loadgen-{bug:?}-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_seatwire-loadgen"))
        .args(["run", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/crowded.toml")])
        .args(["--url", &fake.url, "--workers", "2", "--out"])
        .arg(&folder)
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .expect("the program runs");
    let shown = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.join("report.json")).unwrap_or_else(|_| panic!("no report: {shown}"));
    let report = serde_json::from_str(&text).expect("the report is JSON");
    Ended { code: output.status.code(), report, shown, folder }
}

fn violations(ended: &Ended, name: &str) -> u64 {
    let invariants = ended.report["invariants"].as_array().expect("a list");
    let invariant = invariants.iter().find(|invariant| invariant["name"] == name).expect("it is checked");
    invariant["violations"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_server_passes_and_every_change_reaches_every_viewer() {
    let ended = run(Bug::None, &[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.shown);
    let counts = &ended.report["counts"];
    let n = |name: &str| counts[name].as_u64().expect("a counter");
    assert!(n("holds_won") > 40 && n("holds_lost") > 5 && n("releases") > 10 && n("paid") > 5, "{}", ended.shown);
    assert_eq!(n("deliveries"), n("commits") * 40, "each commit once at each of 40 viewers");
    assert_eq!(n("gaps") + n("resyncs") + n("reconnects"), 0);
    assert!(std::fs::read_to_string(ended.folder.join("report.html")).expect("it is written").contains("PASSED"));
    assert!(std::fs::read_to_string(ended.folder.join("junit.xml")).expect("it is written").contains("failures=\"0\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_seat_held_by_two_is_97() {
    let ended = run(Bug::HoldsTwice, &[]).await;
    assert_eq!(ended.code, Some(97), "{}", ended.shown);
    assert!(violations(&ended, "oversells") > 0);
    assert!(ended.shown.contains("while it belonged to buyer"), "{}", ended.shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_that_is_not_the_states_is_97() {
    let ended = run(Bug::WrongDigest, &[]).await;
    assert_eq!(ended.code, Some(97), "{}", ended.shown);
    assert!(violations(&ended, "digest_mismatches") > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_frames_are_gaps_that_heal() {
    let ended = run(Bug::DropsFrames, &[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.shown);
    assert!(ended.report["counts"]["gaps"].as_u64() > Some(0));
    assert_eq!(violations(&ended, "viewers_behind"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_silent_leaves_viewers_behind_and_that_is_97() {
    let ended = run(Bug::StaysSilent, &[]).await;
    assert_eq!(ended.code, Some(97), "{}", ended.shown);
    assert_eq!(violations(&ended, "viewers_behind"), 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_that_are_forgotten_or_sales_that_are_hidden_are_97() {
    let forgotten = run(Bug::ForgetsOrders, &[]).await;
    assert_eq!(forgotten.code, Some(97), "{}", forgotten.shown);
    assert!(forgotten.shown.contains("is not among its buyer's paid orders"), "{}", forgotten.shown);
    let hidden = run(Bug::HidesSales, &[]).await;
    assert_eq!(hidden.code, Some(97), "{}", hidden.shown);
    assert!(hidden.shown.contains("is not sold on the map"), "{}", hidden.shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_buyers_make_a_run_invalid() {
    let ended = run(Bug::None, &["--buyers", "1"]).await;
    assert_eq!(ended.code, Some(98), "{}", ended.shown);
    assert!(ended.shown.contains("found no buyer free"), "{}", ended.shown);
}

#[tokio::test]
async fn what_cannot_begin_is_2_and_says_why() {
    let cases: [(&[&str], &str); 4] = [
        (&["run", "smoke", "--url", "http://127.0.0.1:1"], "no server at http://127.0.0.1:1"),
        (&["run", "no_such_file.toml"], "neither a file"),
        (&["run", "smoke", "--seconds", "0"], "above 0"),
        (&["jump"], "unrecognized subcommand"),
    ];
    for (arguments, words) in cases {
        let program = env!("CARGO_BIN_EXE_seatwire-loadgen");
        let output = Command::new(program).args(arguments).output().await.expect("the program runs");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(words), "{complaint}");
    }
}
