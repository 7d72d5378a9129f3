//! Money goes back: whole, by ticket, by amount, by the provider's own pages; never more than was taken.

use super::till::{Buyer, GIVES_UP, Till};
use crate::support::stage::Draft;
use seatwire::checkout::order::OrderState;
use seatwire::checkout::{CheckoutRefusal, OrderRequest, RefundWhat};
use seatwire::store::refund::RefundLine;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{EventId, IdentityId, OrderId};
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
        let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
        let (buyer, hold) = till.buyer_with(&[1]).await;
        let order = till.bought(buyer, &hold, "pm_card_visa").await;
        till.faults(&[(fault, "100")]).await;
        till.refund(&order["id"], RefundWhat::Amount(1_000)).await.expect("refundable");
        let id: seatwire_proto::id::OrderId = order["id"].as_str().expect("an id").parse().expect("an id");
        // The key remembers a failure: without looking first, or with this key alone, it would never end.
        crate::support::eventually("the first call to be over", || async {
            let open = seatwire::store::refund::open_of_order(till.app.store.pool(), id).await.expect("reads");
            let looks: i32 = sqlx::query_scalar("select checks_n from orders where order_id = $1")
                .bind(id.uuid())
                .fetch_one(till.app.store.pool())
                .await
                .expect("reads");
            (open.is_empty() || open[0].tries_n > 0 && looks > 0).then_some(())
        })
        .await;
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

/// A draft whose tier A costs nothing; the seats from 140 on cost 20.00.
fn half_free() -> Draft {
    Draft { tier_a_minor: (0, 0), ..Draft::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_ticket_of_a_mixed_order_goes_back_alone() {
    let till = Till::open_with(&half_free(), &[]).await;
    let (buyer, hold) = till.buyer_with(&[1, 150]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let id = &order["id"];
    let lines = order["lines"].as_array().expect("lines");
    let line = lines.iter().position(|line| line["seat"] == 1).expect("the free one") as u32;
    let free = RefundWhat::Lines(vec![RefundLine { line, quantity: 1 }]);
    till.refund(id, free.clone()).await.expect("refundable");
    let now = till.order(buyer, id).await;
    assert_eq!((&now["state"], valid(&now)), (&"paid".into(), vec![150]), "the money is ours and the ticket admits");
    till.until_seat(1, 0).await;
    assert_eq!(till.refund(id, free).await, Err(CheckoutRefusal::RefundRefused));
    till.refund(id, RefundWhat::All).await.expect("the rest is refundable");
    let whole = till.until(buyer, id, "refunded").await;
    assert_eq!((&whole["refunded_minor"], valid(&whole)), (&2000.into(), vec![]));
    till.until_seat(150, 0).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_free_ticket_ends_an_order_that_cost_nothing() {
    let till = Till::open_with(&half_free(), &[]).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_none").await;
    for (line, state, left) in [(0, "paid", vec![2]), (1, "refunded", vec![])] {
        till.refund(&order["id"], RefundWhat::Lines(vec![RefundLine { line, quantity: 1 }])).await.expect("refundable");
        let now = till.order(buyer, &order["id"]).await;
        assert_eq!((&now["state"], valid(&now)), (&state.into(), left));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn money_that_went_back_whole_leaves_no_ticket_that_admits() {
    let till = Till::open().await;
    let first_line = RefundWhat::Lines(vec![RefundLine { line: 0, quantity: 1 }]);
    let ways = [vec![RefundWhat::Amount(9_500)], vec![RefundWhat::Amount(5_000), first_line]];
    for (way, seats) in ways.iter().zip([[1, 2], [5, 6]]) {
        let (buyer, hold) = till.buyer_with(&seats).await;
        let order = till.bought(buyer, &hold, "pm_card_visa").await;
        for what in way {
            till.refund(&order["id"], what.clone()).await.expect("refundable");
            let settled = ["partially_refunded", "refunded"];
            crate::support::eventually("the refund to end", || async {
                till.clock.advance_ms(1_000);
                let state = till.order(buyer, &order["id"]).await["state"].clone();
                settled.iter().any(|settled| state == *settled).then_some(())
            })
            .await;
        }
        let whole = till.until(buyer, &order["id"], "refunded").await;
        assert_eq!(valid(&whole), Vec::<u64>::new(), "{way:?}");
        for seat in seats {
            till.until_seat(seat as usize, 0).await;
        }
    }
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_under_way_for_hours_is_asked_about_ever_less_often_and_listed() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_refund_pending_3h").await;
    till.refund(&order["id"], RefundWhat::All).await.expect("refundable");
    let id: OrderId = order["id"].as_str().expect("an id").parse().expect("an id");
    let row =
        async || seatwire::store::order::read(till.app.store.pool(), id).await.expect("reads").expect("the order");
    let since_ms = crate::support::eventually("the refund to be under way", || async {
        till.clock.advance_ms(1_000);
        let row = row().await;
        (row.state == OrderState::RefundPending).then_some(row.state_since_ms)
    })
    .await;
    crate::support::eventually("nine looks", || async {
        till.step(20_000).await;
        (row().await.checks_n >= 9).then_some(())
    })
    .await;
    let now = row().await;
    assert_eq!((now.state, now.state_since_ms), (OrderState::RefundPending, since_ms));
    assert!(now.check_at_ms.expect("asked again") > till.clock.now_ms() + 400_000, "{now:?}");
    let open = till.app.checkout.open_payments(None, 10).await.expect("reads");
    assert_eq!((open.len(), open[0].state.as_str(), open[0].since_ms), (1, "refund_pending", since_ms));
    crate::support::eventually("the refund to end", || async {
        till.clock.advance_ms(300_000);
        (till.inner_state(&order["id"]).await == OrderState::Refunded).then_some(())
    })
    .await;
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 4750));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn money_that_went_back_elsewhere_while_ours_was_under_way_is_counted_after_it() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "3600000")]).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_sim_refund_pending_40m").await;
    till.refund(&order["id"], RefundWhat::Amount(1_000)).await.expect("refundable");
    crate::support::eventually("the refund to be under way", || async {
        till.clock.advance_ms(1_000);
        (till.inner_state(&order["id"]).await == OrderState::RefundPending).then_some(())
    })
    .await;
    let intent = till.ledger().await["intents"][0]["id"].as_str().expect("an id").to_owned();
    let call = reqwest::Client::new().post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
    let form = [("payment_intent", intent.as_str()), ("amount", "2000")];
    assert_eq!(call.form(&form).send().await.expect("answers").status(), 200);
    till.until(buyer, &order["id"], "partially_refunded").await;
    till.soon("all that went back to be counted", || async {
        (till.order(buyer, &order["id"]).await["refunded_minor"] == 3000).then_some(())
    })
    .await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_refunded_one_order_refunds_no_other_when_its_answer_is_forgotten() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let (first, other) = (till.bought(buyer, &hold, "pm_card_visa").await, {
        let (buyer, hold) = till.buyer_with(&[9]).await;
        till.bought(buyer, &hold, "pm_card_visa").await
    });
    let operator = IdentityId::generate();
    let refund = async |order: &Value, fingerprint: u8| {
        let request = OrderRequest {
            identity: operator,
            key: IdempotencyKey::parse("same").expect("a key"),
            fingerprint: [fingerprint; 32],
            order: order["id"].as_str().expect("an id").parse().expect("an id"),
        };
        let what = RefundWhat::Amount(500);
        let answer = till.app.checkout.refund(request, "test".into(), what, "asked for".into()).await;
        // 72 hours later the answer is forgotten.
        sqlx::query("delete from order_commands").execute(till.app.store.pool()).await.expect("deletes");
        answer.expect("works").outcome.map(|order| json!(order.id))
    };
    assert_eq!(refund(&first, 1).await, Ok(first["id"].clone()));
    assert_eq!(refund(&other, 2).await, Err(CheckoutRefusal::KeyReused));
    assert_eq!(refund(&first, 3).await, Err(CheckoutRefusal::KeyReused), "another body");
    assert_eq!(refund(&first, 1).await, Ok(first["id"].clone()));
    till.until(buyer, &first["id"], "partially_refunded").await;
    assert_eq!((till.money(&first["id"]).await.1, till.money(&other["id"]).await.1), (500, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_event_is_refunded_past_orders_that_have_nothing_or_fail() {
    let till = Till::open_with(&half_free(), &[]).await;
    let (guest, hold) = till.buyer_with(&[1]).await;
    let free = till.bought(guest, &hold, "pm_none").await;
    let pool = till.app.store.pool();
    let run = async |sql: &'static str, order: &Value| {
        let id: OrderId = order["id"].as_str().expect("an id").parse().expect("an id");
        sqlx::query(sql).bind(id.uuid()).execute(pool).await.expect(sql);
    };
    // Was let in: there is neither money nor a ticket to take back.
    run("update tickets set state = 'used' where order_id = $1", &free).await;
    let (unlucky, hold) = till.buyer_with(&[150]).await;
    let broken = till.bought(unlucky, &hold, "pm_card_visa").await;
    run("update orders set lines = '0' where order_id = $1", &broken).await;
    let (buyer, hold) = till.buyer_with(&[151]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let event: EventId = till.event.parse().expect("an id");
    sqlx::query("update events set state = 'cancelled' where id = $1")
        .bind(event.uuid())
        .execute(pool)
        .await
        .expect("set");
    till.until(buyer, &order["id"], "refunded").await;
    let left = seatwire::store::open_payment::list_of_cancelled_events(pool, None, 10).await.expect("reads");
    assert_eq!(left.iter().map(|id| json!(id)).collect::<Vec<_>>(), [broken["id"].clone()]);
    let mut turn = seatwire::store::begin(pool).await.expect("begins");
    // While another node has its turn, this one begins nothing.
    while !seatwire::store::open_payment::take_turn_to_refund(&mut turn).await.expect("asks") {}
    assert_eq!(till.app.checkout.refund_cancelled().await.expect("works"), 0);
}
