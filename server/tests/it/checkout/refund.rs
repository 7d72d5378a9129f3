//! Money goes back: whole, by ticket, by amount, by the provider's own pages; never more than was taken.

use super::till::{Buyer, Till};
use seatwire::checkout::order::OrderState;
use seatwire::checkout::{CheckoutRefusal, OrderRequest, RefundWhat};
use seatwire::store::refund::RefundLine;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use serde_json::{Value, json};

impl Till {
    pub(crate) async fn refund(&self, id: &Value, what: RefundWhat) -> Result<Value, CheckoutRefusal> {
        let id: OrderId = id.as_str().expect("an id").parse().expect("an id");
        let request = OrderRequest {
            identity: IdentityId::generate(),
            key: IdempotencyKey::parse(&super::key()).expect("a key"),
            fingerprint: [0; 32],
            order: id,
        };
        let refunded = self.app.checkout.refund(request, "test".into(), what, "asked for".into());
        refunded.await.expect("works").outcome.map(|order| json!(order))
    }
}

fn valid(order: &Value) -> Vec<u64> {
    let tickets = order["tickets"].as_array().expect("tickets");
    tickets.iter().filter(|t| t["state"] == "valid").filter_map(|t| t["seat"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_voids_the_tickets_and_gives_seats_and_limit_back() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let due = till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    assert_eq!((&due["state"], valid(&due)), (&"refund_due".into(), vec![]));
    let refunded = till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(refunded["refunded_minor"], 9500);
    till.until_seat(1, 0).await;
    till.until_seat(2, 0).await;
    assert_eq!(till.money(&order["id"]).await, (vec![9500], 9500));
    assert_eq!(till.refund(&order["id"], RefundWhat::All).await, Err(CheckoutRefusal::RefundRefused));
    // The seats may be sold again, also to the same buyer.
    let reply = till.call(buyer, "hold", json!({"event": till.event, "seats": [1]})).await;
    let again = till.bought(buyer, &reply["hold"], "pm_card_visa").await;
    assert_eq!(valid(&again), [1]);
    till.until_seat(1, 2).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_go_back_one_by_one_and_never_more_than_was_taken() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1, 2, 3]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let id = &order["id"];
    let line = |line, quantity| RefundWhat::Lines(vec![RefundLine { line, quantity }]);
    for wrong in [
        RefundWhat::Amount(0),
        RefundWhat::Amount(-5),
        RefundWhat::Amount(14_251),
        RefundWhat::Amount(i64::MAX),
        RefundWhat::Lines(vec![]),
        line(0, 2),
        line(3, 1),
        line(0, 0),
        RefundWhat::Lines(vec![RefundLine { line: 0, quantity: 1 }; 2]),
    ] {
        assert_eq!(till.refund(id, wrong.clone()).await, Err(CheckoutRefusal::RefundRefused), "{wrong:?}");
    }
    till.refund(id, line(1, 1)).await.expect("refundable");
    let part = till.until(buyer, id, "partially_refunded").await;
    assert_eq!((&part["refunded_minor"], valid(&part)), (&4750.into(), vec![1, 3]));
    till.until_seat(2, 0).await;
    assert_eq!((till.seat(1).await, till.seat(3).await), (2, 2));
    assert_eq!(till.refund(id, line(1, 1)).await, Err(CheckoutRefusal::RefundRefused), "that ticket is void");
    till.refund(id, RefundWhat::Amount(500)).await.expect("refundable");
    let part = till.until(buyer, id, "partially_refunded").await;
    assert_eq!((&part["refunded_minor"], valid(&part)), (&5250.into(), vec![1, 3]));
    assert_eq!(till.refund(id, RefundWhat::Amount(9_001)).await, Err(CheckoutRefusal::RefundRefused));
    till.refund(id, RefundWhat::All).await.expect("refundable");
    let whole = till.until(buyer, id, "refunded").await;
    assert_eq!(whole["refunded_minor"], 14_250);
    till.until_seat(1, 0).await;
    assert_eq!(till.money(id).await, (vec![14_250], 14_250));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_an_area_go_back_one_by_one() {
    let till = Till::open().await;
    let buyer = Buyer(IdentityId::generate());
    let reply = till.call(buyer, "hold_area", json!({"event": till.event, "area": 0, "quantity": 3})).await;
    let order = till.bought(buyer, &reply["hold"], "pm_card_visa").await;
    till.refund(&order["id"], RefundWhat::Lines(vec![RefundLine { line: 0, quantity: 2 }])).await.expect("refundable");
    till.until(buyer, &order["id"], "partially_refunded").await;
    let facts = till.app.catalogue.event(till.event.parse().expect("an id")).await.expect("reads").expect("the event");
    crate::support::eventually("two places to be back", || async {
        till.clock.advance_ms(100);
        (till.app.inventory.read_map(&facts).await.expect("the map").areas == [49]).then_some(())
    })
    .await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_the_provider_cannot_make_is_left_to_a_person() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_refund_fails").await;
    till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    crate::support::eventually("the refund to fail", || async {
        till.clock.advance_ms(1_000);
        (till.inner_state(&order["id"]).await == OrderState::RefundFailed).then_some(())
    })
    .await;
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "refund_due", "the buyer is still owed");
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_waits_for_a_provider_that_is_away_and_happens_once() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    till.faults(&[("outage", "garbage")]).await;
    till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    // The provider works, but its answers are lost: it is asked again by the same key.
    crate::support::eventually("the provider to be asked", || async {
        till.clock.advance_ms(1_000);
        (till.ledger().await["refunds"].as_array().map(Vec::len) == Some(1)).then_some(())
    })
    .await;
    till.faults(&[("outage", "none")]).await;
    till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(till.ledger().await["refunds"].as_array().map(Vec::len), Some(1));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_paid_is_given_up_without_the_provider() {
    let draft = crate::support::stage::Draft { tier_a_minor: (0, 0), ..Default::default() };
    let till = Till::open_with(&draft, &[]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_none").await;
    till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "refunded");
    till.until_seat(1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_whose_answer_was_lost_is_looked_for_before_it_is_asked_for_again() {
    for (fault, made_at_once) in [("fail_after_percent", 1), ("fail_before_percent", 0), ("silent_percent", 1)] {
        let till = Till::open().await;
        let (buyer, hold) = till.buyer_with(&[1]).await;
        let order = till.bought(buyer, &hold, "pm_card_visa").await;
        till.faults(&[(fault, "100")]).await;
        till.refund(&order["id"], RefundWhat::Amount(1_000)).await.expect("refundable");
        crate::support::eventually("the provider to be asked", || async {
            let id: seatwire_proto::id::OrderId = order["id"].as_str().expect("an id").parse().expect("an id");
            let open = seatwire::store::refund::open_of_order(till.app.store.pool(), id).await.expect("reads");
            (open.is_empty() || open[0].tries_n > 0).then_some(())
        })
        .await;
        // The key remembers a failure: without looking first, or with this key alone, it would never end.
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        assert_eq!(till.ledger().await["refunds"].as_array().map(Vec::len), Some(made_at_once), "{fault}");
        till.faults(&[(fault, "0")]).await;
        till.until(buyer, &order["id"], "partially_refunded").await;
        assert_eq!(till.money(&order["id"]).await, (vec![4750], 1_000), "{fault}");
        assert_eq!(till.ledger().await["refunds"].as_array().map(Vec::len), Some(1), "{fault}");
        till.check_books().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn money_given_back_on_the_providers_pages_meanwhile_is_not_given_back_twice() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "3600000")]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.ledger().await["intents"][0]["id"].as_str().expect("an id").to_owned();
    // Nobody tells: the refused refund is how it is found out.
    let call = reqwest::Client::new().post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
    assert_eq!(call.form(&[("payment_intent", intent)]).send().await.expect("answers").status(), 200);
    till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    let refunded = till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(refunded["refunded_minor"], 4750);
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 4750));
    till.check_books().await;
}
