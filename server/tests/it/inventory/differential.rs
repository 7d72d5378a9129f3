//! A hundred thousand random operations on the scripts and on the plain model: every outcome, every position and, now and
//! then, every seat must agree. The seed is printed; `SEATWIRE_SEED` repeats a run, `SEATWIRE_OPERATIONS` sets its length.

mod changing;
mod following;
mod organising;
mod taking;
mod waiting;

use super::model::{Model, ROW};
use super::shelf::{Shelf, allocation};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seatwire::catalogue::{Run as SeatRun, SeatShape};
use seatwire::inventory::{Answer, Caller, ChangeOutcome, HoldLine, HoldOutcome, Place};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

const SEATS: u32 = 30;
const PEOPLE: usize = 8;
/// Nobody's to take at first.
const BLOCKED: u32 = 12;
/// Kept for those who unlock them, by slot. The last two people never do.
const ALLOCATED: [(u8, std::ops::Range<u32>); 2] = [(0, 3..6), (5, 22..26)];
const STRANGERS: usize = 2;
const OPERATIONS: u32 = 100_000;
/// Events that the operations are spread over: most of their time is waiting.
const EVENTS: u64 = 4;
/// Between two comparisons of everything; `SEATWIRE_COMPARE_EVERY=1` finds the operation that made the difference.
const COMPARE_EVERY: u32 = 100;
/// How well this process knows Redis' clock at a moment.
const DOUBT_MS: u64 = 100;
/// One step of time.
const STEP_MS: u64 = 20_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What a key was answered with, and when.
struct Remembered<T> {
    body: String,
    answer: Answer<T>,
    at_ms: u64,
}

/// An order of a locked hold, with what it would take.
#[derive(Clone)]
struct Order {
    id: OrderId,
    identity: IdentityId,
    hold: HoldId,
    places: Vec<(Place, u32)>,
}

struct Run {
    shelf: Shelf,
    model: Model,
    random: StdRng,
    people: Vec<IdentityId>,
    /// Orders begun, with what they would take.
    orders: Vec<Order>,
    /// The last holds seen, open and gone.
    holds: Vec<(IdentityId, HoldId)>,
    remembered_holds: HashMap<(IdentityId, String), Remembered<HoldOutcome>>,
    remembered_changes: HashMap<(IdentityId, String), Remembered<ChangeOutcome>>,
    followed: following::Followed,
    log: Vec<String>,
    /// Rows of ten.
    shape: SeatShape,
    operator: fred::clients::Client,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scripts_and_a_plain_model_agree_on_random_operations() {
    let seed = setting("SEATWIRE_SEED").unwrap_or_else(rand::random);
    let operations = setting("SEATWIRE_OPERATIONS").map_or(OPERATIONS, |n| n as u32);
    eprintln!("SEATWIRE_SEED={seed} SEATWIRE_OPERATIONS={operations}");
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..EVENTS {
        runs.spawn(run(seed.wrapping_add(n), operations / EVENTS as u32));
    }
    runs.join_all().await;
}

/// One event's operations, one after the other.
async fn run(seed: u64, operations: u32) {
    let compare_every = setting("SEATWIRE_COMPARE_EVERY").map_or(COMPARE_EVERY, |n| n.max(1) as u32);
    let shelf = Shelf::with(|facts| {
        facts.rules.hold_ttl_ms = 100_000;
        facts.areas[0].capacity = 7;
        facts.areas[1].capacity = 40;
        // In the middle of what is looked through: its word ends like a free one.
        facts.blocked.insert(BLOCKED);
        facts.allocations = ALLOCATED.map(|(slot, seats)| allocation(facts.id, slot, seats)).to_vec();
    })
    .await;
    let operator = shelf.plain_client().await;
    let allocated =
        |seat: u32| ALLOCATED.into_iter().find(|(_, seats)| seats.contains(&seat)).map(|(slot, _)| slot + 2);
    let kind = |seat: u32| allocated(seat).unwrap_or(u8::from(seat == 29 || seat == BLOCKED));
    let mut run = Run {
        followed: following::Followed::default(),
        model: Model::new((0..40).map(kind).collect(), vec![7, 40], 6, 100_000),
        shelf,
        random: StdRng::seed_from_u64(seed),
        people: (0..PEOPLE).map(|_| IdentityId::generate()).collect(),
        orders: Vec::new(),
        holds: Vec::new(),
        remembered_holds: HashMap::new(),
        remembered_changes: HashMap::new(),
        log: Vec::new(),
        shape: SeatShape {
            runs: (0..4).map(|row| SeatRun { first: ROW * row, len: ROW }).collect(),
            ..SeatShape::default()
        },
        operator,
    };
    let map = run.shelf.map().await;
    assert_eq!(map, run.model.map());
    run.followed = following::Followed::new(&map, run.shelf.areas().await);
    for n in 0..operations {
        run.step().await;
        if n % compare_every == 0 {
            run.compare().await;
        }
    }
    run.compare().await;
}

impl Run {
    fn person(&mut self) -> IdentityId {
        self.people[self.random.random_range(0..PEOPLE)]
    }

    fn seat(&mut self) -> SeatIndex {
        SeatIndex(self.random.random_range(0..SEATS))
    }

    /// A hold of this identity, or now and then any.
    fn some_hold(&mut self, identity: IdentityId) -> HoldId {
        let open = self.model.people.get(&identity).and_then(|person| person.hold.as_ref()).map(|hold| hold.id);
        match open {
            Some(id) if self.random.random_bool(0.8) => id,
            _ if self.holds.is_empty() => HoldId::generate(),
            _ => self.holds[self.random.random_range(0..self.holds.len())].1,
        }
    }

    fn line(&self, place: Place, quantity: u32) -> HoldLine {
        let facts = &self.shelf.event;
        let (price_tier, tier) = match place {
            Place::Seat(seat) => facts.seat_tier(seat),
            Place::Area(area) => facts.area_tier(area),
        }
        .expect("a place of the event");
        HoldLine { place, quantity, price_tier, price_minor: tier.price_minor, fee_minor: tier.fee_minor }
    }

    /// A caller with or without a key; the body is its fingerprint.
    fn caller(&mut self, identity: IdentityId, body: &str) -> (Caller, Option<String>) {
        let key = self.random.random_bool(0.5).then(|| format!("k{}", self.random.random_range(0..12)));
        let fingerprint = Sha256::digest(body).into();
        let caller = Caller {
            event: std::sync::Arc::clone(&self.shelf.event),
            identity,
            key: key.as_deref().and_then(IdempotencyKey::parse),
            fingerprint,
        };
        (caller, key)
    }

    async fn step(&mut self) {
        let identity = self.person();
        match self.random.random_range(0..100) {
            0..22 => self.hold(identity).await,
            22..24 => self.block().await,
            24..25 => self.resize().await,
            25..26 => self.organise().await,
            26..28 => {
                let at = self.random.random_range(0..PEOPLE - STRANGERS);
                self.unlock_allocation(self.people[at]).await;
            }
            28..34 => self.hold_best(identity).await,
            34..38 => self.hold_scanned(identity).await,
            38..40 => self.nothing(identity).await,
            40..48 => self.hold_area(identity).await,
            48..53 => self.wait(identity).await,
            53..66 => self.release(identity).await,
            66..70 => self.extend(identity).await,
            70..78 => self.lock(identity).await,
            78..81 => self.unlock(identity).await,
            81..89 => self.sell().await,
            89..95 => self.free().await,
            95..98 => self.sweep().await,
            _ => {
                self.shelf.pass_ms(&self.operator, STEP_MS).await;
                self.note("time".into());
            }
        }
    }

    fn note(&mut self, line: String) {
        if self.log.len() > 300 {
            self.log.remove(0);
        }
        self.log.push(line);
    }

    fn agree<T: PartialEq + std::fmt::Debug>(&self, what: &str, scripts: &T, model: &T) {
        assert!(scripts == model, "{what}\nscripts: {scripts:#?}\nmodel: {model:#?}\nbefore: {:#?}", self.log);
    }

    async fn sweep(&mut self) {
        let before_ms = self.shelf.now_ms();
        let swept = self.shelf.inventory.sweep(&self.shelf.event).await.expect("Redis answers");
        let after_ms = self.shelf.now_ms();
        self.note(format!("sweep {:?}", swept.expired.iter().map(|hold| hold.identity).collect::<Vec<_>>()));
        for hold in &swept.expired {
            assert!(hold.expires_ms <= after_ms, "{hold:?} ended too early");
            self.agree("ended", &Some(hold.id), &self.model.people[&hold.identity].hold.as_ref().map(|hold| hold.id));
            self.model.expire(hold.identity, after_ms);
        }
        let left = self.model.people.values().filter(|person| person.must_have_ended(before_ms - DOUBT_MS)).count();
        self.agree("holds that were not swept", &left, &0);
        self.model.seq = self.shelf.position().await.1;
    }

    async fn compare(&mut self) {
        let map = self.shelf.map().await;
        self.agree("the map", &map, &self.model.map());
        let stock = self.shelf.inventory.stock(&self.shelf.event).await.expect("Redis answers");
        self.agree("what is available", &stock.available, &(map.matches('0').count() as u32));
        let open_n = self.model.people.values().filter(|person| person.hold.is_some()).count() as u32;
        self.agree("open holds", &stock.open_holds, &open_n);
        self.agree("the areas", &(self.shelf.areas().await, stock.areas), &(self.model.areas(), self.model.areas()));
        let kept = self.shelf.inventory.kept(&self.shelf.event).await.expect("Redis answers");
        let mut seats: Vec<SeatIndex> = kept.seats.iter().map(|(seat, _)| *seat).collect();
        seats.sort_unstable();
        self.agree("what is kept", &(&seats, &kept.places), &(&self.model.kept_seats(), &self.model.kept_places));
        self.agree("how much is kept", &stock.kept, &(seats.len() as u32 + kept.places.iter().sum::<u32>()));
        self.follow(&map).await;
        self.agree("the position", &self.shelf.position().await, &(1, self.model.seq));
        for identity in self.people.clone() {
            let found = self.shelf.open_hold(identity).await;
            let now_ms = self.shelf.now_ms();
            self.agree("an open hold", &found, &self.model.open_hold(identity, now_ms));
        }
    }
}
