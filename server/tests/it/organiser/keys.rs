//! Keys of the admin listener: what they open, what they do not, and what is noted.

use crate::support::admin::Admin;
use crate::support::stage::{Draft, Stage};
use seatwire::clock::Clock;
use seatwire::organiser::{Scope, key};
use serde_json::{Value, json};
use std::process::Command;

/// Every route with the scope it asks for and a body it takes.
fn routes(event: &str) -> Vec<(Scope, &'static str, String, Value)> {
    let of = |rest: &str| format!("/v1/admin/events/{event}{rest}");
    let section = json!({"name": "Extra", "outline": [[0, 200], [20, 200], [20, 220]], "price_tier": "B",
        "rows": [{"label": "1", "seats": ["1", "2"], "x": [0, 5], "y": [210, 210]}]});
    vec![
        (Scope::Read, "GET", "/v1/admin/events".into(), Value::Null),
        (Scope::Read, "GET", of(""), Value::Null),
        (Scope::Read, "GET", of("/log"), Value::Null),
        (Scope::Events, "PATCH", of(""), json!({"name": "Another"})),
        (Scope::Events, "PUT", of("/state"), json!({"state": "paused"})),
        (
            Scope::Events,
            "PUT",
            of("/prices"),
            json!({"price_tiers": [{"code": "A", "price_minor": 1, "fee_minor": 0}]}),
        ),
        (Scope::Read, "GET", "/v1/admin/payments/open".into(), Value::Null),
        (Scope::Read, "GET", "/v1/admin/log".into(), Value::Null),
        (Scope::Read, "GET", "/v1/admin/webhooks".into(), Value::Null),
        (Scope::Events, "POST", "/v1/admin/webhooks".into(), json!({"url": "https://example.org/hook"})),
        (Scope::Door, "POST", of("/check-in"), json!({"ticket": "x", "door": "a", "scan": "1"})),
        (Scope::Inventory, "POST", of("/block"), json!({"seats": [1]})),
        (Scope::Inventory, "POST", of("/unblock"), json!({"seats": [1]})),
        (Scope::Inventory, "POST", of("/sections"), section),
    ]
}

#[tokio::test]
async fn every_route_needs_a_key_and_its_scope() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let all = Admin::new(&stage, &node, &Scope::ALL).await;
    for (scope, method, path, body) in routes(&event) {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        let without = Admin::new(&stage, &node, &others).await;
        let mut edited = all.clone();
        let last = if edited.key.pop() == Some('0') { '1' } else { '0' };
        edited.key.push(last);
        let nobody = Admin { key: "swadm_nonsense".into(), ..all.clone() };
        for (who, wanted, number) in [(&nobody, 401, 1101), (&edited, 401, 1101), (&without, 403, 1103)] {
            let (status, answer) = who.call(method, &path, body.clone()).await;
            assert_eq!((status, &answer["error"]["number"]), (wanted, &json!(number)), "{method} {path}: {answer}");
        }
        let bare =
            reqwest::Client::new().request(method.parse().expect("a method"), format!("{}{path}", node.admin_url));
        assert_eq!(bare.send().await.expect("answers").status(), 401, "{method} {path} without a key");
        let only = Admin::new(&stage, &node, &[scope]).await;
        only.done(method, &path, body).await;
    }
    let public = Admin { url: node.url.clone(), ..all.clone() };
    let (status, _) = public.call("GET", "/v1/admin/events", Value::Null).await;
    assert_eq!(status, 404, "not on the public listener");
    let (status, answer) = all.call("GET", "/v1/admin/events/evt_01h455vb4pex5vsknk084sn02q", Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("event_unknown")), "{answer}");
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_and_every_change_names_its_key() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let redis_url = stage.redis.url();
    let seatwire = |args: &[&str]| {
        let done = Command::new(crate::support::program())
            .args(args)
            .env("DATABASE_URL", &stage.database_url)
            .env("REDIS_URL", &redis_url)
            .output()
            .expect("runs");
        (
            done.status.success(),
            String::from_utf8(done.stdout).expect("text"),
            String::from_utf8(done.stderr).expect("text"),
        )
    };
    let (is_done, out, _) =
        seatwire(&["admin-key", "create", "--name", "box office", "--scope", "events", "--scope", "read"]);
    assert!(is_done);
    let word = |name: &str| out.lines().find_map(|line| line.strip_prefix(name)).expect("a line").trim().to_owned();
    let (id, admin) = (word("id"), Admin { url: node.admin_url.clone(), key: word("key") });
    let path = format!("/v1/admin/events/{event}");
    let changed = admin.done("PATCH", &path, json!({"rules": {"seats_per_identity": 3}})).await;
    assert_eq!(changed["rules"]["seats_per_identity"], 3, "{changed}");
    let log = admin.done("GET", &format!("{path}/log"), Value::Null).await;
    let entry = &log["items"][0];
    assert_eq!(
        (&entry["key_name"], &entry["action"], &entry["detail"]),
        (&json!("box office"), &json!("event.settings"), &json!({"seats_per_identity": 3})),
        "{log}"
    );
    let (_, listed, _) = seatwire(&["admin-key", "list"]);
    assert!(listed.contains(&id) && listed.contains("read,events") && !listed.contains(&admin.key), "{listed}");
    let hash: Vec<u8> =
        sqlx::query_scalar("select secret_hash from admin_keys").fetch_one(stage.store.pool()).await.expect("a row");
    assert_eq!(hash.len(), 32);
    assert!(seatwire(&["admin-key", "revoke", &id]).0);
    let (status, _) = admin.call("GET", &path, Value::Null).await;
    assert_eq!(status, 401, "at once");
    let (is_done, _, complaint) = seatwire(&["admin-key", "revoke", &id]);
    assert!(!is_done && complaint.contains(&id), "{complaint}");
    let (is_done, _, complaint) = seatwire(&["admin-key", "create", "--scope", "everything"]);
    assert!(!is_done && complaint.contains("read, events"), "{complaint}");
    let gone = sqlx::query("delete from admin_log").execute(stage.store.pool()).await;
    assert!(gone.is_err(), "the log only grows");
}

#[tokio::test]
async fn a_key_needs_a_name_and_a_scope() {
    let stage = Stage::new().await;
    let now_ms = Clock::system().now_ms();
    assert!(key::create(&stage.store, " ", &[Scope::Read], now_ms).await.is_err());
    assert!(key::create(&stage.store, "x", &[], now_ms).await.is_err());
    let made = key::create(&stage.store, "x", &[Scope::Read, Scope::Read], now_ms).await.expect("a key");
    let operator = key::verify(&stage.store, made.key.reveal()).await.expect("answers").expect("is known");
    assert!(operator.may(Scope::Read) && !operator.may(Scope::Events));
    assert!(!format!("{made:?}").contains(made.key.reveal()), "a key is not shown by accident");
}
