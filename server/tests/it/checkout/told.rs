//! The catalogue of what organisers' systems are told, type by type, each by what really causes it; who asked for what; and an
//! endpoint that is dead for days.

use super::admin::{bought, refund};
use super::checkout_of;
use super::dead_node::Scene;
use super::notice::Receiver;
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::stage::Draft;
use seatwire::clock::Clock;
use seatwire::organiser::Scope;
use seatwire::store::event_log::LogKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Everything in the log, in order.
async fn told(admin: &Admin) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut path = "/v1/admin/log?limit=100".to_owned();
    loop {
        let page = admin.done("GET", &path, Value::Null).await;
        let items = page["items"].as_array().expect("a list");
        if items.is_empty() {
            return found;
        }
        let row = |item: &Value| (item["type"].as_str().expect("a type").to_owned(), item["data"].clone());
        found.extend(items.iter().map(row));
        path = format!("/v1/admin/log?limit=100&cursor={}", page["next_cursor"].as_str().expect("a cursor"));
    }
}

async fn until_told(admin: &Admin, kind: &str) -> Value {
    eventually(&format!("{kind} to be told"), || async {
        told(admin).await.into_iter().find(|(told, _)| told == kind).map(|(_, data)| data)
    })
    .await
}

fn is_of_waitlist(kind: LogKind) -> bool {
    kind.as_str().starts_with("waitlist.")
}

/// What is caused elsewhere: a list, and a bank that takes money back (told in `dispute`).
fn is_told_elsewhere(kind: LogKind) -> bool {
    is_of_waitlist(kind) || kind == LogKind::OrderDisputed
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_of_the_catalogue_is_told_by_its_cause() {
    let scene = Scene::new(&Draft { blocked: vec![100], ..Draft::default() }).await;
    let settings = [("SEATWIRE_TELL_HOLDS", "true"), ("SEATWIRE_PAYMENT_TIMEOUT_MS", "4000")];
    let node = scene.node(&settings).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let event = &scene.event;
    let path = |what: &str| format!("/v1/admin/events/{event}{what}");
    // Tickets of one order: one refunded, one passed on, one used.
    let (guest, order) = bought(&node, event, &[1, 2, 3], "pm_card_visa").await;
    let tickets = order["tickets"].as_array().expect("tickets").clone();
    let lines = json!({"lines": [{"line": 2, "quantity": 1}], "reason": "ill"});
    assert_eq!(refund(&admin, &order, "r1", lines).await.0, 200);
    let transfer = format!(
        "/v1/orders/{}/tickets/{}/transfer",
        order["id"].as_str().expect("an id"),
        tickets[1]["id"].as_str().expect("an id")
    );
    assert_eq!(guest.post(&transfer, "t", json!({"to": {"name": "B", "email": "b@example.org"}})).await.0, 200);
    let scan = json!({"ticket": tickets[0]["qr"], "door": "North", "scan": "1"});
    let north = Admin::door(&scene.stage, &node).await;
    assert_eq!(north.done("POST", &format!("/v1/door/events/{event}/check-in"), scan).await["admitted"], true);
    until_told(&admin, "order.partially_refunded").await;
    // Whole and failing refunds.
    let (_, whole) = bought(&node, event, &[5], "pm_card_visa").await;
    assert_eq!(refund(&admin, &whole, "r2", json!({"all": true, "reason": "x"})).await.0, 200);
    until_told(&admin, "order.refunded").await;
    let (_, failing) = bought(&node, event, &[6], "pm_sim_refund_fails").await;
    refund(&admin, &failing, "r3", json!({"all": true, "reason": "x"})).await;
    until_told(&admin, "refund.failed").await;
    // Payments that go otherwise; the declined one is given up.
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": [8]})).await;
    let mut fields = checkout_of(&reply["hold"], "pm_card_visa_chargeDeclined");
    fields["key"] = "c".into();
    let declined = buyer.call("checkout", fields).await["order"].clone();
    let given_up = buyer.call("cancel", json!({"key": "x", "order": declined["id"]})).await;
    assert_eq!(given_up["order"]["state"], "cancelled", "{given_up}");
    bought(&node, event, &[10], "pm_card_authenticationRequired").await;
    // Nothing tells the till but its own questions.
    scene.sim("webhooks", &[("url", "none")]).await;
    bought(&node, event, &[12], "pm_sim_timeout_charged").await;
    until_told(&admin, "order.payment_unknown").await;
    // A basket that grows, and is given back.
    let (mut holder, _) = Client::guest(&node.url).await;
    let held = holder.call("hold", json!({"key": "1", "event": event, "seats": [20]})).await["hold"].clone();
    let created = eventually("the basket to be told", || async {
        told(&admin).await.into_iter().find(|(kind, data)| kind == "hold.created" && data["hold"] == held["id"])
    })
    .await;
    assert_eq!((&created.1["seats"], &created.1["offer"]), (&json!([20]), &json!(false)), "{created:?}");
    holder.call("hold", json!({"key": "2", "event": event, "seats": [21]})).await;
    eventually("its growth to be told", || async {
        let all = told(&admin).await;
        all.into_iter().find(|(kind, data)| kind == "hold.changed" && data["seats"] == json!([20, 21]))
    })
    .await;
    holder.call("release", json!({"key": "3", "hold": held["id"]})).await;
    eventually("its end to be told", || async {
        told(&admin).await.into_iter().find(|(kind, data)| kind == "hold.ended" && data["hold"] == held["id"])
    })
    .await;
    // Changes, and selling that begins by time: an event whose moment has just come.
    admin.done("PATCH", &path(""), json!({"name": "Another name"})).await;
    admin
        .done("PUT", &path("/prices"), json!({"price_tiers": [{"code": "A", "price_minor": 1, "fee_minor": 0}]}))
        .await;
    admin.done("POST", &path("/unblock"), json!({"seats": [100]})).await;
    sqlx::query("update events set presale_ms = $1 - 1000, on_sale_ms = $1")
        .bind(seatwire::clock::Clock::system().now_ms().cast_signed())
        .execute(scene.stage.store.pool())
        .await
        .expect("sql");
    until_told(&admin, "event.on_sale").await;
    admin.done("PUT", &path("/state"), json!({"state": "cancelled", "reason": "rain"})).await;
    assert_eq!(until_told(&admin, "event.cancelled").await["reason"], "rain");

    let all = told(&admin).await;
    let seen: BTreeSet<&str> = all.iter().map(|(kind, _)| kind.as_str()).collect();
    let wanted: BTreeSet<&str> =
        LogKind::ALL.into_iter().filter(|kind| !is_told_elsewhere(*kind)).map(LogKind::as_str).collect();
    assert_eq!(wanted.difference(&seen).collect::<Vec<_>>(), Vec::<&&str>::new(), "never told");
    assert_eq!(seen.difference(&wanted).collect::<Vec<_>>(), Vec::<&&str>::new(), "not in the catalogue");
    let text = serde_json::to_string(&all).expect("JSON");
    for secret in [tickets[0]["code"].as_str().expect("a code"), "ada@example.org", "b@example.org"] {
        assert!(!text.contains(secret), "{secret} is its owner's alone");
    }
    assert!(all.iter().all(|(_, data)| data["event"] == json!(event)), "each says of which event");
    let openings = all.iter().filter(|(kind, _)| kind == "event.on_sale" || kind == "event.presale").count();
    assert_eq!(openings, 2, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waitlist_tells_of_its_places() {
    let draft = Draft { rows: vec![1, 3], areas: vec![], blocked: vec![2, 3], has_waitlist: true, ..Draft::default() };
    let scene = Scene::new(&draft).await;
    let node = scene.node(&[("SEATWIRE_OFFER_MS", "5000")]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let event = &scene.event;
    bought(&node, event, &[0, 1], "pm_card_visa").await;
    let list = format!("/v1/events/{event}/waitlist");
    let join = async || {
        let guest = Guest::new(&node.url).await;
        eventually("the list to be open", || async {
            let (status, _) = guest.post(&list, "join", json!({"quantity": 2})).await;
            (status == 201).then_some(())
        })
        .await;
        guest
    };
    let leaver = join().await;
    let mut leaving = Client::hello(&node.url, Some(&leaver.token)).await;
    assert_eq!(leaving.call("waitlist_leave", json!({"key": "leave", "event": event})).await["ok"], true);
    let left = until_told(&admin, "waitlist.left").await;
    assert_eq!(left["reason"], "left");
    let lazy = join().await;
    let quick = join().await;
    admin.done("POST", &format!("/v1/admin/events/{event}/unblock"), json!({"seats": [2, 3]})).await;
    until_told(&admin, "waitlist.offered").await;
    let mut client = Client::hello(&node.url, Some(&quick.token)).await;
    let offer = client.push("waitlist.offer").await;
    let mut fields = checkout_of(&offer["hold"], "pm_card_visa");
    fields["key"] = "c".into();
    assert_eq!(client.call("checkout", fields).await["order"]["state"], "paid");
    let taken = until_told(&admin, "waitlist.taken").await;
    assert_eq!(taken["hold"], offer["hold"]["id"]);
    let lapsed = until_told(&admin, "waitlist.lapsed").await;
    assert_ne!(lapsed["identity"], taken["identity"]);
    drop(lazy);
    let kinds: Vec<String> =
        told(&admin).await.into_iter().map(|(kind, _)| kind).filter(|kind| kind.starts_with("waitlist.")).collect();
    let count = |kind: &str| kinds.iter().filter(|told| *told == kind).count();
    assert_eq!((count("waitlist.joined"), count("waitlist.offered")), (3, 2), "{kinds:?}");
    for kind in LogKind::ALL.into_iter().filter(|kind| is_of_waitlist(*kind)) {
        assert!(count(kind.as_str()) > 0, "{} is never told", kind.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_gets_what_it_asked_for_and_one_that_is_dead_for_days_is_disabled() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true")]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let (receiver, url) = Receiver::start().await;
    for wrong in [json!(["order.lost"]), json!([]), json!(["*"]), json!("order")] {
        let (status, body) = admin.call("POST", "/v1/admin/webhooks", json!({"url": url, "types": wrong})).await;
        assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!("/types")), "{wrong}: {body}");
    }
    let hook = admin.done("POST", "/v1/admin/webhooks", json!({"url": url, "types": ["ticket", "order.paid"]})).await;
    let path = format!("/v1/admin/webhooks/{}", hook["id"].as_str().expect("an id"));
    let (_, order) = bought(&node, &scene.event, &[1], "pm_card_visa").await;
    eventually("what it asked for", || async { (receiver.count() == 2).then_some(()) }).await;
    let kinds: BTreeSet<String> = receiver.kinds().into_iter().collect();
    assert_eq!(kinds, BTreeSet::from(["order.paid".to_owned(), "ticket.issued".to_owned()]));
    // One message once more, by its name.
    let items = eventually("both to be noted as taken", || async {
        let listed = admin.done("GET", &format!("{path}/deliveries"), Value::Null).await;
        let items = listed["items"].as_array()?.clone();
        (items.len() == 2 && items.iter().all(|item| item["sent_ms"].is_u64())).then_some(items)
    })
    .await;
    let message = items.iter().find(|item| item["type"] == "order.paid").expect("it")["message"].clone();
    admin.done("POST", &format!("{path}/replay"), json!({"message": message})).await;
    eventually("it once more", || async { (receiver.count() == 3).then_some(()) }).await;
    assert_eq!(receiver.kinds()[2], "order.paid");
    for wrong in ["msg_0", "12", "msg_x"] {
        assert_eq!(admin.call("POST", &format!("{path}/replay"), json!({"message": wrong})).await.0, 400);
    }
    // From now on everything, and nothing is taken.
    admin.done("PATCH", &path, json!({"types": null})).await;
    *receiver.answer.lock() = 500;
    refund(&admin, &order, "r", json!({"amount_minor": 100, "reason": "x"})).await;
    let listed = eventually("the failure to be seen", || async {
        let list = admin.done("GET", "/v1/admin/webhooks", Value::Null).await;
        list["items"][0]["failing_since_ms"].is_u64().then(|| list["items"][0].clone())
    })
    .await;
    assert!(listed["disabled_ms"].is_null() && listed["types"].is_null(), "{listed}");
    let failing = async |sql: &'static str| {
        sqlx::query(sql).execute(scene.stage.store.pool()).await.expect("sql");
    };
    // Again until it is taken: a try under way puts off what is made due meanwhile.
    let make_due = async || failing("update webhook_deliveries set due_ms = 0 where sent_ms is null").await;
    let fails_again = async || {
        let begun_ms = Clock::system().now_ms().cast_signed();
        eventually("another failure to be noted", || async {
            make_due().await;
            let sql = "select last_failed_ms from webhook_endpoints";
            let failed_ms: i64 = sqlx::query_scalar(sql).fetch_one(scene.stage.store.pool()).await.expect("sql");
            (failed_ms >= begun_ms).then_some(())
        })
        .await;
        admin.done("GET", "/v1/admin/webhooks", Value::Null).await["items"][0].clone()
    };
    // For days, but only a few times.
    failing("update webhook_endpoints set failing_since_ms = failing_since_ms - 5 * 86400000").await;
    let listed = fails_again().await;
    assert!(listed["disabled_ms"].is_null() && listed["failures"].as_u64() < Some(20), "{listed}");
    // Often, but with days of silence before this one. The look behind the failure before must be over: to it the row would
    // say something else.
    node.until_runs("send_webhooks", 2).await;
    failing("update webhook_endpoints set failures_n = 100, last_failed_ms = last_failed_ms - 2 * 86400000").await;
    let listed = fails_again().await;
    assert!(listed["disabled_ms"].is_null() && listed["failures"].as_u64() < Some(20), "{listed}");
    // For days, and often.
    failing("update webhook_endpoints set failing_since_ms = failing_since_ms - 5 * 86400000, failures_n = 19").await;
    let disabled = eventually("it to be disabled", || async {
        make_due().await;
        let list = admin.done("GET", "/v1/admin/webhooks", Value::Null).await;
        list["items"][0]["disabled_ms"].is_u64().then(|| list["items"][0].clone())
    })
    .await;
    assert_eq!(disabled["disabled_reason"], "nothing was taken for five days");
    let open = admin.done("GET", &format!("{path}/deliveries?open=true"), Value::Null).await;
    assert!(open["items"].as_array().is_some_and(|items| !items.is_empty()), "{open}");
    assert_eq!(admin.call("GET", &format!("{path}/deliveries?open=perhaps"), Value::Null).await.0, 400);
    assert_eq!(admin.call("PATCH", &path, json!({"enabled": false})).await.0, 400);
    // It lives again: what it missed comes.
    *receiver.answer.lock() = 200;
    admin.done("PATCH", &path, json!({"enabled": true})).await;
    eventually("nothing to be open", || async {
        let open = admin.done("GET", &format!("{path}/deliveries?open=true"), Value::Null).await;
        open["items"].as_array()?.is_empty().then_some(())
    })
    .await;
    assert!(receiver.kinds().iter().any(|kind| kind == "refund.created"));
    let unknown = "/v1/admin/webhooks/01890000-0000-7000-8000-000000000000";
    let (status, none) = admin.call("PATCH", unknown, json!({"enabled": true})).await;
    assert_eq!((status, &none["error"]["data"]["path"]), (400, &json!("/webhook")), "{none}");
}
