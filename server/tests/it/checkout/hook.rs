//! Endpoints beside each other: one that is silent, one that says too much; whose keys say where anything is sent, what others
//! see of it, and what is written of who did it.

use super::admin::bought;
use super::dead_node::Scene;
use super::notice::Receiver;
use crate::support::admin::Admin;
use crate::support::eventually;
use crate::support::stage::Draft;
use axum::Router;
use axum::routing::post;
use seatwire::organiser::Scope;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;

/// Takes every connection and never says a word: how many it has.
async fn silent() -> (Arc<AtomicUsize>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((line, _)) = listener.accept().await {
            kept.push(line);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (taken, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_endpoint_keeps_nobody_else_waiting() {
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true")]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let (taken, hole) = silent().await;
    let (receiver, url) = Receiver::start().await;
    admin.done("POST", "/v1/admin/webhooks", json!({"url": hole})).await;
    admin.done("POST", "/v1/admin/webhooks", json!({"url": url, "types": ["ticket"]})).await;
    let sql = "insert into event_log (event_id, kind, body, created_ms)
        select id, 'order.paid', '{}', (extract(epoch from now()) * 1000)::bigint from events, generate_series(1, 400)";
    sqlx::query(sql).execute(pool).await.expect("sql");
    eventually("the silent one to be told", || async { (taken.load(Ordering::Relaxed) > 0).then_some(()) }).await;
    // Once, and again while it is silent still.
    for n in 1..=3 {
        bought(&node, &scene.event, &[n], "pm_card_visa").await;
        eventually("the other one to hear", || async { (receiver.count() == n as usize).then_some(()) }).await;
    }
    // Behind all of those it would have been heard when most were tried, minutes later; never more than this are under way.
    let tried_n = taken.load(Ordering::Relaxed);
    assert!(tried_n < 200, "{tried_n} were tried first");
    let sql = "select count(*) from webhook_deliveries where sent_ms is null and tries_n = 0";
    let waiting_n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
    assert!(waiting_n > 200, "{waiting_n} wait for the silent one");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_says_too_much_has_taken_it_all_the_same() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true")]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let router = Router::new().route("/hook", post(|| async { "x".repeat(300_000) }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let hook = admin.done("POST", "/v1/admin/webhooks", json!({"url": url, "types": ["order.paid"]})).await;
    let path = format!("/v1/admin/webhooks/{}/deliveries", hook["id"].as_str().expect("an id"));
    bought(&node, &scene.event, &[1], "pm_card_visa").await;
    let tried = eventually("it to be tried", || async {
        let listed = admin.done("GET", &path, Value::Null).await;
        let item = listed["items"].as_array()?.first()?.clone();
        (item["sent_ms"].is_u64() || item["failure"].is_string()).then_some(item)
    })
    .await;
    assert!(tried["sent_ms"].is_u64() && tried["failure"].is_null(), "{tried}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_see_orders_says_where_they_are_sent_and_it_is_written_who_did() {
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true")]).await;
    let (receiver, url) = Receiver::start().await;
    let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Orders).collect();
    let other = Admin::new(&scene.stage, &node, &others).await;
    let (status, refused) = other.call("POST", "/v1/admin/webhooks", json!({"url": url})).await;
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("forbidden")), "{refused}");
    let admin = Admin::new(&scene.stage, &node, &[Scope::Read, Scope::Orders]).await;
    let secret = format!("{url}/s3cret?token=s3cret");
    let hook = admin.done("POST", "/v1/admin/webhooks", json!({"url": secret, "types": ["order.paid"]})).await;
    let path = format!("/v1/admin/webhooks/{}", hook["id"].as_str().expect("an id"));
    for (method, rest) in [("PATCH", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/replay")] {
        assert_eq!(other.call(method, &format!("{path}{rest}"), json!({})).await.0, 403, "{method} {rest}");
    }
    // Whoever only looks sees which server it is.
    let seen = async |admin: &Admin| {
        let listed = admin.done("GET", "/v1/admin/webhooks", Value::Null).await;
        listed["items"][0]["url"].as_str().expect("an address").to_owned()
    };
    assert_eq!(seen(&admin).await, secret);
    assert_eq!(seen(&other).await, url.replace("/hook", "/***"));
    // Where it goes now, it is taken.
    sqlx::query("update webhook_endpoints set url = $1").bind(&url).execute(pool).await.expect("sql");
    bought(&node, &scene.event, &[1], "pm_card_visa").await;
    let message = eventually("it to be taken", || async {
        let listed = admin.done("GET", &format!("{path}/deliveries"), Value::Null).await;
        let item = listed["items"].as_array()?.first()?.clone();
        item["sent_ms"].is_u64().then(|| item["message"].clone())
    })
    .await;
    admin.done("POST", &format!("{path}/replay"), json!({"message": message})).await;
    eventually("it once more", || async { (receiver.count() == 2).then_some(()) }).await;
    admin.done("POST", &format!("{path}/replay"), json!({})).await;
    let nowhere = "/v1/admin/webhooks/00000000-0000-0000-0000-000000000000/replay";
    let (status, body) = admin.call("POST", nowhere, json!({})).await;
    assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!("/webhook")), "{body}");
    admin.done("POST", &format!("{path}/rotate"), json!({})).await;
    admin.done("PATCH", &path, json!({"types": ["order"], "enabled": true})).await;
    admin.done("DELETE", &path, Value::Null).await;
    let sql = "insert into mails (kind, event_id, order_id, due_ms, given_up_ms, created_ms)
        select 'order_paid', event_id, order_id, 1, 1, 1 from mails limit 1 returning mail_id";
    let mail: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
    admin.done("POST", &format!("/v1/admin/mails/{mail}/retry"), json!({})).await;
    let sql = "insert into unreadable_events (provider, body_hash, body, received_ms)
        values ('paysim', '\\x01', 'a', (extract(epoch from now()) * 1000)::bigint)";
    sqlx::query(sql).execute(pool).await.expect("sql");
    for is_there in [true, false] {
        let answer = admin.done("DELETE", "/v1/admin/payments/unreadable/01", Value::Null).await;
        assert_eq!(answer["put_away"], is_there);
    }
    // What names nothing changes nothing.
    for (method, path, at) in [
        ("DELETE", path.clone(), "/webhook"),
        ("POST", format!("{path}/rotate"), "/webhook"),
        ("PATCH", "/v1/admin/webhooks/x".to_owned(), "/webhook"),
        ("POST", "/v1/admin/mails/9000000000000/retry".to_owned(), "/mail"),
    ] {
        let (status, none) = admin.call(method, &path, json!({"enabled": true})).await;
        let error = &none["error"];
        assert_eq!((status, &error["number"], &error["data"]["path"]), (400, &json!(1002), &json!(at)), "{none}");
    }
    let sql = "select action, key_name, key_id is not null, detail from admin_log
        where action <> 'key.create' order by log_id";
    let rows: Vec<(String, String, bool, Value)> = sqlx::query_as(sql).fetch_all(pool).await.expect("sql");
    let actions: Vec<&str> = rows.iter().map(|(action, ..)| action.as_str()).collect();
    let wanted = [
        "webhook.add",
        "webhook.replay",
        "webhook.replay",
        "webhook.rotate",
        "webhook.types",
        "webhook.enable",
        "webhook.delete",
        "mail.retry",
        "payment.put_away",
    ];
    assert_eq!(actions, wanted);
    assert!(rows.iter().all(|(_, name, has_key, _)| name == "test" && *has_key), "{rows:?}");
    let written = format!("{rows:?}");
    assert!(!written.contains("s3cret") && !written.contains("whsec_"), "{written}");
}
