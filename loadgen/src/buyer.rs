//! Buyers: people who come when the schedule says so, hold a group of seats and give them back, pay, or walk away.
//! Every latency counts from the intended time. What they are told goes into the log of `check` and, as commits, to the
//! viewers' workers. `worker` spawns one task a buyer; `line` is their socket.

mod shop;

pub(crate) use shop::{Arrival, JsonMap, Pool, Shop, read_map};

use crate::check::{Entry, Who};
use crate::line::{Answer, GaveUp, Line};
use crate::pace;
use crate::tally::{Count, Timing};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use seatwire_proto::client::{Buyer, Cancel, Checkout, Command, HoldSeats, OrderRead, Payment, Release};
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::{Hold, Order, OrderState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Commands an arrival may need; a buyer is free when its budget has them.
const COMMANDS_PER_ARRIVAL: f64 = 2.0;
/// How often an unsettled order is looked at, and how many times.
const ORDER_LOOK: Duration = Duration::from_secs(1);
const MAX_ORDER_LOOKS: u32 = 30;

/// The place of `buying.add` among what may become of a hold.
const ADDS: usize = 3;

/// What becomes of an identity after an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Stays,
    /// Has walked away, or its fate is not known: the next arrival is another person.
    Leaves,
}

/// Seats that count against an identity's limit.
#[derive(Debug, Clone, Copy, Default)]
struct Has {
    bought: u32,
    /// In the open hold, kept for the next arrival.
    held: u32,
}

/// One buyer: a chain of identities, each of which serves arrivals until it has its share of seats.
pub(crate) async fn buy(shop: Arc<Shop>, no: u32, mut door: mpsc::Receiver<Arrival>, join_at_us: u64) {
    let mut chance = pace::chance(shop.seed, "buyer", u64::from(no));
    sleep(shop.clock.instant(join_at_us).saturating_duration_since(tokio::time::Instant::now())).await;
    let largest_group = u32::try_from(shop.buying.group_weights.len()).unwrap_or(1);
    let mut is_first = true;
    loop {
        let Some(mut line) = new_customer(&shop).await else {
            sleep(Duration::from_millis(chance.random_range(500..1_500))).await;
            continue;
        };
        if std::mem::replace(&mut is_first, false) {
            shop.ready.fetch_add(1, Ordering::Relaxed);
        }
        let mut has = Has::default();
        while has.bought + has.held + largest_group <= shop.seats_per_identity {
            line.wait_for_budget(&shop, COMMANDS_PER_ARRIVAL).await;
            shop.pool.lock().become_free(no);
            let arrival = tokio::select! {
                biased;
                arrival = door.recv() => arrival,
                () = line.idle(&shop) => unreachable!("idling ends only by being dropped"),
            };
            let Some(arrival) = arrival else { return };
            let mut visit = Visit { shop: &shop, line: &mut line, chance: &mut chance };
            match Box::pin(visit.serve(arrival, &mut has)).await {
                Ok(After::Stays) => {}
                Ok(After::Leaves) | Err(GaveUp) => {
                    has.held = 0;
                    break;
                }
            }
        }
        if has.held > 0 {
            // Keeps what it has, and looks on until the end.
            shop.pool.lock().become_sated();
            tokio::select! {
                _ = door.recv() => return,
                () = line.idle(&shop) => unreachable!("idling ends only by being dropped"),
            }
        }
    }
}

async fn new_customer(shop: &Shop) -> Option<Line> {
    let token = match shop.issue_identity().await {
        Ok(token) => token,
        Err(error) => {
            shop.first_failure.lock().get_or_insert_with(|| format!("no identity: {error:#}"));
            return None;
        }
    };
    let mut line = Line::new(Who(shop.next_who.fetch_add(1, Ordering::Relaxed)), token);
    line.join(shop).await.ok()?;
    Some(line)
}

struct Visit<'a> {
    shop: &'a Shop,
    line: &'a mut Line,
    chance: &'a mut Xoshiro256PlusPlus,
}

/// The place of the weight in which a point of chance falls.
fn weighted(weights: impl Iterator<Item = f64> + Clone, chance: &mut Xoshiro256PlusPlus) -> usize {
    let mut point = chance.random::<f64>() * weights.clone().sum::<f64>();
    let count = weights.clone().count();
    weights
        .take_while(|weight| {
            point -= weight;
            point >= 0.0
        })
        .count()
        .min(count - 1)
}

impl Visit<'_> {
    async fn serve(&mut self, arrival: Arrival, has: &mut Has) -> Result<After, GaveUp> {
        let buying = &self.shop.buying;
        let group = 1 + weighted(buying.group_weights.iter().copied(), self.chance) as u32;
        let Some(seats) = self.shop.pick(group, self.chance) else {
            self.shop.count(Count::ArrivalsDropped);
            self.shop.count_named(arrival.intended_us, "nothing_left");
            return Ok(After::Stays);
        };
        let command = Command::Hold(HoldSeats { event: self.shop.event, seats: seats.clone() });
        let answer = self.ask(command, &seats).await?;
        if let Some(code) = answer.refusal() {
            self.lost(&answer, code, arrival);
            return Ok(After::Stays);
        }
        let Some(hold) = self.won(&answer, &seats, arrival) else { return Ok(After::Leaves) };
        let ends = [buying.release, buying.buy, buying.let_go, buying.add];
        let end = weighted(ends.into_iter(), self.chance);
        if end == ADDS {
            has.held += group;
            return Ok(After::Stays);
        }
        let [shortest_ms, longest_ms] = buying.think_ms;
        let think_us = self.chance.random_range(shortest_ms * 1_000..=longest_ms * 1_000);
        self.line.idle_for(self.shop, Duration::from_micros(think_us)).await;
        let intended_us = answer.reply_us + think_us;
        let held = std::mem::take(&mut has.held) + group;
        let seats: Vec<SeatIndex> = hold.lines.iter().filter_map(|line| line.seat).collect();
        match end {
            0 => self.release(&hold, &seats, intended_us).await,
            1 => {
                has.bought += held;
                self.pay(&hold, &seats, intended_us).await
            }
            _ => {
                self.shop.count(Count::LetGo);
                Ok(After::Leaves)
            }
        }
    }

    /// Asks; when there is no answer the seats are unknown from here on.
    async fn ask(&mut self, command: Command, seats: &[SeatIndex]) -> Result<Answer, GaveUp> {
        let answer = self.line.ask(self.shop, command).await;
        if answer.is_err() {
            self.forget(seats);
        }
        answer
    }

    fn forget(&self, seats: &[SeatIndex]) {
        self.shop.log.lock().push(Entry::Unknown { who: self.line.who, seats: seats.to_vec() });
    }

    fn lost(&self, answer: &Answer, code: &str, arrival: Arrival) {
        self.shop.count_named(answer.reply_us, &format!("refused.{code}"));
        if code != "seat_taken" {
            self.shop.count(Count::HoldsRefused);
            return;
        }
        self.shop.count(Count::HoldsLost);
        self.shop.time(answer, arrival.intended_us, Timing::HoldLost, Timing::HoldLostUncorrected);
        let taken: Vec<SeatIndex> =
            serde_json::from_value(answer.body["error"]["data"]["seats"].clone()).unwrap_or_default();
        self.shop.mark(&taken, 1);
    }

    fn won(&self, answer: &Answer, seats: &[SeatIndex], arrival: Arrival) -> Option<Hold> {
        let hold = serde_json::from_value::<Hold>(answer.body["hold"].clone()).ok();
        let (Some(hold), Some((epoch, seq))) = (hold, answer.position()) else {
            self.shop.count(Count::ProtocolViolations);
            self.forget(seats);
            return None;
        };
        self.shop.time(answer, arrival.intended_us, Timing::HoldWon, Timing::HoldWonUncorrected);
        self.shop.count(Count::HoldsWon);
        self.shop.commit(answer, arrival.intended_us);
        self.shop.mark(seats, 1);
        let life_us = hold.expires_ms.saturating_sub(hold.server_ms) * 1_000;
        self.shop.log.lock().push(Entry::Won {
            who: self.line.who,
            seats: hold.lines.iter().filter_map(|line| line.seat).collect(),
            epoch,
            seq,
            sent_us: answer.sent_us,
            reply_us: answer.reply_us,
            ends_us: answer.sent_us + life_us,
        });
        Some(hold)
    }

    async fn release(&mut self, hold: &Hold, seats: &[SeatIndex], intended_us: u64) -> Result<After, GaveUp> {
        let answer = self.ask(Command::Release(Release { hold: hold.id, seats: None, areas: None }), seats).await?;
        if let Some(code) = answer.refusal() {
            self.shop.count(Count::ReleasesRefused);
            self.shop.count_named(answer.reply_us, &format!("refused.{code}"));
            self.forget(seats);
            return Ok(After::Leaves);
        }
        self.shop.count(Count::Releases);
        self.shop.time(&answer, intended_us, Timing::Release, Timing::ReleaseUncorrected);
        self.shop.commit(&answer, intended_us);
        self.shop.mark(seats, 0);
        let (epoch, seq) = answer.position().unwrap_or_default();
        self.shop.log.lock().push(Entry::Freed {
            who: self.line.who,
            seats: seats.to_vec(),
            epoch,
            seq,
            sent_us: answer.sent_us,
            reply_us: answer.reply_us,
        });
        Ok(After::Stays)
    }

    async fn pay(&mut self, hold: &Hold, seats: &[SeatIndex], intended_us: u64) -> Result<After, GaveUp> {
        let methods = &self.shop.buying.methods;
        let method =
            methods.keys().nth(weighted(methods.values().copied(), self.chance)).expect("there is one").clone();
        self.shop.customers.lock().push((self.line.who, self.line.token.clone()));
        let command = Command::Checkout(Checkout {
            hold: hold.id,
            buyer: Buyer {
                name: format!("Buyer {}", self.line.who.0),
                email: format!("buyer{}@example.org", self.line.who.0),
                lang: None,
            },
            payment: Payment { method },
            expect_total_minor: hold.total_minor,
        });
        let answer = self.ask(command, seats).await?;
        if let Some(code) = answer.refusal() {
            self.shop.count(Count::CheckoutsRefused);
            self.shop.count_named(answer.reply_us, &format!("refused.{code}"));
            self.forget(seats);
            return Ok(After::Leaves);
        }
        self.shop.time(&answer, intended_us, Timing::Checkout, Timing::CheckoutUncorrected);
        let Ok(mut order) = serde_json::from_value::<Order>(answer.body["order"].clone()) else {
            self.shop.count(Count::ProtocolViolations);
            self.forget(seats);
            return Ok(After::Leaves);
        };
        if matches!(order.state, OrderState::PaymentPending | OrderState::PaymentUnknown) {
            self.shop.count(Count::CheckoutsUnsettled);
            order = self.settled(order, seats).await?;
        }
        match order.state {
            OrderState::Paid => {
                self.paid(&answer, &order, hold);
                Ok(After::Stays)
            }
            OrderState::PaymentDeclined => {
                self.shop.count(Count::Declined);
                self.forget(seats);
                self.line.ask(self.shop, Command::Cancel(Cancel { order: order.id })).await?;
                Ok(After::Leaves)
            }
            _ => {
                self.forget(seats);
                Ok(After::Leaves)
            }
        }
    }

    async fn settled(&mut self, mut order: Order, seats: &[SeatIndex]) -> Result<Order, GaveUp> {
        for _ in 0..MAX_ORDER_LOOKS {
            self.line.idle_for(self.shop, ORDER_LOOK).await;
            let answer = self.ask(Command::Order(OrderRead { order: order.id }), seats).await?;
            if let Ok(now) = serde_json::from_value::<Order>(answer.body["order"].clone()) {
                order = now;
            }
            if !matches!(order.state, OrderState::PaymentPending | OrderState::PaymentUnknown) {
                break;
            }
        }
        Ok(order)
    }

    fn paid(&self, answer: &Answer, order: &Order, hold: &Hold) {
        let seats: Vec<SeatIndex> = order.lines.iter().filter_map(|line| line.seat).collect();
        if order.total_minor != hold.total_minor {
            self.shop.count_named(answer.reply_us, "order_total_differs");
            self.shop.count(Count::ProtocolViolations);
        }
        let mut tally = self.shop.tally.lock();
        let window = tally.at(answer.reply_us);
        window.add(Count::Paid, 1);
        window.add(Count::SeatsSold, seats.len() as u64);
        drop(tally);
        self.shop.mark(&seats, 2);
        self.shop.log.lock().push(Entry::Sold {
            who: self.line.who,
            order: order.id,
            seats,
            sent_us: answer.sent_us,
            reply_us: answer.reply_us,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares() {
        let mut chance = pace::chance(1, "test", 0);
        let mut seen = [0_u32; 3];
        for _ in 0..10_000 {
            seen[weighted([1.0, 0.0, 3.0].into_iter(), &mut chance)] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!((2_300..2_700).contains(&seen[0]), "{seen:?}");
    }
}
