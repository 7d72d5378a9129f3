//! A hundred thousand random operations on the scripts and on the plain model: every outcome, every position and, now and
//! then, every seat must agree. The seed is printed; `SEATWIRE_SEED` repeats a run, `SEATWIRE_OPERATIONS` sets its length.

use super::model::{AreaPlaces, KEEP_MS, Model, ROW};
use super::shelf::Shelf;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seatwire::catalogue::{Run as SeatRun, SeatShape};
use seatwire::inventory::{
    Answer, BestTry, Block, Caller, ChangeOutcome, HoldLine, HoldOutcome, LockOutcome, Looked, Nothing, Place, Refusal,
    ReleaseWhat, SeatRules, Stretches,
};
use seatwire_proto::client::{AreaQuantity, IdempotencyKey};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::OrphanRule;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

const SEATS: u32 = 30;
const PEOPLE: usize = 8;
const OPERATIONS: u32 = 100_000;
/// Events that the operations are spread over: most of their time is waiting.
const EVENTS: u64 = 4;
/// Between two comparisons of everything; `SEATWIRE_COMPARE_EVERY=1` finds the operation that made the difference.
const COMPARE_EVERY: u32 = 50;
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
    /// How far the event's clock was moved ahead of Redis'.
    ahead_ms: u64,
    log: Vec<String>,
    /// Rows of ten.
    shape: SeatShape,
    operator: fred::clients::Client,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scripts_and_a_plain_model_agree_on_random_operations() {
    let seed = setting("SEATWIRE_SEED").unwrap_or_else(rand::random);
    let operations = setting("SEATWIRE_OPERATIONS").map_or(OPERATIONS, |n| n as u32);
    eprintln!("SEATWIRE_SEED={seed}");
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
    })
    .await;
    let operator = shelf.plain_client().await;
    let kept_back = (0..40).map(|seat| seat == 29).collect();
    let mut run = Run {
        model: Model::new(kept_back, vec![7, 40], 6, 100_000),
        shelf,
        random: StdRng::seed_from_u64(seed),
        people: (0..PEOPLE).map(|_| IdentityId::generate()).collect(),
        orders: Vec::new(),
        holds: Vec::new(),
        remembered_holds: HashMap::new(),
        remembered_changes: HashMap::new(),
        ahead_ms: 0,
        log: Vec::new(),
        shape: SeatShape {
            runs: (0..4).map(|row| SeatRun { first: ROW * row, len: ROW }).collect(),
            ..SeatShape::default()
        },
        operator,
    };
    assert_eq!(run.shelf.map().await, run.model.map());
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
            0..28 => self.hold(identity).await,
            28..34 => self.hold_best(identity).await,
            34..38 => self.hold_scanned(identity).await,
            38..40 => self.nothing(identity).await,
            40..52 => self.hold_area(identity).await,
            52..66 => self.release(identity).await,
            66..70 => self.extend(identity).await,
            70..78 => self.lock(identity).await,
            78..81 => self.unlock(identity).await,
            81..89 => self.sell().await,
            89..95 => self.free().await,
            95..98 => self.sweep().await,
            _ => {
                self.shelf.pass_ms(&self.operator, STEP_MS).await;
                self.note("time".into());
                self.ahead_ms += STEP_MS;
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

    async fn hold(&mut self, identity: IdentityId) {
        let mut seats: Vec<SeatIndex> = Vec::new();
        // Neighbours most of the time, as people choose.
        let first = self.seat();
        for n in 0..self.random.random_range(1..=3) {
            let seat = if self.random.random_bool(0.7) { SeatIndex((first.0 + n) % SEATS) } else { self.seat() };
            if !seats.contains(&seat) {
                seats.push(seat);
            }
        }
        let body = format!("hold {seats:?}");
        let (mut caller, key) = self.caller(identity, &body);
        let rule = self.rule(&mut caller);
        let rules = SeatRules::of(&caller.event, &self.shape, &seats);
        let answer = self.shelf.inventory.hold_by_rules(caller, &seats, &rules).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body} {rule:?}"));
        let lines: Vec<HoldLine> = seats.iter().map(|&seat| self.line(Place::Seat(seat), 1)).collect();
        self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
            model.hold(identity, &lines, rule, new_id, now_ms)
        });
    }

    /// The event with an orphan rule, which one is up to chance.
    fn rule(&mut self, caller: &mut Caller) -> OrphanRule {
        let rule =
            [OrphanRule::Off, OrphanRule::Off, OrphanRule::Lenient, OrphanRule::Strict][self.random.random_range(0..4)];
        if rule != OrphanRule::Off {
            std::sync::Arc::make_mut(&mut caller.event).rules.orphans = rule;
        }
        rule
    }

    async fn hold_best(&mut self, identity: IdentityId) {
        let (size, is_together) = (self.random.random_range(1..=3), self.random.random_bool(0.5));
        let blocks_n = self.random.random_range(1..=6);
        let firsts: Vec<u32> = (0..blocks_n).map(|_| self.random.random_range(0..=SEATS - size)).collect();
        let body = format!("best {size} {is_together} {firsts:?}");
        let (mut caller, key) = self.caller(identity, &body);
        let rule = self.rule(&mut caller);
        let blocks: Vec<Block> = firsts
            .iter()
            .map(|&first| {
                let seats: Vec<SeatIndex> = (first..first + size).map(SeatIndex).collect();
                let orphans = SeatRules::of(&caller.event, &self.shape, &seats).orphans;
                Block { seats, is_together, orphans }
            })
            .collect();
        let looked = Looked { seq: self.model.seq, opened: 0 };
        let tried = self.shelf.inventory.hold_best(&caller, &blocks, looked, None).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body} {rule:?}"));
        let lines: Vec<Vec<HoldLine>> = blocks
            .iter()
            .map(|block| block.seats.iter().map(|&seat| self.line(Place::Seat(seat), 1)).collect())
            .collect();
        match tried {
            BestTry::Answered(answer) => self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
                let expected = model.hold_best(identity, &lines, is_together, rule, new_id, now_ms);
                expected.unwrap_or(HoldOutcome::Refused(Refusal::SoldOut))
            }),
            BestTry::Missed { seq, .. } => {
                self.agree("the seq of a miss", &seq, &self.model.seq);
                let now_ms = self.shelf.inventory.now_ms() + self.ahead_ms;
                let expected = self.model.hold_best(identity, &lines, is_together, rule, HoldId::generate(), now_ms);
                self.agree("a miss", &None, &expected);
            }
        }
    }

    async fn hold_scanned(&mut self, identity: IdentityId) {
        self.sweep().await;
        let (wanted, takes_any) = (self.random.random_range(1..=4), self.random.random_bool(0.4));
        let first = self.random.random_range(0..SEATS - 1);
        let end = self.random.random_range(first + 1..=SEATS);
        let mut stretches: Vec<(u32, u16)> = Vec::new();
        let mut at = first;
        while at < end {
            let len = self.random.random_range(1..=end - at);
            stretches.push((at, len as u16));
            at += len + self.random.random_range(0..2);
        }
        let body = format!("scan {wanted} {takes_any} {stretches:?}");
        let (caller, key) = self.caller(identity, &body);
        let part = Stretches { stretches: stretches.clone(), ..Stretches::default() };
        let nothing = Some(Nothing::NotEnough { most_together: 0 });
        let tried = self.shelf.inventory.hold_scanned(&caller, wanted, takes_any, &part, nothing).await;
        self.note(format!("{identity} {key:?} {body}"));
        let wanted = usize::from(wanted);
        let BestTry::Answered(answer) = tried.expect("Redis answers") else {
            // The caller's own old hold is due: no last word before it is ended.
            let now_ms = self.shelf.inventory.now_ms() + self.ahead_ms;
            let is_over = self.model.people.get(&identity).is_some_and(|person| person.is_over(now_ms));
            self.model.expire_due(identity, now_ms);
            self.model.seq = self.shelf.position().await.1;
            let found = self.model.find(&stretches, wanted, takes_any);
            return self.agree("a miss of a scan", &(found, is_over), &(None, true));
        };
        let lines: Vec<HoldLine> = (0..SEATS).map(|seat| self.line(Place::Seat(SeatIndex(seat)), 1)).collect();
        let is_together = !takes_any || wanted == 1;
        self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
            let before = model.seq;
            // Whoever may not add anything ends nothing either.
            let changes = model.may_add(identity, now_ms).is_ok() && model.expire_due(identity, now_ms);
            let found = model.find(&stretches, wanted, takes_any);
            let block: Option<Vec<HoldLine>> =
                found.map(|seats| seats.iter().map(|seat| lines[seat.position()]).collect());
            let expected = model.hold_best(identity, block.as_slice(), is_together, OrphanRule::Off, new_id, now_ms);
            // All of it is one change of the map.
            model.seq = model.seq.max(before + u64::from(changes));
            expected.unwrap_or(HoldOutcome::Refused(Refusal::NotEnough { most_together: 0 }))
        });
    }

    /// Asks for the word that there is nothing, after a look at the map as it is or at an older one.
    async fn nothing(&mut self, identity: IdentityId) {
        let behind = self.random.random_range(0..2).min(self.model.seq);
        let (caller, _) = self.caller(identity, "nothing");
        let caller = Caller { key: None, ..caller };
        let looked = Looked { seq: self.model.seq - behind, opened: 0 };
        let tried = self.shelf.inventory.hold_best(&caller, &[], looked, Some(Nothing::SoldOut)).await;
        self.note(format!("{identity} nothing {behind}"));
        let now_ms = self.shelf.inventory.now_ms() + self.ahead_ms;
        match tried.expect("Redis answers") {
            BestTry::Answered(answer) if answer.outcome == HoldOutcome::Refused(Refusal::SoldOut) => {
                self.agree("the map that was looked at", &behind, &0);
                let due = self.model.people.values().filter(|person| person.must_have_ended(now_ms - DOUBT_MS));
                self.agree("what is due", &due.count(), &0);
            }
            BestTry::Answered(answer) => {
                let expected = self.model.hold_best(identity, &[], true, OrphanRule::Off, HoldId::generate(), now_ms);
                self.agree("a refusal", &Some(answer.outcome), &expected);
            }
            BestTry::Missed { seq, .. } => self.agree("the seq of a miss", &seq, &self.model.seq),
        }
    }

    async fn hold_area(&mut self, identity: IdentityId) {
        let (area, quantity) = (AreaIndex(self.random.random_range(0..2)), self.random.random_range(1..=3));
        // Lazy expiry in the middle of it is a sweep of its own; the model sweeps first.
        self.sweep().await;
        let body = format!("area {area} {quantity}");
        let (caller, key) = self.caller(identity, &body);
        let answer = self.shelf.inventory.hold_area(caller, area, quantity).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body}"));
        let line = self.line(Place::Area(area), quantity);
        self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
            model.hold_area(identity, line, new_id, now_ms)
        });
    }

    fn judge_hold(
        &mut self,
        identity: IdentityId,
        key: Option<String>,
        body: String,
        answer: Answer<HoldOutcome>,
        ask: impl FnOnce(&mut Model, HoldId, u64) -> HoldOutcome,
    ) {
        let now_ms = answer.server_ms + self.ahead_ms;
        let named = key.map(|key| (identity, key));
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_holds.get(named)) {
            // Kept for ten minutes at least; afterwards either is right.
            let is_reused = answer.outcome == HoldOutcome::Refused(Refusal::KeyReused);
            if known.body != body && (is_reused || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("another body", &answer.outcome, &HoldOutcome::Refused(Refusal::KeyReused));
            }
            if known.body == body && (answer.is_replayed || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("a replay", &answer, &Answer { is_replayed: true, ..known.answer.clone() });
            }
        }
        // The same key was used by a verb of the other kind.
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_changes.get(named))
            && (now_ms < known.at_ms + KEEP_MS || answer.outcome == HoldOutcome::Refused(Refusal::KeyReused))
        {
            return self.agree("another verb", &answer.outcome, &HoldOutcome::Refused(Refusal::KeyReused));
        }
        let new_id = match &answer.outcome {
            HoldOutcome::Held { hold, .. } => hold.id,
            HoldOutcome::Refused(_) => HoldId::generate(),
        };
        let expected = ask(&mut self.model, new_id, now_ms);
        self.agree("a hold", &answer.outcome, &expected);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
        if let HoldOutcome::Held { hold, .. } = &answer.outcome
            && !self.holds.contains(&(identity, hold.id))
        {
            self.holds.push((identity, hold.id));
            if self.holds.len() > 20 {
                self.holds.remove(0);
            }
        }
        if let Some(named) = named {
            self.remembered_changes.remove(&named);
            self.remembered_holds.insert(named, Remembered { body, answer, at_ms: now_ms });
        }
    }

    async fn release(&mut self, identity: IdentityId) {
        let hold = self.some_hold(identity);
        let mut parts: Option<(Vec<SeatIndex>, AreaPlaces)> = None;
        if self.random.random_bool(0.7) {
            let places = self.model.places(identity);
            let (mut seats, mut areas) = (Vec::new(), Vec::new());
            for (place, quantity) in places {
                match place {
                    Place::Seat(seat) if self.random.random_bool(0.4) => seats.push(seat),
                    Place::Area(area) if self.random.random_bool(0.4) => {
                        areas.push((area, self.random.random_range(1..=quantity + u32::from(quantity > 2))));
                    }
                    _ => {}
                }
            }
            if self.random.random_bool(0.05) {
                let seat = self.seat();
                if !seats.contains(&seat) {
                    seats.push(seat);
                }
            }
            if !(seats.is_empty() && areas.is_empty()) {
                parts = Some((seats, areas));
            }
        }
        let what = match &parts {
            None => ReleaseWhat::All,
            Some((seats, areas)) => ReleaseWhat::Parts {
                seats: seats.clone(),
                areas: areas.iter().map(|&(area, quantity)| AreaQuantity { area, quantity }).collect(),
            },
        };
        let body = format!("release {hold} {what:?}");
        let (caller, key) = self.caller(identity, &body);
        let answer = self.shelf.inventory.release(caller, hold, what).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body}"));
        self.judge_change(identity, key, body, answer, |model, now_ms| {
            let parts = parts.as_ref().map(|(seats, areas)| (&seats[..], &areas[..]));
            model.release(identity, hold, parts, now_ms)
        });
    }

    async fn extend(&mut self, identity: IdentityId) {
        let hold = self.some_hold(identity);
        let body = format!("extend {hold}");
        let (caller, key) = self.caller(identity, &body);
        let answer = self.shelf.inventory.extend(caller, hold).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body}"));
        self.judge_change(identity, key, body, answer, |model, now_ms| model.extend(identity, hold, now_ms));
    }

    fn judge_change(
        &mut self,
        identity: IdentityId,
        key: Option<String>,
        body: String,
        answer: Answer<ChangeOutcome>,
        ask: impl FnOnce(&mut Model, u64) -> ChangeOutcome,
    ) {
        let now_ms = answer.server_ms + self.ahead_ms;
        let named = key.map(|key| (identity, key));
        let reused = ChangeOutcome::Refused(Refusal::KeyReused);
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_changes.get(named)) {
            if known.body != body && (answer.outcome == reused || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("another body", &answer.outcome, &reused);
            }
            if known.body == body && (answer.is_replayed || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("a replay", &answer, &Answer { is_replayed: true, ..known.answer.clone() });
            }
        }
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_holds.get(named))
            && (now_ms < known.at_ms + KEEP_MS || answer.outcome == reused)
        {
            return self.agree("another verb", &answer.outcome, &reused);
        }
        let expected = ask(&mut self.model, now_ms);
        self.agree("a change", &answer.outcome, &expected);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
        let is_remembered = !matches!(answer.outcome, ChangeOutcome::Refused(Refusal::NotInHold { .. }));
        if let Some(named) = named
            && is_remembered
        {
            self.remembered_holds.remove(&named);
            self.remembered_changes.insert(named, Remembered { body, answer, at_ms: now_ms });
        }
    }

    async fn lock(&mut self, identity: IdentityId) {
        let hold = self.some_hold(identity);
        // An order is of one hold as it was.
        let places = self.model.places(identity);
        let is_same = |order: &&Order| order.hold == hold && order.places == places;
        let of_hold = self.orders.iter().rev().find(is_same).map(|order| order.id);
        let again = of_hold.filter(|_| self.random.random_bool(0.5));
        let order = again.unwrap_or_else(OrderId::generate);
        let until_ms = self.shelf.inventory.now_ms() + self.ahead_ms + self.random.random_range(0..200_000);
        let answer = self.shelf.inventory.lock(&self.shelf.event, identity, hold, order, until_ms).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} lock {hold} {order}"));
        let expected = self.model.lock(identity, hold, order, until_ms, answer.server_ms + self.ahead_ms);
        self.agree("a lock", &answer.outcome, &expected);
        if matches!(expected, LockOutcome::Locked(_)) && again.is_none() {
            let places = self.model.places(identity);
            self.orders.push(Order { id: order, identity, hold, places });
            if self.orders.len() > 12 {
                self.orders.remove(0);
            }
        }
    }

    fn some_order(&mut self) -> Option<Order> {
        (!self.orders.is_empty()).then(|| self.orders[self.random.random_range(0..self.orders.len())].clone())
    }

    async fn unlock(&mut self, identity: IdentityId) {
        let Some(Order { id: order, identity: owner, .. }) = self.some_order() else { return };
        let identity = if self.random.random_bool(0.9) { owner } else { identity };
        let hold = self.some_hold(identity);
        let answer = self.shelf.inventory.unlock(&self.shelf.event, identity, hold, order).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} unlock {hold} {order}"));
        let expected = self.model.unlock(identity, hold, order, answer.server_ms + self.ahead_ms);
        self.agree("an unlock", &answer.outcome, &expected);
    }

    /// Sales of orders whose hold is locked, and now and then a late success.
    async fn sell(&mut self) {
        let Some(Order { id: order, identity, places, .. }) = self.some_order() else { return };
        let answer = self.shelf.inventory.sell(&self.shelf.event, order, identity, &places).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} sell {order} {places:?}"));
        self.model.sell(order, identity, &places);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
    }

    async fn free(&mut self) {
        let Some(Order { id: order, identity, mut places, .. }) = self.some_order() else { return };
        if self.random.random_bool(0.3) {
            places.truncate(1);
        }
        let answer = self.shelf.inventory.free(&self.shelf.event, order, identity, &places).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} free {order} {places:?}"));
        self.model.free(order, identity, &places);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
    }

    async fn sweep(&mut self) {
        let before_ms = self.shelf.inventory.now_ms() + self.ahead_ms;
        let swept = self.shelf.inventory.sweep(&self.shelf.event).await.expect("Redis answers");
        let after_ms = self.shelf.inventory.now_ms() + self.ahead_ms;
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
        self.agree("the map", &self.shelf.map().await, &self.model.map());
        self.agree("the areas", &self.shelf.areas().await, &self.model.areas());
        self.agree("the position", &self.shelf.position().await, &(1, self.model.seq));
        for identity in self.people.clone() {
            let found = self.shelf.open_hold(identity).await;
            let now_ms = self.shelf.inventory.now_ms() + self.ahead_ms;
            self.agree("an open hold", &found, &self.model.open_hold(identity, now_ms));
        }
    }
}
