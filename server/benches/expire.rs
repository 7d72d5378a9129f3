//! A thousand baskets that end together: how long after its time each seat is on the map again and before a viewer, when it
//! can be held again, and what commands of others take meanwhile, beside the same commands when nothing ends. A node with
//! all its jobs on a real Redis and Postgres. `cargo bench -p seatwire --bench expire`, under a minute.

#![expect(clippy::print_stdout, reason = "a bench answers on the terminal")]

mod ground;
mod opening;

use bytes::Bytes;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::Config as RedisConfig;
use futures_util::{StreamExt, stream};
use ground::Ground;
use opening::Hall;
use parking_lot::Mutex;
use seatwire::app::App;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{Caller, FeedMessage, HoldOutcome, Inventory, ReleaseWhat};
use seatwire::seatmap::{Delivery, MapFrame, Viewer};
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::{SeatIndex, SeatState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// As in the bar: so many holds of 2 seats end together.
const HOLDS: u32 = 1_000;
const SEEN_BAR_MS: u64 = 1_000;
const OTHERS_BAR_MS: f64 = 50.0;
/// Long enough to make them all, short enough to wait for.
const HOLD_TTL_MS: u64 = 6_000;
/// Holds that are made at once: all of them end within a fraction of a second.
const AT_ONCE: usize = 64;
/// Buyers of other seats, one hold and its release each so often.
const OTHERS_EVERY: Duration = Duration::from_millis(4);
/// Others are measured from so long before the first hold ends until so long after the last.
const AROUND_MS: u64 = 500;
const AFTER_MS: u64 = 1_500;
/// Messages of the feed before anybody reads them: a few for each hold.
const MESSAGES: usize = 16 * HOLDS as usize;
/// Nothing may take so long; then the bench says so and ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Notes when each change was put before a viewer.
#[derive(Default)]
struct Watcher(Mutex<Vec<(u64, u64)>>, Mutex<Option<(Inventory, EventId)>>);

impl Viewer for Watcher {
    fn deliver(&self, frame: &MapFrame) -> Delivery {
        let now_ms = self.1.lock().as_ref().map_or(0, |(inventory, event)| inventory.event_ms(*event));
        self.0.lock().push((frame.seq_to, now_ms));
        Delivery::Sent
    }

    fn restart(&self, _: u32) {}

    fn notice(&self, _: &Bytes) {}
}

impl Watcher {
    /// When the change with this seq was seen.
    fn seen_ms(&self, seq: u64) -> Option<u64> {
        self.0.lock().iter().find(|(seq_to, _)| *seq_to >= seq).map(|(_, at_ms)| *at_ms)
    }
}

fn caller(event: &Arc<EventFacts>) -> Caller {
    Caller { event: Arc::clone(event), identity: IdentityId::generate(), key: None, fingerprint: [0; 32] }
}

/// Holds the two seats from `first` on; when that ends.
async fn hold(app: &App, event: &Arc<EventFacts>, first: u32) -> u64 {
    let seats = [SeatIndex(first), SeatIndex(first + 1)];
    let answer = app.inventory.hold(caller(event), &seats).await.expect("Redis answers");
    match answer.outcome {
        HoldOutcome::Held { hold, .. } => hold.expires_ms,
        other => panic!("{other:?}"),
    }
}

/// Others hold and release seats beyond the thousand holds until the inventory's clock says so; what each call took, ms.
async fn others(app: Arc<App>, event: Arc<EventFacts>, until_ms: u64) -> Vec<f64> {
    let (mut ticks, mut calls, mut seat) = (tokio::time::interval(OTHERS_EVERY), Vec::new(), 2 * HOLDS);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while app.inventory.event_ms(event.id) < until_ms {
        ticks.tick().await;
        let (app, event) = (Arc::clone(&app), Arc::clone(&event));
        // Each at its time, whatever the one before does: a stall is felt by all that come meanwhile.
        calls.push(tokio::spawn(async move {
            let (began, caller) = (Instant::now(), caller(&event));
            let again = Caller { event: Arc::clone(&event), ..caller.clone() };
            let answer = app.inventory.hold(caller, &[SeatIndex(seat)]).await.expect("Redis answers");
            let held = began.elapsed();
            let HoldOutcome::Held { hold, .. } = answer.outcome else { panic!("{answer:?}") };
            let began = Instant::now();
            app.inventory.release(again, hold.id, ReleaseWhat::All).await.expect("Redis answers");
            [held, began.elapsed()]
        }));
        seat += 1;
    }
    let mut took_ms = Vec::new();
    for call in calls {
        took_ms.extend(call.await.expect("it ends").map(|took| took.as_secs_f64() * 1e3));
    }
    took_ms.sort_unstable_by(f64::total_cmp);
    took_ms
}

/// The value below which `share` of the sorted values lie.
fn quantile<T: Copy>(sorted: &[T], share: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn report(name: &str, took_ms: &[f64]) {
    println!(
        "{name:<46} {:>6} calls: p50 {:>6.2} ms, p99 {:>6.2} ms, slowest {:>6.2} ms",
        took_ms.len(),
        quantile(took_ms, 0.5),
        quantile(took_ms, 0.99),
        quantile(took_ms, 1.0)
    );
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let ground = Ground::prepare().await;
    let app = opening::node(&ground).await;
    let event = opening::open(&app, Hall { rows: 350, seats_a_row: 200, hold_ttl_ms: HOLD_TTL_MS }).await;

    let listener = Builder::from_config(RedisConfig::from_url(&ground.embedded.redis_url()).expect("a URL"))
        .with_performance_config(|performance| performance.broadcast_channel_capacity = MESSAGES)
        .build_subscriber_client()
        .expect("a client");
    listener.init().await.expect("Redis answers");
    let mut messages = listener.message_rx();
    listener.subscribe(format!("{{{}}}:feed", event.id)).await.expect("Redis answers");
    let watcher = Arc::new(Watcher::default());
    *watcher.1.lock() = Some((app.inventory.clone(), event.id));
    let live = app.seatmap.live(&event).await.expect("is open");
    live.join(Arc::clone(&watcher) as Arc<dyn Viewer>).expect("takes viewers");

    // The reference: the same commands at the same pace, and nothing ends.
    let reference =
        others(Arc::clone(&app), Arc::clone(&event), app.inventory.event_ms(event.id) + AROUND_MS + AFTER_MS).await;

    let made = stream::iter(0..HOLDS).map(|n| {
        let (app, event) = (Arc::clone(&app), Arc::clone(&event));
        async move { (n, hold(&app, &event, 2 * n).await) }
    });
    let mut expires_ms: Vec<(u32, u64)> = made.buffer_unordered(AT_ONCE).collect().await;
    expires_ms.sort_unstable();
    let expires_ms: Vec<u64> = expires_ms.into_iter().map(|(_, ms)| ms).collect();
    let (first, last) = expires_ms.iter().fold((u64::MAX, 0), |(low, high), &ms| (low.min(ms), high.max(ms)));
    while app.inventory.event_ms(event.id) + AROUND_MS < first {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let cpu = ground.redis_cpu().await;
    let meanwhile = tokio::spawn(others(Arc::clone(&app), Arc::clone(&event), last + AFTER_MS));
    let mut freed: Vec<(u32, u64, u64)> = Vec::new();
    let all_freed = async {
        while freed.len() < 2 * HOLDS as usize {
            let message = match messages.recv().await {
                Ok(message) => message,
                Err(error) => {
                    println!("the feed was not read fast enough: {error}");
                    return;
                }
            };
            let message = FeedMessage::decode(message.value.as_bytes().expect("bytes")).expect("ours");
            let now_ms = app.inventory.event_ms(event.id);
            let ours = message.seats.iter().filter(|(seat, _)| seat.0 < 2 * HOLDS);
            for (seat, _) in ours.filter(|(_, state)| *state == SeatState::Available) {
                freed.push((seat.0, message.seq, now_ms));
            }
        }
    };
    let is_whole = tokio::time::timeout(PATIENCE, all_freed).await.is_ok();
    let during = tokio::time::timeout(PATIENCE, meanwhile).await.expect("others end").expect("they end well");
    let cpu = ground.redis_cpu().await - cpu;

    let late = |seat: u32, at_ms: u64| at_ms.saturating_sub(expires_ms[seat as usize / 2]);
    let mut told_ms: Vec<u64> = freed.iter().map(|&(seat, _, at_ms)| late(seat, at_ms)).collect();
    let mut seen_ms: Vec<u64> =
        freed.iter().filter_map(|&(seat, seq, _)| Some(late(seat, watcher.seen_ms(seq)?))).collect();
    told_ms.sort_unstable();
    seen_ms.sort_unstable();
    let is_held_again = {
        let seat = freed.first().map_or(0, |freed| freed.0);
        let answer = app.inventory.hold(caller(&event), &[SeatIndex(seat)]).await.expect("Redis answers");
        matches!(answer.outcome, HoldOutcome::Held { .. })
    };
    println!(
        "{HOLDS} holds of 2 seats that end within {} ms: {} of {} seats given back, {} seen{}{}",
        last - first,
        told_ms.len(),
        2 * HOLDS,
        seen_ms.len(),
        if is_whole { "" } else { ", and no more came" },
        if is_held_again { ", and held again by another" } else { ", BUT NOT TO BE HELD AGAIN" },
    );
    for (name, ms) in [("on the shelf after their time", &told_ms), ("before a viewer after their time", &seen_ms)] {
        if !ms.is_empty() {
            println!(
                "{name:<46} p50 {} ms, p99 {} ms, last {} ms (bar {SEEN_BAR_MS})",
                quantile(ms, 0.5),
                quantile(ms, 0.99),
                quantile(ms, 1.0)
            );
        }
    }
    report("holds and releases of others, nothing ends", &reference);
    report("holds and releases of others meanwhile", &during);
    println!(
        "the slowest of them waited {:.2} ms (bar {OTHERS_BAR_MS}), {:.2} ms more than without; Redis CPU meanwhile {:.0} ms",
        quantile(&during, 1.0),
        quantile(&during, 1.0) - quantile(&reference, 1.0),
        cpu * 1e3,
    );
    println!("Redis holds {:.1} MB", ground.info("used_memory").await / 1e6);
    drop(live);
    drop(app);
    ground.clear().await;
}
