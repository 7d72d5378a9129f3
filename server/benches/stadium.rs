//! A stadium in the middle of its sale: most of it sold, and buyers who come at a steady pace and write down what they were
//! answered. The bench `rebuild` and the test of the same loss come in, so that what is measured is what is tested.

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{Caller, HoldOutcome, Inventory, Place};
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::SeatIndex;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Baskets asked for at once while the stadium is filled.
const AT_ONCE: usize = 64;

/// Sells the first `sold` seats straight in Postgres, two an order.
pub(crate) async fn sell(pool: &PgPool, event: EventId, sold: u32) {
    let sold = format!(
        "with buyers as (select n, gen_random_uuid() as identity_id, gen_random_uuid() as order_id
                         from generate_series(0, {} - 1) n),
              used as (insert into identity_use (event_id, identity_id, used, limit_n)
                       select $1, identity_id, 2, 10 from buyers),
              made as (insert into orders (order_id, event_id, identity_id, hold_id, epoch, reference, command_key, state,
                         lines, seats_n, total_minor, captured_minor, currency, buyer_name, buyer_email, pay_secret,
                         provider, state_since_ms, lock_until_ms, created_ms)
                       select order_id, $1, identity_id, order_id, 1, order_id::text, order_id::text, 'fulfilled',
                         '[]', 2, 100, 100, 'EUR', 'n', 'e', 's', 'paysim', 1, 1, 1 from buyers)
         insert into taken_seats (event_id, seat_index, state, order_id, identity_id, epoch)
         select $1, 2 * n + i, 'sold', order_id, identity_id, 1 from buyers, generate_series(0, 1) i",
        sold / 2
    );
    // Years of sales in one statement take longer than any of a node may.
    let mut writing = seatwire::store::begin(pool).await.expect("begins");
    sqlx::raw_sql("set local statement_timeout = 0").execute(&mut *writing).await.expect("sets");
    sqlx::query(sqlx::AssertSqlSafe(sold)).bind(event.uuid()).execute(&mut *writing).await.expect("writes");
    sqlx::raw_sql("analyze").execute(&mut *writing).await.expect("looks");
    writing.commit().await.expect("commits");
}

/// Buyers of two neighbouring seats each.
pub(crate) struct Crowd {
    inventory: Inventory,
    event: Arc<EventFacts>,
    /// The life they buy in: what is answered in another one is not theirs to lose.
    epoch: u32,
    next_seat: AtomicU32,
    answered: Mutex<Vec<(IdentityId, u32)>>,
    is_over: AtomicBool,
}

impl Crowd {
    /// Nobody has come yet; the first one gets the seats from `first` on.
    pub(crate) async fn new(inventory: &Inventory, event: &Arc<EventFacts>, first: u32) -> Arc<Self> {
        let epoch = inventory.read_map(event).await.expect("Redis answers").epoch;
        Arc::new(Self {
            inventory: inventory.clone(),
            event: Arc::clone(event),
            epoch,
            next_seat: AtomicU32::new(first),
            answered: Mutex::default(),
            is_over: AtomicBool::new(false),
        })
    }

    /// One buyer; what is not answered is nobody's basket.
    async fn hold(&self) {
        let (identity, seat) = (IdentityId::generate(), self.next_seat.fetch_add(2, Ordering::Relaxed));
        let caller = Caller { event: Arc::clone(&self.event), identity, key: None, fingerprint: [0; 32] };
        let answer = self.inventory.hold(caller, &[SeatIndex(seat), SeatIndex(seat + 1)]).await;
        if let Ok(answer) = answer
            && matches!(answer.outcome, HoldOutcome::Held { .. })
            && answer.position.epoch == self.epoch
        {
            self.answered.lock().push((identity, seat));
        }
    }

    /// So many as fast as they can.
    pub(crate) async fn rush(&self, n: u32) {
        stream::iter(0..n).for_each_concurrent(AT_ONCE, |_| self.hold()).await;
    }

    /// One after another at a steady pace, each without waiting for those before, until somebody says that it is over.
    pub(crate) async fn come(self: Arc<Self>, per_s: u32) {
        let mut pace = tokio::time::interval(Duration::from_secs(1) / per_s);
        let mut buyers = JoinSet::new();
        while !self.is_over.load(Ordering::Relaxed) {
            pace.tick().await;
            let crowd = Arc::clone(&self);
            buyers.spawn(async move { crowd.hold().await });
            while buyers.try_join_next().is_some() {}
        }
        buyers.join_all().await;
    }

    /// Nobody else comes.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// How many were answered.
    pub(crate) fn answered(&self) -> u32 {
        self.answered.lock().len() as u32
    }

    /// How many of those who were answered still have both seats.
    pub(crate) async fn survivors(&self) -> u32 {
        let all = self.answered.lock().clone();
        let looks = stream::iter(all).map(|(identity, seat)| async move {
            let hold = self.inventory.open_hold(&self.event, identity).await.expect("Redis answers");
            let pair = [seat, seat + 1].map(|seat| Place::Seat(SeatIndex(seat)));
            hold.is_some_and(|hold| hold.lines.iter().map(|line| line.place).eq(pair))
        });
        looks.buffer_unordered(AT_ONCE).filter(|has| std::future::ready(*has)).count().await as u32
    }
}
