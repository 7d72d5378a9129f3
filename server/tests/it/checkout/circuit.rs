//! A provider that fails again and again: nobody begins to pay what cannot be paid, baskets stay as they are, and once it
//! answers everything goes on by itself.

use super::code;
use super::till::{Buyer, GIVES_UP_LATE, Till, checkout_of, key};
use crate::support::eventually;
use seatwire::store::webhook_inbox::{self, InboxEvent};
use serde_json::{Value, json};

/// Fails until the circuit is open: buyers who were told that the provider is away.
async fn open_circuit(till: &Till) {
    till.faults(&[("outage", "fail")]).await;
    for seat in 100..140 {
        if !till.app.checkout.is_provider_open() {
            return;
        }
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        till.checkout(buyer, &hold, "pm_card_visa").await;
    }
    assert!(!till.app.checkout.is_provider_open(), "twenty failures in a row open it");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_circuit_is_open_no_checkout_begins_and_it_closes_by_itself() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let (declined, other_hold) = till.buyer_with(&[3]).await;
    let order = till.bought(declined, &other_hold, "pm_card_chargeDeclined").await;
    open_circuit(&till).await;
    let mut fields = checkout_of(&hold, "pm_card_visa");
    fields["key"] = key().into();
    let refused = till.call(buyer, "checkout", fields.clone()).await;
    assert_eq!((code(&refused), &refused["error"]["retry"]), ("unavailable", &json!("after")));
    assert!(refused["error"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{refused}");
    // No order was made, and the basket is not locked: its owner may go on choosing.
    assert!(till.app.checkout.orders(buyer.0, None, 10).await.expect("reads").is_empty());
    let more = till.call(buyer, "hold", json!({"event": till.event, "seats": [2]})).await;
    assert_eq!(more["ok"], true, "{more}");
    let release = till.call(buyer, "release", json!({"hold": hold["id"], "seats": [2]})).await;
    assert_eq!(release["ok"], true, "{release}");
    // Paying again does not use a try up either.
    let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
    for _ in 0..6 {
        assert_eq!(code(&till.call(declined, "pay", pay.clone()).await), "unavailable");
    }
    let text = till.app.metrics.encode().expect("encodes");
    assert!(text.contains("seatwire_provider_open"), "{text}");

    // Nobody pays meanwhile, so nothing says that charges work again; the next buyer has a turn to find out.
    till.faults(&[("outage", "none")]).await;
    let paid = until_admitted(&till, buyer, &fields).await;
    assert_eq!(paid["order"]["state"], "paid", "the same key goes on: {paid}");
    assert!(till.app.checkout.is_provider_open(), "and the circuit is closed");
    let paid = till.call(declined, "pay", pay).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    till.check_books().await;
}

/// The checkout by its key until the provider is asked.
async fn until_admitted(till: &Till, buyer: Buyer, fields: &Value) -> Value {
    till.until_admitted(buyer, "checkout", fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_charges_have_opened_answered_reads_do_not_close_and_one_buyer_each_time_tries() {
    let till = Till::open_with(&Default::default(), &[GIVES_UP_LATE]).await;
    // Reads and new intents are answered; confirmations are not, and those who wait are looked after meanwhile.
    let waiting = futures_util::future::join_all((100..120).map(|seat| {
        let till = &till;
        async move {
            let (buyer, hold) = till.buyer_with(&[seat]).await;
            (buyer, till.bought(buyer, &hold, "pm_sim_timeout_not_charged").await)
        }
    }))
    .await;
    assert!(waiting.iter().all(|(_, order)| order["state"] == "payment_unknown"), "{waiting:?}");
    assert!(!till.app.checkout.is_provider_open(), "twenty charges in a row have failed");
    for _ in 0..3 {
        assert!(!till.app.checkout.probe_provider().await, "a read was answered, a charge was not");
    }
    let fields = async |seat, method: &str| {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        let mut fields = checkout_of(&hold, method);
        fields["key"] = key().into();
        (buyer, fields)
    };
    let (first, hanging) = fields(1, "pm_sim_timeout_not_charged").await;
    let (second, good) = fields(3, "pm_card_visa").await;
    let tried = until_admitted(&till, first, &hanging).await;
    assert_eq!(tried["order"]["state"], "payment_unknown", "{tried}");
    assert!(!till.app.checkout.is_provider_open());
    let refused = till.call(second, "checkout", good.clone()).await;
    assert_eq!(code(&refused), "unavailable", "the turn was another's: {refused}");
    let paid = until_admitted(&till, second, &good).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    assert!(till.app.checkout.is_provider_open(), "a charge was answered");
    let (third, hold) = till.buyer_with(&[5]).await;
    assert_eq!(till.bought(third, &hold, "pm_card_visa").await["state"], "paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_provider_says_that_it_is_busy_nobody_joins_those_who_wait_for_it() {
    // Who waits for it goes on waiting as long as the test needs.
    let patient = [("SEATWIRE_PAYMENT_TIMEOUT_MS", "120000"), ("SEATWIRE_ANSWER_WITHIN_MS", "1500")];
    let till = Till::open_with(&Default::default(), &patient).await;
    let (declined, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(declined, &hold, "pm_card_chargeDeclined").await["id"].clone();
    till.until(declined, &order, "payment_declined").await;
    let (first, first_hold) = till.buyer_with(&[3]).await;
    let (buyer, other_hold) = till.buyer_with(&[5]).await;
    till.faults(&[("busy_percent", "100")]).await;
    let waiting = till.bought(first, &first_hold, "pm_card_visa").await;
    assert_eq!(waiting["state"], "payment_pending", "{waiting}");
    till.soon("the tills to close", || async { till.app.checkout.is_provider_jammed().then_some(()) }).await;
    assert!(till.app.checkout.is_provider_open(), "it is there");
    assert!(till.app.checkout.take_looks(100) < 80, "and it is asked less");
    let mut fields = checkout_of(&other_hold, "pm_card_visa");
    fields["key"] = key().into();
    let refused = till.call(buyer, "checkout", fields.clone()).await;
    assert_eq!((code(&refused), &refused["error"]["retry"]), ("overloaded", &json!("after")));
    assert!(refused["error"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{refused}");
    // Nothing was made or locked, and no try is used up.
    assert!(till.app.checkout.orders(buyer.0, None, 10).await.expect("reads").is_empty());
    let more = till.call(buyer, "hold", json!({"event": till.event, "seats": [6]})).await;
    assert_eq!(more["ok"], true, "{more}");
    let release = till.call(buyer, "release", json!({"hold": other_hold["id"], "seats": [6]})).await;
    assert_eq!(release["ok"], true, "{release}");
    let pay = json!({"order": order, "payment": {"method": "pm_card_visa"}});
    for _ in 0..6 {
        assert_eq!(code(&till.call(declined, "pay", pay.clone()).await), "overloaded");
    }
    till.faults(&[("busy_percent", "0")]).await;
    // Who waited is let through, then everybody.
    let sold = async |id: &Value| {
        eventually("the order to be paid", || async {
            (till.inner_state(id).await == seatwire::checkout::order::OrderState::Fulfilled).then_some(())
        })
        .await;
    };
    sold(&waiting["id"]).await;
    let paid = until_admitted(&till, buyer, &fields).await;
    sold(&paid["order"]["id"]).await;
    let pays = till.until_admitted(declined, "pay", &pay).await;
    sold(&pays["order"]["id"]).await;
    assert!(!till.app.checkout.is_provider_jammed());
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_costs_nothing_is_had_while_the_provider_is_away() {
    let draft = crate::support::stage::Draft { tier_a_minor: (0, 0), ..Default::default() };
    let till = Till::open_with(&draft, &[]).await;
    till.faults(&[("outage", "fail")]).await;
    // The last row costs something: its buyers find out that the provider is away.
    for seat in 140..160 {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        till.checkout(buyer, &hold, "pm_card_visa").await;
    }
    assert!(!till.app.checkout.is_provider_open());
    let (buyer, hold) = till.buyer_with(&[1]).await;
    assert_eq!(till.bought(buyer, &hold, "pm_none").await["state"], "paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_the_list_of_events_is_read_first() {
    // Neither webhooks nor the usual times of polling and asking would tell: only the return of the provider does.
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), ("SEATWIRE_RECONCILE_MS", "60000")];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let mut waiting = Vec::new();
    for seat in 1..6 {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        waiting.push((buyer, till.bought(buyer, &hold, "pm_card_authenticationRequired").await));
    }
    open_circuit(&till).await;
    for (_, order) in &waiting {
        till.press(order, "approve").await;
    }
    till.faults(&[("outage", "none")]).await;
    for (_, order) in &waiting {
        let id = order["id"].as_str().expect("an id").parse().expect("an id");
        till.soon("the order to be paid", || async {
            let row = seatwire::store::order::read(till.app.store.pool(), id).await.expect("reads").expect("the order");
            (row.state == seatwire::checkout::order::OrderState::Fulfilled).then_some(())
        })
        .await;
    }
    till.check_books().await;
}

/// Orders whose buyers have paid at the bank, of which the till was told nothing.
async fn approved(till: &Till, n: u32) -> Vec<(Buyer, Value)> {
    let mut orders = Vec::new();
    for seat in 0..n {
        let (buyer, hold) = till.buyer_with(&[2 * seat]).await;
        let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
        till.press(&order, "approve").await;
        orders.push((buyer, order));
    }
    orders
}

async fn until_all_are_sold(till: &Till, orders: &[(Buyer, Value)]) {
    till.soon("all to be paid", || async {
        let sql = "select count(*) from orders where state = 'fulfilled'";
        let sold: i64 = sqlx::query_scalar(sql).fetch_one(till.app.store.pool()).await.expect("counts");
        (sold == orders.len() as i64).then_some(())
    })
    .await;
}

const QUIET: [(&str, &str); 3] = [
    ("SEATWIRE_POLL_PROVIDER_MS", "3600000"),
    ("SEATWIRE_RECONCILE_MS", "60000"),
    ("SEATWIRE_WEBHOOK_SECRETS", "whsec_new"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_the_providers_list_says_for_good_is_asked_about_no_more() {
    let till = Till::open_with(&Default::default(), &QUIET).await;
    let orders = approved(&till, 5).await;
    let events = till.events().await;
    // Nothing can be asked; the same words brought to the door have to wait, those of the list need not.
    till.faults(&[("outage", "fail")]).await;
    let succeeded: Vec<_> = events.iter().filter(|event| event["type"] == "payment_intent.succeeded").collect();
    for event in &succeeded {
        till.tell("whsec_new", event).await;
    }
    // All of them were looked at, and wait: a round that is under way would put off what comes meanwhile.
    let (now_ms, taken_until_ms) = (till.clock.now_ms().cast_signed(), (till.clock.now_ms() + 30_000).cast_signed());
    eventually("the words to be put off", || async {
        let sql = "select count(*) from webhook_inbox where due_ms > $1 and due_ms < $2";
        let waiting = sqlx::query_scalar::<_, i64>(sql).bind(now_ms).bind(taken_until_ms);
        (waiting.fetch_one(till.app.store.pool()).await.expect("counts") == 5).then_some(())
    })
    .await;
    assert_eq!(till.applied().await, 0);
    let listed: Vec<_> = succeeded
        .iter()
        .map(|event| InboxEvent { is_from_list: true, ..super::inbox::kept(event, till.clock.now_ms()) })
        .collect();
    webhook_inbox::insert(till.app.store.pool(), "paysim", &listed).await.expect("kept");
    until_all_are_sold(&till, &orders).await;
    till.faults(&[("outage", "none")]).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_many_orders_are_asked_about_side_by_side() {
    let settings = [QUIET[0], QUIET[1], QUIET[2], ("SEATWIRE_PAYMENT_TIMEOUT_MS", "5000")];
    let till = Till::open_with(&Default::default(), &settings).await;
    let orders = approved(&till, 16).await;
    let events = till.events().await;
    till.faults(&[("delay_ms", "1000")]).await;
    let began = std::time::Instant::now();
    for event in events.iter().filter(|event| event["type"] == "payment_intent.succeeded") {
        till.tell("whsec_new", event).await;
    }
    until_all_are_sold(&till, &orders).await;
    assert!(began.elapsed().as_secs() < 16, "one after the other they take sixteen seconds: {:?}", began.elapsed());
    till.faults(&[("delay_ms", "0")]).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_ever_longer_is_due_when_the_provider_is_back() {
    let till = Till::open_with(&Default::default(), &QUIET).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let charge = till.ledger().await["intents"][0]["charges"][0].clone();
    // A word that only a question can settle, put off for an hour.
    let intent = till.ledger().await["intents"][0]["id"].clone();
    let object = json!({"object": "charge", "id": charge["id"], "payment_intent": intent, "amount_refunded": 1});
    let event = json!({"id": "evt_late", "type": "charge.refunded", "created": 1, "data": {"object": object}});
    open_circuit(&till).await;
    till.tell("whsec_new", &event).await;
    assert_eq!(till.fate(&event).await, super::webhook::Fate::PutOff);
    let sql = "update webhook_inbox set due_ms = due_ms + 3600000 where provider_event_id = 'evt_late'";
    sqlx::query(sql).execute(till.app.store.pool()).await.expect("waits");
    till.faults(&[("outage", "none")]).await;
    till.soon("the word to be looked at", || async {
        let sql = "select applied_ms is not null from webhook_inbox where provider_event_id = 'evt_late'";
        let is_applied = sqlx::query_scalar::<_, bool>(sql).fetch_one(till.app.store.pool()).await;
        is_applied.expect("reads").then_some(())
    })
    .await;
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "paid");
    till.check_books().await;
}
