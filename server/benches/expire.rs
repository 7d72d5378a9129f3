//! A thousand baskets that end together: how long after its time each seat is on the map again, and what holds of others
//! take meanwhile. Real Redis and Postgres; the sweeper runs as often as on a node; the map's tick (50 ms at most) comes on
//! top. `cargo bench -p seatwire --bench expire`.

#![expect(clippy::print_stdout, reason = "a bench answers on the terminal")]

use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::Config as RedisConfig;
use seatwire::catalogue::{EventFacts, SectionFacts};
use seatwire::config::Config;
use seatwire::embedded::{Embedded, EmbeddedConfig};
use seatwire::inventory::{Caller, FeedMessage, HoldOutcome, Inventory};
use seatwire::metrics::Metrics;
use seatwire::store::Store;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::{SeatIndex, SeatState};
use seatwire_proto::server::{EventState, OrphanRule, PriceTier, Rules, SalesMode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// As in the bar: so many holds of 2 seats end together.
const HOLDS: u32 = 1_000;
const SEATS_BAR_MS: u64 = 1_000;
const OTHERS_BAR_MS: f64 = 50.0;
/// Long enough to make them all, short enough to wait for.
const HOLD_TTL_MS: u64 = 3_000;
/// Buyers of other seats, one hold each so often.
const OTHERS_EVERY: Duration = Duration::from_millis(2);
/// Messages of the feed before anybody reads them: a hold each.
const MESSAGES: usize = HOLDS as usize + 4_096;
/// Nothing may take so long; then the bench says so.
const PATIENCE: Duration = Duration::from_secs(30);

fn event() -> EventFacts {
    EventFacts {
        id: EventId::generate(),
        number: 1,
        revision: 1,
        state: EventState::OnSale,
        state_reason: None,
        presale_ms: None,
        on_sale_ms: 0,
        currency: "EUR".parse().expect("three capitals"),
        layout: String::new(),
        price_tiers: vec![PriceTier {
            code: "A".into(),
            name: "A".into(),
            color: "#336699".into(),
            price_minor: 4500,
            fee_minor: 250,
        }],
        seat_tiers: vec![0; 70_000],
        sections: vec![SectionFacts {
            name: "Stalls".into(),
            first: SeatIndex(0),
            end: SeatIndex(70_000),
            sales_mode: SalesMode::PickSeat,
        }],
        areas: Vec::new(),
        blocked: Default::default(),
        allocations: Vec::new(),
        rules: Rules { seats_per_identity: 10, hold_ttl_ms: HOLD_TTL_MS, orphans: OrphanRule::Off },
        has_waiting_room: false,
        has_waitlist: false,
    }
}

async fn hold(inventory: &Inventory, event: &Arc<EventFacts>, first: u32) -> u64 {
    let caller = Caller {
        event: Arc::clone(event),
        identity: IdentityId::generate(),
        key: IdempotencyKey::parse("k"),
        fingerprint: [0; 32],
    };
    let answer = inventory.hold(caller, &[SeatIndex(first), SeatIndex(first + 1)]).await.expect("Redis answers");
    match answer.outcome {
        HoldOutcome::Held { hold, .. } => hold.expires_ms,
        other => panic!("{other:?}"),
    }
}

/// The value below which `share` of the sorted values lie.
fn quantile<T: Copy>(sorted: &[T], share: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let data = std::env::temp_dir().join(format!("seatwire-bench-{}", std::process::id()));
    let config = EmbeddedConfig {
        guard_program: Some(env!("CARGO_BIN_EXE_seatwire").into()),
        durable: false,
        ..EmbeddedConfig::new(&data)
    };
    let embedded = Embedded::start(config).await.expect("Postgres and Redis start");
    let settings = Config::from_pairs([]).expect("defaults fit");
    let store = Store::connect(&embedded.database_url(), &settings.store).await.expect("Postgres answers");
    let inventory = Inventory::connect(&settings.inventory, &embedded.redis_url(), store, Arc::new(Metrics::new()))
        .await
        .expect("Redis answers");
    let event = Arc::new(event());
    inventory.read_map(&event).await.expect("opens");

    let redis = RedisConfig::from_url(&embedded.redis_url()).expect("a URL");
    let listener = Builder::from_config(redis)
        .with_performance_config(|performance| performance.broadcast_channel_capacity = 2 * MESSAGES)
        .build_subscriber_client()
        .expect("a client");
    listener.init().await.expect("Redis answers");
    let mut messages = listener.message_rx();
    listener.subscribe(format!("{{{}}}:feed", event.id)).await.expect("Redis answers");

    let mut expires_ms = Vec::new();
    for n in 0..HOLDS {
        expires_ms.push(hold(&inventory, &event, 2 * n).await);
    }
    let (first, last) = (expires_ms[0], expires_ms[HOLDS as usize - 1]);

    let sweeper = tokio::spawn({
        let (inventory, interval) = (inventory.clone(), settings.inventory.sweep_interval);
        async move {
            let mut ticks = tokio::time::interval(interval);
            loop {
                ticks.tick().await;
                for event in inventory.events_to_sweep() {
                    inventory.sweep(&event).await.expect("Redis answers");
                }
            }
        }
    });
    let others = tokio::spawn({
        let (inventory, event) = (inventory.clone(), Arc::clone(&event));
        async move {
            let (mut ticks, mut took_ms, mut seat) = (tokio::time::interval(OTHERS_EVERY), Vec::new(), 2 * HOLDS);
            // Their own holds end later than what is measured.
            while inventory.now_ms() < last + SEATS_BAR_MS {
                ticks.tick().await;
                let began = Instant::now();
                hold(&inventory, &event, seat).await;
                if inventory.now_ms() + 500 > first {
                    took_ms.push(began.elapsed().as_secs_f64() * 1e3);
                }
                seat += 2;
            }
            took_ms
        }
    });

    let mut late_ms: Vec<u64> = Vec::new();
    let seen_all = async {
        while late_ms.len() < 2 * HOLDS as usize {
            let message = messages.recv().await.expect("the feed goes on");
            let message = FeedMessage::decode(message.value.as_bytes().expect("bytes")).expect("ours");
            let now_ms = inventory.now_ms();
            for (seat, state) in message.seats {
                if state == SeatState::Available && seat.0 < 2 * HOLDS {
                    late_ms.push(now_ms.saturating_sub(expires_ms[seat.0 as usize / 2]));
                }
            }
        }
    };
    let is_whole = tokio::time::timeout(PATIENCE, seen_all).await.is_ok();
    let mut others_ms = others.await.expect("they end");
    sweeper.abort();
    late_ms.sort_unstable();
    others_ms.sort_unstable_by(f64::total_cmp);
    println!(
        "{HOLDS} holds of 2 seats that end within {} ms: {} of {} seats given back{}",
        last - first,
        late_ms.len(),
        2 * HOLDS,
        if is_whole { "" } else { ", and no more came" }
    );
    println!(
        "on the feed after their time: p50 {} ms, p99 {} ms, last {} ms (bar {SEATS_BAR_MS} with the map's tick)",
        quantile(&late_ms, 0.5),
        quantile(&late_ms, 0.99),
        quantile(&late_ms, 1.0)
    );
    println!(
        "{} holds of others meanwhile: p50 {:.1} ms, p99 {:.1} ms, slowest {:.1} ms (bar {OTHERS_BAR_MS})",
        others_ms.len(),
        quantile(&others_ms, 0.5),
        quantile(&others_ms, 0.99),
        quantile(&others_ms, 1.0)
    );
    embedded.stop().await;
    let _ = std::fs::remove_dir_all(&data);
}
