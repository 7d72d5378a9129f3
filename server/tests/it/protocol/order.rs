//! Buying: from a hold to tickets, declines, unknown outcomes, and nobody else's business.

use crate::support::client::{Client, Guest};
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

fn checkout(key: &str, hold: &Value, method: &str) -> Value {
    json!({
        "key": key,
        "hold": hold["id"],
        "buyer": {"name": "Ada Example", "email": "ada@example.org"},
        "payment": {"method": method},
        "expect_total_minor": hold["total_minor"],
    })
}

async fn held(buyer: &mut Client, event: &str, key: &str, seats: &[u32]) -> Value {
    let reply = buyer.call("hold", json!({"key": key, "event": event, "seats": seats})).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    reply["hold"].clone()
}

#[tokio::test]
async fn a_purchase_ends_with_tickets_and_a_sold_map() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let hold = held(&mut buyer, &event, "1", &[5, 6]).await;
    buyer.call("hold_area", json!({"key": "1a", "event": event, "area": 0, "quantity": 2})).await;
    let hold = {
        let (_, body) = guest.get(&format!("/v1/holds/{}", hold["id"].as_str().expect("id"))).await;
        body["hold"].clone()
    };
    let reply = buyer.call("checkout", checkout("2", &hold, "pm_card_visa")).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    let order = &reply["order"];
    assert_eq!(
        (&order["state"], &order["event"], &order["total_minor"]),
        (&json!("paid"), &json!(event), &hold["total_minor"]),
        "{order}"
    );
    assert_eq!(order["reference"].as_str().map(str::len), Some(8));
    let tickets = order["tickets"].as_array().expect("tickets");
    assert_eq!(tickets.len(), 4, "one a seat and one a place");
    let codes: std::collections::HashSet<&str> = tickets.iter().filter_map(|ticket| ticket["code"].as_str()).collect();
    assert_eq!(codes.len(), 4);
    assert!(codes.iter().all(|code| code.len() >= 20), "unguessable: {codes:?}");

    let path = format!("{}/v1/events/{event}/snapshot?format=json", node.url);
    crate::support::eventually("the map to show it sold", || async {
        let body: Value = reqwest::get(&path).await.ok()?.json().await.ok()?;
        let states = body["states"].as_str()?;
        (&states[5..7] == "22" && body["areas"][0] == 48).then_some(())
    })
    .await;
    let again = buyer.call("checkout", checkout("2", &hold, "pm_card_visa")).await;
    assert_eq!((&again["replayed"], &again["order"]["id"]), (&json!(true), &order["id"]), "{again}");
    let reused = buyer.call("checkout", checkout("2", &hold, "pm_card_mastercard")).await;
    assert_eq!(code(&reused), "key_reused", "{reused}");
    let (status, body) = guest.get(&format!("/v1/orders/{}", order["id"].as_str().expect("id"))).await;
    assert_eq!((status, &body["order"]["tickets"]), (200, &order["tickets"]), "{body}");
    let (_, list) = guest.get("/v1/orders").await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");

    let stranger = Guest::new(&node.url).await;
    let (status, body) = stranger.get(&format!("/v1/orders/{}", order["id"].as_str().expect("id"))).await;
    assert_eq!((status, code(&body)), (404, "order_not_found"), "{body}");
    let limit = buyer.call("hold", json!({"key": "9", "event": event, "seats": [20, 21, 22, 23, 24, 25, 26]})).await;
    assert_eq!(
        (code(&limit), &limit["error"]["data"]["used"]),
        ("limit_exceeded", &json!(4)),
        "bought counts: {limit}"
    );
}

#[tokio::test]
async fn a_decline_is_said_and_another_card_pays() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let hold = held(&mut buyer, &event, "1", &[8]).await;
    let reply = buyer.call("checkout", checkout("2", &hold, "pm_card_visa_chargeDeclined")).await;
    let order = reply["order"].clone();
    assert_eq!(
        (&order["state"], order["decline"]["reason"].is_string()),
        (&json!("payment_declined"), true),
        "{reply}"
    );
    for (op, fields) in [
        ("hold", json!({"event": event, "seats": [9]})),
        ("extend", json!({"hold": hold["id"]})),
        ("release", json!({"hold": hold["id"]})),
    ] {
        let mut body = fields;
        body["key"] = format!("locked-{op}").into();
        let locked = buyer.call(op, body).await;
        assert_eq!((code(&locked), &locked["error"]["data"]["order"]), ("hold_locked", &order["id"]), "{op}: {locked}");
    }
    let paid =
        buyer.call("pay", json!({"key": "3", "order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    let twice =
        buyer.call("pay", json!({"key": "4", "order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(code(&twice), "already_paid", "{twice}");
    let late = buyer.call("cancel", json!({"key": "5", "order": order["id"]})).await;
    assert_eq!(code(&late), "cancel_refused", "{late}");
    // The basket is free for the next order.
    let next = held(&mut buyer, &event, "6", &[9]).await;
    assert_ne!(next["id"], hold["id"]);
}

#[tokio::test]
async fn the_buyers_other_page_is_told_that_the_basket_is_locked_and_then_that_it_is_over() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let hold = held(&mut buyer, &event, "1", &[12]).await;
    let mut other = Client::hello(&node.url, Some(&guest.token)).await;
    let reply = buyer.call("checkout", checkout("2", &hold, "pm_card_visa")).await;
    assert_eq!(reply["order"]["state"], "paid", "{reply}");
    // What was told when it was held may still be on its way.
    let told = other.push_where("hold.update", |push| push["hold"]["locked"] != false).await;
    assert_eq!((&told["id"], &told["hold"]["id"], &told["hold"]["locked"]), (&hold["id"], &hold["id"], &json!(true)));
    let told = other.push("hold.update").await;
    assert_eq!((&told["id"], &told["hold"]), (&hold["id"], &Value::Null), "{told}");
}

#[tokio::test]
async fn a_cancelled_order_gives_its_seats_back() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let (mut rival, _) = Client::guest(&node.url).await;
    let hold = held(&mut buyer, &event, "1", &[12]).await;
    let reply = buyer.call("checkout", checkout("2", &hold, "pm_card_visa_chargeDeclined")).await;
    let order = reply["order"]["id"].clone();
    let cancelled = buyer.call("cancel", json!({"key": "3", "order": order})).await;
    assert_eq!(cancelled["order"]["state"], "cancelled", "{cancelled}");
    let (mut attempt, began) = (0, std::time::Instant::now());
    loop {
        attempt += 1;
        let reply = rival.call("hold", json!({"key": format!("{attempt}"), "event": event, "seats": [12]})).await;
        if code(&reply) == "ok" {
            break;
        }
        let is_early = matches!(code(&reply), "seat_taken" | "rate_limited");
        assert!(is_early && began.elapsed() < crate::support::PATIENCE, "{reply}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_charge_whose_answer_is_lost_is_never_called_failed_and_ends_as_paid() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node_with(&[("SEATWIRE_PAYMENT_TIMEOUT_MS", "3000"), ("SEATWIRE_RECONCILE_MS", "100")]).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let hold = held(&mut buyer, &event, "1", &[14]).await;
    let reply = buyer.call("checkout", checkout("2", &hold, "pm_sim_timeout_charged")).await;
    let order = reply["order"].clone();
    // The provider's webhook may bring the truth before the answer is given up.
    assert!(matches!(order["state"].as_str(), Some("payment_unknown" | "paid")), "{reply}");
    let again =
        buyer.call("pay", json!({"key": "3", "order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert!(matches!(code(&again), "payment_open" | "already_paid"), "{again}");
    let paid = match order["state"].as_str() {
        Some("paid") => order.clone(),
        _ => buyer.push_where("order.update", |push| push["order"]["state"] == "paid").await["order"].clone(),
    };
    assert_eq!(paid["id"], order["id"]);
    assert_eq!(paid["tickets"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_wrong_at_checkout_changes_nothing() {
    let (stage, event) = Stage::with_event(&Draft { tier_a_minor: (0, 0), ..Draft::default() }).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let (mut stranger, _) = Client::guest(&node.url).await;
    let hold = held(&mut buyer, &event, "1", &[150]).await;
    let mut wrong = checkout("2", &hold, "pm_card_visa");
    wrong["expect_total_minor"] = 1.into();
    let reply = buyer.call("checkout", wrong).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["total_minor"]), ("price_changed", &json!(2000)), "{reply}");
    let foreign = stranger.call("checkout", checkout("1", &hold, "pm_card_visa")).await;
    assert_eq!(code(&foreign), "hold_not_found", "{foreign}");
    let released = buyer.call("release", json!({"key": "3", "hold": hold["id"]})).await;
    assert_eq!(code(&released), "ok", "not locked: {released}");
    // A total of nothing needs no provider.
    let free = held(&mut buyer, &event, "4", &[1]).await;
    assert_eq!(free["total_minor"], 0);
    let paid = buyer.call("checkout", checkout("5", &free, "pm_card_visa_chargeDeclined")).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
}

#[tokio::test]
async fn over_http_the_status_tells_the_state() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    for (method, status, state) in [
        ("pm_card_visa", 201, "paid"),
        ("pm_card_visa_chargeDeclined", 402, "payment_declined"),
        ("pm_card_authenticationRequired", 202, "action_required"),
    ] {
        let guest = Guest::new(&node.url).await;
        let seats = json!({"best": null, "seats": [match state { "paid" => 60, "payment_declined" => 61, _ => 62 }]});
        let (_, hold) = guest.post(&format!("/v1/events/{event}/holds"), "1", json!({"seats": seats["seats"]})).await;
        let hold = &hold["hold"];
        let mut body = checkout("", hold, method);
        body.as_object_mut().expect("an object").retain(|name, _| name != "key" && name != "hold");
        let (got, order) =
            guest.post(&format!("/v1/holds/{}/checkout", hold["id"].as_str().expect("id")), "2", body).await;
        assert_eq!((got, &order["order"]["state"]), (status, &json!(state)), "{order}");
        if state == "action_required" {
            assert!(order["order"]["action"]["type"].is_string(), "{order}");
        }
    }
}
