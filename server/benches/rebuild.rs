//! A stadium loses Redis in the middle of its sale: how long the event is closed from the moment Redis answers again, and how
//! many baskets are still there. 70,000 seats, 60 % of them sold, 5,000 holds open and some made in the last moment; Redis dies
//! by SIGKILL. `cargo bench -p seatwire --bench rebuild`.

#![expect(clippy::print_stdout, reason = "a bench answers on the terminal")]

mod ground;
mod opening;

use futures_util::{StreamExt, stream};
use ground::Ground;
use opening::Hall;
use seatwire::app::App;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{Caller, HoldOutcome};
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::SeatIndex;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HALL: Hall = Hall { rows: 350, seats_a_row: 200, hold_ttl_ms: 600_000 };
/// Seats sold, two an order.
const SOLD: u32 = 42_000;
const HOLDS: u32 = 5_000;
/// Made in the very moment before the loss: what a round of the journal may cost.
const LAST: u32 = 50;
const LOSSES: u32 = 3;
const CLOSED_BAR_S: f64 = 5.0;
const SURVIVED_BAR: f64 = 0.99;
/// Buyers who ask again and again whether the event is open.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// Nothing may take so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn caller(event: &Arc<EventFacts>, identity: IdentityId) -> Caller {
    Caller { event: Arc::clone(event), identity, key: None, fingerprint: [0; 32] }
}

/// Two seats for everybody, from `first` on; who has them.
async fn hold_pairs(app: &App, event: &Arc<EventFacts>, first: u32, n: u32) -> Vec<IdentityId> {
    let holds = stream::iter(0..n).map(|i| async move {
        let (identity, seat) = (IdentityId::generate(), first + 2 * i);
        let seats = [SeatIndex(seat), SeatIndex(seat + 1)];
        let answer = app.inventory.hold(caller(event, identity), &seats).await.expect("Redis answers");
        assert!(matches!(answer.outcome, HoldOutcome::Held { .. }), "{answer:?}");
        identity
    });
    holds.buffer_unordered(64).collect().await
}

/// Buyers of two seats each, paid.
async fn sell(app: &App, event: EventId) {
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
        SOLD / 2
    );
    let mut writing = seatwire::store::begin(app.store.pool()).await.expect("begins");
    sqlx::raw_sql("set local statement_timeout = 0").execute(&mut *writing).await.expect("sets");
    sqlx::query(sqlx::AssertSqlSafe(sold)).bind(event.uuid()).execute(&mut *writing).await.expect("writes");
    writing.commit().await.expect("commits");
    sqlx::raw_sql("analyze").execute(app.store.pool()).await.expect("looks");
}

/// Waits for a condition.
async fn until<F: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> F) -> Duration {
    let began = Instant::now();
    while !look().await {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(ASK_EVERY).await;
    }
    began.elapsed()
}

async fn journalled(app: &App, event: EventId, holds: u32) {
    until("the journal", || async {
        let count = "select count(*) from journal_records where event_id = $1 and has_hold";
        let n: i64 = sqlx::query_scalar(count).bind(event.uuid()).fetch_one(app.store.pool()).await.expect("counts");
        n >= i64::from(holds)
    })
    .await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let ground = Ground::prepare().await;
    let app = opening::node(&ground).await;
    for loss in 1..=LOSSES {
        // An event of its own each time: what one loss left behind is not what the next one measures.
        let event = opening::open(&app, HALL).await;
        sell(&app, event.id).await;
        let mut owners = hold_pairs(&app, &event, SOLD, HOLDS).await;
        journalled(&app, event.id, HOLDS).await;
        owners.extend(hold_pairs(&app, &event, SOLD + 2 * HOLDS, LAST).await);
        let epoch = app.inventory.read_map(&event).await.expect("Redis answers").epoch;

        let before = ground.info("process_id").await;
        let killed = std::process::Command::new("kill").args(["-s", "KILL", &format!("{before}")]).status();
        assert!(killed.is_ok_and(|killed| killed.success()), "Redis runs");
        let away =
            until("another Redis", || async { ground.look("process_id").await.is_some_and(|now| now != before) }).await;
        let closed = until("the event to be open", || async {
            let seat = SeatIndex(SOLD + 2 * (HOLDS + LAST) + loss);
            let answer = app.inventory.hold(caller(&event, IdentityId::generate()), &[seat]).await;
            answer.is_ok_and(|answer| matches!(answer.outcome, HoldOutcome::Held { .. }))
        })
        .await;
        let map = app.inventory.read_map(&event).await.expect("Redis answers");
        assert!(map.epoch > epoch, "the old life is over");
        let sold = map.states.iter().filter(|&&state| state == 2).count();
        assert_eq!(sold, SOLD as usize, "every sale is intact");
        let mut survived = 0;
        for identity in &owners {
            survived += u32::from(app.inventory.open_hold(&event, *identity).await.expect("Redis answers").is_some());
        }
        let share = f64::from(survived) / owners.len() as f64;
        println!(
            "loss {loss}: Redis away for {:.2} s, then closed for {:.2} s (bar {CLOSED_BAR_S}); {survived} of {} holds survived: \
             {:.2} % (bar {:.0} %)",
            away.as_secs_f64(),
            closed.as_secs_f64(),
            owners.len(),
            share * 100.0,
            SURVIVED_BAR * 100.0
        );
    }
    println!("Redis has used {:.2} s of CPU for the last of its lives", ground.redis_cpu().await);
    drop(app);
    ground.clear().await;
}
