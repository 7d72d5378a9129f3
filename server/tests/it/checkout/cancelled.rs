//! A cancelled event takes no money any more: nothing new is paid, and what waits for its buyer is given up.

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
    for state in ["cancelled", "closed"] {
        let till = Till::open().await;
        let (buyer, hold) = till.buyer_with(&[1]).await;
        let end = sqlx::query("update events set state = $1").bind(state);
        end.execute(till.stage.store.pool()).await.expect("written");
        let reply = till.checkout(buyer, &hold, "pm_card_visa").await;
        assert!(matches!(code(&reply), "not_on_sale" | "hold_expired" | "hold_not_found"), "{state}: {reply}");
    }
}
