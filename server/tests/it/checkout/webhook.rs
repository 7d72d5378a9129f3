//! What the provider says by itself: signed, twice, late, in the wrong order, or only in its list of events.

use super::code;
use super::till::Till;
use seatwire::checkout::{CrashPoint, Received};
use seatwire::organiser::Operator;
use serde_json::{Value, json};

pub(super) const SECRETS: [(&str, &str); 1] = [("SEATWIRE_WEBHOOK_SECRETS", "whsec_new,whsec_old")];

fn sign(secret: &str, at_s: u64, body: &str) -> String {
    sign_bytes(secret, at_s, body.as_bytes())
}

fn sign_bytes(secret: &str, at_s: u64, body: &[u8]) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(format!("{at_s}.").as_bytes());
    mac.update(body);
    format!("t={at_s},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// What came of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Applied,
    PutOff,
}

impl Till {
    /// Brings a webhook to the door.
    pub(super) async fn tell(&self, secret: &str, event: &Value) -> Received {
        let (body, at_s) = (event.to_string(), self.clock.now_ms() / 1_000);
        let received = self.app.checkout.receive_webhook(sign(secret, at_s, &body), body.into());
        received.await.expect("the store answers")
    }

    /// The provider's own events, oldest first.
    pub(super) async fn events(&self) -> Vec<Value> {
        let url = format!("{}/v1/events?limit=100", self.payment_url);
        let list = reqwest::Client::new().get(url).bearer_auth("sk_test_it").send().await.expect("answers");
        let list: Value = list.json().await.expect("JSON");
        list["data"].as_array().expect("a list").iter().rev().cloned().collect()
    }

    /// What came of an event that was kept, once it was looked at.
    pub(super) async fn fate(&self, event: &Value) -> Fate {
        // A node that takes an event to look at it has it for longer than any first wait.
        let taken_until_ms = (self.clock.now_ms() + 30_000).cast_signed();
        self.soon("the word to be looked at", || async {
            let sql = "select applied_ms is not null, tries_n > 0 and due_ms < $2 from webhook_inbox
                where provider_event_id = $1";
            let found = sqlx::query_as(sql).bind(event["id"].as_str().expect("an id")).bind(taken_until_ms);
            let (is_applied, is_put_off): (bool, bool) = found.fetch_one(self.app.store.pool()).await.expect("reads");
            if is_applied { Some(Fate::Applied) } else { is_put_off.then_some(Fate::PutOff) }
        })
        .await
    }

    pub(super) async fn applied(&self) -> i64 {
        let sql = "select count(*) from webhook_inbox where applied_ms is not null";
        sqlx::query_scalar(sql).fetch_one(self.app.store.pool()).await.expect("counts")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_old_and_future_webhooks_are_refused_and_two_secrets_are_live() {
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let event = json!({"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": {}}});
    assert!(matches!(till.tell("whsec_x", &event).await, Received::Forged(_)));
    let body = event.to_string();
    let now_s = till.clock.now_ms() / 1_000;
    for at_s in [now_s - 301, now_s + 301] {
        let received = till.app.checkout.receive_webhook(sign("whsec_new", at_s, &body), body.clone().into());
        assert!(matches!(received.await.expect("answers"), Received::Forged(_)), "{at_s}");
    }
    assert_eq!(till.tell("whsec_new", &event).await, Received::Kept);
    assert_eq!(till.tell("whsec_old", &event).await, Received::Repeated);
    // What is signed and cannot be read is not lost: a person finds it, byte for byte and once.
    let nonsense = json!({"hello": 1});
    assert_eq!(till.tell("whsec_new", &nonsense).await, Received::Unreadable);
    assert_eq!(till.tell("whsec_old", &nonsense).await, Received::Unreadable);
    let mut bodies = vec![nonsense.to_string().into_bytes()];
    for (id, kind, intent) in [("evt\u{0}", "x", "pi"), ("evt_2", "x\u{0}", "pi"), ("evt_2", "x", "pi\u{0}")] {
        let object = json!({"payment_intent": intent});
        let event = json!({"id": id, "type": kind, "data": {"object": object}});
        assert_eq!(till.tell("whsec_new", &event).await, Received::Unreadable, "{event}");
        bodies.push(event.to_string().into_bytes());
    }
    for body in [&b"\xff\xfe\x00"[..], b"", b"{\"id\":\"\x00\"}"] {
        let signature = sign_bytes("whsec_new", till.clock.now_ms() / 1_000, body);
        let received = till.app.checkout.receive_webhook(signature, body.to_vec().into()).await.expect("answers");
        assert_eq!(received, Received::Unreadable);
        bodies.push(body.to_vec());
    }
    let kept = till.app.checkout.unreadable_events(100).await.expect("reads");
    let mut found: Vec<Vec<u8>> = kept.iter().map(|event| event.body.clone()).collect();
    found.sort();
    bodies.sort();
    assert_eq!(found, bodies);
    for is_there in [true, false] {
        let put_away = till.app.checkout.put_away_unreadable(Operator::server(), kept[0].hash.clone());
        assert_eq!(put_away.await.expect("works"), is_there);
    }
    let sql = "select count(*) from admin_log where action = 'payment.put_away' and detail ->> 'id' = $1";
    let noted_n = sqlx::query_scalar::<_, i64>(sql).bind(hex::encode(&kept[0].hash));
    assert_eq!(noted_n.fetch_one(till.app.store.pool()).await.expect("counts"), 1);
    assert_eq!(till.app.checkout.unreadable_events(100).await.expect("reads").len(), bodies.len() - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_settles_what_the_answer_did_not() {
    // Deadlines and polling are far away: only the webhook can tell.
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    till.app.checkout.crash_at(CrashPoint::Confirmed);
    let died = till.checkout(buyer, &hold, "pm_card_visa").await;
    assert_eq!(code(&died), "internal");
    let events = till.events().await;
    let succeeded = events.iter().find(|event| event["type"] == "payment_intent.succeeded").expect("charged");
    for n in 0..100 {
        let received = till.tell("whsec_new", succeeded).await;
        assert_eq!(received, if n == 0 { Received::Kept } else { Received::Repeated });
    }
    let order = till
        .soon("the order to be paid", || async {
            let orders = till.app.checkout.orders(buyer.0, None, 10).await.expect("reads");
            orders.first().filter(|order| !order.tickets.as_deref().unwrap_or_default().is_empty()).map(|o| json!(o))
        })
        .await;
    assert_eq!(order["tickets"].as_array().map(Vec::len), Some(1));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_in_the_wrong_order_do_not_undo_what_is_final() {
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    let mut events = till.events().await;
    events.reverse();
    let n = events.len() as i64;
    for event in &events {
        assert_eq!(till.tell("whsec_old", event).await, Received::Kept);
    }
    till.soon("all to be applied", || async { (till.applied().await == n).then_some(()) }).await;
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "paid");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_about_an_intent_nobody_knows_waits_a_day() {
    let till = Till::open_with(&Default::default(), &SECRETS).await;
    let object =
        json!({"object": "payment_intent", "id": "pi_x", "status": "succeeded", "amount": 1, "currency": "eur"});
    let event = json!({"id": "evt_x", "type": "payment_intent.succeeded", "data": {"object": object}});
    assert_eq!(till.tell("whsec_new", &event).await, Received::Kept);
    for _ in 0..20 {
        till.clock.advance_ms(3_600_000);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        assert_eq!(till.applied().await, 0);
    }
    till.clock.advance_ms(6 * 3_600_000);
    till.soon("it to be dropped", || async { (till.applied().await == 1).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_webhooks_the_list_of_events_is_read() {
    // The reconciler's time never comes, only the list can tell.
    let settings = [("SEATWIRE_POLL_PROVIDER_MS", "50"), ("SEATWIRE_RECONCILE_MS", "60000")];
    let till = Till::open_with(&Default::default(), &settings).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
    till.press(&order, "approve").await;
    let id = order["id"].as_str().expect("an id").parse().expect("an id");
    till.soon("the order to be paid", || async {
        let row = seatwire::store::order::read(till.app.store.pool(), id).await.expect("reads").expect("the order");
        (row.state == seatwire::checkout::order::OrderState::Fulfilled).then_some(())
    })
    .await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_on_the_providers_own_pages_is_noticed() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "50")]).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.ledger().await["intents"][0]["id"].clone();
    let refund = async |amount: &str| {
        let form = [("payment_intent", intent.as_str().expect("an id")), ("amount", amount)];
        let call = reqwest::Client::new().post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
        assert_eq!(call.form(&form).send().await.expect("answers").status(), 200);
    };
    refund("1000").await;
    let part = till.until(buyer, &order["id"], "partially_refunded").await;
    assert_eq!((&part["refunded_minor"], &part["tickets"][0]["state"]), (&1000.into(), &"valid".into()));
    refund("8500").await;
    let whole = till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(whole["tickets"][1]["state"], "void");
    till.until_seat(1, 0).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_reach_a_node_over_http_whatever_happens_to_them() {
    use crate::support::client::Client;
    use crate::support::stage::{Draft, Stage};
    use seatwire::clock::Clock;
    use seatwire::shutdown::Shutdown;
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let sim = seatwire::paysim::start(listener, Default::default(), Clock::system(), Shutdown::new()).await;
    let payment_url = sim.expect("starts").url();
    let settings = [
        ("SEATWIRE_PAYMENT_URL", payment_url.as_str()),
        ("SEATWIRE_WEBHOOK_SECRETS", "whsec_it"),
        // Only webhooks can tell in time.
        ("SEATWIRE_RECONCILE_MS", "60000"),
    ];
    let node = stage.node_with(&settings).await;
    let form = [
        ("url", format!("{}/v1/webhooks/payment", node.url)),
        ("secret", "whsec_it".into()),
        ("duplicate_percent", "50".into()),
        ("reorder_percent", "50".into()),
        ("forge_percent", "50".into()),
    ];
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    http.post(format!("{payment_url}/_sim/webhooks")).form(&form).send().await.expect("answers");
    for seat in 0..5 {
        let (mut buyer, _) = Client::guest(&node.url).await;
        let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": [seat]})).await;
        let mut fields = super::checkout_of(&reply["hold"], "pm_card_authenticationRequired");
        fields["key"] = "c".into();
        let open = buyer.call("checkout", fields).await;
        let page = open["order"]["action"]["url"].as_str().unwrap_or_else(|| panic!("{open}")).to_owned();
        http.post(page.replace('?', "/approve?")).send().await.expect("answers");
        buyer.push_where("order.update", |push| push["order"]["state"] == "paid").await;
    }
    // Not ours, not signed, too large.
    let door = format!("{}/v1/webhooks/payment", node.url);
    assert_eq!(http.post(&door).body("{}").send().await.expect("answers").status(), 400);
    assert_eq!(http.post(&door).body(vec![b'x'; 300_000]).send().await.expect("answers").status(), 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_trickles_in_is_given_up() {
    use crate::support::stage::Stage;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = Stage::new().await.node().await;
    let address = node.url.strip_prefix("http://").expect("http");
    let line = tokio::net::TcpStream::connect(address).await.expect("connects");
    let (mut reads, mut writes) = line.into_split();
    let head = format!("POST /v1/webhooks/payment HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000\r\n\r\n");
    writes.write_all(head.as_bytes()).await.expect("writes");
    // A byte a moment, always before anybody would call the line idle, until the door has had enough.
    let trickle = tokio::spawn(async move {
        while writes.write_all(b"{").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    });
    let mut answer = Vec::new();
    let mut bytes = [0; 1024];
    while !answer.starts_with(b"HTTP/1.1 408") {
        let read = tokio::time::timeout(crate::support::PATIENCE, reads.read(&mut bytes)).await;
        let n = read.expect("the door has had enough").expect("reads");
        assert!(n > 0, "closed without a word: {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..n]);
    }
    trickle.abort();
}
