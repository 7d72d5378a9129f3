//! The demo: two invented events at two places, for an empty catalogue. A race track with 8,897 seats that somebody
//! once drew, and a generated stadium with 70,000. Both on sale at once.

use super::publish::{EventSpec, PublishError, TierSpec, create_event, store_layout};
use super::{Imported, stadium};
use crate::store::venue::NewVenue;
use crate::store::{Store, event};
use seatwire_proto::server::OrphanRule;
use std::collections::HashMap;

/// "Race Track", a chart of seats.io under the MIT licence, which lies beside it.
const RACE_TRACK: &[u8] = include_bytes!("../../venues/race-track.chart.json");
/// Two nodes that start on one empty database must not both fill it.
const DEMO_LOCK: i64 = 0x7365_6174_6465_6d6f;
/// Whoever waits for the one that fills it waits longer than for any other lock: eighty thousand seats are written meanwhile,
/// and a node that gave up would not start. What is written at once may take as long on a slow machine.
const PATIENT: &str = "set local lock_timeout = '60s'; set local statement_timeout = '60s';
    set local idle_in_transaction_session_timeout = '60s'";
const DAY_MS: u64 = 86_400_000;
const HOUR_MS: u64 = 3_600_000;

/// Fills an empty catalogue; says whether it did.
///
/// # Errors
/// Postgres' own.
pub async fn load_if_empty(store: &Store, now_ms: u64) -> Result<bool, PublishError> {
    if !event::is_empty(store.pool()).await? {
        return Ok(false);
    }
    let made = tokio::task::spawn_blocking(|| Ok((super::read(RACE_TRACK)?.1, stadium::generate()?))).await;
    let (race_track, stadium): (Imported, Imported) = match made {
        Ok(Ok(both)) => both,
        Ok(Err(error)) => return Err(PublishError::Refused(super::ImportError::to_string(&error))),
        Err(error) => return Err(PublishError::Refused(error.to_string())),
    };
    let mut transaction = crate::store::begin(store.pool()).await?;
    sqlx::raw_sql(PATIENT).execute(&mut *transaction).await?;
    sqlx::query!("select pg_advisory_xact_lock($1)", DEMO_LOCK).execute(&mut *transaction).await?;
    if !event::is_empty(&mut *transaction).await? {
        return Ok(false);
    }
    for (venue, place, spec) in [(raceway(), race_track, race(now_ms)), (harbour_stadium(), stadium, game(now_ms))] {
        let (_, layout) = store_layout(&mut transaction, &venue, &place, now_ms).await?;
        create_event(&mut transaction, &EventSpec { layout, ..spec }, now_ms).await?;
    }
    transaction.commit().await?;
    Ok(true)
}

fn raceway() -> NewVenue {
    NewVenue {
        name: "Kestrel Park Raceway".to_owned(),
        city: "Leipzig".to_owned(),
        country: "DE".to_owned(),
        lat: 51.3397,
        lon: 12.3731,
        time_zone: "Europe/Berlin".to_owned(),
    }
}

fn harbour_stadium() -> NewVenue {
    NewVenue {
        name: "Harbour Stadium".to_owned(),
        city: "Hamburg".to_owned(),
        country: "DE".to_owned(),
        lat: 53.5511,
        lon: 9.9937,
        time_zone: "Europe/Berlin".to_owned(),
    }
}

fn race(now_ms: u64) -> EventSpec {
    EventSpec {
        name: "Kestrel Park Cup".to_owned(),
        description: "Twelve laps, two stands at the finish line and two along the straight. Gates open two hours \
                      before the start; cushions can be hired at the kiosks."
            .to_owned(),
        performers: vec!["Kestrel Park Racing Club".to_owned()],
        starts_ms: at(now_ms, 45, 12),
        tiers: tiers(&[("A", 7_500, 450), ("B", 4_500, 300)]),
        ..base(now_ms)
    }
}

fn game(now_ms: u64) -> EventSpec {
    EventSpec {
        name: "Harbour Rovers v Moorland Athletic".to_owned(),
        description: "League match under floodlights. Seats in two tiers, standing terraces behind both goals."
            .to_owned(),
        performers: vec!["Harbour Rovers".to_owned(), "Moorland Athletic".to_owned()],
        starts_ms: at(now_ms, 60, 18),
        tiers: tiers(&[
            ("A", 9_500, 600),
            ("B", 7_500, 500),
            ("C", 5_500, 400),
            ("D", 3_900, 300),
            ("E", 2_500, 250),
            ("T", 2_000, 200),
        ]),
        ..base(now_ms)
    }
}

fn base(now_ms: u64) -> EventSpec {
    EventSpec {
        layout: String::new(),
        name: String::new(),
        description: String::new(),
        performers: Vec::new(),
        starts_ms: now_ms,
        on_sale_ms: now_ms,
        currency: "EUR".parse().expect("three capitals"),
        tiers: Vec::new(),
        capacities: HashMap::new(),
        seats_per_identity: 10,
        hold_ttl_ms: 600_000,
        orphans: OrphanRule::Off,
        best_available: Vec::new(),
    }
}

/// So many days from now, at this hour (UTC).
const fn at(now_ms: u64, days: u64, hour: u64) -> u64 {
    (now_ms / DAY_MS + days) * DAY_MS + hour * HOUR_MS
}

fn tiers(list: &[(&str, i64, i64)]) -> Vec<TierSpec> {
    list.iter()
        .map(|&(code, price_minor, fee_minor)| TierSpec {
            code: code.to_owned(),
            category: None,
            price_minor,
            fee_minor,
        })
        .collect()
}
