//! Best seats at the opening: 10,000 buyers at once ask for pairs in one section of 10,000 seats. Prints script calls and
//! Redis CPU beside those of a plain hold of two seats in the same run, and whether every seat went and nobody was refused
//! while a pair was free. `cargo bench -p seatwire --bench best`.

mod ground;
mod opening;

use ground::Ground;
use opening::Hall;
use seatwire::app::App;
use seatwire::command;
use seatwire_proto::client::{ClientMessage, Command, HoldBest, HoldSeats, IdempotencyKey, Position, Together};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::{SeatIndex, SectionIndex};
use seatwire_proto::server::Reply;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HALL: Hall = Hall { rows: 200, seats_a_row: 50, hold_ttl_ms: 600_000 };
const SEATS: u32 = HALL.rows * HALL.seats_a_row;
/// Twice as many as there are pairs.
const BUYERS: u32 = SEATS;
const CALLS_BAR: f64 = 1.2;
const CPU_BAR: f64 = 2.0;

/// All commands at once; their replies, the CPU of Redis and the time it took.
async fn all_at_once(
    app: &Arc<App>,
    ground: &Ground,
    commands: impl Iterator<Item = Command>,
) -> (Vec<Reply>, f64, Duration) {
    let (cpu, began) = (ground.redis_cpu().await, Instant::now());
    let mut buyers = tokio::task::JoinSet::new();
    for command in commands {
        let app = Arc::clone(app);
        buyers.spawn(async move {
            let message = ClientMessage { id: 1, key: IdempotencyKey::parse("k"), command };
            command::run(&app, Some(IdentityId::generate()), message).await
        });
    }
    let replies = buyers.join_all().await;
    (replies, ground.redis_cpu().await - cpu, began.elapsed())
}

fn added(reply: &Reply) -> Option<Vec<u32>> {
    let body: serde_json::Value = serde_json::from_str(reply.result.as_ref().ok()?).expect("JSON");
    let seats = body["added"].as_array().expect("added").iter();
    Some(seats.map(|seat| seat.as_u64().expect("an index") as u32).collect())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let ground = Ground::prepare().await;
    let app = opening::node(&ground).await;

    // The reference: every pair by its index, nobody refused.
    let event = opening::open(&app, HALL).await.id;
    let pairs = (0..SEATS / 2).map(|n| {
        let pair = (u64::from(n) * 7919 % u64::from(SEATS / 2)) as u32;
        Command::Hold(HoldSeats { event, seats: vec![SeatIndex(2 * pair), SeatIndex(2 * pair + 1)] })
    });
    let (replies, plain_cpu, plain_time) = all_at_once(&app, &ground, pairs).await;
    assert!(replies.iter().all(|reply| reply.result.is_ok()), "every pair can be held");
    let plain_us = plain_cpu * 1e6 / f64::from(SEATS / 2);

    let ask = |event: EventId| {
        Command::HoldBest(HoldBest {
            event,
            quantity: 2,
            together: Together::Required,
            price_tiers: None,
            sections: Some(vec![SectionIndex(0)]),
            max_price_minor: None,
            accessible: None,
        })
    };

    // A buyer a pair: what a success costs by itself.
    let event = opening::open(&app, HALL).await.id;
    let pair_calls = app.metrics.best_calls.get();
    let (replies, pair_cpu, pair_time) = all_at_once(&app, &ground, (0..SEATS / 2).map(|_| ask(event))).await;
    assert!(replies.iter().all(|reply| reply.result.is_ok()), "there is a pair for each");
    let pair_us = pair_cpu * 1e6 / f64::from(SEATS / 2);
    let pair_calls = (app.metrics.best_calls.get() - pair_calls) as f64 / f64::from(SEATS / 2);

    // Two buyers a pair.
    let facts = opening::open(&app, HALL).await;
    let event = facts.id;
    let live = app.seatmap.live(&facts).await.expect("is open");
    let calls = app.metrics.best_calls.get();
    let (replies, cpu, time) = all_at_once(&app, &ground, (0..BUYERS).map(|_| ask(event))).await;
    let calls = (app.metrics.best_calls.get() - calls) as f64;

    let mut seats = HashSet::new();
    let won: Vec<Vec<u32>> = replies.iter().filter_map(added).collect();
    for pair in &won {
        assert_eq!((pair.len(), pair[0] + 1, pair[0] % 2), (2, pair[1], 0), "a pair of neighbours: {pair:?}");
        assert!(pair.iter().all(|seat| seats.insert(*seat)), "nobody else's: {pair:?}");
    }
    let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.result.is_err()).collect();
    let last = Position { seq: u64::from(SEATS / 2), ..live.position() };
    let too_early = refused.iter().filter(|reply| reply.position.is_none_or(|at| at.seq < last.seq)).count();
    let sold_out = refused.iter().filter(|reply| {
        let code = reply.result.as_ref().err().map(|error| error.code);
        code == Some(ErrorCode::SoldOut)
    });
    let sold_out = sold_out.count();
    let wins = won.len() as f64;
    let (answer_us, success_us) = (cpu * 1e6 / f64::from(BUYERS), cpu * 1e6 / wins);
    #[expect(clippy::print_stdout, reason = "a bench prints")]
    {
        println!(
            "plain hold of 2 seats        {:>8.0} /s   Redis {plain_us:>6.2} us",
            f64::from(SEATS / 2) / plain_time.as_secs_f64()
        );
        println!(
            "best pair, a buyer a pair    {:>8.0} /s   Redis {pair_us:>6.2} us a success: {:.2} x a plain hold (bar {CPU_BAR}); \
             {pair_calls:.3} script calls a success (bar {CALLS_BAR})",
            f64::from(SEATS / 2) / pair_time.as_secs_f64(),
            pair_us / plain_us
        );
        println!(
            "best pair, {BUYERS} at once   {:>8.0} /s   Redis {answer_us:>6.2} us an answer ({:.2} x), {success_us:.2} us a success with \
             every refusal in it ({:.2} x)",
            f64::from(BUYERS) / time.as_secs_f64(),
            answer_us / plain_us,
            success_us / plain_us
        );
        println!(
            "{} of {SEATS} seats held, {} refused ({sold_out} sold_out), {too_early} of them while a pair was free (bar 0); {:.3} \
             script calls a success without the refusals, a call each (bar {CALLS_BAR}), {:.3} with them",
            seats.len(),
            refused.len(),
            (calls - refused.len() as f64) / wins,
            calls / wins
        );
    }
    drop(app);
    ground.clear().await;
}
