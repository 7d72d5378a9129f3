//! What a person must look at is told: numbers for Prometheus, the list of payments. Looked at when a sale ends, not only when
//! the clock says so.

use super::till::{Buyer, Till};
use crate::support::eventually;
use seatwire::checkout::RefundWhat;
use seatwire::checkout::order::OrderState;
use seatwire::organiser::Operator;
use seatwire::store::money_audit;
use seatwire_proto::id::IdentityId;
use seatwire_proto::server::EventState;
use serde_json::json;

impl Till {
    /// The number of this name that Prometheus is told.
    fn told(&self, name: &str) -> i64 {
        let text = self.app.metrics.encode().expect("encodes");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("seatwire_{name} ")));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().expect("a number")
    }

    async fn set_event(&self, state: EventState) {
        let event = self.event.parse().expect("an id");
        self.app.organiser.set_state(Operator::server(), event, state, None).await.expect("is set");
    }

    async fn until_told(&self, name: &str, n: i64) {
        eventually(&format!("{name} to be {n}"), || async { (self.told(name) == n).then_some(()) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn money_that_does_not_go_back_is_a_number_for_prometheus() {
    let till = Till::open().await;
    // The look at the start is over, and the next one is far away.
    till.until_runs("audit_money", 1).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_refund_fails").await;
    till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    eventually("the refund to fail", || async {
        till.clock.advance_ms(1_000);
        (till.inner_state(&order["id"]).await == OrderState::RefundFailed).then_some(())
    })
    .await;
    assert_eq!(till.told("payments_for_people"), 0, "nobody has looked since");
    till.set_event(EventState::Closed).await;
    till.until_told("payments_for_people", 1).await;
    assert_eq!(till.told("books_violations"), 0);
}

/// Plants wrong books one after the other, each put right again: (wrong, right, the rule it breaks, how often).
async fn each_is_found(till: &Till, plants: &[(&'static str, &'static str, &'static str, u64)]) {
    let pool = till.app.store.pool();
    assert_eq!(money_audit::violations(pool).await.expect("reads"), vec![]);
    for &(wrong, right, rule, n) in plants {
        sqlx::query(wrong).execute(pool).await.expect(wrong);
        let found = money_audit::violations(pool).await.expect("reads");
        assert!(found.contains(&(rule, n)), "{wrong}: {found:?}");
        sqlx::query(right).execute(pool).await.expect(right);
        assert_eq!(money_audit::violations(pool).await.expect("reads"), vec![], "{right}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_areas_money_of_cancelled_orders_and_sums_of_refunds_are_compared_too() {
    let draft = crate::support::stage::Draft { areas: vec![10], ..Default::default() };
    let till = Till::open_with(&draft, &[]).await;
    let standing = Buyer(IdentityId::generate());
    let held = till.call(standing, "hold_area", json!({"event": till.event, "area": 0, "quantity": 2})).await;
    till.bought(standing, &held["hold"], "pm_card_visa").await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    till.refund(&order["id"], RefundWhat::Amount(100)).await.expect("refundable");
    till.until(buyer, &order["id"], "partially_refunded").await;
    let (other, hold) = till.buyer_with(&[3]).await;
    let declined = till.bought(other, &hold, "pm_card_chargeDeclined").await;
    till.call(other, "cancel", json!({"order": declined["id"]})).await;
    till.until(other, &declined["id"], "cancelled").await;
    each_is_found(
        &till,
        &[
            (
                "update area_stock set sold = sold + 1",
                "update area_stock set sold = sold - 1",
                "an area whose count is not its tickets",
                1,
            ),
            (
                "update tickets set state = 'void' where area_index = 0",
                "update tickets set state = 'valid' where area_index = 0",
                "an area whose count is not its tickets",
                1,
            ),
            (
                "update orders set captured_minor = total_minor where state = 'cancelled'",
                "update orders set captured_minor = 0 where state = 'cancelled'",
                "money of a cancelled order",
                1,
            ),
            (
                "update orders set refunded_minor = refunded_minor - 1 where state = 'partially_refunded'",
                "update orders set refunded_minor = refunded_minor + 1 where state = 'partially_refunded'",
                "refunds that are not in the order",
                1,
            ),
        ],
    )
    .await;
    // What stays is told when the sale ends.
    let wrong = "update orders set captured_minor = total_minor where state = 'cancelled'";
    sqlx::query(wrong).execute(till.app.store.pool()).await.expect("is wrong");
    till.set_event(EventState::Closed).await;
    till.until_told("books_violations", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_do_not_agree_are_found_when_a_sale_ends_each_by_its_rule() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    let pool = till.app.store.pool();
    each_is_found(
        &till,
        &[
            (
                "update tickets set state = 'void' where seat_index = 1",
                "update tickets set state = 'valid' where seat_index = 1",
                "a sold seat without a ticket, or a ticket without a seat",
                1,
            ),
            (
                "update taken_seats set state = 'reserved' where seat_index = 2",
                "update taken_seats set state = 'sold' where seat_index = 2",
                "a reserved seat without an open order",
                1,
            ),
            (
                "update orders set captured_minor = captured_minor - 1",
                "update orders set captured_minor = captured_minor + 1",
                "a live ticket of an order that was not paid",
                2,
            ),
            (
                "update orders set refunded_minor = captured_minor",
                "update orders set refunded_minor = 0",
                "a paid order whose money went back whole",
                1,
            ),
        ],
    )
    .await;
    // A disagreement that stays is told when the event is closed, and again when it is gone.
    sqlx::query("update orders set captured_minor = captured_minor - 1").execute(pool).await.expect("is wrong");
    assert_eq!(till.told("books_violations"), 0);
    till.set_event(EventState::Closed).await;
    till.until_told("books_violations", 2).await;
    sqlx::query("update orders set captured_minor = captured_minor + 1").execute(pool).await.expect("is right");
    till.set_event(EventState::Cancelled).await;
    till.until_told("books_violations", 0).await;
}
