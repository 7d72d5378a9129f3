//! How many baskets survive the loss of Redis: a stadium in the middle of its sale, and buyers who go on while it dies. How long
//! it is closed is printed by `cargo bench -p seatwire --bench rebuild`, on a machine that does nothing else.

#[path = "../../../benches/stadium.rs"]
mod stadium;

use super::journal::{facts, journalled};
use crate::checkout::till::Till;
use crate::support::eventually;
use crate::support::stage::Draft;
use stadium::Crowd;
use std::sync::Arc;

const SOLD: u32 = 42_000;
/// Baskets of the minutes before.
const HOLDS: u32 = 4_500;
/// Made at a steady pace up to the moment of the loss: whatever the journal had not heard of is lost.
const LAST: u32 = 500;
/// Six times as many as keep 5,000 baskets of ten minutes open: those of a second may be lost.
const PACE_PER_S: u32 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn a_stadium_keeps_ninety_nine_of_a_hundred_baskets() {
    let draft = Draft { rows: vec![200; 350], ..Draft::default() };
    // Many ask at once, and each must be answered, also on a slow machine.
    let mut till = Till::open_with(&draft, &[("SEATWIRE_REDIS_TIMEOUT_MS", "10000")]).await;
    let event = facts(&till).await;
    stadium::sell(till.stage.store.pool(), event.id, SOLD).await;
    let crowd = Crowd::new(&till.app.inventory, &event, SOLD).await;
    crowd.rush(HOLDS).await;
    assert_eq!(crowd.answered(), HOLDS);
    // A rush is no sale: how far the journal is behind is a matter of the pace.
    journalled(&till).await;
    let coming = tokio::spawn(Arc::clone(&crowd).come(PACE_PER_S));
    eventually("the last baskets", || async { (crowd.answered() >= HOLDS + LAST).then_some(()) }).await;
    // In the middle of it: some are asking, and nobody has waited for the journal.
    till.stage.redis.kill();
    crowd.end();
    coming.await.expect("buyers end well");
    till.stage.redis.restart().await;
    let map = eventually("the next life", || async {
        till.app.inventory.read_map(&event).await.ok().filter(|map| map.epoch == 2)
    })
    .await;

    let states = |state| map.states.iter().filter(|&&known| known == state).count() as u32;
    assert_eq!(states(2), SOLD, "every sale is intact");
    let (survived, answered) = (crowd.survivors().await, crowd.answered());
    eprintln!("{survived} of {answered} baskets survived");
    // One that was never answered may have been written down all the same; its owner asks again by the key.
    assert!(states(1) >= 2 * survived, "{} seats held", states(1));
    assert!(survived * 100 >= answered * 99, "{survived} of {answered} baskets");
}
