//! What every integration test stands on: real Postgres and Redis, a real server, a client that knows only the wire,
//! and waiting for conditions instead of for time.

pub(crate) mod admin;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod map;
pub(crate) mod node;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod stage;

use std::future::Future;
use std::time::{Duration, Instant};

/// No condition takes longer than this, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A shop that serves thousands gives up soon on a store that does not answer. A machine that runs many tests at once is
/// slow, and no store is away: whatever is not about giving up waits longer.
pub(crate) const UNHURRIED: [(&str, &str); 3] =
    [("SEATWIRE_DB_ACQUIRE_MS", "10000"), ("SEATWIRE_REDIS_TIMEOUT_MS", "3000"), ("SEATWIRE_DB_STATEMENT_MS", "30000")];

/// As a shop is run, for tests that ask again whatever is given up.
pub(crate) const HURRIED: [(&str, &str); 2] = [("SEATWIRE_DB_ACQUIRE_MS", "250"), ("SEATWIRE_REDIS_TIMEOUT_MS", "500")];

/// Asks until `look` has something, and gives it back; panics with `what` when patience ends.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The built `seatwire` program, for guards and real processes.
pub(crate) fn program() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_BIN_EXE_seatwire"))
}

#[tokio::test]
async fn every_test_has_a_database_and_a_redis_of_its_own() {
    let (first, second) = (postgres::fresh_database().await, postgres::fresh_database().await);
    assert_ne!(first, second);
    let mut redis = redis::Redis::start().await;
    redis.kill();
    redis.restart().await;
}

#[test]
fn every_test_named_in_the_readme_is_there() {
    let readme = include_str!("../README.md");
    let program = std::env::current_exe().expect("this program");
    let listed = std::process::Command::new(program).arg("--list").output().expect("lists itself");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let tests: std::collections::HashSet<&str> =
        listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let is_test =
        |name: &&str| name.contains("::") && name.chars().all(|c| c == ':' || c == '_' || c.is_alphanumeric());
    let named: Vec<&str> = readme.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(named.len() > 50, "only {} names were found", named.len());
    let is_there =
        |name: &&str| tests.contains(name) || tests.iter().any(|test| test.starts_with(&format!("{name}::")));
    let missing: Vec<&str> = named.into_iter().filter(|name| !is_there(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
