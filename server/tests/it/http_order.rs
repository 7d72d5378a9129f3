//! Buying over HTTP: the status says how the payment stands, the order is in the body each time.

use crate::support::client::Guest;
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

async fn hold(guest: &Guest, event: &str, seats: &[u32], key: &str) -> (String, i64) {
    let (status, body) = guest.post(&format!("/v1/events/{event}/holds"), key, json!({"seats": seats})).await;
    assert_eq!(status, 201, "{body}");
    let total_minor = body["hold"]["total_minor"].as_i64().expect("an amount");
    (body["hold"]["id"].as_str().expect("an id").to_owned(), total_minor)
}

fn purchase(method: &str, expect_total_minor: i64) -> Value {
    json!({
        "buyer": {"name": "Ada Example", "email": "ada@example.org"},
        "payment": {"method": method},
        "expect_total_minor": expect_total_minor
    })
}

#[tokio::test]
async fn a_paid_order_is_created_listed_and_read_by_its_owner_alone() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (guest, stranger) = (Guest::new(&node.url).await, Guest::new(&node.url).await);
    let mut orders = Vec::new();
    for (i, seat) in [10, 11, 12].into_iter().enumerate() {
        let (hold, total_minor) = hold(&guest, &event, &[seat], &format!("hold {i}")).await;
        let path = format!("/v1/holds/{hold}/checkout");
        let (status, body) = guest.post(&path, &format!("buy {i}"), purchase("pm_card_visa", total_minor)).await;
        assert_eq!((status, &body["order"]["state"]), (201, &json!("paid")), "{body}");
        assert_eq!(body["order"]["tickets"].as_array().map(Vec::len), Some(1));
        let (again, replayed) = guest.post(&path, &format!("buy {i}"), purchase("pm_card_visa", total_minor)).await;
        assert_eq!((again, &replayed["replayed"], &replayed["order"]["id"]), (201, &json!(true), &body["order"]["id"]));
        orders.push(body["order"]["id"].as_str().expect("an id").to_owned());
    }
    orders.reverse();
    let mut listed = Vec::new();
    let mut path = "/v1/orders?limit=2".to_owned();
    loop {
        let (status, body) = guest.get(&path).await;
        assert_eq!(status, 200, "{body}");
        let items = body["items"].as_array().expect("a list");
        listed.extend(items.iter().map(|order| order["id"].as_str().expect("an id").to_owned()));
        let Some(cursor) = body["next_cursor"].as_str() else { break };
        path = format!("/v1/orders?limit=2&cursor={cursor}");
    }
    assert_eq!(listed, orders, "newest first, each once");
    let (status, body) = guest.get(&format!("/v1/orders/{}", orders[0])).await;
    assert_eq!((status, &body["order"]["id"]), (200, &json!(orders[0])));
    let (status, body) = stranger.get(&format!("/v1/orders/{}", orders[0])).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("order_not_found")));
    assert_eq!(stranger.get("/v1/orders").await.1, json!({"items": []}));
    for (path, status) in [("/v1/orders/ord_x", 404), ("/v1/orders?cursor=x", 400), ("/v1/orders?limit=0", 400)] {
        assert_eq!(guest.get(path).await.0, status, "{path}");
    }
    let (status, body) = guest.post(&format!("/v1/orders/{}/cancel", orders[0]), "c", json!({})).await;
    assert_eq!((status, &body["error"]["code"]), (409, &json!("cancel_refused")), "{body}");
}

#[tokio::test]
async fn a_declined_order_is_402_and_paid_with_another_card_or_given_up() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let (first, total_minor) = hold(&guest, &event, &[1, 2], "h1").await;
    let path = format!("/v1/holds/{first}/checkout");
    let (status, body) = guest.post(&path, "wrong", purchase("pm_card_visa", total_minor + 1)).await;
    assert_eq!((status, &body["error"]["data"]["total_minor"]), (409, &json!(total_minor)), "{body}");
    let (status, body) = guest.post(&path, "b1", purchase("pm_card_chargeDeclined", total_minor)).await;
    assert_eq!((status, &body["order"]["state"]), (402, &json!("payment_declined")), "{body}");
    let order = body["order"]["id"].as_str().expect("an id").to_owned();
    let pay = format!("/v1/orders/{order}/pay");
    let (status, body) = guest.post(&pay, "p1", json!({"payment": {"method": ""}})).await;
    assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!("/payment/method")), "{body}");
    let (status, body) = guest.post(&pay, "p2", json!({"payment": {"method": "pm_card_visa"}})).await;
    assert_eq!((status, &body["order"]["state"]), (201, &json!("paid")), "{body}");

    let (second, total_minor) = hold(&guest, &event, &[5], "h2").await;
    let path = format!("/v1/holds/{second}/checkout");
    let (_, body) = guest.post(&path, "b2", purchase("pm_card_chargeDeclined", total_minor)).await;
    let order = body["order"]["id"].as_str().expect("an id").to_owned();
    let (status, body) = guest.post(&format!("/v1/orders/{order}/cancel"), "c1", json!({})).await;
    assert_eq!((status, &body["order"]["state"]), (200, &json!("cancelled")), "{body}");
}

#[tokio::test]
async fn an_order_that_waits_for_its_buyer_is_accepted_with_202() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let (hold, total_minor) = hold(&guest, &event, &[1], "h1").await;
    let path = format!("/v1/holds/{hold}/checkout");
    let (status, body) = guest.post(&path, "b1", purchase("pm_card_authenticationRequired", total_minor)).await;
    assert_eq!((status, &body["order"]["state"]), (202, &json!("action_required")), "{body}");
    assert!(body["order"]["action"]["type"].is_string(), "{body}");
}

#[tokio::test]
async fn the_secret_of_a_pay_url_opens_this_one_order_on_any_device() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let mut orders = Vec::new();
    for seat in [1, 2] {
        let (hold, total_minor) = hold(&guest, &event, &[seat], &format!("h{seat}")).await;
        let path = format!("/v1/holds/{hold}/checkout");
        let method = if seat == 1 { "pm_card_visa" } else { "pm_card_chargeDeclined" };
        let (_, body) = guest.post(&path, &format!("b{seat}"), purchase(method, total_minor)).await;
        orders.push(body["order"].clone());
    }
    let secret =
        |order: &Value| order["pay_url"].as_str().expect("a URL").split_once('#').expect("a secret").1.to_owned();
    let path = |order: &Value| format!("{}/v1/orders/{}", node.url, order["id"].as_str().expect("an id"));
    let http = reqwest::Client::new();
    let read = async |order: &Value, secret: &str| {
        let asked = http.get(path(order)).header("Seatwire-Pay-Secret", secret).send().await.expect("answers");
        (asked.status().as_u16(), asked.json::<Value>().await.expect("JSON"))
    };
    let (status, body) = read(&orders[0], &secret(&orders[0])).await;
    assert_eq!((status, &body["order"]["state"]), (200, &json!("paid")), "{body}");
    for wrong in [secret(&orders[0]), String::new(), "x".repeat(28), secret(&orders[1]).to_lowercase()] {
        let (status, body) = read(&orders[1], &wrong).await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("order_not_found")), "{wrong}");
    }
    // It reads and pays, and does nothing else.
    let post = async |end: &str, body: Value| {
        let call = http.post(format!("{}/{end}", path(&orders[1]))).header("Idempotency-Key", "p");
        let call = call.header("Seatwire-Pay-Secret", secret(&orders[1])).json(&body);
        call.send().await.expect("answers").status().as_u16()
    };
    assert_eq!(post("cancel", json!({})).await, 401);
    assert_eq!(post("pay", json!({"payment": {"method": "pm_card_visa"}})).await, 201);
    let (_, body) = guest.get(&format!("/v1/orders/{}", orders[1]["id"].as_str().expect("an id"))).await;
    assert_eq!(body["order"]["state"], "paid", "{body}");
}
