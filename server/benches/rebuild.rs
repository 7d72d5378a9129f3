//! A stadium loses Redis in the middle of its sale: how long the event is closed from the moment Redis answers again, and how
//! many baskets are still there. 70,000 seats, 60 % of them sold; buyers come at a steady pace, and when 5,000 baskets
//! are open Redis dies by SIGKILL under those who are still asking. Every answered basket counts.
//! `cargo bench -p seatwire --bench rebuild`.

#![expect(clippy::print_stdout, reason = "a bench answers on the terminal")]

mod ground;
mod opening;
mod stadium;

use ground::Ground;
use opening::Hall;
use seatwire::inventory::{Caller, HoldOutcome};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::SeatIndex;
use stadium::Crowd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HALL: Hall = Hall { rows: 350, seats_a_row: 200, hold_ttl_ms: 600_000 };
/// Seats sold, two an order.
const SOLD: u32 = 42_000;
/// Baskets of the minutes before.
const HOLDS: u32 = 2_500;
/// Made at a steady pace up to the moment of the loss.
const LAST: u32 = 2_500;
/// Buyers a second: sixty times as many as keep 5,000 baskets of ten minutes open.
const PACE_PER_S: u32 = 500;
const LOSSES: u32 = 3;
const CLOSED_BAR_S: f64 = 5.0;
const SURVIVED_BAR: f64 = 0.99;
/// Buyers who ask again and again whether the event is open.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// Nothing may take so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition.
async fn until<F: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> F) -> Duration {
    let began = Instant::now();
    while !look().await {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(ASK_EVERY).await;
    }
    began.elapsed()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let ground = Ground::prepare().await;
    let app = opening::node(&ground).await;
    for loss in 1..=LOSSES {
        // An event of its own each time: what one loss left behind is not what the next one measures.
        let event = opening::open(&app, HALL).await;
        stadium::sell(app.store.pool(), event.id, SOLD).await;
        let crowd = Crowd::new(&app.inventory, &event, SOLD).await;
        crowd.rush(HOLDS).await;
        let coming = tokio::spawn(Arc::clone(&crowd).come(PACE_PER_S));
        let epoch = app.inventory.read_map(&event).await.expect("Redis answers").epoch;
        let before = ground.info("process_id").await;
        until("the baskets", async || crowd.answered() >= HOLDS + LAST).await;
        let killed = std::process::Command::new("kill").args(["-s", "KILL", &format!("{before}")]).status();
        assert!(killed.is_ok_and(|killed| killed.success()), "Redis runs");
        crowd.end();
        let away =
            until("another Redis", || async { ground.look("process_id").await.is_some_and(|now| now != before) }).await;
        let closed = until("the event to be open", || async {
            let seat = SeatIndex(HALL.rows * HALL.seats_a_row - loss);
            let caller =
                Caller { event: Arc::clone(&event), identity: IdentityId::generate(), key: None, fingerprint: [0; 32] };
            let answer = app.inventory.hold(caller, &[seat]).await;
            answer.is_ok_and(|answer| matches!(answer.outcome, HoldOutcome::Held { .. }))
        })
        .await;
        let map = app.inventory.read_map(&event).await.expect("Redis answers");
        assert!(map.epoch > epoch, "the old life is over");
        let sold = map.states.iter().filter(|&&state| state == 2).count();
        assert_eq!(sold, SOLD as usize, "every sale is intact");
        coming.await.expect("buyers end well");
        let (survived, answered) = (crowd.survivors().await, crowd.answered());
        let share = f64::from(survived) / f64::from(answered);
        println!(
            "loss {loss}: Redis away for {:.2} s, then closed for {:.2} s (bar {CLOSED_BAR_S}); {survived} of {answered} holds \
             survived: {:.2} % (bar {:.0} %)",
            away.as_secs_f64(),
            closed.as_secs_f64(),
            share * 100.0,
            SURVIVED_BAR * 100.0
        );
    }
    println!("Redis has used {:.2} s of CPU for the last of its lives", ground.redis_cpu().await);
    drop(app);
    ground.clear().await;
}
