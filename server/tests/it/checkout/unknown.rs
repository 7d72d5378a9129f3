//! Answers that are lost, late or contradicted: nothing is guessed, and every charge ends as tickets or goes back.

use super::code;
use super::till::{GIVES_UP, Till, checkout_of};
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use seatwire::checkout::order::OrderState;
use seatwire::clock::Clock;
use seatwire::shutdown::Shutdown;
use seatwire::store::order;
use seatwire_proto::id::OrderId;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_unknown_until_the_provider_tells() {
    let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
    for (seat, method) in [(1, "pm_sim_timeout_charged"), (2, "pm_sim_500_charged")] {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        let order = till.bought(buyer, &hold, method).await;
        assert_eq!(order["state"], "payment_unknown", "{method}");
        let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
        assert_eq!(code(&till.call(buyer, "pay", pay).await), "payment_open");
        assert_eq!(code(&till.call(buyer, "cancel", json!({"order": order["id"]})).await), "cancel_refused");
        let paid = till.until(buyer, &order["id"], "paid").await;
        assert_eq!(paid["tickets"].as_array().map(Vec::len), Some(1));
        assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
        till.until_seat(seat as usize, 2).await;
    }
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_charged_is_cancelled_behind_the_fence() {
    let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
    for (seat, method) in [(1, "pm_sim_timeout_not_charged"), (2, "pm_sim_500_not_charged")] {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        let order = till.bought(buyer, &hold, method).await;
        assert_eq!(order["state"], "payment_unknown", "{method}");
        till.until(buyer, &order["id"], "cancelled").await;
        till.until_seat(seat as usize, 0).await;
        assert_eq!(till.money(&order["id"]).await, (vec![], 0));
    }
    // At the provider's as well: nobody can charge these any more.
    let ledger = till.ledger().await;
    assert!(ledger["intents"].as_array().expect("a list").iter().all(|intent| intent["status"] == "canceled"));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_began_is_given_up_half_a_minute_later_and_no_sooner() {
    let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
    let mut orders = Vec::new();
    for (seat, method) in [(1, "pm_sim_timeout_not_charged"), (3, "pm_sim_500_not_charged")] {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        orders.push((buyer, till.bought(buyer, &hold, method).await["id"].clone(), seat as usize));
    }
    // A bank may still be thinking.
    till.clock.advance_ms(20_000);
    eventually("both to be looked at", || async {
        let sql = "select count(*) from orders where checks_n > 0 and check_at_ms > $1";
        let looked = sqlx::query_scalar::<_, i64>(sql).bind(till.clock.now_ms().cast_signed());
        (looked.fetch_one(till.app.store.pool()).await.expect("counts") == 2).then_some(())
    })
    .await;
    for (_, id, _) in &orders {
        assert_eq!(till.inner_state(id).await, OrderState::PaymentUnknown);
    }
    till.clock.advance_ms(10_000);
    // The clock hardly moves any more: it is this moment's look that ends it.
    for (buyer, id, seat) in &orders {
        till.soon("the order to be given up", || async {
            (till.inner_state(id).await == OrderState::Cancelled).then_some(())
        })
        .await;
        assert_eq!(till.order(*buyer, id).await["state"], "cancelled");
        till.until_seat(*seat, 0).await;
    }
    let ledger = till.ledger().await;
    assert!(ledger["intents"].as_array().expect("a list").iter().all(|intent| intent["status"] == "canceled"));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_decline_that_names_no_charge_is_not_given_up_as_what_never_began() {
    let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_500_declined").await;
    assert_eq!(order["state"], "payment_unknown");
    // Of the first attempt there is no doubt whose it is.
    let declined = till.until(buyer, &order["id"], "payment_declined").await;
    assert_eq!(declined["decline"]["reason"], "authentication_failed");
    // From then on it may be the one before: whether the bank still thinks is not known.
    let pay = json!({"order": order["id"], "payment": {"method": "pm_sim_500_declined"}});
    assert_eq!(till.call(buyer, "pay", pay).await["order"]["state"], "payment_unknown");
    till.clock.advance_ms(60_000);
    till.step(500).await;
    assert_eq!(till.inner_state(&order["id"]).await, OrderState::PaymentUnknown);
    till.until(buyer, &order["id"], "cancelled").await;
    assert_eq!(till.money(&order["id"]).await, (vec![], 0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_provider_is_asked_again_by_the_same_key() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_429_then_ok").await;
    assert_eq!(order["state"], "paid");
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_429_charges_nobody_twice_and_shuts_no_till() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_PAYMENT_TIMEOUT_MS", "4000")]).await;
    let mut baskets = Vec::new();
    for seat in 0..24 {
        baskets.push(till.buyer_with(&[seat]).await);
    }
    // Two of three calls, of whatever kind, are told to slow down.
    till.faults(&[("busy_percent", "66")]).await;
    let bought = futures_util::future::join_all(baskets.iter().map(|(buyer, hold)| {
        let till = &till;
        async move {
            // Whoever is so late that another was never let through comes again.
            let fields = checkout_of(hold, "pm_card_visa");
            (*buyer, till.until_admitted(*buyer, "checkout", &fields).await["order"].clone())
        }
    }))
    .await;
    assert!(till.app.checkout.is_provider_open(), "who says slow down is there");
    till.faults(&[("busy_percent", "0")]).await;
    let mut paid_n = 0;
    for (buyer, order) in bought {
        let order = match order["state"].as_str().expect("a state") {
            // Never begun in all that time: the same buyer pays now.
            "payment_declined" => {
                assert_eq!(order["decline"]["reason"], "provider_unavailable", "{order}");
                assert_eq!(till.money(&order["id"]).await, (vec![], 0));
                let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
                // The tills are closed a moment behind whoever was never let through.
                till.until_admitted(buyer, "pay", &pay).await["order"].clone()
            }
            "paid" => {
                paid_n += 1;
                order
            }
            _ => till.until(buyer, &order["id"], "paid").await,
        };
        assert_eq!(order["state"], "paid", "{order}");
        assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
    }
    assert!(paid_n > 0, "asking again by the same key pays some at once");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processing_ends_as_the_provider_says() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_processing_then_ok").await;
    assert_eq!(order["state"], "payment_pending");
    till.until(buyer, &order["id"], "paid").await;
    let (buyer, hold) = till.buyer_with(&[2]).await;
    let order = till.bought(buyer, &hold, "pm_sim_processing_then_fail").await;
    let declined = till.until(buyer, &order["id"], "payment_declined").await;
    assert_eq!(declined["decline"]["reason"], "generic_decline");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_charge_takes_its_seats_again_when_they_are_free() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[5]).await;
    let order = till.bought(buyer, &hold, "pm_sim_late_success_40m").await;
    assert_eq!(order["state"], "payment_pending");
    till.until_seat(5, 0).await;
    assert_eq!(till.inner_state(&order["id"]).await, OrderState::ReleasedUnresolved);
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "payment_unknown");
    let paid = till.until(buyer, &order["id"], "paid").await;
    assert_eq!(paid["tickets"][0]["seat"], 5);
    till.until_seat(5, 2).await;
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_charge_whose_seats_are_gone_goes_back() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[5, 6]).await;
    let order = till.bought(buyer, &hold, "pm_sim_late_success_40m").await;
    till.until_seat(5, 0).await;
    let (other, hold) = till.buyer_with(&[6]).await;
    till.bought(other, &hold, "pm_card_visa").await;
    let refunded = till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(refunded["refunded_minor"], 9500);
    assert_eq!(till.money(&order["id"]).await, (vec![9500], 9500));
    assert_eq!((till.seat(5).await, till.seat(6).await), (0, 2), "all or none");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_charge_for_a_cancelled_event_goes_back_though_its_seats_are_free() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[5]).await;
    let order = till.bought(buyer, &hold, "pm_sim_late_success_40m").await;
    till.until_seat(5, 0).await;
    assert_eq!(till.inner_state(&order["id"]).await, OrderState::ReleasedUnresolved);
    let event: seatwire_proto::id::EventId = till.event.parse().expect("an id");
    let cancelled = sqlx::query("update events set state = 'cancelled' where id = $1").bind(event.uuid());
    cancelled.execute(till.app.store.pool()).await.expect("writes");
    let refunded = till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(refunded["tickets"].as_array().map_or(0, Vec::len), 0, "{refunded}");
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 4750));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_charges_nobody_and_the_seats_stay() {
    let till = Till::open().await;
    till.faults(&[("outage", "fail")]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    assert_eq!(
        (&order["state"], &order["decline"]["reason"]),
        (&"payment_declined".into(), &"provider_unavailable".into())
    );
    assert_eq!(till.seat(1).await, 1);
    till.faults(&[("outage", "none")]).await;
    // Where many of this node's own questions have failed meanwhile, the next one has to be answered first.
    let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
    let paid = till.until_admitted(buyer, "pay", &pay).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    // An answer nobody can read is no answer.
    let (buyer, hold) = till.buyer_with(&[2]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    till.faults(&[("outage", "garbage")]).await;
    let lost = till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(lost["order"]["state"], "payment_unknown", "{lost}");
    till.faults(&[("outage", "none")]).await;
    till.until(buyer, &order["id"], "paid").await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_the_provider_remembers_does_not_stop_the_next_try() {
    let till = Till::open().await;
    till.faults(&[("fail_before_percent", "100")]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    assert_eq!(order["decline"]["reason"], "provider_unavailable");
    till.faults(&[("fail_before_percent", "0")]).await;
    let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
    let paid = till.call(buyer, "pay", pay).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_three_days_without_a_word_a_person_looks_and_a_webhook_still_settles_it() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_WEBHOOK_SECRETS", "whsec_new")]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_sim_late_success_100h").await;
    till.until_seat(1, 0).await;
    let open = async || till.app.checkout.open_payments(None, 100).await.expect("reads");
    eventually("the order to be on the list", || async {
        till.step(3_600_000).await;
        open().await.first().is_some_and(|open| open.concern.as_deref() == Some("no_word")).then_some(())
    })
    .await;
    assert_eq!(open().await[0].next_look_ms, None);
    let mine = till.app.checkout.open_orders(buyer.0).await.expect("reads");
    assert_eq!(mine.len(), 1, "its buyer still sees it");
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "payment_unknown");
    till.clock.advance_ms(40 * 3_600_000);
    let succeeded = eventually("the provider to charge", || async {
        till.events().await.into_iter().find(|event| event["type"] == "payment_intent.succeeded")
    })
    .await;
    till.tell("whsec_new", &succeeded).await;
    till.until(buyer, &order["id"], "paid").await;
    assert_eq!(open().await, []);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_stop_answers_the_checkouts_that_run() {
    use crate::support::client::Client;
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let sim = seatwire::paysim::start(listener, Default::default(), Clock::system(), Shutdown::new()).await;
    let payment_url = sim.expect("starts").url();
    let node = stage.node_with(&[("SEATWIRE_PAYMENT_URL", payment_url.as_str())]).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let (mut viewer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": [1]})).await;
    let mut fields = checkout_of(&reply["hold"], "pm_sim_delay_2s");
    fields["key"] = "c".into();
    let id = buyer.command("checkout", fields).await;
    // It runs once the provider has heard of it.
    let http = reqwest::Client::new();
    eventually("the provider to know the order", || async {
        let ledger = http.get(format!("{payment_url}/_sim/ledger")).send().await.expect("answers");
        let ledger: serde_json::Value = ledger.json().await.expect("JSON");
        ledger["intents"].as_array().is_some_and(|intents| !intents.is_empty()).then_some(())
    })
    .await;
    node.signal("TERM");
    assert_eq!(viewer.closed().await.0, 4001, "who waits for nothing goes at once");
    let reply = buyer.reply(id).await;
    assert_eq!(reply["order"]["state"], "paid", "{reply}");
    assert_eq!(buyer.closed().await, (4001, "drain".into()));
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_seats_is_looked_at_before_refunds_and_the_nearest_deadline_first() {
    let till = Till::open().await;
    let mut orders = Vec::new();
    for seat in [1, 3, 5, 7] {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        orders.push(till.bought(buyer, &hold, "pm_card_visa").await["id"].clone());
    }
    // Never committed: no reconciler sees these.
    let mut transaction = seatwire::store::begin(till.app.store.pool()).await.expect("begins");
    for (id, state, since_ms) in [
        (&orders[0], "refund_pending", 1),
        (&orders[1], "released_unresolved", 2),
        (&orders[2], "payment_unknown", 200),
    ]
    .into_iter()
    .chain([(&orders[3], "payment_unknown", 100)])
    {
        let id: OrderId = id.as_str().expect("an id").parse().expect("an id");
        let sql = "update orders set state = $2, state_since_ms = $3, unknown_since_ms = $3, check_at_ms = $3
             where order_id = $1";
        let set = sqlx::query(sql).bind(id.uuid()).bind(state).bind(since_ms);
        set.execute(&mut *transaction).await.expect("sets");
    }
    let due = order::list_due(&mut *transaction, 1_000, 10).await.expect("reads");
    let due: Vec<Value> = due.iter().map(|id| json!(id)).collect();
    assert_eq!(due, [3, 2, 1, 0].map(|n: usize| orders[n].clone()));
}

/// So much of the clock passes at most while what is true meanwhile is waited for.
const LOOKED_FOR_MS: u64 = 60_000;

/// Payments of every kind of lost answer, and then no word of the provider for so long: what must be true meanwhile, and a
/// minute after it is back.
async fn away_for(minutes: u64, (meanwhile, seen): (OrderState, u8)) {
    let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
    let mut orders = Vec::new();
    for (seat, method) in [(1, "pm_sim_timeout_charged"), (3, "pm_sim_500_charged"), (5, "pm_sim_timeout_not_charged")]
    {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        orders.push((buyer, till.bought(buyer, &hold, method).await, seat as usize));
    }
    till.faults(&[("outage", "fail")]).await;
    till.clock.advance_ms(minutes * 60_000);
    let passed_ms = AtomicU64::new(0);
    for (buyer, order, seat) in &orders {
        // The first of the two deadlines is over, or both, and whole looks after it have ended.
        let id: OrderId = order["id"].as_str().expect("an id").parse().expect("an id");
        let state = eventually("looks at an order that waited long enough", || async {
            // However often a slow machine looks, the next deadline stays far away.
            let by_ms = if passed_ms.load(Ordering::Relaxed) < LOOKED_FOR_MS { 500 } else { 0 };
            passed_ms.fetch_add(by_ms, Ordering::Relaxed);
            till.step(by_ms).await;
            let row = order::read(till.app.store.pool(), id).await.expect("reads").expect("the order");
            let is_looked_at = match row.state {
                OrderState::PaymentUnknown => false,
                OrderState::Cancelling => meanwhile == OrderState::Cancelling && row.checks_n >= 2,
                _ => true,
            };
            is_looked_at.then_some(row.state)
        })
        .await;
        assert_eq!(state, meanwhile, "released at the hard deadline and no sooner");
        assert_eq!(till.order(*buyer, &order["id"]).await["state"], "payment_unknown");
        till.until_seat(*seat, seen).await;
    }
    till.faults(&[("outage", "none")]).await;
    till.clock.advance_ms(60_000);
    // From here on the clock goes no faster than one on a wall.
    for ((buyer, order, seat), (state, seen, charges)) in
        orders.iter().zip([("paid", 2, vec![4750]), ("paid", 2, vec![4750]), ("cancelled", 0, vec![])])
    {
        till.soon(&format!("an order to be {state}"), || async {
            let is_over = matches!(till.inner_state(&order["id"]).await, OrderState::Fulfilled | OrderState::Cancelled);
            is_over.then_some(())
        })
        .await;
        assert_eq!(till.order(*buyer, &order["id"]).await["state"], state);
        till.until_seat(*seat, seen).await;
        assert_eq!(till.money(&order["id"]).await, (charges, 0));
    }
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_minutes_without_the_provider_lose_no_charge_and_free_no_seat() {
    away_for(10, (OrderState::Cancelling, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_minutes_without_the_provider_free_the_seats_and_lose_no_charge() {
    away_for(20, (OrderState::ReleasedUnresolved, 0)).await;
}
