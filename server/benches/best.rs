//! Best seats at the opening: 10,000 buyers at once ask for pairs in one section of 10,000 seats. Prints script calls and
//! Redis CPU beside those of a plain hold of two seats in the same run, and whether every seat went and nobody was refused
//! while a pair was free. `cargo bench -p seatwire --bench best`.

use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::Config as RedisConfig;
use seatwire::app::{Addresses, App};
use seatwire::clock::Clock;
use seatwire::command;
use seatwire::config::Config;
use seatwire::embedded::{Embedded, EmbeddedConfig};
use seatwire::shutdown::Shutdown;
use seatwire::store::Store;
use seatwire::store::event::{NewEvent, SectionRow, insert_event};
use seatwire::store::layout::{Category, NewLayout, Proposal, insert_layout};
use seatwire::store::venue::{NewVenue, insert_venue};
use seatwire_proto::client::{ClientMessage, Command, HoldBest, HoldSeats, IdempotencyKey, Position, Together};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::layout::{Layout, Row, Section};
use seatwire_proto::seat::{SeatIndex, SectionIndex};
use seatwire_proto::server::{EventState, OrphanRule, PriceTier, Reply, Rules, SalesMode};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROWS: u32 = 200;
const SEATS_A_ROW: u32 = 50;
const SEATS: u32 = ROWS * SEATS_A_ROW;
/// Twice as many as there are pairs.
const BUYERS: u32 = SEATS;
const CALLS_BAR: f64 = 1.2;
const CPU_BAR: f64 = 2.0;

fn layout(name: String) -> Layout {
    let rows = (0..ROWS).map(|row| Row {
        label: (row + 1).to_string(),
        first: SeatIndex(row * SEATS_A_ROW),
        seats: (1..=SEATS_A_ROW).map(|seat| seat.to_string()).collect(),
        x: (0..SEATS_A_ROW as i32).map(|seat| seat * 5).collect(),
        y: vec![row as i32 * 9; SEATS_A_ROW as usize],
        gaps: Vec::new(),
        accessible: Vec::new(),
        companion: Vec::new(),
        restricted: Vec::new(),
    });
    let (width, depth) = (SEATS_A_ROW as i32 * 5, ROWS as i32 * 9);
    Layout {
        name,
        seat_count: SEATS,
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

/// An event of one section, on sale.
async fn enter_event(store: &Store) -> EventId {
    let (id, pool) = (EventId::generate(), store.pool());
    let layout = layout(format!("Hall of {id}"));
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
        seat_categories: vec![0; SEATS as usize],
        areas: Vec::new(),
    };
    let new = NewLayout {
        venue,
        hash: &hash,
        name: &layout.name,
        seat_count: SEATS,
        stored_json: &stored_json,
        proposal: &proposal,
    };
    insert_layout(pool, new, 1).await.expect("a layout");
    let tier =
        PriceTier { code: "A".into(), name: "A".into(), color: "#336699".into(), price_minor: 4500, fee_minor: 250 };
    let section = SectionRow { name: "Stalls".into(), first_seat: 0, end_seat: SEATS, sales_mode: SalesMode::PickSeat };
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
        rules: Rules { seats_per_identity: 10, hold_ttl_ms: 600_000, orphans: OrphanRule::Off },
        has_waiting_room: false,
        has_waitlist: false,
        price_tiers: vec![tier],
        seat_tiers: vec![0; SEATS as usize],
        blocked: Vec::new(),
        sections: vec![section],
        areas: Vec::new(),
    };
    let mut transaction = pool.begin().await.expect("begins");
    insert_event(&mut transaction, &event, 1).await.expect("an event");
    transaction.commit().await.expect("commits");
    id
}

/// Seconds of CPU Redis has used.
async fn redis_cpu(admin: &fred::clients::Client) -> f64 {
    let info: String = admin.info(None).await.expect("INFO");
    let field = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).expect("a number in INFO")
    };
    field("used_cpu_user") + field("used_cpu_sys")
}

/// All commands at once; their replies, the CPU of Redis and the time it took.
async fn all_at_once(
    app: &Arc<App>,
    admin: &fred::clients::Client,
    commands: impl Iterator<Item = Command>,
) -> (Vec<Reply>, f64, Duration) {
    let (cpu, began) = (redis_cpu(admin).await, Instant::now());
    let mut buyers = tokio::task::JoinSet::new();
    for command in commands {
        let app = Arc::clone(app);
        buyers.spawn(async move {
            let message = ClientMessage { id: 1, key: IdempotencyKey::parse("k"), command };
            command::run(&app, Some(IdentityId::generate()), message).await
        });
    }
    let replies = buyers.join_all().await;
    (replies, redis_cpu(admin).await - cpu, began.elapsed())
}

fn added(reply: &Reply) -> Option<Vec<u32>> {
    let body: serde_json::Value = serde_json::from_str(reply.result.as_ref().ok()?).expect("JSON");
    let seats = body["added"].as_array().expect("added").iter();
    Some(seats.map(|seat| seat.as_u64().expect("an index") as u32).collect())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let data = std::env::temp_dir().join(format!("seatwire-bench-{}", std::process::id()));
    let embedded = EmbeddedConfig {
        guard_program: Some(env!("CARGO_BIN_EXE_seatwire").into()),
        durable: false,
        ..EmbeddedConfig::new(&data)
    };
    let embedded = Embedded::start(embedded).await.expect("Postgres and Redis start");
    let config = Config::from_pairs([
        // The whole crowd is in one breath: whoever waits longest is not to give up.
        ("SEATWIRE_REDIS_TIMEOUT_MS", "10000"),
        ("SEATWIRE_DB_ACQUIRE_MS", "10000"),
    ])
    .expect("fits");
    let addresses = Addresses {
        database_url: embedded.database_url(),
        redis_url: embedded.redis_url(),
        payment_url: "http://127.0.0.1:1".into(),
    };
    let app = App::start(config, Clock::system(), &addresses, Shutdown::new()).await.expect("the node starts");
    tokio::spawn(seatwire::job::run(Arc::clone(&app)));
    let redis_config = RedisConfig::from_url(&embedded.redis_url()).expect("a URL");
    let admin = Builder::from_config(redis_config).build().expect("a client");
    admin.init().await.expect("Redis answers");

    // The reference: every pair by its index, nobody refused.
    let event = enter_event(&app.store).await;
    let facts = app.catalogue.event(event).await.expect("Postgres answers").expect("the event");
    app.seatmap.live(&facts).await.expect("opens");
    let pairs = (0..SEATS / 2).map(|n| {
        let pair = (u64::from(n) * 7919 % u64::from(SEATS / 2)) as u32;
        Command::Hold(HoldSeats { event, seats: vec![SeatIndex(2 * pair), SeatIndex(2 * pair + 1)] })
    });
    let (replies, plain_cpu, plain_time) = all_at_once(&app, &admin, pairs).await;
    assert!(replies.iter().all(|reply| reply.result.is_ok()), "every pair can be held");
    let plain_us = plain_cpu * 1e6 / f64::from(SEATS / 2);

    let ask = |event: EventId| {
        Command::HoldBest(HoldBest {
            event,
            quantity: 2,
            together: Together::Required,
            price_tiers: None,
            sections: Some(vec![SectionIndex(0)]),
            max_price_minor: None,
            accessible: None,
        })
    };

    // A buyer a pair: what a success costs by itself.
    let event = enter_event(&app.store).await;
    let facts = app.catalogue.event(event).await.expect("Postgres answers").expect("the event");
    app.seatmap.live(&facts).await.expect("opens");
    let (replies, pair_cpu, pair_time) = all_at_once(&app, &admin, (0..SEATS / 2).map(|_| ask(event))).await;
    assert!(replies.iter().all(|reply| reply.result.is_ok()), "there is a pair for each");
    let pair_us = pair_cpu * 1e6 / f64::from(SEATS / 2);

    // Two buyers a pair.
    let event = enter_event(&app.store).await;
    let facts = app.catalogue.event(event).await.expect("Postgres answers").expect("the event");
    let live = app.seatmap.live(&facts).await.expect("opens");
    let calls = app.metrics.best_calls.get();
    let (replies, cpu, time) = all_at_once(&app, &admin, (0..BUYERS).map(|_| ask(event))).await;
    let calls = (app.metrics.best_calls.get() - calls) as f64;

    let mut seats = HashSet::new();
    let won: Vec<Vec<u32>> = replies.iter().filter_map(added).collect();
    for pair in &won {
        assert_eq!((pair.len(), pair[0] + 1, pair[0] % 2), (2, pair[1], 0), "a pair of neighbours: {pair:?}");
        assert!(pair.iter().all(|seat| seats.insert(*seat)), "nobody else's: {pair:?}");
    }
    let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.result.is_err()).collect();
    let last = Position { seq: u64::from(SEATS / 2), ..live.position() };
    let too_early = refused.iter().filter(|reply| reply.position.is_none_or(|at| at.seq < last.seq)).count();
    let sold_out = refused.iter().filter(|reply| {
        let code = reply.result.as_ref().err().map(|error| error.code);
        code == Some(ErrorCode::SoldOut)
    });
    let sold_out = sold_out.count();
    let wins = won.len() as f64;
    let answer_us = cpu * 1e6 / f64::from(BUYERS);
    #[expect(clippy::print_stdout, reason = "a bench prints")]
    {
        println!(
            "plain hold of 2 seats        {:>8.0} /s   Redis {plain_us:>6.2} us",
            f64::from(SEATS / 2) / plain_time.as_secs_f64()
        );
        println!(
            "best pair, a buyer a pair    {:>8.0} /s   Redis {pair_us:>6.2} us a success: {:.2} x a plain hold (bar {CPU_BAR})",
            f64::from(SEATS / 2) / pair_time.as_secs_f64(),
            pair_us / plain_us
        );
        println!(
            "best pair, {BUYERS} at once   {:>8.0} /s   Redis {answer_us:>6.2} us an answer, refusals included: {:.2} x a plain hold",
            f64::from(BUYERS) / time.as_secs_f64(),
            answer_us / plain_us
        );
        println!(
            "{} of {SEATS} seats held, {} refused ({sold_out} sold_out), {too_early} of them while a pair was free; {:.3} script calls a success (bar \
             {CALLS_BAR}), one more for each refusal",
            seats.len(),
            refused.len(),
            (calls - refused.len() as f64) / wins
        );
    }
    drop(app);
    embedded.stop().await;
    let _ = std::fs::remove_dir_all(&data);
}
