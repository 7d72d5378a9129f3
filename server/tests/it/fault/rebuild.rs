//! How many baskets survive the loss of Redis: a stadium in the middle of its sale. How long it is closed is printed by
//! `cargo bench -p seatwire --bench rebuild`, on a machine that does nothing else.

use super::journal::{facts, journalled};
use crate::checkout::till::Till;
use crate::support::eventually;
use crate::support::stage::Draft;
use futures_util::{StreamExt, stream};
use seatwire::inventory::{Caller, HoldOutcome, Place};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::SeatIndex;

const SOLD: u32 = 42_000;
const HOLDS: u32 = 5_000;
/// Holds made in the very moment before the loss: what a batch of the journal may cost.
const LAST: u32 = 50;

/// Two seats for everybody, from this seat on; who has them.
async fn hold_pairs(till: &Till, first: u32, n: u32) -> Vec<(IdentityId, u32)> {
    let event = facts(till).await;
    let pairs = (0..n).map(|i| {
        let event = event.clone();
        async move {
            let identity = IdentityId::generate();
            let seat = first + 2 * i;
            let caller = Caller { event, identity, key: None, fingerprint: [0; 32] };
            let seats = [SeatIndex(seat), SeatIndex(seat + 1)];
            let answer = till.app.inventory.hold(caller, &seats).await.expect("Redis answers");
            assert!(matches!(answer.outcome, HoldOutcome::Held { .. }), "{answer:?}");
            (identity, seat)
        }
    });
    stream::iter(pairs).buffer_unordered(64).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stadium_keeps_ninety_nine_of_a_hundred_baskets() {
    let draft = Draft { rows: vec![200; 350], ..Draft::default() };
    let mut till = Till::open_with(&draft, &[("SEATWIRE_DB_ACQUIRE_MS", "5000")]).await;
    let event: seatwire_proto::id::EventId = till.event.parse().expect("an id");
    // 21,000 buyers of two seats each.
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
    // Years of sales in one statement take longer than any of a node may.
    let mut writing = seatwire::store::begin(till.stage.store.pool()).await.expect("begins");
    sqlx::raw_sql("set local statement_timeout = 0").execute(&mut *writing).await.expect("sets");
    sqlx::query(sqlx::AssertSqlSafe(sold)).bind(event.uuid()).execute(&mut *writing).await.expect("writes");
    writing.commit().await.expect("commits");
    let mut held = hold_pairs(&till, SOLD, HOLDS).await;
    journalled(&till).await;
    held.extend(hold_pairs(&till, SOLD + 2 * HOLDS, LAST).await);

    till.stage.redis.kill();
    till.stage.redis.restart().await;
    let event = facts(&till).await;
    let map = eventually("the next life", || async {
        till.app.inventory.read_map(&event).await.ok().filter(|map| map.epoch == 2)
    })
    .await;

    let states = |state| map.states.iter().filter(|&&known| known == state).count() as u32;
    assert_eq!(states(2), SOLD, "every sale is intact");
    let mut survived = 0;
    for (identity, seat) in &held {
        let hold = till.app.inventory.open_hold(&event, *identity).await.expect("Redis answers");
        if let Some(hold) = hold {
            let seats: Vec<_> = hold.lines.iter().map(|line| line.place).collect();
            assert_eq!(seats, [Place::Seat(SeatIndex(*seat)), Place::Seat(SeatIndex(seat + 1))]);
            survived += 1;
        }
    }
    assert_eq!(states(1), 2 * survived);
    assert!(survived * 100 >= (HOLDS + LAST) * 99, "{survived} of {} baskets", HOLDS + LAST);
}
