//! Words that carry the provider's signature and are not true, not yet true, or cannot be checked now: the provider's own
//! object decides, and what contradicts it moves nothing.

use super::till::{GIVES_UP, Till};
use super::webhook::{Fate, SECRETS};
use crate::support::eventually;
use seatwire::checkout::Received;
use serde_json::{Value, json};

/// A word about the `n`th intent that says it stands so, whatever is true.
async fn claim(till: &Till, n: usize, status: &str) -> Value {
    let intents = till.ledger().await["intents"].clone();
    let object = json!({"object": "payment_intent", "id": intents[n]["id"], "status": status, "amount": 4750,
        "currency": "eur", "latest_charge": format!("ch_claimed_{n}")});
    let kind = format!("payment_intent.{status}");
    json!({"id": format!("evt_claimed_{n}_{status}"), "type": kind, "created": 1, "data": {"object": object}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_word_that_the_providers_own_object_contradicts_moves_no_order() {
    // The reconciler is far away: nothing but the word makes anybody look.
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), SECRETS[0], GIVES_UP];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let mut orders = Vec::new();
    for (n, method) in ["pm_card_chargeDeclined", "pm_card_authenticationRequired", "pm_sim_timeout_not_charged"]
        .into_iter()
        .enumerate()
    {
        let (buyer, hold) = till.buyer_with(&[20 * n as u32]).await;
        orders.push((buyer, till.bought(buyer, &hold, method).await));
    }
    // And one that is cancelled: a false word must not begin a refund.
    let (buyer, hold) = till.buyer_with(&[60]).await;
    let declined = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    till.call(buyer, "cancel", json!({"order": declined["id"]})).await;
    orders.push((buyer, till.until(buyer, &declined["id"], "cancelled").await));
    let pool = till.app.store.pool();
    for (n, (buyer, order)) in orders.iter().enumerate() {
        for status in ["succeeded", "canceled"] {
            let event = claim(&till, n, status).await;
            let is_repetition = order["state"] == "cancelled" && status == "canceled";
            assert_eq!(till.tell("whsec_new", &event).await, Received::Kept);
            let fate = till.fate(&event).await;
            assert_eq!(fate, if is_repetition { Fate::Applied } else { Fate::PutOff }, "{status} of {order}");
            let now = till.order(*buyer, &order["id"]).await;
            assert_eq!(now["state"], order["state"], "{status} of {order}");
            assert!(now["tickets"].as_array().is_none_or(Vec::is_empty), "{now}");
        }
    }
    let tickets: i64 = sqlx::query_scalar("select count(*) from tickets").fetch_one(pool).await.expect("counts");
    assert_eq!(tickets, 0);
    // What becomes true meanwhile is no contradiction any more.
    till.press(&orders[1].1, "approve").await;
    let sql = "update webhook_inbox set due_ms = 0 where applied_ms is null";
    sqlx::query(sql).execute(pool).await.expect("due");
    let (buyer, order) = &orders[1];
    till.soon("the order to be paid", || async {
        (till.order(*buyer, &order["id"]).await["state"] == "paid").then_some(())
    })
    .await;
    // The others are on the list of a person, and are dropped after a day.
    let sql = "update webhook_inbox set received_ms = received_ms - 25 * 3600000, due_ms = 0 where applied_ms is null";
    sqlx::query(sql).execute(pool).await.expect("ages");
    till.soon("the false ones to be dropped", || async {
        let sql = "select count(*) from webhook_inbox where applied_ms is null";
        (sqlx::query_scalar::<_, i64>(sql).fetch_one(pool).await.expect("counts") == 0).then_some(())
    })
    .await;
    assert_eq!(till.order(orders[0].0, &orders[0].1["id"]).await["state"], "payment_declined");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_word_of_a_refund_nobody_made_voids_no_ticket() {
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), SECRETS[0]];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.ledger().await["intents"][0].clone();
    for (n, charge) in [intent["charges"][0]["id"].clone(), json!("ch_of_nobody")].into_iter().enumerate() {
        let object = json!({"object": "charge", "id": charge, "payment_intent": intent["id"], "amount_refunded": 4750});
        let event =
            json!({"id": format!("evt_back_{n}"), "type": "charge.refunded", "created": 1, "data": {"object": object}});
        till.tell("whsec_new", &event).await;
        assert_eq!(till.fate(&event).await, if n == 0 { Fate::Applied } else { Fate::PutOff });
        let now = till.order(buyer, &order["id"]).await;
        assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")), "{now}");
    }
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_word_that_names_a_charge_of_somebody_else_voids_no_ticket() {
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), SECRETS[0]];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let mut orders = Vec::new();
    for seat in [1, 20] {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        orders.push((buyer, till.bought(buyer, &hold, "pm_card_visa").await));
    }
    let intents = till.ledger().await["intents"].clone();
    // The other buyer's money is back, whole and truly.
    let http = reqwest::Client::new();
    let ask = http.post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
    let form = [("payment_intent", intents[1]["id"].as_str().expect("an id"))];
    assert_eq!(ask.form(&form).send().await.expect("answers").status(), 200);
    let back = intents[1]["charges"][0]["id"].as_str().expect("an id");
    for (n, id) in [back.to_owned(), format!("ch_x/../{back}"), format!("{back}?expand=x")].into_iter().enumerate() {
        let object = json!({"object": "charge", "id": id, "payment_intent": intents[0]["id"], "amount_refunded": 4750});
        let event =
            json!({"id": format!("evt_back_{n}"), "type": "charge.refunded", "created": 1, "data": {"object": object}});
        till.tell("whsec_new", &event).await;
        assert_eq!(till.fate(&event).await, Fate::PutOff);
    }
    // Nor may a name of a refund lead anywhere else than to a refund.
    let object = json!({"object": "refund", "id": format!("../charges/{back}"), "payment_intent": intents[0]["id"],
        "status": "failed"});
    let event = json!({"id": "evt_failed", "type": "refund.failed", "created": 1, "data": {"object": object}});
    till.tell("whsec_new", &event).await;
    assert_eq!(till.fate(&event).await, Fate::PutOff);
    let (buyer, order) = &orders[0];
    let now = till.order(*buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_word_of_a_dispute_that_is_not_lost_voids_no_ticket() {
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), SECRETS[0]];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.last_intent().await;
    let http = reqwest::Client::new();
    let form = [("payment_intent", intent.as_str())];
    let open = http.post(format!("{}/_sim/disputes", till.payment_url)).form(&form).send().await.expect("answers");
    let open: Value = open.json().await.expect("JSON");
    let lost = |id: &Value| {
        json!({"object": "dispute", "id": id, "payment_intent": intent, "charge": "ch_nobody", "amount": 4750,
            "currency": "eur", "reason": "fraudulent", "status": "lost"})
    };
    let event = |n: u32, id: &Value| json!({"id": format!("evt_{n}"), "type": "charge.dispute.closed", "created": 1, "data": {"object": lost(id)}});
    // One nobody has, and one that is open still.
    let invented = event(1, &json!("du_invented"));
    till.tell("whsec_new", &invented).await;
    assert_eq!(till.fate(&invented).await, Fate::PutOff);
    let early = event(2, &open["id"]);
    till.tell("whsec_new", &early).await;
    assert_eq!(till.fate(&early).await, Fate::Applied);
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_cannot_be_checked_waits_until_the_provider_answers() {
    let quiet = [("SEATWIRE_POLL_PROVIDER_MS", "3600000"), ("SEATWIRE_RECONCILE_MS", "60000"), SECRETS[0]];
    let till = Till::open_with(&Default::default(), &quiet).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
    till.press(&order, "approve").await;
    let events = till.events().await;
    let succeeded = events.iter().find(|event| event["type"] == "payment_intent.succeeded").expect("charged");
    till.faults(&[("outage", "fail")]).await;
    assert_eq!(till.tell("whsec_new", succeeded).await, Received::Kept);
    assert_eq!(till.fate(succeeded).await, Fate::PutOff);
    assert_eq!(till.applied().await, 0);
    till.faults(&[("outage", "none")]).await;
    eventually("it to be applied", || async {
        till.clock.advance_ms(1_000);
        (till.applied().await == 1).then_some(())
    })
    .await;
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "paid");
    till.check_books().await;
}
