//! What others are told: mails in the buyer's language, signed webhooks, a log that is read without holes.

use super::admin::{bought, refund};
use super::dead_node::Scene;
use crate::support::admin::Admin;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::Draft;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use seatwire::organiser::Scope;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Receiver {
    told: Mutex<Vec<(HeaderMap, String)>>,
    pub(super) answer: Mutex<u16>,
    /// Of the very next one, instead.
    first_answer: Mutex<Option<u16>>,
}

impl Receiver {
    pub(super) async fn start() -> (Arc<Self>, String) {
        let receiver = Arc::new(Self { answer: Mutex::new(200), ..Self::default() });
        let take = |State(receiver): State<Arc<Self>>, headers: HeaderMap, body: String| async move {
            receiver.told.lock().push((headers, body));
            let first = receiver.first_answer.lock().take();
            let status = StatusCode::from_u16(first.unwrap_or(*receiver.answer.lock())).expect("a status");
            (status, [("location", "http://127.0.0.1:1/elsewhere")])
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
        let router = Router::new().route("/hook", post(take)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (receiver, url)
    }

    pub(super) fn count(&self) -> usize {
        self.told.lock().len()
    }

    /// The types that came, in order.
    pub(super) fn kinds(&self) -> Vec<String> {
        let kind =
            |body: &String| serde_json::from_str::<Value>(body).expect("JSON")["type"].as_str().map(str::to_owned);
        self.told.lock().iter().map(|(_, body)| kind(body).expect("a type")).collect()
    }
}

/// As the specification says, written a second time.
fn signed(secret: &str, headers: &HeaderMap, body: &str) -> bool {
    let text = |name: &str| headers[name].to_str().expect("text").to_owned();
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("the prefix")).expect("base64");
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("any length");
    mac.update(format!("{}.{}.{body}", text("webhook-id"), text("webhook-timestamp")).as_bytes());
    let wanted = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    text("webhook-signature").split(' ').any(|signature| signature == wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_signed_repeated_rotated_and_replayed() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true")]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let (receiver, url) = Receiver::start().await;
    let hook = admin
        .done("POST", "/v1/admin/webhooks", json!({"url": url, "types": ["order.paid", "order.partially_refunded"]}))
        .await;
    let (id, secret) = (hook["id"].as_str().expect("an id"), hook["secret"].as_str().expect("a secret"));
    // A redirect is no delivery.
    *receiver.first_answer.lock() = Some(302);
    let (_, order) = bought(&node, &scene.event, &[1], "pm_card_visa").await;
    eventually("the next try", || async { (receiver.count() == 2).then_some(()) }).await;
    {
        let told = receiver.told.lock();
        let (headers, body) = &told[1];
        assert!(signed(secret, headers, body));
        assert_eq!(told[0].0["webhook-id"], headers["webhook-id"], "one name for one message");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&body["type"], &body["data"]["order"]), (&json!("order.paid"), &order["id"]));
        assert!(body["timestamp"].as_str().is_some_and(|text| text.ends_with('Z')));
        assert!(!told[1].1.contains(order["tickets"][0]["code"].as_str().expect("a code")), "no secrets");
    }
    let rotated = admin.done("POST", &format!("/v1/admin/webhooks/{id}/rotate"), json!({})).await;
    refund(&admin, &order, "r", json!({"amount_minor": 100, "reason": "x"})).await;
    eventually("the refund to be told", || async { (receiver.count() == 3).then_some(()) }).await;
    {
        let told = receiver.told.lock();
        for secret in [secret, rotated["secret"].as_str().expect("a secret")] {
            assert!(signed(secret, &told[2].0, &told[2].1), "old and new sign for a while");
        }
        assert!(told[2].1.contains("order.partially_refunded"));
    }
    let again = admin.done("POST", &format!("/v1/admin/webhooks/{id}/replay"), json!({})).await;
    assert_eq!(again["queued"], 2);
    eventually("both once more", || async { (receiver.count() == 5).then_some(()) }).await;
    *receiver.answer.lock() = 410;
    admin.done("POST", &format!("/v1/admin/webhooks/{id}/replay"), json!({})).await;
    eventually("it to be disabled", || async {
        let list = admin.done("GET", "/v1/admin/webhooks", Value::Null).await;
        list["items"][0]["disabled_ms"].is_u64().then_some(())
    })
    .await;
    admin.done("DELETE", &format!("/v1/admin/webhooks/{id}"), Value::Null).await;
    let (status, gone) = admin.call("DELETE", &format!("/v1/admin/webhooks/{id}"), Value::Null).await;
    assert_eq!((status, &gone["error"]["code"]), (400, &json!("bad_field")), "{gone}");

    // The log is read from a cursor, in order and to its end.
    let mut seen = Vec::new();
    let mut path = "/v1/admin/log?limit=1".to_owned();
    loop {
        let page = admin.done("GET", &path, Value::Null).await;
        let items = page["items"].as_array().expect("a list");
        if items.is_empty() {
            break;
        }
        seen.extend(items.iter().map(|item| item["type"].as_str().expect("a type").to_owned()));
        path = format!("/v1/admin/log?limit=1&cursor={}", page["next_cursor"].as_str().expect("a cursor"));
    }
    let first = ["order.created", "ticket.issued", "order.paid", "refund.created"];
    assert_eq!(seen[..4], first);
    assert_eq!(seen[4..].iter().collect::<std::collections::BTreeSet<_>>().len(), 2, "{seen:?}");
    for wrong in ["x", "-1", "5--3", "1"] {
        assert_eq!(admin.call("GET", &format!("/v1/admin/log?cursor={wrong}"), Value::Null).await.0, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_is_forgotten_and_whoever_reads_from_before_it_is_told() {
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let settings = [("SEATWIRE_WEBHOOKS_PRIVATE", "true"), ("SEATWIRE_LOG_KEPT_DAYS", "10")];
    let node = scene.node(&settings).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let (receiver, url) = Receiver::start().await;
    let add = async || {
        let made = admin.done("POST", "/v1/admin/webhooks", json!({"url": url})).await;
        made["id"].as_str().expect("an id").to_owned()
    };
    let (well, ill) = (add().await, add().await);
    let sql = "update webhook_endpoints set disabled_ms = 1 where endpoint_id = $1::uuid";
    sqlx::query(sql).bind(&ill).execute(pool).await.expect("sql");
    bought(&node, &scene.event, &[1], "pm_card_visa").await;
    let name = "/v1/admin/log?limit=100";
    let all = eventually("all to be told and noted", || async {
        let log = admin.done("GET", name, Value::Null).await;
        let sql = "select count(*) from webhook_deliveries where sent_ms is null";
        let open_n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
        let n = log["items"].as_array().map_or(0, Vec::len);
        (n == 3 && open_n == 0 && receiver.count() == 3).then_some(log)
    })
    .await;
    let early = all["items"][0]["cursor"].as_str().expect("a cursor");
    let late = all["next_cursor"].as_str().expect("a cursor");
    // Everything but the last row is old by now, and so is the mail; more rows than one portion has.
    let days = |n: i64| (seatwire::clock::Clock::system().now_ms()).cast_signed() - n * 86_400_000;
    let sql = "update event_log set created_ms = $1 where log_id < (select max(log_id) from event_log)";
    sqlx::query(sql).bind(days(11)).execute(pool).await.expect("sql");
    sqlx::query("update mails set sent_ms = $1").bind(days(11)).execute(pool).await.expect("sql");
    let sql = "insert into unreadable_events (provider, body_hash, body, received_ms)
        values ('paysim', '\\x01', 'a', $1), ('paysim', '\\x02', 'b', $2)";
    sqlx::query(sql).bind(days(366)).bind(days(364)).execute(pool).await.expect("sql");
    eventually("the old to be forgotten", || async {
        let sql = "select (select count(*) from event_log) + (select count(*) from mails)
            + (select count(*) from webhook_deliveries) + (select count(*) from unreadable_events)";
        let left_n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
        (left_n == 3).then_some(())
    })
    .await;
    // From the beginning: what is kept. From a place that is gone: where to begin again. From later: nothing missed.
    assert_eq!(admin.done("GET", name, Value::Null).await["items"].as_array().map(Vec::len), Some(1));
    let (status, gone) = admin.call("GET", &format!("{name}&cursor={early}"), Value::Null).await;
    assert_eq!((status, &gone["error"]["code"]), (410, &json!("bad_field")), "{gone}");
    assert_eq!(gone["error"]["data"]["path"], "/cursor");
    let again = gone["error"]["data"]["oldest_cursor"].as_str().expect("a cursor");
    let rest = admin.done("GET", &format!("{name}&cursor={again}"), Value::Null).await;
    assert_eq!(rest["items"][0]["cursor"], all["items"][2]["cursor"], "{rest}");
    assert_eq!(admin.done("GET", &format!("{name}&cursor={late}"), Value::Null).await["items"], json!([]));
    let (status, gone) =
        admin.call("POST", &format!("/v1/admin/webhooks/{well}/replay"), json!({"after": early})).await;
    assert_eq!((status, &gone["error"]["data"]["oldest_cursor"]), (410, &json!(again)), "{gone}");
    // The endpoint that took nothing has missed something, and it says so.
    let hooks = admin.done("GET", "/v1/admin/webhooks", Value::Null).await;
    for hook in hooks["items"].as_array().expect("a list") {
        assert_eq!(hook["missed_until_ms"].is_u64(), hook["id"] == json!(ill), "{hook}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_months_is_forgotten_in_portions_by_its_index() {
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let sql = "insert into event_log (event_id, kind, body, created_ms)
        select id, 'order.paid', '{}', 1 from events, generate_series(1, 5000)";
    sqlx::query(sql).execute(pool).await.expect("sql");
    sqlx::query("analyze event_log").execute(pool).await.expect("sql");
    let plan: Vec<String> = sqlx::query_scalar(
        "explain select xid, log_id, created_ms from event_log where xid < pg_snapshot_xmin(pg_current_snapshot())
         order by xid, log_id limit 1000",
    )
    .fetch_all(pool)
    .await
    .expect("a plan");
    assert!(plan.join("\n").contains("event_log_order"), "{plan:?}");
    let _nodes = [scene.node(&[]).await, scene.node(&[]).await];
    eventually("all to be forgotten", || async {
        let left_n: i64 = sqlx::query_scalar("select count(*) from event_log").fetch_one(pool).await.expect("sql");
        (left_n == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_never_leads_into_our_own_network() {
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[]).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    for url in [
        "http://example.org/",
        "https://127.0.0.1/",
        "https://10.0.0.1/x",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://0/",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://[::ffff:127.0.0.1]/",
        "https://localhost/",
        "https://example.org:99999/",
        "https://u:p@example.org/",
        "ftp://example.org/",
        "nonsense",
        "",
    ] {
        let (status, body) = admin.call("POST", "/v1/admin/webhooks", json!({"url": url})).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("bad_field")), "{url}: {body}");
        assert_eq!(body["error"]["data"]["path"], "/url", "{url}: {body}");
    }
    admin.done("POST", "/v1/admin/webhooks", json!({"url": "https://example.org/hook"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buyers_are_written_to_in_their_language_with_their_tickets() {
    let scene = Scene::new(&Draft::default()).await;
    let data = tempfile_folder();
    let node = scene.node(&[("SEATWIRE_DATA", data.to_str().expect("text"))]).await;
    let mails = async |n: usize, words: &str| {
        eventually(&format!("a mail with {words}"), || async {
            let folder = std::fs::read_dir(data.join("mail")).ok()?;
            let mut texts: Vec<(String, String)> = folder
                .flatten()
                .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "eml"))
                .filter_map(|entry| {
                    // Lines that are only broken for the way are whole again.
                    let text = std::fs::read_to_string(entry.path()).ok()?.replace("=\r\n", "");
                    Some((entry.file_name().into_string().ok()?, text))
                })
                .collect();
            texts.sort();
            (texts.len() == n && texts[n - 1].1.contains(words)).then(|| texts[n - 1].1.clone())
        })
        .await
    };
    let (_, order) = bought(&node, &scene.event, &[1], "pm_card_visa").await;
    let mail = mails(1, "Your tickets").await;
    assert!(mail.contains("To: Ada <ada@example.org>") || mail.contains("To: \"Ada\" <ada@example.org>"), "{mail}");
    assert!(mail.contains("application/pdf") && mail.contains(order["reference"].as_str().expect("text")));

    let (mut buyer, guest) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": scene.event, "seats": [2]})).await;
    let mut fields = super::checkout_of(&reply["hold"], "pm_card_visa");
    fields["key"] = "c".into();
    fields["buyer"]["lang"] = "de".into();
    let german = buyer.call("checkout", fields).await["order"].clone();
    let mail = mails(2, "Ihre Tickets").await;
    assert!(mail.contains("Guten Tag Ada") && mail.contains("47,50 EUR"), "{mail}");

    let ticket = german["tickets"][0]["id"].as_str().expect("an id");
    let path = format!("/v1/orders/{}/tickets/{ticket}/transfer", german["id"].as_str().expect("an id"));
    let to = json!({"to": {"name": "Bob", "email": "bob@example.org"}});
    assert_eq!(guest.post(&path, "t", to).await.0, 200);
    let mail = mails(3, "bob@example.org").await;
    assert!(mail.contains("Ein Ticket") && mail.contains("application/pdf"), "{mail}");

    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    refund(&admin, &order, "r", json!({"all": true, "reason": "x"})).await;
    let mail = mails(4, "Refund of your order").await;
    assert!(mail.contains("47.50 EUR"), "{mail}");
    let _ = std::fs::remove_dir_all(&data);
}

fn tempfile_folder() -> std::path::PathBuf {
    std::path::PathBuf::from(format!("/tmp/seatwire-it-{}-mail{}", std::process::id(), super::key()))
}
