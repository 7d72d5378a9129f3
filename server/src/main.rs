//! The `seatwire` command: reads arguments and settings, then hands over to `seatwire::cli`. Nothing is decided here.

use clap::Parser;
use seatwire::cli::Cli;
use std::process::ExitCode;

/// A node makes ten thousand short-lived things a second beside a great many small ones that stay for hours. Measured against
/// the system's allocator: an eighth less CPU a hold, and a quarter less memory a viewer (README.md, "Memory").
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Wrong usage or settings, as sysexits.h numbers it.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|word| word == "guard").is_some() {
        return seatwire::embedded::guard::run(args);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = !error.use_stderr();
            // Printing fails only when nobody reads; the exit code still tells.
            let _ = error.print();
            return if is_help { ExitCode::SUCCESS } else { ExitCode::from(EXIT_USAGE) };
        }
    };
    seatwire::cli::run(cli)
}
