//! A worker process: takes its plan from standard input, carries viewers or buyers on one thread, and reports closed
//! seconds on standard output. It ends with its coordinator: an input that closes is the order to stop.

use crate::buyer::{self, Arrival, Pool, Shop};
use crate::clock::RunClock;
use crate::delivery::Deliveries;
use crate::pace;
use crate::pipe::{BuyerPlan, Instruction, Plan, Progress, Report, Role, Stood, ViewerPlan};
use crate::process;
use crate::tally::{Tally, Timing};
use crate::viewer::{self, Standing, World};
use anyhow::{Context as _, bail};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdin, Stdout};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the loop's lateness is sampled.
const LAG_INTERVAL: Duration = Duration::from_millis(10);
/// How often commits go to the coordinator: short against the time a step settles.
const COMMITS_INTERVAL: Duration = Duration::from_millis(50);
/// A window of viewers is shipped this long after its end: a step settles two seconds after its first arrival.
const VIEWERS_DELAY_S: u64 = 4;
/// One of buyers: only what is being answered at this moment is still to come.
const BUYERS_DELAY_S: u64 = 0;
/// Entries of the log in one line.
const LOG_LINE: usize = 500;
/// Customers whose orders are read at a time.
const ORDER_READERS: usize = 8;

type Lines = tokio::io::Lines<BufReader<Stdin>>;

/// Runs the worker until it is told to finish.
pub(crate) async fn run() -> anyhow::Result<()> {
    process::raise_fd_limit();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let first = lines.next_line().await?.context("no plan came")?;
    let Instruction::Plan(plan) = serde_json::from_str(&first)? else { bail!("the first line is not a plan") };
    let clock = RunClock::since(plan.base_us);
    let mut out = tokio::io::stdout();
    let result = match &plan.role {
        Role::Viewers(viewers) => carry_viewers(&plan, viewers, clock, &mut lines, &mut out).await,
        Role::Buyers(buyers) => carry_buyers(&plan, buyers, clock, &mut lines, &mut out).await,
    };
    if let Err(error) = &result {
        let _ = say(&mut out, &Report::Failed { reason: format!("{error:#}") }).await;
    }
    result
}

async fn say(out: &mut Stdout, report: &Report) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    out.write_all(&line).await?;
    out.flush().await?;
    Ok(())
}

fn target(url: &str) -> anyhow::Result<crate::socket::Target> {
    let authority = url.strip_prefix("http://").context("the URL must begin with http://")?.trim_end_matches('/');
    let with_port = if authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let address = std::net::ToSocketAddrs::to_socket_addrs(&with_port)?
        .min_by_key(|address| !address.is_ipv4())
        .context("the host has no address")?;
    Ok(crate::socket::Target { address, authority: authority.to_owned() })
}

/// Samples how late timers run: a loop that is behind measures itself.
async fn measure_lag(clock: RunClock, tally: impl Fn(u64, u64)) {
    let mut ticks = interval(LAG_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        tally(clock.now_us(), Instant::now().saturating_duration_since(due).as_micros() as u64);
    }
}

fn closed_before(now_us: u64, delay_s: u64) -> u32 {
    (now_us / 1_000_000).saturating_sub(delay_s) as u32
}

async fn carry_viewers(
    plan: &Plan,
    viewers: &ViewerPlan,
    clock: RunClock,
    lines: &mut Lines,
    out: &mut Stdout,
) -> anyhow::Result<()> {
    let world = Arc::new(World {
        clock,
        target: target(&plan.url)?,
        run: plan.run.wrapping_add(10 * plan.worker),
        event: plan.event,
        accepts_packed2: viewers.accepts_packed2,
        tally: Mutex::new(Tally::default()),
        deliveries: Mutex::new(Deliveries::default()),
        frames: Mutex::default(),
        standings: Mutex::new(Vec::new()),
        resync_round: AtomicU32::new(0),
        ready: AtomicU32::new(0),
        gone: AtomicU32::new(0),
        first_failure: Mutex::new(None),
    });
    let grow = |to: u32| {
        let from = world.standings.lock().len() as u32;
        world.standings.lock().resize(to.max(from) as usize, Standing::default());
        let more = to.saturating_sub(from);
        let times = viewer::join_times(clock.now_us() + 1_000, more, viewers.connects_per_s, plan.seed, plan.worker);
        for (no, at_us) in (from..to).zip(times) {
            tokio::spawn(viewer::watch(Arc::clone(&world), no, no < viewers.whole_maps, at_us));
        }
    };
    grow(viewers.viewers);
    let lag = Arc::clone(&world);
    tokio::spawn(measure_lag(clock, move |at_us, late_us| {
        lag.tally.lock().at(at_us).record_n(Timing::LagViewers, late_us, 1);
    }));
    let mut second = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            line = lines.next_line() => match line?.map(|line| serde_json::from_str(&line)).transpose()? {
                None => return Ok(()),
                Some(Instruction::Clock) => say(out, &Report::Clock { now_us: clock.now_us() }).await?,
                Some(Instruction::Commits { commits }) => {
                    let mut tally = world.tally.lock();
                    let mut deliveries = world.deliveries.lock();
                    for commit in commits {
                        deliveries.commit(commit, &mut tally);
                    }
                }
                Some(Instruction::Grow { viewers }) => grow(viewers),
                Some(Instruction::ResyncAll) => drop(world.resync_round.fetch_add(1, Ordering::Relaxed)),
                Some(Instruction::Stand) => {
                    let (standings, absent) = stand(&world.standings.lock(), viewers.whole_maps);
                    say(out, &Report::Stand { standings, absent }).await?;
                }
                Some(Instruction::Finish) => {
                    let windows = {
                        let mut tally = world.tally.lock();
                        world.deliveries.lock().settle(clock.now_us(), true, &mut tally);
                        tally.take_before(u32::MAX)
                    };
                    say(out, &Report::Windows { windows }).await?;
                    return say(out, &Report::Final { paid: Vec::new() }).await;
                }
                Some(Instruction::Plan(_) | Instruction::Start { .. }) => {}
            },
            _ = second.tick() => {
                let now_us = clock.now_us();
                let windows = {
                    let mut tally = world.tally.lock();
                    world.deliveries.lock().settle(now_us, false, &mut tally);
                    tally.take_before(closed_before(now_us, VIEWERS_DELAY_S))
                };
                say(out, &Report::Windows { windows }).await?;
                let first_failure = world.first_failure.lock().clone();
                let ready = world.ready.load(Ordering::Relaxed);
                let gone = world.gone.load(Ordering::Relaxed);
                say(out, &Report::Progress(progress(clock, ready, gone, first_failure))).await?;
            }
        }
    }
}

fn progress(clock: RunClock, ready: u32, gone: u32, first_failure: Option<String>) -> Progress {
    let own = process::own_usage();
    Progress { ready, gone, cpu_us: own.cpu_us, rss_bytes: own.rss_bytes, at_us: clock.now_us(), first_failure }
}

/// Counts the viewers by where they stand.
fn stand(standings: &[Standing], whole_maps: u32) -> (Vec<Stood>, u32) {
    let mut groups: BTreeMap<(u32, u64, u32), (u32, u32)> = BTreeMap::new();
    let mut absent = 0;
    for (no, standing) in (0_u32..).zip(standings) {
        if !standing.is_live {
            absent += 1;
            continue;
        }
        let group = groups.entry((standing.epoch, standing.seq, standing.digest)).or_default();
        group.0 += 1;
        group.1 += u32::from(no < whole_maps);
    }
    let stood = groups
        .into_iter()
        .map(|((epoch, seq, digest), (viewers, whole_maps))| Stood { epoch, seq, digest, viewers, whole_maps })
        .collect();
    (stood, absent)
}

async fn carry_buyers(
    plan: &Plan,
    buyers: &BuyerPlan,
    clock: RunClock,
    lines: &mut Lines,
    out: &mut Stdout,
) -> anyhow::Result<()> {
    let (doors, ends): (Vec<_>, Vec<_>) = (0..buyers.buyers).map(|_| mpsc::channel(1)).unzip();
    let shop = Arc::new(Shop {
        clock,
        target: target(&plan.url)?,
        url: plan.url.clone(),
        http: reqwest::Client::builder().timeout(Duration::from_secs(15)).build()?,
        run: plan.run.wrapping_add(10 * plan.worker),
        seed: plan.seed,
        event: plan.event,
        seats_per_identity: buyers.seats_per_identity,
        buying: buyers.buying.clone(),
        tally: Mutex::new(Tally::default()),
        commits: Mutex::new(Vec::new()),
        log: Mutex::new(Vec::new()),
        customers: Mutex::new(Vec::new()),
        map: Mutex::new(Vec::new()),
        pool: Mutex::new(Pool::new(doors)),
        next_who: AtomicU32::new(0),
        ready: AtomicU32::new(0),
        first_failure: Mutex::new(None),
    });
    let map = shop.read_map().await.context("the map cannot be read")?;
    *shop.map.lock() = map;
    let interval_us = 1e6 / buyers.connects_per_s;
    for (no, end) in (0_u32..).zip(ends) {
        let join_at_us = clock.now_us() + (f64::from(no) * interval_us) as u64;
        tokio::spawn(buyer::buy(Arc::clone(&shop), no, end, join_at_us));
    }
    let lag = Arc::clone(&shop);
    tokio::spawn(measure_lag(clock, move |at_us, late_us| {
        lag.tally.lock().at(at_us).record_n(Timing::LagBuyers, late_us, 1);
    }));
    let (all_arrived, mut has_all_arrived) = mpsc::channel::<()>(1);
    let mut is_serving = false;
    let mut second = interval(Duration::from_secs(1));
    let mut often = interval(COMMITS_INTERVAL);
    loop {
        tokio::select! {
            line = lines.next_line() => match line?.map(|line| serde_json::from_str(&line)).transpose()? {
                None => return Ok(()),
                Some(Instruction::Clock) => say(out, &Report::Clock { now_us: clock.now_us() }).await?,
                Some(Instruction::Start { at_us }) => {
                    let schedule = pace::schedule(&buyers.phases, buyers.arrivals, plan.seed);
                    tokio::spawn(arrive(Arc::clone(&shop), schedule, at_us, all_arrived.clone()));
                }
                Some(Instruction::Finish) => {
                    tell_commits(&shop, out).await?;
                    tell_log(&shop, out).await?;
                    let paid = read_orders(&shop).await?;
                    let windows = shop.tally.lock().take_before(u32::MAX);
                    say(out, &Report::Windows { windows }).await?;
                    return say(out, &Report::Final { paid }).await;
                }
                Some(_) => {}
            },
            Some(()) = has_all_arrived.recv() => is_serving = true,
            _ = often.tick() => {
                tell_commits(&shop, out).await?;
                if is_serving && shop.pool.lock().is_quiet() {
                    is_serving = false;
                    say(out, &Report::Served).await?;
                }
            }
            _ = second.tick() => {
                tell_log(&shop, out).await?;
                let windows = shop.tally.lock().take_before(closed_before(clock.now_us(), BUYERS_DELAY_S));
                say(out, &Report::Windows { windows }).await?;
                let first_failure = shop.first_failure.lock().clone();
                let ready = shop.ready.load(Ordering::Relaxed);
                say(out, &Report::Progress(progress(clock, ready, 0, first_failure))).await?;
            }
        }
    }
}

/// Lets people in as scheduled, whatever the server does.
async fn arrive(shop: Arc<Shop>, schedule: Vec<u64>, start_us: u64, all_arrived: mpsc::Sender<()>) {
    for after_us in schedule {
        let intended_us = start_us + after_us;
        tokio::time::sleep_until(shop.clock.instant(intended_us)).await;
        shop.arrive(Arrival { intended_us });
    }
    let _ = all_arrived.send(()).await;
}

async fn tell_commits(shop: &Shop, out: &mut Stdout) -> anyhow::Result<()> {
    let commits = std::mem::take(&mut *shop.commits.lock());
    if commits.is_empty() { Ok(()) } else { say(out, &Report::Commits { commits }).await }
}

async fn tell_log(shop: &Shop, out: &mut Stdout) -> anyhow::Result<()> {
    let log = std::mem::take(&mut *shop.log.lock());
    for entries in log.chunks(LOG_LINE) {
        say(out, &Report::Log { entries: entries.to_vec() }).await?;
    }
    Ok(())
}

/// Reads what every customer has paid for, several at a time.
async fn read_orders(shop: &Arc<Shop>) -> anyhow::Result<Vec<crate::check::PaidOrder>> {
    let mut customers = std::mem::take(&mut *shop.customers.lock());
    customers.sort_by_key(|(who, _)| who.0);
    customers.dedup_by_key(|(who, _)| who.0);
    let mut paid = Vec::new();
    for some in customers
        .chunks(customers.len().div_ceil(ORDER_READERS).max(1))
        .map(<[_]>::to_vec)
        .map(|some| {
            let shop = Arc::clone(shop);
            tokio::spawn(async move {
                let mut paid = Vec::new();
                for (who, token) in some {
                    paid.extend(shop.paid_orders(who, &token).await.context("orders cannot be read")?);
                }
                anyhow::Ok(paid)
            })
        })
        .collect::<Vec<_>>()
    {
        paid.extend(some.await??);
    }
    Ok(paid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_counted_by_where_they_stand() {
        let at = |seq, is_live| Standing { epoch: 1, seq, digest: 9, is_live };
        let (stood, absent) = stand(&[at(5, true), at(5, true), at(4, true), at(5, false)], 1);
        assert_eq!(absent, 1);
        assert_eq!(stood.iter().map(|s| (s.seq, s.viewers, s.whole_maps)).collect::<Vec<_>>(), [(4, 1, 0), (5, 2, 1)]);
    }

    #[test]
    fn a_url_without_a_port_means_80_and_https_is_not_spoken() {
        assert_eq!(target("http://127.0.0.1/").expect("good").address.port(), 80);
        assert_eq!(target("http://127.0.0.1:8080").expect("good").authority, "127.0.0.1:8080");
        assert!(target("https://127.0.0.1").is_err());
    }
}
