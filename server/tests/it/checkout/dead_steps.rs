//! A real node dies by SIGKILL at each point between two durable steps, of a purchase and of a refund; another one on the same
//! stores goes on. Each order ends sold once for one charge, or nothing is charged for it; each refund is made once.

use super::admin::{bought, refund};
use super::books::violations;
use super::checkout_of;
use super::dead_node::{Scene, charges};
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::stage::Draft;
use futures_util::StreamExt;
use seatwire::checkout::CrashPoint;
use seatwire::organiser::Scope;
use serde_json::{Value, json};

/// Scenes played at once: each has its own stores.
const SIDE_BY_SIDE: usize = 3;

/// So that an outcome nobody will ever tell is given up within the test.
const SHORT: [(&str, &str); 2] = [("SEATWIRE_PAYMENT_TIMEOUT_MS", "4000"), ("SEATWIRE_UNKNOWN_SOFT_MS", "4000")];

/// The run by this key goes on, or the machine was too slow for it: whoever waits for the answer repeats it.
fn asks_again(answer: &Value) -> bool {
    ["key_in_use", "timeout_unknown", "unavailable", "overloaded"].iter().any(|code| answer["error"]["code"] == *code)
}

async fn latest(guest: &Guest) -> Value {
    guest.get("/v1/orders").await.1["items"][0].clone()
}

async fn die_in_a_purchase(point: CrashPoint) {
    let scene = Scene::new(&Draft::default()).await;
    let name = format!("{point:?}");
    let node = scene.node(&[SHORT[0], SHORT[1], ("SEATWIRE_DIE_AT", &name)]).await;
    // Nothing tells the next node but its own questions.
    scene.sim("webhooks", &[("url", "none")]).await;
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let held = buyer.call("hold", json!({"key": "h", "event": scene.event, "seats": [1]})).await;
    let is_cancelled = point == CrashPoint::Fenced;
    let mut fields = checkout_of(&held["hold"], if is_cancelled { "pm_card_chargeDeclined" } else { "pm_card_visa" });
    fields["key"] = "c".into();
    if is_cancelled {
        let declined = buyer.call("checkout", fields.clone()).await;
        assert_eq!(declined["order"]["state"], "payment_declined", "{declined}");
        buyer.command("cancel", json!({"key": "x", "order": declined["order"]["id"]})).await;
    } else {
        buyer.command("checkout", fields.clone()).await;
    }
    node.ended().await;

    let node = scene.node(&SHORT).await;
    let guest = Guest { url: node.url.clone(), ..guest };
    if !is_cancelled {
        // The buyer, who was not answered, repeats the key until it is.
        let path = format!("/v1/holds/{}/checkout", fields["hold"].as_str().expect("an id"));
        let body = json!({"buyer": fields["buyer"], "payment": fields["payment"],
            "expect_total_minor": fields["expect_total_minor"]});
        eventually(&format!("an answer after {name}"), || async {
            let (status, answer) = guest.post(&path, "c", body.clone()).await;
            (!asks_again(&answer)).then(|| assert!(status < 500, "{name}: {status} {answer}"))
        })
        .await;
    }
    let order = eventually(&format!("the order to settle after {name}"), || async {
        let order = latest(&guest).await;
        matches!(order["state"].as_str(), Some("paid" | "payment_declined" | "cancelled")).then_some(order)
    })
    .await;
    let order = if order["state"] == "payment_declined" {
        // Nothing was begun: the seats are still the buyer's, who pays again.
        let path = format!("/v1/orders/{}/pay", order["id"].as_str().expect("an id"));
        let (status, body) = guest.post(&path, "p", json!({"payment": {"method": "pm_card_visa"}})).await;
        assert_eq!((status, &body["order"]["state"]), (201, &json!("paid")), "{name}: {body}");
        body["order"].clone()
    } else {
        order
    };
    let is_paid = order["state"] == "paid";
    match point {
        CrashPoint::Confirmed => assert!(is_paid, "the money was taken: {order}"),
        CrashPoint::Fenced => assert!(!is_paid, "{order}"),
        _ => {}
    }
    let ledger = scene.ledger().await;
    assert_eq!(charges(&ledger), usize::from(is_paid), "{name}: {order}");
    let (_, orders) = guest.get("/v1/orders").await;
    assert_eq!(orders["items"].as_array().map(Vec::len), Some(1), "{name}: {orders}");
    let seat = if is_paid { b'2' } else { b'0' };
    eventually(&format!("everyone to see it after {name}"), || async {
        let (_, map) = guest.get(&format!("/v1/events/{}/snapshot?format=json", scene.event)).await;
        (map["states"].as_str().expect("digits").as_bytes()[1] == seat).then_some(())
    })
    .await;
    assert_eq!(violations(scene.stage.store.pool(), &ledger, true).await, Vec::<String>::new(), "{name}");
}

async fn die_in_a_refund(point: CrashPoint) {
    let scene = Scene::new(&Draft::default()).await;
    let name = format!("{point:?}");
    let node = scene.node(&[SHORT[0], SHORT[1], ("SEATWIRE_DIE_AT", &name)]).await;
    scene.sim("webhooks", &[("url", "none")]).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders, Scope::Read]).await;
    let (guest, order) = bought(&node, &scene.event, &[1], "pm_card_visa").await;
    assert_eq!(order["state"], "paid", "{order}");
    let whole = json!({"all": true, "reason": "x"});
    let url = format!("{}/v1/admin/orders/{}/refunds", admin.url, order["id"].as_str().expect("an id"));
    let ask = reqwest::Client::new().post(url).bearer_auth(&admin.key).header("Idempotency-Key", "r").json(&whole);
    // Answered or not: the node dies.
    let _ = ask.send().await;
    node.ended().await;

    let node = scene.node(&SHORT).await;
    let guest = Guest { url: node.url.clone(), ..guest };
    let admin = Admin { url: node.admin_url.clone(), ..admin };
    // The operator, who may not have been answered, repeats the key.
    eventually(&format!("an answer after {name}"), || async {
        let (status, answer) = refund(&admin, &order, "r", whole.clone()).await;
        (!asks_again(&answer)).then(|| assert_eq!(status, 200, "{name}: {answer}"))
    })
    .await;
    let order = eventually(&format!("the money to be back after {name}"), || async {
        let order = latest(&guest).await;
        (order["state"] == "refunded").then_some(order)
    })
    .await;
    assert_eq!(order["refunded_minor"], order["total_minor"], "{name}");
    let ledger = scene.ledger().await;
    let charge = &ledger["intents"][0]["charges"][0];
    assert_eq!(charge["amount_refunded"], order["total_minor"], "{name}: {ledger}");
    let made: i64 =
        sqlx::query_scalar("select count(*) from refunds").fetch_one(scene.stage.store.pool()).await.expect("counts");
    assert_eq!(made, 1, "{name}");
    assert_eq!(violations(scene.stage.store.pool(), &ledger, true).await, Vec::<String>::new(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_each_step_of_a_purchase_it_is_sold_once_or_not_charged() {
    let deaths = CrashPoint::ALL.iter().map(|&point| tokio::spawn(die_in_a_purchase(point)));
    let ended: Vec<_> = futures_util::stream::iter(deaths).buffer_unordered(SIDE_BY_SIDE).collect().await;
    assert_eq!(ended.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_each_step_of_a_refund_the_money_goes_back_once() {
    for &point in CrashPoint::REFUND {
        die_in_a_refund(point).await;
    }
}
