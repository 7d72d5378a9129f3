//! A run from end to end: find the event, start workers, wait at the barrier, let people in, relay what buyers are told
//! to the viewers, wait until everybody is in step, compare, judge. `main` calls it, `report` prints what it returns.

mod books;

use crate::buyer::{self, JsonMap};
use crate::check;
use crate::clock::{RunClock, wall_us};
use crate::fleet::{Fleet, Heard};
use crate::pipe::{BuyerPlan, Instruction, Plan, Report, Role, Stood, ViewerPlan};
use crate::report::{Place, RunReport};
use crate::scenario::Scenario;
use crate::terminal::{Screen, Status};
use anyhow::{Context as _, bail};
use books::Books;
use seatwire_proto::digest::Digest;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::SeatState;
use seatwire_proto::server::{Event, EventState};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, interval, timeout_at};

/// Sockets of one worker: below the 20,000 file descriptors many hosts allow a process.
pub(crate) const MAX_VIEWERS_PER_WORKER: u32 = 15_000;
/// Beyond the ramp, how long viewers and buyers may take to stand ready.
const READY_SLACK: Duration = Duration::from_secs(30);
/// After the last phase, how long buyers may take for what they began.
const SERVE_SLACK: Duration = Duration::from_secs(60);
/// How long viewers may take to be in step after the last change: a beacon comes within 1 s on a busy event, 5 s on a quiet one.
const STEP_SLACK: Duration = Duration::from_secs(10);
/// How long the map may take to show what was paid: the outbox is relayed, not written through.
const SHOW_SLACK: Duration = Duration::from_secs(15);
/// Pause between two looks while waiting.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// From the barrier to the first possible arrival.
const START_DELAY_US: u64 = 300_000;
/// Clocks of workers may differ by this much before a run is not believed.
const MAX_CLOCK_ERROR_US: u64 = 2_000;

/// What `run` was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    pub(crate) url: String,
    /// None: the largest event on sale.
    pub(crate) event: Option<EventId>,
    pub(crate) seed: u64,
    /// Viewers' workers; None: as few as file descriptors allow.
    pub(crate) workers: Option<u32>,
    pub(crate) server_pid: Option<u32>,
}

/// Reads an event, or the largest one on sale.
pub(crate) async fn find_event(http: &reqwest::Client, url: &str, event: Option<EventId>) -> anyhow::Result<Event> {
    let get = async |path: String| -> anyhow::Result<Value> {
        let answer = http.get(format!("{url}{path}")).send().await.with_context(|| format!("no server at {url}"))?;
        Ok(answer.error_for_status()?.json().await?)
    };
    let id = match event {
        Some(id) => id,
        None => {
            let listed = get("/v1/events?limit=100".to_owned()).await?;
            let on_sale = listed["items"].as_array().into_iter().flatten().filter(|event| event["state"] == "on_sale");
            let largest = on_sale.max_by_key(|event| event["seat_count"].as_u64());
            largest
                .and_then(|event| event["id"].as_str()?.parse().ok())
                .context("no event is on sale; name one with --event")?
        }
    };
    serde_json::from_value(get(format!("/v1/events/{id}")).await?).context("the event is not as the protocol says")
}

/// A number for this run, so that two runs in a row use other source addresses.
pub(crate) fn run_number() -> u32 {
    (wall_us() / 1_000_000) as u32 % 60_000
}

/// How many workers carry so many viewers.
pub(crate) fn viewer_workers(viewers: u32, asked: Option<u32>) -> u32 {
    let fewest = viewers.div_ceil(MAX_VIEWERS_PER_WORKER);
    if viewers == 0 { 0 } else { asked.unwrap_or(1).max(fewest).min(viewers) }
}

fn plans(options: &Options, event: &Event, base_us: u64) -> Vec<Plan> {
    let scenario = &options.scenario;
    let workers = viewer_workers(scenario.viewers, options.workers);
    let run = run_number();
    let plan = |worker, role| Plan {
        worker,
        run,
        seed: options.seed,
        base_us,
        url: options.url.clone(),
        event: event.summary.id,
        role,
    };
    let by_share = (f64::from(scenario.viewers) * scenario.joining.whole_map_share).ceil() as u32;
    let whole_maps = by_share.max(scenario.joining.whole_map_at_least).min(scenario.viewers);
    let mut plans: Vec<Plan> = (0..workers)
        .map(|worker| {
            let share = |whole: u32| whole / workers + u32::from(worker < whole % workers);
            plan(
                worker,
                Role::Viewers(ViewerPlan {
                    viewers: share(scenario.viewers),
                    whole_maps: share(whole_maps).min(share(scenario.viewers)),
                    connects_per_s: scenario.joining.connects_per_s / f64::from(workers),
                    accepts_packed2: scenario.joining.accepts_packed2,
                }),
            )
        })
        .collect();
    // Buyers have a process of their own: a tick that thousands of viewers read must not sit before a reply.
    if scenario.buyers > 0 {
        plans.push(plan(
            workers,
            Role::Buyers(BuyerPlan {
                buyers: scenario.buyers,
                connects_per_s: (scenario.joining.connects_per_s / 10.0).max(20.0),
                seats_per_identity: event.rules.seats_per_identity,
                arrivals: scenario.arrivals,
                phases: scenario.phases.clone(),
                buying: scenario.buying.clone(),
            }),
        ));
    }
    plans
}

struct Run<'a> {
    options: &'a Options,
    fleet: Fleet,
    clock: RunClock,
    books: Books,
    screen: Screen,
    http: reqwest::Client,
    event: EventId,
    viewer_workers: usize,
}

/// Carries a run out.
///
/// # Errors
/// What keeps it from beginning; once it has begun, trouble is part of the report.
pub(crate) async fn run(options: &Options, screen: Screen) -> anyhow::Result<RunReport> {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?;
    let event = find_event(&http, &options.url, options.event).await?;
    if event.summary.state != EventState::OnSale && options.scenario.buyers > 0 {
        bail!("event {} is not on sale: buyers have nothing to do", event.summary.id);
    }
    let base_us = wall_us();
    let clock = RunClock::since(base_us);
    let plans = plans(options, &event, base_us);
    let viewer_workers = plans.iter().filter(|plan| matches!(plan.role, Role::Viewers(_))).count();
    let books = Books::new(plans.len(), viewer_workers, options.server_pid);
    let mut fleet = Fleet::start(plans).await?;
    let offsets = fleet.clock_offsets(clock).await;
    let mut run = Run { options, fleet, clock, books, screen, http, event: event.summary.id, viewer_workers };
    for (worker, offset) in offsets.iter().enumerate() {
        if offset.error_us() > MAX_CLOCK_ERROR_US {
            run.books.doubt(format!("the clock of worker {worker} is {} us off", offset.offset_us));
        }
    }
    run.books.clock_offsets_us = offsets.iter().map(|offset| offset.offset_us).collect();
    run.gather().await;
    let before = run.read_map().await.context("the map cannot be read")?;
    run.books.map_before(&before);
    run.serve().await;
    run.come_in_step().await;
    let paid = run.finish().await;
    run.compare(&before, &paid).await;
    let place = Place {
        url: options.url.clone(),
        event: event.summary.id,
        event_name: event.summary.name.clone(),
        seat_count: event.summary.seat_count,
        seed: options.seed,
        workers: viewer_workers,
        started_ms: base_us / 1_000,
    };
    let Run { books, screen, .. } = run;
    screen.end();
    Ok(books.report(&options.scenario, place))
}

impl Run<'_> {
    async fn read_map(&self) -> anyhow::Result<JsonMap> {
        buyer::read_map(&self.http, &self.options.url, self.event).await
    }

    /// Listens until `until` is true or time is over; shows the state every second. False: time was over.
    async fn listen(
        &mut self,
        word: &str,
        share: impl Fn(&Books, u64) -> f64,
        limit: Duration,
        until: impl Fn(&Books) -> bool,
    ) -> bool {
        let deadline = Instant::now() + limit;
        let mut second = interval(Duration::from_secs(1));
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            if until(&self.books) {
                return true;
            }
            tokio::select! {
                heard = self.fleet.next() => match heard {
                    Some((worker, heard)) => self.hear(worker, heard).await,
                    None => return false,
                },
                _ = second.tick() => {
                    let now_us = self.clock.now_us();
                    self.books.look_at_server(now_us);
                    let status = self.books.status(word, share(&self.books, now_us), now_us);
                    self.show(&status);
                }
                _ = &mut interrupt, if !self.books.is_interrupted => {
                    self.books.is_interrupted = true;
                    self.books.doubt("the run was interrupted".to_owned());
                    return false;
                }
                () = tokio::time::sleep_until(deadline) => return false,
            }
        }
    }

    fn show(&mut self, status: &Status) {
        self.screen.show(status);
    }

    async fn hear(&mut self, worker: usize, heard: Heard) {
        if let Heard::Said(Report::Commits { commits }) = heard {
            let instruction = Instruction::Commits { commits };
            for viewers in 0..self.viewer_workers {
                self.fleet.tell(viewers, &instruction).await;
            }
            return;
        }
        self.books.hear(worker, heard);
    }

    /// The barrier: everybody joins.
    async fn gather(&mut self) {
        let scenario = &self.options.scenario;
        let (viewers, buyers) = (scenario.viewers, scenario.buyers);
        let connects_per_s = scenario.joining.connects_per_s;
        let ramp_s = f64::from(viewers) / connects_per_s;
        let ramp_s = ramp_s.max(f64::from(buyers) / (connects_per_s / 10.0).max(20.0));
        let limit = Duration::from_secs_f64(ramp_s) + READY_SLACK;
        let all = f64::from(viewers + buyers).max(1.0);
        let share = |books: &Books, _| f64::from(books.ready_viewers() + books.ready_buyers()) / all;
        let is_ready = |books: &Books| {
            books.has_lost_all() || (books.ready_viewers() >= viewers && books.ready_buyers() >= buyers)
        };
        if !self.listen("joining", share, limit, is_ready).await && !self.books.is_interrupted {
            let reason = self.books.first_failure().unwrap_or_else(|| "the server is too slow for the ramp".to_owned());
            self.books.doubt(format!(
                "only {} of {viewers} viewers and {} of {buyers} buyers stood ready: {reason}",
                self.books.ready_viewers(),
                self.books.ready_buyers()
            ));
        }
    }

    /// The phases.
    async fn serve(&mut self) {
        if self.books.is_interrupted {
            return;
        }
        let seconds = self.options.scenario.seconds();
        let start_us = self.clock.now_us() + START_DELAY_US;
        self.books.begin(start_us, self.clock.now_us());
        for worker in 0..self.books.workers() {
            self.fleet.tell(worker, &Instruction::Start { at_us: start_us }).await;
        }
        let share = move |_: &Books, now_us: u64| now_us.saturating_sub(start_us) as f64 / 1e6 / seconds;
        let has_buyers = self.options.scenario.buyers > 0;
        let phases = Duration::from_secs_f64(seconds) + Duration::from_micros(START_DELAY_US);
        if has_buyers {
            let is_served = |books: &Books| books.is_served || books.has_lost_buyers();
            if !self.listen("on sale", share, phases + SERVE_SLACK, is_served).await && !self.books.is_interrupted {
                self.books.doubt(format!("buyers were not done {} s after the last phase", SERVE_SLACK.as_secs()));
            }
        } else {
            self.listen("watching", share, phases, |_| false).await;
        }
        self.books.end_phases(self.clock.now_us());
    }

    /// Waits until every viewer has the last change.
    async fn come_in_step(&mut self) {
        if self.viewer_workers == 0 {
            return;
        }
        let deadline = Instant::now() + STEP_SLACK;
        loop {
            let Ok(map) = self.read_map().await else {
                self.books.doubt("the map could not be read at the end".to_owned());
                return;
            };
            let standings = self.stand().await;
            let digest = digest_of(&map);
            self.books.compare_standings(&map, digest, &standings);
            if (self.books.behind == 0 && self.books.differing == 0) || Instant::now() > deadline {
                return;
            }
            self.listen("coming in step", |_, _| 1.0, LOOK_AGAIN, |_| false).await;
        }
    }

    async fn stand(&mut self) -> Vec<Stood> {
        self.books.stood = Vec::new();
        self.books.absent = 0;
        self.books.stands_due = 0;
        for worker in 0..self.viewer_workers {
            if !self.books.is_lost(worker) {
                self.books.stands_due += 1;
                self.fleet.tell(worker, &Instruction::Stand).await;
            }
        }
        self.listen("coming in step", |_, _| 1.0, STEP_SLACK, |books| books.stands_due == 0).await;
        std::mem::take(&mut self.books.stood)
    }

    /// Buyers first, so that their last commits reach the viewers.
    async fn finish(&mut self) -> Vec<check::PaidOrder> {
        for group in [self.viewer_workers..self.books.workers(), 0..self.viewer_workers] {
            for worker in group {
                if self.books.is_lost(worker) {
                    continue;
                }
                self.fleet.tell(worker, &Instruction::Finish).await;
                let is_final = |books: &Books| books.is_final(worker) || books.is_lost(worker);
                if !self.listen("closing the books", |_, _| 1.0, SERVE_SLACK, is_final).await {
                    self.books.hear(worker, Heard::Lost("no last word within a minute".to_owned()));
                }
            }
        }
        std::mem::take(&mut self.books.paid)
    }

    /// The log against itself, and against the server's last word.
    async fn compare(&mut self, before: &JsonMap, paid: &[check::PaidOrder]) {
        let deadline = Instant::now() + SHOW_SLACK;
        let states = loop {
            match timeout_at(deadline, self.read_map()).await {
                Ok(Ok(map)) if check::not_shown(&map.states, paid).is_empty() || Instant::now() > deadline => {
                    break map.states;
                }
                Ok(Ok(map)) => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                    if Instant::now() > deadline {
                        break map.states;
                    }
                }
                _ => {
                    self.books.doubt("the map could not be read after the end".to_owned());
                    return;
                }
            }
        };
        self.books.check(&before.states, &states, paid);
    }
}

/// The digest of a map read as JSON.
fn digest_of(map: &JsonMap) -> Digest {
    let states: Vec<SeatState> =
        map.states.iter().map(|state| SeatState::from_u8(*state).unwrap_or_default()).collect();
    Digest::of(&states, &map.areas)
}

/// Percent of one core used between two readings.
pub(crate) fn cpu_pct(cpu_us: u64, time_us: u64) -> f64 {
    if time_us == 0 { 0.0 } else { cpu_us as f64 * 100.0 / time_us as f64 }
}
