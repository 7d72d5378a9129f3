//! `seatwire import FILE`: a venue file becomes a layout in the catalogue; `--check` only looks.

use super::stores::Stores;
use super::{Failed, say};
use crate::clock::Clock;
use crate::config::Config;
use crate::import::publish::store_layout;
use crate::import::{self, Imported};
use crate::store::Store;
use crate::store::venue::NewVenue;
use anyhow::Context;
use std::path::PathBuf;

/// Reads a venue file (seats.io chart, pretix seating plan, CSV manifest) into the catalogue.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file; its format is recognised by its content.
    file: PathBuf,
    /// Only say what is in the file; nothing is stored.
    #[arg(long)]
    check: bool,
    /// Name of the venue; the plan's own name when absent.
    #[arg(long)]
    venue: Option<String>,
    /// City of the venue.
    #[arg(long, default_value = "")]
    city: String,
    /// Country of the venue, two capital letters.
    #[arg(long, default_value = "DE", value_parser = country)]
    country: String,
    /// Degrees north.
    #[arg(long, default_value_t = 0.0, value_parser = degrees::<90>, allow_negative_numbers = true)]
    lat: f64,
    /// Degrees east.
    #[arg(long, default_value_t = 0.0, value_parser = degrees::<180>, allow_negative_numbers = true)]
    lon: f64,
    /// IANA name of the venue's time zone.
    #[arg(long, default_value = "Europe/Berlin")]
    time_zone: String,
}

fn country(text: &str) -> Result<String, String> {
    let fits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    fits.then(|| text.to_owned()).ok_or_else(|| "expected two capital letters such as DE".into())
}

fn degrees<const MOST: i32>(text: &str) -> Result<f64, String> {
    let within = |degrees: &f64| degrees.abs() <= f64::from(MOST);
    text.parse().ok().filter(within).ok_or_else(|| format!("expected degrees from -{MOST} to {MOST}"))
}

pub(super) async fn run(config: Config, args: Args) -> Result<(), Failed> {
    let file = args.file.display();
    let bytes = std::fs::read(&args.file).with_context(|| format!("cannot read {file}"))?;
    let (format, imported) = import::read(&bytes).with_context(|| file.to_string())?;
    for line in described(&imported) {
        say(&line);
    }
    if args.check {
        say(&format!("{file}: a sound {format}"));
        return Ok(());
    }
    let hash = Stores::with_database(&config, async |store| enter(store, &args, &imported).await).await?;
    say(&format!("{file}: {format}, stored as layout {hash}"));
    Ok(())
}

/// Stores venue and layout; the layout's hash.
async fn enter(store: &Store, args: &Args, imported: &Imported) -> anyhow::Result<String> {
    let venue = NewVenue {
        name: args.venue.clone().unwrap_or_else(|| imported.layout.name.clone()),
        city: args.city.clone(),
        country: args.country.clone(),
        lat: args.lat,
        lon: args.lon,
        time_zone: args.time_zone.clone(),
    };
    let mut transaction = crate::store::begin(store.pool()).await?;
    let (_, hash) = store_layout(&mut transaction, &venue, imported, Clock::system().now_ms()).await?;
    transaction.commit().await?;
    Ok(hash)
}

/// What is in the file, for the person who imports it.
fn described(imported: &Imported) -> Vec<String> {
    let layout = &imported.layout;
    let rows = layout.rows().count();
    let marked =
        |mark: fn(&seatwire_proto::layout::Row) -> usize| layout.rows().map(|(_, row)| mark(row)).sum::<usize>();
    let (accessible, companion, restricted) =
        (marked(|row| row.accessible.len()), marked(|row| row.companion.len()), marked(|row| row.restricted.len()));
    let categories: Vec<&str> = imported.proposal.categories.iter().map(|category| category.name.as_str()).collect();
    vec![
        format!(
            "{}: {} seats in {} sections and {rows} rows, {} areas",
            layout.name,
            layout.seat_count,
            layout.sections.len(),
            layout.areas.len()
        ),
        format!("accessible {accessible}, companion {companion}, restricted view {restricted}"),
        format!("categories: {}", categories.join(", ")),
    ]
}
