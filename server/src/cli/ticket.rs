//! `seatwire ticket key|verify`: the public key of tickets, and whether a QR code was signed with it. Verifying needs no store
//! and no network when the key is given.

use super::stores::Stores;
use super::{Failed, say};
use crate::checkout::{Seal, verify_ticket};
use crate::clock::Clock;
use crate::config::Config;
use crate::store::server_key;
use anyhow::Context;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the public key that doors verify tickets with.
    Key,
    /// Check the signature of a ticket's QR code; 1 when it is not ours.
    Verify(Verify),
}

#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// What the QR code says.
    ticket: String,
    /// The public key, as `ticket key` prints it; without it the stores are asked.
    #[arg(long)]
    key: Option<String>,
}

pub(super) async fn run(config: Config, command: Command) -> Result<(), Failed> {
    match command {
        Command::Key => {
            let key = public_key(&config).await?;
            say(&key);
        }
        Command::Verify(Verify { ticket, key }) => {
            let key = match key {
                Some(key) => key,
                None => public_key(&config).await?,
            };
            let claims = verify_ticket(&key, &ticket)?;
            let place = claims.seat.map_or_else(
                || claims.area.map_or_else(String::new, |area| format!("area {}", area.0)),
                |seat| format!("seat {}", seat.0),
            );
            say(&format!("valid signature: {} of {}, {place}", claims.ticket, claims.event));
            say("whether it was used, passed on or refunded only the check-in knows");
        }
    }
    Ok(())
}

async fn public_key(config: &Config) -> Result<String, Failed> {
    let key = Stores::with_database(config, async |store| {
        let seed = server_key::current(store.pool(), "ticket", Clock::system().now_ms()).await?;
        let seal = Seal::from_hex(seed.reveal()).context("the key of tickets is not one")?;
        Ok(seal.public_key())
    });
    Ok(key.await?)
}
