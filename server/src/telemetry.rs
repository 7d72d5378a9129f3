//! Log lines of this process: structured, ids as fields, to standard error. `SEATWIRE_LOG` picks levels, and
//! `SEATWIRE_LOG_FORMAT=json` the shape.

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// What a server logs when nothing else is asked for.
const SERVING: &str = "info,fred=error,sqlx=warn,hyper=warn";
/// What a short command logs: it answers on the terminal itself.
const COMMAND: &str = "warn,fred=error,sqlx=error";

/// Installs the subscriber; called once, by `cli`.
pub fn init(is_serving: bool) {
    let default = if is_serving { SERVING } else { COMMAND };
    let filter = EnvFilter::try_from_env("SEATWIRE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let is_json = std::env::var("SEATWIRE_LOG_FORMAT").is_ok_and(|format| format == "json");
    // A second call (tests start several servers in one process) keeps the first subscriber.
    let _ = if is_json { builder.json().try_init() } else { builder.compact().try_init() };
}
