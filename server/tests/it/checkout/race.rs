//! Buyers who give up in the very moment in which the bank approves, or in which they pay with another card: many at once.
//! Each order ends paid or cancelled, never both, and no money stays with an order that was cancelled.

use super::till::{Buyer, Till};
use crate::support::eventually;
use serde_json::{Value, json};
use std::time::Duration;

const ORDERS: u32 = 96;
/// The two sides of a race start this far apart at most, either first: about as long as one of them takes.
const SPREAD_MS: u64 = 40;

/// What an order ends as, and what its buyer was answered.
struct Ended {
    buyer: Buyer,
    order: Value,
    state: String,
    cancelled: Value,
}

async fn late(spread_ms: u64) {
    tokio::time::sleep(Duration::from_millis(rand::random_range(0..=spread_ms))).await;
}

async fn race(till: &Till, seat: u32) -> Ended {
    let (buyer, hold) = till.buyer_with(&[seat]).await;
    let is_action = seat.is_multiple_of(2);
    let method = if is_action { "pm_card_authenticationRequired" } else { "pm_card_chargeDeclined" };
    let order = till.bought(buyer, &hold, method).await;
    let cancel = async {
        late(SPREAD_MS).await;
        till.call(buyer, "cancel", json!({"order": order["id"]})).await
    };
    let succeed = async {
        late(SPREAD_MS).await;
        if is_action {
            // The page is gone once the provider has cancelled.
            let page = order["action"]["url"].as_str().expect("a page").replace('?', "/approve?");
            let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
            http.expect("a client").post(page).send().await.expect("answers");
        } else {
            let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
            till.call(buyer, "pay", pay).await;
        }
    };
    let (cancelled, ()) = tokio::join!(cancel, succeed);
    let state = settled(till, buyer, &order).await;
    Ended { buyer, order, state, cancelled }
}

async fn settled(till: &Till, buyer: Buyer, order: &Value) -> String {
    eventually("the order to settle", || async {
        let state = till.order(buyer, &order["id"]).await["state"].as_str().expect("a state").to_owned();
        if matches!(state.as_str(), "paid" | "cancelled") {
            return Some(state);
        }
        till.clock.advance_ms(200);
        None
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_cancelling_and_success_one_wins_and_money_goes_with_it() {
    let till = Till::open().await;
    let mut ended = Vec::new();
    // As many at once as there are connections to the store, twice over.
    for seats in (0..ORDERS).collect::<Vec<_>>().chunks(12) {
        ended.extend(futures_util::future::join_all(seats.iter().map(|&seat| race(&till, seat))).await);
    }
    let mut paid_n = 0;
    for Ended { buyer, order, state, cancelled } in &ended {
        let (taken, back) = till.money(&order["id"]).await;
        if state == "paid" {
            paid_n += 1;
            assert_eq!((taken, back), (vec![4750], 0), "{order}");
            assert_ne!(cancelled["order"]["state"], "cancelled", "said cancelled, and was paid");
        } else {
            assert_eq!((taken, back), (vec![], 0), "{order} was cancelled");
            assert_eq!(cancelled["ok"], true, "who cancelled but the buyer? {cancelled}");
        }
        let again = till.order(*buyer, &order["id"]).await;
        assert_eq!(again["state"].as_str(), Some(state.as_str()), "what is final stays so");
    }
    println!("{ORDERS} orders raced: {paid_n} paid, {} cancelled", ended.len() - paid_n);
    assert!(paid_n > 0 && paid_n < ended.len(), "a race that one side always wins is none: {paid_n} paid");
    till.check_books().await;
}
