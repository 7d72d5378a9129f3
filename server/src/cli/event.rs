//! `seatwire event create` and `seatwire event list`: puts a layout on sale, and shows what is.

use super::allocation::{self, Allocate};
use super::stores::Stores;
use super::{Failed, say};
use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::config::Config;
use crate::import::publish::{EventSpec, TierSpec, create_event_in};
use crate::store::Store;
use crate::store::event::EventFilter;
use clap::Subcommand;
use seatwire_proto::id::AllocationId;
use seatwire_proto::money::Currency;
use seatwire_proto::server::OrphanRule;
use std::collections::HashMap;

/// Events shown by one `list`.
const MAX_LISTED: u32 = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Put a layout on sale.
    Create(Box<Create>),
    /// Show what is on sale and what will be.
    List,
    /// Keep seats for those who have a presale code; everyone else sees them blocked.
    Allocate(Box<Allocate>),
    /// Give the unsold seats of an allocation to everyone.
    CloseAllocation {
        /// As `allocate` printed it, `alc_..`.
        allocation: AllocationId,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Hash of the layout, as `import` prints it.
    #[arg(long)]
    layout: String,
    /// Name of the event.
    #[arg(long)]
    name: String,
    /// What it is, for the event's page.
    #[arg(long, default_value = "")]
    description: String,
    /// Who plays; may be given several times.
    #[arg(long = "performer")]
    performers: Vec<String>,
    /// When it begins, e.g. 2027-06-01T20:00:00+02:00.
    #[arg(long, value_parser = moment)]
    starts: u64,
    /// When selling begins; `now` or a time as above.
    #[arg(long, default_value = "now", value_parser = moment)]
    on_sale: u64,
    /// Three capital letters.
    #[arg(long, default_value = "EUR", value_parser = currency)]
    currency: Currency,
    /// A price: `CODE=PRICE[+FEE]` in minor units, for the categories in order, or `CODE:CATEGORY=PRICE[+FEE]` for one.
    #[arg(long = "tier", required = true, value_parser = tier)]
    tiers: Vec<TierSpec>,
    /// Capacity of a general-admission area, `NAME=PLACES`; may be given several times.
    #[arg(long = "capacity", value_parser = capacity)]
    capacities: Vec<(String, u32)>,
    /// Seats and places a buyer may have.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    seats_per_identity: u32,
    /// Life of a hold in seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    hold_ttl_s: u64,
    /// What may be left between seats.
    #[arg(long, default_value = "off", value_parser = orphans)]
    orphans: OrphanRule,
    /// A section whose seats are given out (best available) and not picked, by its name; may be given several times.
    #[arg(long = "best-available", value_name = "SECTION")]
    best_available: Vec<String>,
}

pub(super) fn moment(text: &str) -> Result<u64, String> {
    if text == "now" {
        return Ok(Clock::system().now_ms());
    }
    let moment: jiff::Timestamp = text.parse().map_err(|_| "expected a time such as 2027-06-01T20:00:00+02:00")?;
    u64::try_from(moment.as_millisecond()).map_err(|_| "expected a time after 1970".into())
}

fn currency(text: &str) -> Result<Currency, String> {
    text.parse().map_err(|error: seatwire_proto::money::CurrencyError| error.to_string())
}

fn tier(text: &str) -> Result<TierSpec, String> {
    let expected = || "expected CODE=PRICE[+FEE] or CODE:CATEGORY=PRICE[+FEE], in minor units".to_owned();
    let (name, price) = text.rsplit_once('=').ok_or_else(expected)?;
    let (code, category) = name.split_once(':').map_or((name, None), |(code, category)| (code, Some(category)));
    let (price, fee) = price.split_once('+').unwrap_or((price, "0"));
    let amount = |text: &str| text.parse::<i64>().ok().filter(|&minor| minor >= 0).ok_or_else(expected);
    Ok(TierSpec {
        code: code.to_owned(),
        category: category.map(str::to_owned),
        price_minor: amount(price)?,
        fee_minor: amount(fee)?,
    })
}

fn capacity(text: &str) -> Result<(String, u32), String> {
    let (name, places) = text.rsplit_once('=').ok_or("expected NAME=PLACES")?;
    Ok((name.to_owned(), places.parse().map_err(|_| "expected NAME=PLACES")?))
}

fn orphans(text: &str) -> Result<OrphanRule, String> {
    match text {
        "off" => Ok(OrphanRule::Off),
        "lenient" => Ok(OrphanRule::Lenient),
        "strict" => Ok(OrphanRule::Strict),
        _ => Err("expected off, lenient or strict".into()),
    }
}

pub(super) async fn run(config: Config, command: Command) -> Result<(), Failed> {
    let lines = Stores::with_database(&config, async |store| answer(store, command).await).await?;
    lines.iter().for_each(|line| say(line));
    Ok(())
}

async fn answer(store: &Store, command: Command) -> anyhow::Result<Vec<String>> {
    match command {
        Command::Create(create) => {
            let id = create_event_in(store, &create.spec(), Clock::system().now_ms()).await?;
            Ok(vec![id.to_string()])
        }
        Command::Allocate(allocate) => Ok(vec![allocate.enter(store).await?.to_string()]),
        Command::CloseAllocation { allocation } => Ok(vec![allocation::close(store, allocation).await?.to_string()]),
        Command::List => {
            let filter = EventFilter { limit: MAX_LISTED, ..EventFilter::default() };
            let events = Catalogue::new(store.clone(), Clock::system()).list(&filter).await?;
            let line = |event: &seatwire_proto::server::EventSummary| {
                let starts = jiff::Timestamp::from_millisecond(event.starts_ms as i64)
                    .map(|at| at.to_string())
                    .unwrap_or_default();
                let state = serde_json::to_value(event.state).ok().and_then(|state| state.as_str().map(str::to_owned));
                format!(
                    "{}  {}  {}  {} left  {}",
                    event.id,
                    starts,
                    state.unwrap_or_default(),
                    event.available,
                    event.name
                )
            };
            Ok(events.iter().map(line).collect())
        }
    }
}

impl Create {
    fn spec(self) -> EventSpec {
        EventSpec {
            layout: self.layout,
            name: self.name,
            description: self.description,
            performers: self.performers,
            starts_ms: self.starts,
            on_sale_ms: self.on_sale,
            currency: self.currency,
            tiers: self.tiers,
            capacities: self.capacities.into_iter().collect::<HashMap<_, _>>(),
            seats_per_identity: self.seats_per_identity,
            hold_ttl_ms: self.hold_ttl_s * 1_000,
            orphans: self.orphans,
            best_available: self.best_available,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_a_code_a_price_and_perhaps_a_category_and_a_fee() {
        let spec = |code: &str, category: Option<&str>, price_minor, fee_minor| TierSpec {
            code: code.into(),
            category: category.map(str::to_owned),
            price_minor,
            fee_minor,
        };
        assert_eq!(tier("A=4500+250"), Ok(spec("A", None, 4500, 250)));
        assert_eq!(tier("B:Ground Floor=100"), Ok(spec("B", Some("Ground Floor"), 100, 0)));
        for bad in ["A", "A=", "A=-1", "A=1+x", "A=1.5"] {
            assert!(tier(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_moment_is_a_time_with_its_zone_or_now() {
        assert_eq!(moment("1970-01-01T01:00:01+01:00"), Ok(1_000));
        assert!(moment("now").is_ok_and(|now_ms| now_ms > 1_600_000_000_000));
        for bad in ["yesterday", "2027-06-01", "1960-01-01T00:00:00Z"] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
