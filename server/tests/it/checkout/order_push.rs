//! Pushes of one order that meet in the wrong order, because several nodes told them: a page never sees an order as it stood
//! before.

use crate::support::eventually;
use crate::support::redis::Redis;
use bytes::Bytes;
use parking_lot::Mutex;
use seatwire::metrics::Metrics;
use seatwire::sender::{Recipient, Sender};
use seatwire_proto::code::CloseCode;
use seatwire_proto::id::{EventId, IdentityId, OrderId, SessionId};
use seatwire_proto::server::Order;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a page was told of orders, in order.
struct Page(SessionId, Mutex<Vec<String>>);

impl Recipient for Page {
    fn session_id(&self) -> SessionId {
        self.0
    }
    fn tell(&self, text: &Bytes) {
        let at = text.iter().position(|byte| *byte == b'{').expect("a frame of JSON");
        let push: Value = serde_json::from_slice(&text[at..]).expect("JSON");
        self.1.lock().push(push["order"]["state"].as_str().expect("a state").to_owned());
    }
    fn dismiss(&self, _: CloseCode) {}
}

fn order(id: OrderId, state: &str) -> Order {
    serde_json::from_value(json!({
        "id": id, "reference": "ABCDEFGH", "event": EventId::generate(), "state": state, "lines": [], "total_minor": 1,
        "refunded_minor": 0, "currency": "EUR", "pay_url": "http://127.0.0.1/pay", "created_ms": 1,
    }))
    .expect("an order")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_node_tells_late_of_an_order_is_not_told_on() {
    let redis = Redis::start().await;
    let node = async || Sender::connect(&redis.url(), Arc::new(Metrics::new())).await.expect("connects");
    let (far, near) = (node().await, node().await);
    let buyer = IdentityId::generate();
    let page = Arc::new(Page(SessionId::generate(), Mutex::default()));
    near.register(buyer, Arc::clone(&page) as Arc<dyn Recipient>);
    let told = async |n: usize| {
        eventually("the page to be told", || async { (page.1.lock().len() >= n).then_some(()) }).await;
        page.1.lock().clone()
    };
    let id = OrderId::generate();
    // Also among nodes: those of one node come in the order of their telling.
    for (at, state) in [(7, "payment_unknown"), (5, "payment_pending"), (9, "paid"), (8, "payment_unknown")] {
        far.order_to_identity(buyer, at, order(id, state));
    }
    far.order_to_identity(buyer, 12, order(id, "refund_due"));
    assert_eq!(told(3).await, ["payment_unknown", "paid", "refund_due"]);
    // A reply has shown the page that it is paid; the push of the moment before is still on its way.
    let id = OrderId::generate();
    near.shows_order(buyer, &order(id, "paid"));
    far.order_to_identity(buyer, 20, order(id, "payment_pending"));
    far.order_to_identity(buyer, 21, order(id, "paid"));
    assert_eq!(told(4).await[3..], ["paid"]);
}
