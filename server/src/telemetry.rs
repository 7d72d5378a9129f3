//! Log lines of this process: structured, ids as fields, to standard error. `SEATWIRE_LOG` picks levels, and
//! `SEATWIRE_LOG_FORMAT=json` the shape.

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Installs the subscriber; called once, by `main`.
pub fn init() {
    let filter = EnvFilter::try_from_env("SEATWIRE_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,fred=warn,sqlx=warn,hyper=warn"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let is_json = std::env::var("SEATWIRE_LOG_FORMAT").is_ok_and(|format| format == "json");
    // A second call (tests start several servers in one process) keeps the first subscriber.
    let _ = if is_json { builder.json().try_init() } else { builder.compact().try_init() };
}
