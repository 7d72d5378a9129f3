//! `seatwire admin-key create|list|revoke`: keys for the admin API. A key is printed once, when it is made.

use super::stores::Stores;
use super::{Failed, say};
use crate::clock::Clock;
use crate::config::Config;
use crate::organiser::{Scope, key};
use crate::store::{Store, admin_key};
use clap::Subcommand;
use uuid::Uuid;

/// Keys shown by one `list`.
const MAX_LISTED: u32 = 1_000;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a key and print it; it cannot be shown again.
    Create(Create),
    /// Show which keys there are and what they may do.
    List,
    /// End a key at once.
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Who or what uses it, for the log of changes.
    #[arg(long, default_value = "operator")]
    name: String,
    /// What it may do: read, events, inventory, orders, room, door; may be given several times.
    #[arg(long = "scope", required = true)]
    scopes: Vec<Scope>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// Its id, as `create` and `list` print it.
    id: Uuid,
}

pub(super) async fn run(config: Config, command: Command) -> Result<(), Failed> {
    let lines = Stores::with_database(&config, async |store| answer(store, command).await).await?;
    lines.iter().for_each(|line| say(line));
    Ok(())
}

async fn answer(store: &Store, command: Command) -> anyhow::Result<Vec<String>> {
    let now_ms = Clock::system().now_ms();
    match command {
        Command::Create(create) => {
            let made = key::create(store, &create.name, &create.scopes, now_ms).await?;
            Ok(vec![format!("id   {}", made.id), format!("key  {}", made.key.reveal())])
        }
        Command::List => {
            let keys = admin_key::list(store.pool(), MAX_LISTED).await?;
            let line = |key: &admin_key::AdminKeyRow| {
                let is_over = if key.revoked_ms.is_some() { "  revoked" } else { "" };
                format!("{}  {}  {}{is_over}", key.id, key.scopes.join(","), key.name)
            };
            Ok(keys.iter().map(line).collect())
        }
        Command::Revoke(revoke) => {
            if !key::revoke(store, revoke.id, now_ms).await? {
                anyhow::bail!("there is no key {} that still opens anything", revoke.id);
            }
            Ok(vec![format!("revoked {}", revoke.id)])
        }
    }
}
