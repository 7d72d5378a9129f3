//! An event of one section on sale, in Postgres, and a node in this process that sells it. `best`, `expire` and `rebuild`
//! come in, so that what they measure stands beside the same thing.

use crate::ground::Ground;
use seatwire::app::{Addresses, App};
use seatwire::catalogue::EventFacts;
use seatwire::clock::Clock;
use seatwire::config::Config;
use seatwire::job;
use seatwire::shutdown::Shutdown;
use seatwire::store::Store;
use seatwire::store::event::{NewEvent, SectionRow, insert_event};
use seatwire::store::layout::{Category, NewLayout, Proposal, insert_layout};
use seatwire::store::venue::{NewVenue, insert_venue};
use seatwire_proto::id::EventId;
use seatwire_proto::layout::{Layout, Row, Section};
use seatwire_proto::seat::{SeatIndex, SectionIndex};
use seatwire_proto::server::{EventState, OrphanRule, PriceTier, Rules, SalesMode};
use std::sync::Arc;

/// How large, and how long a hold lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hall {
    pub(crate) rows: u32,
    pub(crate) seats_a_row: u32,
    pub(crate) hold_ttl_ms: u64,
}

impl Hall {
    fn seats(self) -> u32 {
        self.rows * self.seats_a_row
    }

    fn layout(self, name: String) -> Layout {
        let rows = (0..self.rows).map(|row| Row {
            label: (row + 1).to_string(),
            first: SeatIndex(row * self.seats_a_row),
            seats: (1..=self.seats_a_row).map(|seat| seat.to_string()).collect(),
            x: (0..self.seats_a_row as i32).map(|seat| seat * 5).collect(),
            y: vec![row as i32 * 9; self.seats_a_row as usize],
            gaps: Vec::new(),
            accessible: Vec::new(),
            companion: Vec::new(),
            restricted: Vec::new(),
        });
        let (width, depth) = (self.seats_a_row as i32 * 5, self.rows as i32 * 9);
        Layout {
            name,
            seat_count: self.seats(),
            unit_mm: 100,
            bounds: [-10, -10, width, depth],
            focal: [width / 2, -60],
            sections: vec![Section {
                index: SectionIndex(0),
                name: "Stalls".into(),
                zone: None,
                floor: None,
                outline: vec![[-10, -10], [width, -10], [width, depth], [-10, depth]],
                entrance: None,
                focal: None,
                rows: rows.collect(),
            }],
            areas: Vec::new(),
            shapes: Vec::new(),
            texts: Vec::new(),
        }
    }
}

/// A node on the ground, its jobs running. Whoever waits longest in a crowd is not to give up.
pub(crate) async fn node(ground: &Ground) -> Arc<App> {
    let data = ground.data.to_string_lossy();
    let settings =
        [("SEATWIRE_REDIS_TIMEOUT_MS", "10000"), ("SEATWIRE_DB_ACQUIRE_MS", "10000"), ("SEATWIRE_DATA", &*data)];
    let addresses = Addresses {
        database_url: ground.embedded.database_url(),
        redis_url: ground.embedded.redis_url(),
        payment_url: "http://127.0.0.1:1".into(),
    };
    let config = Config::from_pairs(settings).expect("fits");
    let app = App::start(config, Clock::system(), &addresses, Shutdown::new()).await.expect("the node starts");
    tokio::spawn(job::run(Arc::clone(&app)));
    app
}

/// Opens an event; the node knows its map.
pub(crate) async fn open(app: &App, hall: Hall) -> Arc<EventFacts> {
    let id = enter(&app.store, hall).await;
    let facts = app.catalogue.event(id).await.expect("Postgres answers").expect("the event");
    app.seatmap.live(&facts).await.expect("opens");
    facts
}

async fn enter(store: &Store, hall: Hall) -> EventId {
    let (id, pool) = (EventId::generate(), store.pool());
    let layout = hall.layout(format!("Hall of {id}"));
    let venue = NewVenue {
        name: format!("Hall of {id}"),
        city: "Nowhere".into(),
        country: "DE".into(),
        lat: 0.0,
        lon: 0.0,
        time_zone: "Europe/Berlin".into(),
    };
    let venue = insert_venue(pool, &venue, 1).await.expect("a venue");
    let (hash, stored_json) = (layout.hash().to_string(), layout.stored_json());
    let proposal = Proposal {
        categories: vec![Category { name: "A".into(), color: "#336699".into() }],
        seat_categories: vec![0; hall.seats() as usize],
        areas: Vec::new(),
    };
    let new = NewLayout {
        venue,
        hash: &hash,
        name: &layout.name,
        seat_count: hall.seats(),
        stored_json: &stored_json,
        proposal: &proposal,
    };
    insert_layout(pool, new, 1).await.expect("a layout");
    let tier =
        PriceTier { code: "A".into(), name: "A".into(), color: "#336699".into(), price_minor: 4500, fee_minor: 250 };
    let section =
        SectionRow { name: "Stalls".into(), first_seat: 0, end_seat: hall.seats(), sales_mode: SalesMode::PickSeat };
    let event = NewEvent {
        id,
        venue,
        layout: hash,
        name: "Opening".into(),
        description: String::new(),
        performers: Vec::new(),
        starts_ms: 4_000_000_000_000,
        on_sale_ms: 0,
        state: EventState::OnSale,
        currency: "EUR".into(),
        rules: Rules { seats_per_identity: 10, hold_ttl_ms: hall.hold_ttl_ms, orphans: OrphanRule::Off },
        has_waiting_room: false,
        has_waitlist: false,
        price_tiers: vec![tier],
        seat_tiers: vec![0; hall.seats() as usize],
        blocked: Vec::new(),
        sections: vec![section],
        areas: Vec::new(),
    };
    let mut transaction = seatwire::store::begin(pool).await.expect("begins");
    insert_event(&mut transaction, &event, 1).await.expect("an event");
    transaction.commit().await.expect("commits");
    id
}
