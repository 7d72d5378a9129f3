//! What the provider says by itself: signed, twice, late, in the wrong order, or only in its list of events.

use super::code;
use super::till::Till;
use crate::support::eventually;
use seatwire::checkout::{CrashPoint, Received};
use seatwire::store::webhook_inbox::{self, InboxEvent};
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

    /// What came of an event that was kept, once it was looked at. The clock must stand still.
    pub(super) async fn fate(&self, event: &Value) -> Fate {
        // A node that takes an event to look at it has it for longer than any first wait.
        let taken_until_ms = (self.clock.now_ms() + 30_000).cast_signed();
        eventually("the word to be looked at", || async {
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
    assert!(till.app.checkout.put_away_unreadable(kept[0].hash.clone()).await.expect("works"));
    assert!(!till.app.checkout.put_away_unreadable(kept[0].hash.clone()).await.expect("works"));
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
    let order = eventually("the order to be paid", || async {
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
    eventually("all to be applied", || async { (till.applied().await == n).then_some(()) }).await;
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
    eventually("it to be dropped", || async { (till.applied().await == 1).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_webhooks_the_list_of_events_is_read() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "50")]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
    // The clock stands still: the reconciler's time never comes, only the list can tell.
    till.press(&order, "approve").await;
    let id = order["id"].as_str().expect("an id").parse().expect("an id");
    eventually("the order to be paid", || async {
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
    eventually("the other to be applied", || async { (till.applied().await == 1).then_some(()) }).await;
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
    eventually("it to be taken off the list", || async { concern().await.is_none().then_some(()) }).await;
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
    till.app.checkout.apply_inbox().await.expect("works");
    assert!(!is_kept().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_the_provider_has_forgotten_is_forgotten_here_too() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_POLL_PROVIDER_MS", "50")]).await;
    webhook_inbox::set_cursor(till.app.store.pool(), "paysim", "evt_gone").await.expect("writes");
    let (buyer, hold) = till.buyer_with(&[1]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    eventually("the events to be read", || async {
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
    eventually("it to be applied", || async { (till.applied().await == 1).then_some(()) }).await;
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
    eventually("the order of the true word to be paid", || async {
        (till.order(*buyer, &order["id"]).await["state"] == "paid").then_some(())
    })
    .await;
    eventually("the other to be listed", || async { (listed().await == 1).then_some(()) }).await;
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
    eventually("ours to be applied", || async { (till.applied().await == known).then_some(()) }).await;
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")));
    assert_eq!(now["refunded_minor"], 0);
}
