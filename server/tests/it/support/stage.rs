//! An event to test with: its own database, its own Redis, and a small venue whose every number is known.
//! Section 0 has rows as given, neighbours are adjacent, all seats cost tier A but the last row, which costs tier B.

use super::node::Node;
use super::postgres::Lease;
use super::redis::Redis;
use roaring::RoaringBitmap;
use seatwire::clock::Clock;
use seatwire::config::Config;
use seatwire::store::Store;
use seatwire::store::event::{AreaRow, NewEvent, SectionRow, insert_event};
use seatwire::store::layout::{AreaProposal, Category, NewLayout, Proposal, insert_layout};
use seatwire::store::venue::{NewVenue, insert_venue};
use seatwire_proto::id::EventId;
use seatwire_proto::layout::{Area, Layout, Row, Section};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};
use seatwire_proto::server::{EventState, OrphanRule, PriceTier, Rules, SalesMode};
use std::collections::HashMap;

/// Price and fee of tier A.
pub(crate) const TIER_A_MINOR: (i64, i64) = (4500, 250);
/// Price and fee of tier B.
pub(crate) const TIER_B_MINOR: (i64, i64) = (2000, 0);

/// What the event shall be; change what the test is about.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) rows: Vec<u32>,
    pub(crate) areas: Vec<u32>,
    pub(crate) blocked: Vec<u32>,
    pub(crate) state: EventState,
    pub(crate) on_sale_ms: u64,
    pub(crate) seats_per_identity: u32,
    pub(crate) hold_ttl_ms: u64,
    pub(crate) tier_a_minor: (i64, i64),
    pub(crate) orphans: OrphanRule,
    pub(crate) sales_mode: SalesMode,
    /// Seats for wheelchair users.
    pub(crate) accessible: Vec<u32>,
    /// Seats for their companions.
    pub(crate) companion: Vec<u32>,
    pub(crate) has_waitlist: bool,
}

impl Default for Draft {
    /// 8 rows of 20 seats, one area of 50 places, on sale, limit 10, ten minutes.
    fn default() -> Self {
        Self {
            rows: vec![20; 8],
            areas: vec![50],
            blocked: Vec::new(),
            state: EventState::OnSale,
            on_sale_ms: 0,
            seats_per_identity: 10,
            hold_ttl_ms: 600_000,
            tier_a_minor: TIER_A_MINOR,
            orphans: OrphanRule::Off,
            sales_mode: SalesMode::PickSeat,
            accessible: Vec::new(),
            companion: Vec::new(),
            has_waitlist: false,
        }
    }
}

impl Draft {
    pub(crate) fn seat_count(&self) -> u32 {
        self.rows.iter().sum()
    }

    fn layout(&self, name: &str) -> Layout {
        let mut first = 0;
        let mut rows = Vec::new();
        for (number, &seats) in self.rows.iter().enumerate() {
            let within = |marked: &[u32]| {
                let positions = marked.iter().filter_map(|seat| seat.checked_sub(first));
                positions.filter(|position| *position < seats).collect()
            };
            rows.push(Row {
                label: format!("{}", number + 1),
                first: SeatIndex(first),
                seats: (1..=seats).map(|seat| seat.to_string()).collect(),
                x: (0..seats as i32).map(|seat| seat * 5).collect(),
                y: vec![number as i32 * 8; seats as usize],
                gaps: Vec::new(),
                accessible: within(&self.accessible),
                companion: within(&self.companion),
                restricted: Vec::new(),
            });
            first += seats;
        }
        let corner =
            [-10, -10, 10 + 5 * self.rows.iter().max().copied().unwrap_or(0) as i32, 10 + 8 * self.rows.len() as i32];
        let outline =
            vec![[corner[0], corner[1]], [corner[2], corner[1]], [corner[2], corner[3]], [corner[0], corner[3]]];
        let section = Section {
            index: SectionIndex(0),
            name: "Stalls".into(),
            zone: None,
            floor: None,
            outline: outline.clone(),
            entrance: None,
            focal: None,
            rows,
        };
        let area = |index: usize| Area {
            index: AreaIndex(index as u32),
            name: format!("Floor {}", index + 1),
            outline: outline.clone(),
        };
        Layout {
            name: name.into(),
            seat_count: self.seat_count(),
            unit_mm: 100,
            bounds: corner,
            focal: [corner[2] / 2, -50],
            sections: vec![section],
            areas: (0..self.areas.len()).map(area).collect(),
            shapes: Vec::new(),
            texts: Vec::new(),
        }
    }
}

/// Enters the event into a store; its id.
pub(crate) async fn enter_event(store: &Store, draft: &Draft) -> EventId {
    let now_ms = Clock::system().now_ms();
    let id = EventId::generate();
    // Layouts are named by content: the id in the name keeps those of different tests apart.
    let layout = draft.layout(&format!("Stage of {id}"));
    layout.validate().expect("the layout is sound");
    let hash = layout.hash().to_string();
    let pool = store.pool();
    let venue = NewVenue {
        name: format!("Theatre of {id}"),
        city: "Nowhere".into(),
        country: "DE".into(),
        lat: 52.5,
        lon: 13.4,
        time_zone: "Europe/Berlin".into(),
    };
    let venue = insert_venue(pool, &venue, now_ms).await.expect("a venue");
    let categories = ["A", "B"].map(|name| Category { name: name.into(), color: "#336699".into() });
    let last_row = draft.rows.last().copied().unwrap_or(0);
    let seat_tiers: Vec<u8> =
        (0..draft.seat_count()).map(|seat| u8::from(seat >= draft.seat_count() - last_row)).collect();
    let proposal = Proposal {
        categories: categories.to_vec(),
        seat_categories: seat_tiers.clone(),
        areas: draft.areas.iter().map(|&capacity| AreaProposal { category: 0, capacity: Some(capacity) }).collect(),
    };
    let stored_json = layout.stored_json();
    let new = NewLayout {
        venue,
        hash: &hash,
        name: &layout.name,
        seat_count: layout.seat_count,
        stored_json: &stored_json,
        proposal: &proposal,
    };
    insert_layout(pool, new, now_ms).await.expect("a layout");
    let mut blocked = Vec::new();
    draft.blocked.iter().collect::<RoaringBitmap>().serialize_into(&mut blocked).expect("a Vec takes everything");
    let tier = |code: &str, (price_minor, fee_minor): (i64, i64)| PriceTier {
        code: code.into(),
        name: format!("Tier {code}"),
        color: "#336699".into(),
        price_minor,
        fee_minor,
    };
    let event = NewEvent {
        id,
        venue,
        layout: hash,
        name: format!("Evening {id}"),
        description: "A test".into(),
        performers: Vec::new(),
        starts_ms: now_ms + 86_400_000,
        on_sale_ms: draft.on_sale_ms,
        state: draft.state,
        currency: "EUR".into(),
        rules: Rules {
            seats_per_identity: draft.seats_per_identity,
            hold_ttl_ms: draft.hold_ttl_ms,
            orphans: draft.orphans,
        },
        has_waiting_room: false,
        has_waitlist: draft.has_waitlist,
        price_tiers: vec![tier("A", draft.tier_a_minor), tier("B", TIER_B_MINOR)],
        seat_tiers,
        blocked,
        sections: vec![SectionRow {
            name: "Stalls".into(),
            first_seat: 0,
            end_seat: draft.seat_count(),
            sales_mode: draft.sales_mode,
        }],
        areas: draft
            .areas
            .iter()
            .enumerate()
            .map(|(n, &capacity)| AreaRow { name: format!("Floor {}", n + 1), price_tier: 0, capacity })
            .collect(),
    };
    let mut transaction = seatwire::store::begin(pool).await.expect("begins");
    insert_event(&mut transaction, &event, now_ms).await.expect("an event");
    transaction.commit().await.expect("commits");
    id
}

/// A database, a Redis, and whatever nodes a test starts on them.
pub(crate) struct Stage {
    pub(crate) database_url: String,
    pub(crate) redis: Redis,
    /// Where the event is instead, if it is elsewhere.
    pub(crate) elsewhere: Option<String>,
    pub(crate) store: Store,
    _lease: Lease,
}

impl Stage {
    /// Both stores, empty.
    pub(crate) async fn new() -> Self {
        Self::on(Redis::start().await).await
    }

    /// A database, empty, beside this Redis.
    pub(crate) async fn on(redis: Redis) -> Self {
        let database_url = super::postgres::fresh_database().await;
        let config = Config::from_pairs([("SEATWIRE_DB_CONNECTIONS", "4"), super::UNHURRIED[0]]).expect("fits");
        let store = Store::connect(&database_url, &config.store).await.expect("the database answers");
        Self { _lease: Lease::of(&database_url), database_url, redis, elsewhere: None, store }
    }

    /// As [`Stage::with_event`], on a Redis with further settings.
    pub(crate) async fn with_redis(draft: &Draft, redis_settings: &[&str]) -> (Self, String) {
        let stage = Self::on(Redis::start_with(redis_settings).await).await;
        let event = enter_event(&stage.store, draft).await.to_string();
        (stage, event)
    }

    /// Both stores with one event; the event's id.
    pub(crate) async fn with_event(draft: &Draft) -> (Self, String) {
        let stage = Self::new().await;
        let event = enter_event(&stage.store, draft).await.to_string();
        (stage, event)
    }

    /// A node on these stores.
    pub(crate) async fn node(&self) -> Node {
        self.node_with(&[]).await
    }

    /// A node on these stores with further settings.
    pub(crate) async fn node_with(&self, settings: &[(&str, &str)]) -> Node {
        let redis_url = self.redis.url();
        let mut all = HashMap::from([("DATABASE_URL", self.database_url.as_str()), ("REDIS_URL", redis_url.as_str())]);
        all.extend(settings.iter().copied());
        Node::start(&all).await
    }
}
