//! A cancelled event takes no money any more: nothing new is paid, and what waits for its buyer is given up. One that is
//! closed or paused takes it from those who have a basket.

use super::code;
use super::till::Till;
use seatwire::organiser::Operator;
use seatwire_proto::server::EventState;
use serde_json::json;

impl Till {
    async fn cancel_event(&self) {
        let event = self.event.parse().expect("an id");
        self.app.organiser.set_state(Operator::server(), event, EventState::Cancelled, None).await.expect("cancelled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_paid_after_the_event_was_cancelled_and_unpaid_orders_end_with_it() {
    let till = Till::open().await;
    let (declined, hold) = till.buyer_with(&[1]).await;
    let first = till.bought(declined, &hold, "pm_card_chargeDeclined").await;
    assert_eq!(first["state"], "payment_declined", "{first}");
    let (absent, hold) = till.buyer_with(&[2]).await;
    let second = till.bought(absent, &hold, "pm_card_authenticationRequired").await;
    assert_eq!(second["state"], "action_required", "{second}");
    let (late, late_hold) = till.buyer_with(&[3]).await;
    till.cancel_event().await;

    let again = json!({"order": first["id"], "payment": {"method": "pm_card_visa"}});
    let reply = till.call(declined, "pay", again.clone()).await;
    // `payment_open` while the provider is asked to let go of it.
    assert!(matches!(code(&reply), "pay_refused" | "payment_open"), "{reply}");
    let reply = till.checkout(late, &late_hold, "pm_card_visa").await;
    assert!(matches!(code(&reply), "not_on_sale" | "hold_expired" | "hold_not_found"), "{reply}");
    for (buyer, order, seat) in [(declined, &first, 1), (absent, &second, 2)] {
        let order = till.until(buyer, &order["id"], "cancelled").await;
        assert_eq!(till.money(&order["id"]).await, (vec![], 0), "{order}");
        till.until_seat(seat, 0).await;
    }
    let reply = till.call(declined, "pay", again).await;
    assert_eq!(code(&reply), "pay_refused", "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_not_heard_of_the_end_sells_nothing_all_the_same() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let end = sqlx::query("update events set state = 'cancelled'");
    end.execute(till.stage.store.pool()).await.expect("written");
    let reply = till.checkout(buyer, &hold, "pm_card_visa").await;
    assert!(matches!(code(&reply), "not_on_sale" | "hold_expired" | "hold_not_found"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_a_basket_when_selling_stops_may_pay_for_it() {
    use EventState::{Closed, Paused, Scheduled};
    let till = Till::open().await;
    let event = till.event.parse().expect("an id");
    let mut buyers = Vec::new();
    for seat in 1..=6 {
        buyers.push(till.buyer_with(&[seat]).await);
    }
    let mut buyers = buyers.into_iter();
    // Alone as well as in a run with others: events that limit cards go alone.
    for limit_n in [None, Some(4)] {
        let limit =
            sqlx::query("update events set seats_per_instrument = $1, on_sale_ms = 4000000000000").bind(limit_n);
        limit.execute(till.stage.store.pool()).await.expect("written");
        for state in [Paused, Closed, Scheduled] {
            let told = till.app.organiser.set_state(Operator::server(), event, state, None).await.expect("set");
            assert_eq!(told.state, state, "the node knows");
            let (buyer, hold) = buyers.next().expect("six");
            let refused = till.call(buyer, "hold", json!({"event": till.event, "seats": [20]})).await;
            let wanted = if state == Paused { "paused" } else { "not_on_sale" };
            assert_eq!(code(&refused), wanted, "{refused}");
            let order = till.bought(buyer, &hold, "pm_card_visa").await;
            assert_eq!(order["state"], "paid", "{state:?}: {order}");
        }
    }
}
