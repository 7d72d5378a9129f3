//! The subcommands of `seatwire`. `serve` is the product; the others prepare or examine it and use the same stores:
//! those of DATABASE_URL and REDIS_URL, or the embedded ones under SEATWIRE_DATA, running or not.

mod admin_key;
mod allocation;
mod audit;
mod event;
mod import;
mod paysim;
mod serve;
mod settlement;
mod stores;
mod ticket;

use crate::config::{Config, ConfigError};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Wrong usage or settings, as sysexits.h numbers it.
const EXIT_USAGE: u8 = 64;

/// The engine for a ticket on-sale: live seat map, atomic holds, checkout.
#[derive(Debug, Parser)]
#[command(name = "seatwire", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the map, the shop and the API; without DATABASE_URL and REDIS_URL start private ones.
    Serve(serve::Args),
    /// Read a venue file (seats.io chart, pretix seating plan, CSV manifest) into the catalogue.
    Import(import::Args),
    /// Put layouts on sale, and list what is.
    #[command(subcommand)]
    Event(event::Command),
    /// Make, list and revoke keys of the admin API.
    #[command(subcommand)]
    AdminKey(admin_key::Command),
    /// Compare Redis, Postgres and the journal of an event, or a settlement file with the books; 1 when they disagree.
    Audit(audit::Args),
    /// Run the payment simulator by itself.
    Paysim(paysim::Args),
    /// Print the key of tickets; verify one without a network.
    #[command(subcommand)]
    Ticket(ticket::Command),
}

/// Why a subcommand ended: one line for the person at the terminal.
#[derive(Debug)]
struct Failed {
    exit: u8,
    line: String,
}

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        let error = error.into();
        let exit = if error.is::<ConfigError>() { EXIT_USAGE } else { 1 };
        Self { exit, line: told_once(error.chain().map(ToString::to_string)) }
    }
}

/// An error and its causes as one line. Many errors name their cause in their own words already: it is not said twice.
fn told_once(causes: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    for cause in causes {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Runs the subcommand to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    crate::telemetry::init(matches!(cli.command, Command::Serve(_)));
    let done = Config::from_env().map_err(Failed::from).and_then(|config| {
        let workers = config.workers;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
        runtime.block_on(async {
            match cli.command {
                Command::Serve(args) => serve::run(config, args).await,
                Command::Import(args) => import::run(config, args).await,
                Command::Event(command) => event::run(config, command).await,
                Command::AdminKey(command) => admin_key::run(config, command).await,
                Command::Audit(args) => audit::run(config, args).await,
                Command::Paysim(args) => paysim::run(config, args).await,
                Command::Ticket(command) => ticket::run(config, command).await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            complain(&failed.line);
            ExitCode::from(failed.exit)
        }
    }
}

/// A line for the person at the terminal.
#[expect(clippy::print_stdout, reason = "the terminal is where a command answers")]
fn say(line: &str) {
    println!("{line}");
}

/// A complaint for the person at the terminal.
#[expect(clippy::print_stderr, reason = "the terminal is where a command complains")]
fn complain(line: &str) {
    eprintln!("seatwire: {line}");
}

#[cfg(test)]
mod tests {
    use super::told_once;

    #[test]
    fn a_cause_is_said_once() {
        let line = |causes: &[&str]| told_once(causes.iter().map(|&cause| cause.to_owned()));
        assert_eq!(
            line(&["making data: denied (os error 13)", "denied (os error 13)"]),
            "making data: denied (os error 13)"
        );
        assert_eq!(line(&["cannot listen on [::1]:80", "denied"]), "cannot listen on [::1]:80: denied");
        assert_eq!(line(&["alone"]), "alone");
    }
}
