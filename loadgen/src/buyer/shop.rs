//! What the buyers of one worker share: who is free, what the house looks like, what was counted and logged; and the
//! HTTP calls they make. `buyer` serves from it, `worker` fills and empties it.

use crate::check::{Entry, PaidOrder, Who};
use crate::clock::RunClock;
use crate::delivery::Commit;
use crate::line::Answer;
use crate::scenario::Buying;
use crate::socket::Target;
use crate::tally::{Count, Tally, Timing};
use anyhow::Context as _;
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::{Order, OrderState};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use tokio::sync::mpsc;

/// Arrivals that wait for a free buyer; more are dropped and counted.
const MAX_WAITING: usize = 10_000;
/// Places on the map a buyer looks at before the house counts as full.
const MAX_LOOKS: u32 = 200;

/// What somebody wants, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) intended_us: u64,
}

/// Who is free to serve as the next buyer.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: VecDeque<u32>,
    waiting: VecDeque<Arrival>,
    doors: Vec<mpsc::Sender<Arrival>>,
    /// Buyers who have all they may have and serve no more.
    sated: usize,
}

impl Pool {
    pub(crate) fn new(doors: Vec<mpsc::Sender<Arrival>>) -> Self {
        Self { doors, ..Self::default() }
    }

    /// Gives an arrival to a free buyer or lets it wait. Returns what to count, if anything.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Option<Count> {
        match self.free.pop_front() {
            Some(no) => {
                // A free buyer's door is empty: it became free behind its last arrival.
                let sent = self.doors[no as usize].try_send(arrival);
                sent.err().map(|_| Count::ArrivalsDropped)
            }
            None if self.waiting.len() >= MAX_WAITING => Some(Count::ArrivalsDropped),
            None => {
                self.waiting.push_back(arrival);
                Some(Count::WaitedForBuyer)
            }
        }
    }

    pub(super) fn become_free(&mut self, no: u32) {
        match self.waiting.pop_front() {
            Some(arrival) => drop(self.doors[no as usize].try_send(arrival)),
            None => self.free.push_back(no),
        }
    }

    pub(super) fn become_sated(&mut self) {
        self.sated += 1;
    }

    /// Whether nobody waits and all buyers are free or done.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.free.len() + self.sated == self.doors.len()
    }
}

/// What the buyers of one worker share.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) clock: RunClock,
    pub(crate) target: Target,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) run: u32,
    pub(crate) seed: u64,
    pub(crate) event: EventId,
    pub(crate) seats_per_identity: u32,
    pub(crate) buying: Buying,
    pub(crate) tally: Mutex<Tally>,
    pub(crate) commits: Mutex<Vec<Commit>>,
    pub(crate) log: Mutex<Vec<Entry>>,
    /// Identities that went to checkout: whose orders are read at the end.
    pub(crate) customers: Mutex<Vec<(Who, String)>>,
    /// States by seat as far as buyers know.
    pub(crate) map: Mutex<Vec<u8>>,
    pub(crate) pool: Mutex<Pool>,
    pub(crate) next_who: AtomicU32,
    /// Buyers that have said hello once.
    pub(crate) ready: AtomicU32,
    pub(crate) first_failure: Mutex<Option<String>>,
}

impl Shop {
    pub(crate) fn count(&self, count: Count) {
        self.tally.lock().at(self.clock.now_us()).add(count, 1);
    }

    pub(crate) fn count_named(&self, at_us: u64, name: &str) {
        self.tally.lock().at(at_us).add_named(name, 1);
    }

    /// Lets an arrival in.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        let counted = self.pool.lock().arrive(arrival);
        let mut tally = self.tally.lock();
        let window = tally.at(arrival.intended_us);
        window.add(Count::Arrivals, 1);
        if let Some(count) = counted {
            window.add(count, 1);
        }
    }

    /// States by seat as the server says now, and the position they are of.
    pub(crate) async fn read_map(&self) -> anyhow::Result<Vec<u8>> {
        read_map(&self.http, &self.url, self.event).await.map(|map| map.states)
    }

    pub(super) async fn issue_identity(&self) -> anyhow::Result<String> {
        let answer = self.http.post(format!("{}/v1/identities", self.url)).json(&serde_json::json!({})).send().await?;
        let body: Value = answer.error_for_status()?.json().await?;
        self.count(Count::Identities);
        body["token"].as_str().map(str::to_owned).context("the answer has no token")
    }

    /// The paid orders of a customer.
    pub(crate) async fn paid_orders(&self, who: Who, token: &str) -> anyhow::Result<Vec<PaidOrder>> {
        let mut paid = Vec::new();
        let mut cursor = String::new();
        loop {
            let url = format!("{}/v1/orders?limit=100{cursor}", self.url);
            let body: Value = self.http.get(url).bearer_auth(token).send().await?.error_for_status()?.json().await?;
            let orders: Vec<Order> = serde_json::from_value(body["items"].clone()).context("items are not orders")?;
            paid.extend(orders.iter().filter(|order| order.state == OrderState::Paid).map(|order| PaidOrder {
                who,
                order: order.id,
                seats: order.lines.iter().filter_map(|line| line.seat).collect(),
            }));
            match body["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(paid),
            }
        }
    }

    /// A group of neighbours that look available; None when the house looks full.
    pub(super) fn pick(&self, group: u32, chance: &mut Xoshiro256PlusPlus) -> Option<Vec<SeatIndex>> {
        let map = self.map.lock();
        let seats = u32::try_from(map.len()).expect("seats are counted in 32 bits");
        let last_start = seats.checked_sub(group)?;
        let run = |start: u32| start..start + group;
        if chance.random_bool(self.buying.hot_share) {
            let start = chance.random_range(0..=last_start.min(self.buying.hot_seats));
            return Some(run(start).map(SeatIndex).collect());
        }
        (0..MAX_LOOKS)
            .map(|_| chance.random_range(0..=last_start))
            .find(|start| run(*start).all(|seat| map[seat as usize] == 0))
            .map(|start| run(start).map(SeatIndex).collect())
    }

    pub(super) fn mark(&self, seats: &[SeatIndex], state: u8) {
        let mut map = self.map.lock();
        for seat in seats {
            if let Some(slot) = map.get_mut(seat.position()) {
                *slot = state;
            }
        }
    }

    pub(super) fn commit(&self, answer: &Answer, intended_us: u64) {
        if let Some((epoch, seq)) = answer.position() {
            self.commits.lock().push(Commit { epoch, seq, reply_us: answer.reply_us, intended_us });
            self.tally.lock().at(answer.reply_us).add(Count::Commits, 1);
        }
    }

    pub(super) fn time(&self, answer: &Answer, intended_us: u64, corrected: Timing, uncorrected: Timing) {
        let mut tally = self.tally.lock();
        let window = tally.at(answer.reply_us);
        window.record_n(corrected, answer.reply_us.saturating_sub(intended_us), 1);
        window.record_n(uncorrected, answer.reply_us.saturating_sub(answer.sent_us), 1);
    }
}

/// The map as JSON.
#[derive(Debug, Clone)]
pub(crate) struct JsonMap {
    pub(crate) epoch: u32,
    pub(crate) seq: u64,
    pub(crate) states: Vec<u8>,
    pub(crate) areas: Vec<u32>,
}

/// Reads the map as JSON.
pub(crate) async fn read_map(http: &reqwest::Client, url: &str, event: EventId) -> anyhow::Result<JsonMap> {
    let answer = http.get(format!("{url}/v1/events/{event}/snapshot?format=json")).send().await?;
    let body: Value = answer.error_for_status()?.json().await?;
    let states = body["states"].as_str().context("the snapshot has no states")?;
    Ok(JsonMap {
        epoch: body["epoch"].as_u64().and_then(|epoch| u32::try_from(epoch).ok()).context("no epoch")?,
        seq: body["seq"].as_u64().context("no seq")?,
        states: states.bytes().map(|digit| digit.wrapping_sub(b'0')).collect(),
        areas: serde_json::from_value(body["areas"].clone()).context("areas are not numbers")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_waits_when_nobody_is_free_and_goes_to_the_next_who_is() {
        let (doors, mut ends): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel(1)).unzip();
        let mut pool = Pool::new(doors);
        let arrival = |intended_us| Arrival { intended_us };
        pool.become_free(1);
        assert_eq!(pool.arrive(arrival(10)), None);
        assert_eq!(pool.arrive(arrival(20)), Some(Count::WaitedForBuyer));
        assert!(!pool.is_quiet());
        pool.become_free(0);
        assert_eq!(ends[1].try_recv().expect("it was given").intended_us, 10);
        assert_eq!(ends[0].try_recv().expect("it waited").intended_us, 20);
        pool.become_free(0);
        pool.become_sated();
        assert!(pool.is_quiet());
    }
}
