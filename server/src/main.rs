//! The `seatwire` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "guard" => seatwire::embedded::guard::run(args),
        _ => ExitCode::from(64),
    }
}
