//! Orders and their money by the admin listener: refunds under a key, the list of what is open, a cancelled event.

use super::books::violations;
use super::checkout_of;
use super::dead_node::Scene;
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::node::Node;
use crate::support::stage::Draft;
use seatwire::organiser::Scope;
use serde_json::{Value, json};

pub(super) async fn bought(node: &Node, event: &str, seats: &[u32], method: &str) -> (Guest, Value) {
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": seats})).await;
    let mut fields = checkout_of(&reply["hold"], method);
    fields["key"] = "c".into();
    let reply = buyer.call("checkout", fields).await;
    assert_eq!(reply["ok"], true, "{reply}");
    (guest, reply["order"].clone())
}

pub(super) async fn refund(admin: &Admin, order: &Value, key: &str, body: Value) -> (u16, Value) {
    let url = format!("{}/v1/admin/orders/{}/refunds", admin.url, order["id"].as_str().expect("an id"));
    let call = reqwest::Client::new().post(url).bearer_auth(&admin.key).header("Idempotency-Key", key).json(&body);
    let answer = call.send().await.expect("answers");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_refunds_once_for_a_key_and_never_too_much() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders, Scope::Read]).await;
    let (guest, order) = bought(&node, &scene.event, &[1, 2], "pm_card_visa").await;
    let part = json!({"amount_minor": 500, "reason": "a bad view"});
    let (status, body) = refund(&admin, &order, "r1", part.clone()).await;
    assert_eq!((status, &body["order"]["state"]), (200, &json!("refund_due")), "{body}");
    let (status, again) = refund(&admin, &order, "r1", part).await;
    assert_eq!((status, &again["replayed"], &again["order"]), (200, &json!(true), &body["order"]));
    let (status, body) = refund(&admin, &order, "r1", json!({"amount_minor": 501, "reason": "x"})).await;
    assert_eq!((status, &body["error"]["code"]), (422, &json!("key_reused")), "{body}");
    for (key, wrong, status, code) in [
        ("w1", json!({"amount_minor": 9001, "reason": "x"}), 409, "refund_refused"),
        ("w2", json!({"amount_minor": -1, "reason": "x"}), 400, "bad_field"),
        ("w8", json!({"amount_minor": 0, "reason": "x"}), 400, "bad_field"),
        ("w9", json!({"lines": [], "reason": "x"}), 400, "bad_field"),
        ("w10", json!({"amount_minor": 1, "reason": "a\u{0}b"}), 400, "bad_field"),
        ("w3", json!({"amount_minor": 9_223_372_036_854_775_807_i64, "reason": "x"}), 409, "refund_refused"),
        ("w4", json!({"all": true, "amount_minor": 1, "reason": "x"}), 400, "bad_field"),
        ("w5", json!({"all": true}), 400, "bad_field"),
        ("w6", json!({"all": true, "reason": " "}), 400, "bad_field"),
        ("w7", json!({"lines": [{"line": 7, "quantity": 1}], "reason": "x"}), 409, "refund_refused"),
    ] {
        let (found, body) = refund(&admin, &order, key, wrong.clone()).await;
        assert_eq!((found, &body["error"]["code"]), (status, &json!(code)), "{wrong}: {body}");
    }
    let unknown = json!({"id": "ord_01h455vb4pex5vsknk084sn02q"});
    let (status, body) = refund(&admin, &unknown, "u", json!({"all": true, "reason": "x"})).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("order_not_found")));
    let reader = Admin::new(&scene.stage, &node, &[Scope::Read]).await;
    assert_eq!(refund(&reader, &order, "s", json!({"all": true, "reason": "x"})).await.0, 403);

    let path = format!("/v1/orders/{}", order["id"].as_str().expect("an id"));
    eventually("the part to be back", || async {
        (guest.get(&path).await.1["order"]["refunded_minor"] == 500).then_some(())
    })
    .await;
    let (status, body) =
        refund(&admin, &order, "r2", json!({"lines": [{"line": 0, "quantity": 1}], "reason": "ill"})).await;
    assert_eq!((status, &body["order"]["tickets"][0]["state"]), (200, &json!("void")), "{body}");
    eventually("the rest to be back", || async {
        (guest.get(&path).await.1["order"]["refunded_minor"] == 5250).then_some(())
    })
    .await;
    let file = admin.done("GET", &path.replace("/v1", "/v1/admin"), Value::Null).await;
    assert_eq!(file["refunds"].as_array().map(Vec::len), Some(2), "{file}");
    assert_eq!(
        (&file["inner_state"], &file["refunds"][0]["reason"]),
        (&json!("partially_refunded"), &json!("a bad view"))
    );
    let log = admin.done("GET", &format!("/v1/admin/events/{}/log", scene.event), Value::Null).await;
    assert!(log.to_string().contains("order.refund"), "{log}");
    assert_eq!(violations(scene.stage.store.pool(), &scene.ledger().await, true).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_event_gives_all_its_money_back_and_failures_are_listed() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let mut guests = Vec::new();
    for seat in 0..20 {
        guests.push(bought(&node, &scene.event, &[seat], "pm_card_visa").await);
    }
    let (_, unlucky) = bought(&node, &scene.event, &[30], "pm_sim_refund_fails").await;
    let state = json!({"state": "cancelled", "reason": "the singer is ill"});
    admin.done("PUT", &format!("/v1/admin/events/{}/state", scene.event), state).await;
    for (guest, order) in &guests {
        let path = format!("/v1/orders/{}", order["id"].as_str().expect("an id"));
        eventually("the money to be back", || async {
            (guest.get(&path).await.1["order"]["state"] == "refunded").then_some(())
        })
        .await;
    }
    let open = eventually("the failure to be listed", || async {
        let open = admin.done("GET", "/v1/admin/payments/open", Value::Null).await;
        (open["items"][0]["concern"] == "refund_failed").then_some(open)
    })
    .await;
    assert_eq!(open["items"].as_array().map(Vec::len), Some(1), "{open}");
    assert_eq!((&open["items"][0]["order"], &open["is_provider_open"]), (&unlucky["id"], &json!(true)));
    assert_eq!(violations(scene.stage.store.pool(), &scene.ledger().await, true).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_again_and_again_is_not_asked_for_money_until_it_answers() {
    let scene = Scene::new(&Draft { seats_per_identity: 100, ..Draft::default() }).await;
    let node = scene
        .node(&[
            ("SEATWIRE_RECONCILE_MS", "60000"),
            ("SEATWIRE_COMMANDS_PER_S", "1000"),
            ("SEATWIRE_COMMAND_BURST", "1000"),
        ])
        .await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Read]).await;
    scene.sim("faults", &[("outage", "fail")]).await;
    for seat in 0..20 {
        // Its list of events is read as well, and counts: the circuit may open a checkout earlier.
        let open = admin.done("GET", "/v1/admin/payments/open", Value::Null).await;
        if open["is_provider_open"] == false {
            break;
        }
        let (_, order) = bought(&node, &scene.event, &[seat], "pm_card_visa").await;
        assert_eq!(order["decline"]["reason"], "provider_unavailable", "{order}");
    }
    let open = admin.done("GET", "/v1/admin/payments/open", Value::Null).await;
    assert_eq!(open["is_provider_open"], false, "{open}");
    // On a slow machine one of them may come when five seconds are over, and has a turn to find out.
    let mut seat = 40;
    let (buyer, guest, hold, fields) = loop {
        let (mut buyer, guest) = Client::guest(&node.url).await;
        let reply = buyer.call("hold", json!({"key": "h", "event": scene.event, "seats": [seat]})).await;
        let mut fields = checkout_of(&reply["hold"], "pm_card_visa");
        fields["key"] = "c".into();
        let refused = buyer.call("checkout", fields.clone()).await;
        if refused["ok"] == true && seat < 60 {
            assert_eq!(refused["order"]["decline"]["reason"], "provider_unavailable", "{refused}");
            seat += 1;
            continue;
        }
        assert_eq!(refused["error"]["code"], "unavailable", "nobody is sent to it: {refused}");
        break (buyer, guest, reply["hold"].clone(), fields);
    };
    assert_eq!(guest.get("/v1/orders").await.1["items"], json!([]), "no order was made");
    let (status, body) = guest.get(&format!("/v1/holds/{}", hold["id"].as_str().expect("an id"))).await;
    assert_eq!((status, &body["hold"]["locked"]), (200, &json!(false)), "{body}");
    scene.sim("faults", &[("outage", "none")]).await;
    // One buyer each five seconds has a turn to find out; the same key goes on.
    let buyer = tokio::sync::Mutex::new(buyer);
    let paid = eventually("a buyer to find that it is back", || async {
        let reply = buyer.lock().await.call("checkout", fields.clone()).await;
        (reply["ok"] == true).then_some(reply)
    })
    .await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    let open = admin.done("GET", "/v1/admin/payments/open", Value::Null).await;
    assert_eq!(open["is_provider_open"], true, "{open}");
}
