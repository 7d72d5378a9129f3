//! What waits to be applied, and what stands in its way: words that fail, that are forgotten, that a dead node had taken, that
//! speak of another amount or another payment. `webhook` brings them.

use super::code;
use super::till::Till;
use super::webhook::{Fate, SECRETS};
use crate::support::eventually;
use seatwire::checkout::{CrashPoint, Received};
use seatwire::store::webhook_inbox::{self, InboxEvent};
use serde_json::{Value, json};

/// An event of the provider as the inbox keeps it.
pub(super) fn kept(event: &Value, received_ms: u64) -> InboxEvent {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    InboxEvent {
        id: text(&event["id"]),
        kind: text(&event["type"]),
        intent: Some(text(&event["data"]["object"]["id"])),
        body: event.to_string(),
        received_ms,
        tries_n: 0,
        is_from_list: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_always_fails_stops_no_other_and_is_listed_until_it_is_applied() {
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000")];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let (broken_buyer, hold) = till.buyer_with(&[1]).await;
    let broken = till.bought(broken_buyer, &hold, "pm_card_visa").await;
    let (buyer, hold) = till.buyer_with(&[2]).await;
    till.app.checkout.crash_at(CrashPoint::Confirmed);
    assert_eq!(code(&till.checkout(buyer, &hold, "pm_card_visa").await), "internal");
    let pool = till.app.store.pool();
    let id: seatwire_proto::id::OrderId = broken["id"].as_str().expect("an id").parse().expect("an id");
    let mend = async |sql: &'static str| sqlx::query(sql).bind(id.uuid()).execute(pool).await.expect(sql);
    mend("update orders set action = lines, lines = '0' where order_id = $1").await;
    let events = till.events().await;
    let succeeded: Vec<_> = events.iter().filter(|event| event["type"] == "payment_intent.succeeded").collect();
    // Both in one batch, the broken one first.
    let mut transaction = seatwire::store::begin(pool).await.expect("begins");
    for (n, event) in succeeded.iter().enumerate() {
        let event = kept(event, till.clock.now_ms() - 10 + n as u64);
        webhook_inbox::insert(&mut *transaction, "paysim", &[event]).await.expect("kept");
    }
    transaction.commit().await.expect("commits");
    till.soon("the other to be applied", || async { (till.applied().await == 1).then_some(()) }).await;
    let concern = async || {
        let sql = "select concern from orders where order_id = $1";
        sqlx::query_scalar::<_, Option<String>>(sql).bind(id.uuid()).fetch_one(pool).await.expect("reads")
    };
    eventually("it to be listed", || async {
        till.clock.advance_ms(60_000);
        concern().await.filter(|concern| concern == "event_not_applied")
    })
    .await;
    let listed = till.app.checkout.open_payments(None, 10).await.expect("reads");
    assert!(listed.iter().any(|open| open.id == id && open.concern.as_deref() == Some("event_not_applied")));
    mend("update orders set lines = action, action = null where order_id = $1").await;
    eventually("it to be applied after all", || async {
        till.clock.advance_ms(600_000);
        (till.applied().await == 2).then_some(())
    })
    .await;
    till.soon("it to be taken off the list", || async { concern().await.is_none().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_events_are_forgotten_once_a_minute_and_not_after_every_round() {
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let pool = till.app.store.pool();
    // The first round of this node forgets at once.
    till.app.checkout.apply_inbox().await.expect("works");
    sqlx::query(
        "insert into webhook_inbox (provider, provider_event_id, kind, body, received_ms, applied_ms)
         values ('paysim', 'evt_old', 'x', '{}', 1, 1)",
    )
    .execute(pool)
    .await
    .expect("writes");
    let is_kept =
        async || sqlx::query("select from webhook_inbox").fetch_optional(pool).await.expect("reads").is_some();
    for _ in 0..3 {
        till.app.checkout.apply_inbox().await.expect("works");
    }
    assert!(is_kept().await);
    till.clock.advance_ms(60_000);
    // This node's own job may be the one that forgets, and still be at it.
    eventually("it to be forgotten", async || {
        till.app.checkout.apply_inbox().await.expect("works");
        (!is_kept().await).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_the_provider_has_forgotten_is_forgotten_here_too() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "50")]).await;
    webhook_inbox::set_cursor(till.app.store.pool(), "paysim", "evt_gone").await.expect("writes");
    let (buyer, hold) = till.buyer_with(&[1]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    till.soon("the events to be read", || async {
        let cursor = webhook_inbox::cursor(till.app.store.pool(), "paysim").await.expect("reads");
        (cursor.is_some_and(|cursor| cursor != "evt_gone") && till.applied().await > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_took_from_the_inbox_and_died_with_is_applied_by_the_next() {
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    till.app.checkout.crash_at(CrashPoint::Confirmed);
    assert_eq!(code(&till.checkout(buyer, &hold, "pm_card_visa").await), "internal");
    let events = till.events().await;
    let succeeded = events.iter().find(|event| event["type"] == "payment_intent.succeeded").expect("charged");
    let pool = till.app.store.pool();
    let now_ms = till.clock.now_ms();
    // Kept and taken in one moment, by somebody who never comes back.
    let mut transaction = seatwire::store::begin(pool).await.expect("begins");
    webhook_inbox::insert(&mut *transaction, "paysim", &[kept(succeeded, now_ms)]).await.expect("kept");
    let taken = webhook_inbox::take(&mut *transaction, "paysim", now_ms, now_ms + 30_000, 10).await.expect("taken");
    assert_eq!(taken.len(), 1);
    transaction.commit().await.expect("commits");
    till.app.checkout.apply_inbox().await.expect("works");
    assert_eq!(till.applied().await, 0, "it is somebody's");
    till.clock.advance_ms(30_000);
    till.soon("it to be applied", || async { (till.applied().await == 1).then_some(()) }).await;
    let orders = till.app.checkout.orders(buyer.0, None, 10).await.expect("reads");
    assert_eq!(json!(orders[0])["state"], "paid");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_of_another_amount_or_currency_sells_nothing_and_stands_in_no_true_words_way() {
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), ("SEATWIRE_RECONCILE_MS", "60000"), SECRETS[0]];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let listed = async || {
        let sql = "select count(*) from orders where concern = 'amount_differs'";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(till.app.store.pool()).await.expect("counts")
    };
    let mut orders = Vec::new();
    for (n, (amount, currency)) in
        [(4750, "usd"), (4749, "eur"), (-4750, "eur"), (i64::MAX, "eur")].into_iter().enumerate()
    {
        let (buyer, hold) = till.buyer_with(&[20 * n as u32]).await;
        let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
        let intents = till.ledger().await["intents"].as_array().expect("a list").clone();
        let object = json!({"object": "payment_intent", "id": intents[n]["id"], "status": "succeeded", "amount": amount,
            "currency": currency, "latest_charge": format!("ch_{n}")});
        let event =
            json!({"id": format!("evt_wrong_{n}"), "type": "payment_intent.succeeded", "data": {"object": object}});
        assert_eq!(till.tell("whsec_new", &event).await, Received::Kept);
        assert_eq!(till.fate(&event).await, Fate::PutOff);
        assert_eq!(till.order(buyer, &order["id"]).await["state"], "action_required", "{amount} {currency}");
        orders.push((buyer, order));
    }
    assert_eq!(listed().await, 0, "what is said of an amount makes nobody look");
    // Where the provider's own object differs, a person is told, and nothing is sold.
    let (other, own) = (&orders[0], &orders[1]);
    sqlx::query("update orders set total_minor = total_minor + 1 where order_id = $1::uuid")
        .bind(other.1["id"].as_str().expect("an id").parse::<seatwire_proto::id::OrderId>().expect("an id").uuid())
        .execute(till.app.store.pool())
        .await
        .expect("changes");
    for (_, order) in [other, own] {
        till.press(order, "approve").await;
    }
    for event in till.events().await {
        till.tell("whsec_new", &event).await;
    }
    let (buyer, order) = own;
    till.soon("the order of the true word to be paid", || async {
        (till.order(*buyer, &order["id"]).await["state"] == "paid").then_some(())
    })
    .await;
    till.soon("the other to be listed", || async { (listed().await == 1).then_some(()) }).await;
    assert_eq!(till.inner_state(&other.1["id"]).await, seatwire::checkout::order::OrderState::ActionRequired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_payment_outside_of_the_shop_that_is_given_back_leaves_the_ticket() {
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let http = reqwest::Client::new();
    let call = async |path: &str, form: &[(&str, &str)]| {
        let call = http.post(format!("{}{path}", till.payment_url)).bearer_auth("sk_test_it").form(form);
        call.send().await.expect("answers").json::<Value>().await.expect("JSON")
    };
    // Somebody at the provider's pages lets the buyer pay once more for the same order, and gives that back.
    let id = order["id"].as_str().expect("an id");
    let second = call("/v1/payment_intents", &[("amount", "4750"), ("currency", "eur"), ("metadata[order]", id)]).await;
    let second = second["id"].as_str().expect("an id");
    call(&format!("/v1/payment_intents/{second}/confirm"), &[("payment_method", "pm_card_visa")]).await;
    call("/v1/refunds", &[("payment_intent", second)]).await;
    let events = till.events().await;
    for event in &events {
        till.tell("whsec_new", event).await;
    }
    let known: i64 = {
        let sql = "select count(*) from webhook_inbox where intent_id <> $1";
        sqlx::query_scalar(sql).bind(second).fetch_one(till.app.store.pool()).await.expect("counts")
    };
    till.soon("ours to be applied", || async { (till.applied().await == known).then_some(()) }).await;
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")));
    assert_eq!(now["refunded_minor"], 0);
}
