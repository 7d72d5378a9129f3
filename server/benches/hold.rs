//! What a hold costs: memory in Redis, CPU of Redis against an EVALSHA that does nothing, CPU of this process, holds a
//! second. Prints each number beside its bar; nothing here fails on a slow machine but the ratios speak.
//! `cargo bench -p seatwire --bench hold` (in a debug build only the numbers of Redis mean something).

mod ground;

use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::Config as RedisConfig;
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use ground::Ground;
use seatwire::catalogue::{AreaFacts, EventFacts, SectionFacts};
use seatwire::config::Config;
use seatwire::inventory::{Caller, HoldOutcome, Inventory};
use seatwire::metrics::Metrics;
use seatwire::store::Store;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::{PriceTier, SalesMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// As in the bar: 50,000 holds of 2 seats by 50,000 identities.
const HOLDS: u32 = 50_000;
const BUYERS_AT_ONCE: u32 = 256;
const MEMORY_BAR_MB: f64 = 16.0;
const CPU_BAR: f64 = 5.0;
/// The rate of the bar, for holds and for the script that does nothing.
const PACE_PER_S: f64 = 10_000.0;
/// Calls that are due begin so often: at the pace, one by one.
const PACE_TICK: std::time::Duration = std::time::Duration::from_micros(100);

fn event(number: u32, seat_count: u32) -> EventFacts {
    let tier =
        PriceTier { code: "A".into(), name: "A".into(), color: "#336699".into(), price_minor: 4500, fee_minor: 250 };
    EventFacts {
        number,
        sections: vec![SectionFacts {
            name: "Stalls".into(),
            first: SeatIndex(0),
            end: SeatIndex(seat_count),
            sales_mode: SalesMode::PickSeat,
        }],
        areas: vec![AreaFacts { name: "Floor".into(), price_tier: 0, capacity: 1000 }],
        ..EventFacts::on_sale(vec![tier], vec![0; seat_count as usize])
    }
}

/// Seconds of CPU this process has used.
fn own_cpu() -> f64 {
    let usage = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = usage.rsplit_once(") ").expect("a stat line").1;
    let ticks: f64 = after_name.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0)).sum();
    ticks / 100.0
}

/// Buyers do not come in seat order.
fn pair(n: u32) -> [SeatIndex; 2] {
    let n = (u64::from(n) * 7919 % u64::from(HOLDS)) as u32;
    [SeatIndex(2 * n), SeatIndex(2 * n + 1)]
}

struct Run {
    seconds: f64,
    redis_us: f64,
    own_us: f64,
    redis_bytes: f64,
}

async fn measure<F, W>(ground: &Ground, times: u32, work: F) -> Run
where
    F: Fn(u32) -> W + Clone + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let (cpu, memory) = (ground.redis_cpu().await, ground.info("used_memory").await);
    let (own, began) = (own_cpu(), Instant::now());
    let next = Arc::new(AtomicU32::new(0));
    let mut buyers = tokio::task::JoinSet::new();
    for _ in 0..BUYERS_AT_ONCE {
        let (next, work) = (Arc::clone(&next), work.clone());
        buyers.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= times {
                    break;
                }
                work(n).await;
            }
        });
    }
    buyers.join_all().await;
    let seconds = began.elapsed().as_secs_f64();
    let (cpu_after, memory_after) = (ground.redis_cpu().await, ground.info("used_memory").await);
    Run {
        seconds,
        redis_us: (cpu_after - cpu) * 1e6 / f64::from(times),
        own_us: (own_cpu() - own) * 1e6 / f64::from(times),
        redis_bytes: memory_after - memory,
    }
}

/// As [`measure`], but begun at fixed times, [`PACE_PER_S`] a second: what a call costs Redis when nothing piles up. The
/// thread that keeps the time costs this process something, too.
async fn measure_paced<F, W>(ground: &Ground, times: u32, work: F) -> Run
where
    F: Fn(u32) -> W + Clone + Send + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    let (cpu, memory) = (ground.redis_cpu().await, ground.info("used_memory").await);
    let (own, began) = (own_cpu(), Instant::now());
    let (runtime, (done, all_done)) = (tokio::runtime::Handle::current(), tokio::sync::oneshot::channel());
    let pacer = std::thread::spawn(move || {
        let (left, mut n) = (Arc::new(AtomicU32::new(times)), 0);
        let done = Arc::new(parking_lot::Mutex::new(Some(done)));
        while n < times {
            #[expect(
                clippy::disallowed_methods,
                reason = "a thread of its own: the runtime's wheel knows no tenth of a millisecond"
            )]
            std::thread::sleep(PACE_TICK);
            let due = (began.elapsed().as_secs_f64() * PACE_PER_S) as u32;
            for n in n..due.min(times) {
                let (call, left, done) = (work(n), Arc::clone(&left), Arc::clone(&done));
                runtime.spawn(async move {
                    call.await;
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        done.lock().take().map(|done| done.send(()));
                    }
                });
            }
            n = due.min(times).max(n);
        }
    });
    all_done.await.expect("every call ends");
    pacer.join().expect("the pacer ends");
    let seconds = began.elapsed().as_secs_f64();
    let (cpu_after, memory_after) = (ground.redis_cpu().await, ground.info("used_memory").await);
    Run {
        seconds,
        redis_us: (cpu_after - cpu) * 1e6 / f64::from(times),
        own_us: (own_cpu() - own) * 1e6 / f64::from(times),
        redis_bytes: memory_after - memory,
    }
}

fn report(name: &str, times: u32, run: &Run, noop_us: f64) {
    #[expect(clippy::print_stdout, reason = "a bench prints")]
    {
        println!(
            "{name:<28} {:>8.0} /s   Redis {:>6.2} us ({:>4.2} x no-op)   process {:>6.2} us",
            f64::from(times) / run.seconds,
            run.redis_us,
            run.redis_us / noop_us,
            run.own_us
        );
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let ground = Ground::prepare().await;
    let settings =
        Config::from_pairs([("SEATWIRE_REDIS_TIMEOUT_MS", "5000"), ("SEATWIRE_DB_ACQUIRE_MS", "10000")]).expect("fits");
    let store = Store::connect(&ground.embedded.database_url(), &settings.store).await.expect("Postgres answers");
    let inventory =
        Inventory::connect(&settings.inventory, &ground.embedded.redis_url(), store, Arc::new(Metrics::new()))
            .await
            .expect("Redis answers");
    let redis_config = RedisConfig::from_url(&ground.embedded.redis_url()).expect("a URL");
    let pool = Builder::from_config(redis_config).build_pool(settings.inventory.connections).expect("a pool");
    pool.init().await.expect("Redis answers");
    let sha: String = pool.next().script_load("return 0").await.expect("loads");
    let noop = move |_| {
        let (pool, sha) = (pool.clone(), sha.clone());
        async move {
            let command = CustomCommand::new_static("EVALSHA", ClusterHash::Offset(2), false);
            let args = vec![Value::from(sha), Value::from(1), Value::from("{k}")];
            let _: Value = pool.next().custom(command, args).await.expect("runs");
        }
    };
    let paced_noop = measure_paced(&ground, HOLDS, noop.clone()).await;
    report("no-op EVALSHA, paced", HOLDS, &paced_noop, paced_noop.redis_us);
    let paced_event = Arc::new(event(2, 2 * HOLDS));
    inventory.read_map(&paced_event).await.expect("opens");
    let paced_holds = {
        let (inventory, event) = (inventory.clone(), Arc::clone(&paced_event));
        measure_paced(&ground, HOLDS, move |n| {
            let (inventory, event) = (inventory.clone(), Arc::clone(&event));
            async move {
                let identity = IdentityId::generate();
                let caller = Caller { event, identity, key: IdempotencyKey::parse("k"), fingerprint: [0; 32] };
                let answer = inventory.hold(caller, &pair(n)).await.expect("Redis answers");
                assert!(matches!(answer.outcome, HoldOutcome::Held { .. }), "{answer:?}");
            }
        })
        .await
    };
    report("hold of 2 seats, paced", HOLDS, &paced_holds, paced_noop.redis_us);
    let noop = measure(&ground, HOLDS, noop).await;
    report("no-op EVALSHA", HOLDS, &noop, noop.redis_us);

    let event = Arc::new(event(1, 2 * HOLDS));
    inventory.read_map(&event).await.expect("opens");
    let identities: Arc<Vec<IdentityId>> = Arc::new((0..HOLDS).map(|_| IdentityId::generate()).collect());
    let caller = {
        let (event, identities) = (Arc::clone(&event), Arc::clone(&identities));
        move |n: u32, key: &str| Caller {
            event: Arc::clone(&event),
            identity: identities[n as usize],
            key: IdempotencyKey::parse(&format!("{key} {n}")),
            fingerprint: [key.len() as u8; 32],
        }
    };
    let holds = {
        let (inventory, caller) = (inventory.clone(), caller.clone());
        measure(&ground, HOLDS, move |n| {
            let (inventory, caller) = (inventory.clone(), caller(n, "hold"));
            async move {
                let answer = inventory.hold(caller, &pair(n)).await.expect("Redis answers");
                assert!(matches!(answer.outcome, HoldOutcome::Held { .. }), "{answer:?}");
            }
        })
        .await
    };
    report("hold of 2 seats", HOLDS, &holds, noop.redis_us);
    let conflicts = {
        let (inventory, event) = (inventory.clone(), Arc::clone(&event));
        measure(&ground, HOLDS / 5, move |n| {
            let (inventory, event) = (inventory.clone(), Arc::clone(&event));
            async move {
                let identity = IdentityId::generate();
                let caller = Caller { event, identity, key: IdempotencyKey::parse("k"), fingerprint: [0; 32] };
                let answer = inventory.hold(caller, &pair(n)).await.expect("Redis answers");
                assert!(matches!(answer.outcome, HoldOutcome::Refused(_)));
            }
        })
        .await
    };
    report("seat_taken", HOLDS / 5, &conflicts, noop.redis_us);
    let replays = {
        let (inventory, caller) = (inventory.clone(), caller.clone());
        measure(&ground, HOLDS, move |n| {
            let (inventory, caller) = (inventory.clone(), caller(n, "hold"));
            async move {
                let answer = inventory.hold(caller, &pair(n)).await.expect("Redis answers");
                assert!(answer.is_replayed);
            }
        })
        .await
    };
    report("replay of a hold", HOLDS, &replays, noop.redis_us);
    #[expect(clippy::print_stdout, reason = "a bench prints")]
    {
        println!(
            "{HOLDS} holds of 2 seats: {:.1} MB in Redis (bar {MEMORY_BAR_MB}), {:.0} B a hold; at {PACE_PER_S} a second Redis CPU \
             {:.2} x no-op (bar {CPU_BAR}); as fast as they go, process CPU {:.2} x Redis CPU (bar 1.0, in a release build)",
            holds.redis_bytes / 1e6,
            holds.redis_bytes / f64::from(HOLDS),
            paced_holds.redis_us / paced_noop.redis_us,
            holds.own_us / holds.redis_us,
        );
    }
    ground.clear().await;
}
