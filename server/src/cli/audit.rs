//! `seatwire audit EVENT`: whether Redis, Postgres, the log of seats and the journal of holds say the same. Reads only, also
//! beside a sale that runs: it looks several times and believes what stays.

use super::stores::Stores;
use super::{Failed, say, settlement};
use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::config::Config;
use crate::inventory::{Inventory, audit};
use crate::metrics::Metrics;
use crate::store::{self, Store};
use seatwire_proto::id::EventId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Looks before a disagreement, or a Redis without the event, is believed: a sale in progress is always a little ahead
/// somewhere, and a rebuild may be under way.
const LOOKS: usize = 8;
/// Between two looks: longer than the journal and the outbox are behind.
const BETWEEN_LOOKS: Duration = Duration::from_millis(400);
/// Lines shown; the rest is counted.
const MAX_LINES: usize = 200;
/// As other checks do: something was found.
const EXIT_FOUND: u8 = 1;

/// Compare Redis, Postgres and the journal of an event, or the provider's settlement file with the books.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The event's id, as `event list` prints it.
    #[arg(required_unless_present = "settlement", conflicts_with = "settlement")]
    event: Option<EventId>,
    #[command(flatten)]
    settlement: settlement::Args,
}

pub(super) async fn run(config: Config, args: Args) -> Result<(), Failed> {
    let event = match (args.event, &args.settlement.file) {
        (Some(event), _) => event,
        (None, Some(file)) => return settlement::run(&config, file, &args.settlement).await,
        (None, None) => return Err(anyhow::anyhow!("nothing to compare").into()),
    };
    let stores = Stores::attach_or_open(&config).await?;
    let done = look(&config, &stores, event).await;
    stores.close().await;
    let (compared, lines) = done?;
    say(&format!(
        "{}: epoch {}, seq {}; compared {} seats, {} areas, {} holds of {} identities, {} orders, {} tickets, {} rows of \
         the log, {} rows of the journal",
        event,
        compared.epoch,
        compared.seq,
        compared.seats,
        compared.areas,
        compared.holds,
        compared.identities,
        compared.orders,
        compared.tickets,
        compared.log_rows,
        compared.journal_rows
    ));
    if compared.awaits_rebuild {
        say(
            "Redis was lost or started anew since this epoch began, and nobody has asked for the event since: the first who \
             does has it rebuilt from Postgres and its journal. Postgres was compared with itself alone",
        );
    }
    for line in lines.iter().take(MAX_LINES) {
        say(&format!("  {line}"));
    }
    if lines.len() > MAX_LINES {
        say(&format!("  and {} more", lines.len() - MAX_LINES));
    }
    if lines.is_empty() {
        say("everything agrees");
        return Ok(());
    }
    Err(Failed { exit: EXIT_FOUND, line: format!("{} disagreements", lines.len()) })
}

async fn look(config: &Config, stores: &Stores, event: EventId) -> anyhow::Result<(audit::Compared, BTreeSet<String>)> {
    let store = Store::connect(stores.database_url.reveal(), &config.store).await?;
    let catalogue = Catalogue::new(store.clone(), Clock::system());
    let no_event = || anyhow::anyhow!("there is no event {event}");
    catalogue.event(event).await?.ok_or_else(no_event)?;
    let metrics = Arc::new(Metrics::new());
    let inventory = Inventory::connect(&config.inventory, stores.redis_url.reveal(), store.clone(), metrics).await?;
    let mut stays: Option<BTreeSet<String>> = None;
    let mut compared = audit::Compared::default();
    for turn in 0..LOOKS {
        if turn > 0 {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let facts = catalogue.refresh(event).await?.ok_or_else(no_event)?;
        let ledger = store::audit::read(store.pool(), event).await?;
        let shelf = inventory.audit(&facts, &ledger).await?;
        let (what, lines) = audit::compare(&facts, &ledger, &shelf);
        compared = what;
        let stay = match stays {
            Some(before) => before.intersection(&lines).cloned().collect(),
            None => lines,
        };
        if stay.is_empty() && !compared.awaits_rebuild {
            return Ok((compared, stay));
        }
        stays = Some(stay);
    }
    Ok((compared, stays.unwrap_or_default()))
}
