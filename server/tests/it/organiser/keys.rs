//! Keys of the admin listener: what they open, what they do not, and what is noted.

use crate::support::UNHURRIED;
use crate::support::admin::Admin;
use crate::support::client::Client;
use crate::support::stage::{Draft, Stage, enter_event};
use seatwire::clock::Clock;
use seatwire::http::{admin, door};
use seatwire::organiser::key::Presented;
use seatwire::organiser::{Scope, key};
use serde_json::{Value, json};
use std::process::Command;

/// Every route of the listeners of operators and doors with the scope it asks for and a body it takes.
fn routes(event: &str) -> Vec<(Scope, &'static str, String, Value)> {
    let section = json!({"name": "Extra", "outline": [[0, 200], [20, 200], [20, 220]], "price_tier": "B",
        "rows": [{"label": "1", "seats": ["1", "2"], "x": [0, 5], "y": [210, 210]}]});
    let prices = json!({"price_tiers": [{"code": "A", "price_minor": 1, "fee_minor": 0}]});
    let body = |method: &str, path: &str| match (method, path.rsplit('/').next()) {
        ("GET", _) | ("POST", Some("look")) => Value::Null,
        ("POST", Some("webhooks")) => json!({"url": "https://example.org/hook"}),
        ("DELETE", _) | (_, Some("rotate" | "retry")) => Value::Null,
        (_, Some("replay")) => json!({"after": "0"}),
        ("PATCH", _) if path.contains("webhooks") => json!({"enabled": true}),
        ("PATCH", _) => json!({"name": "Another"}),
        (_, Some("state")) => json!({"state": "paused"}),
        (_, Some("prices")) => prices.clone(),
        (_, Some("check-in")) => json!({"ticket": "x", "door": "a", "scan": "1"}),
        (_, Some("block" | "unblock")) => json!({"seats": [1]}),
        (_, Some("sections")) => section.clone(),
        (_, Some("areas")) => json!({"area": 0, "capacity": 60}),
        (_, Some("refunds")) => json!({"all": true, "reason": "x"}),
        _ => panic!("{method} {path} is new: say here what it takes"),
    };
    let named = |path: &str| {
        let path = path.replace("{event}", event).replace("{order}", UNKNOWN_ORDER);
        path.replace("{webhook}", UNKNOWN_HOOK).replace("{mail}", UNKNOWN_MAIL)
    };
    let all = admin::listed().into_iter().chain(door::listed());
    all.map(|(scope, method, path)| (scope, method, named(path), body(method, path))).collect()
}

const UNKNOWN_HOOK: &str = "01900000-0000-7000-8000-000000000000";
const UNKNOWN_MAIL: &str = "9000000000000";
const UNKNOWN_ORDER: &str = "ord_01h455vb4pex5vsknk084sn02q";

#[tokio::test]
async fn every_route_needs_a_key_and_its_scope() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let all = Admin::new(&stage, &node, &Scope::ALL).await;
    for (scope, method, path, body) in routes(&event) {
        let url = if path.starts_with("/v1/door/") { &node.door_url } else { &node.admin_url };
        let at = |admin: Admin| Admin { url: url.clone(), ..admin };
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        let without = at(Admin::new(&stage, &node, &others).await);
        let mut edited = at(all.clone());
        let last = if edited.key.pop() == Some('0') { '1' } else { '0' };
        edited.key.push(last);
        let nobody = at(Admin { key: "swadm_nonsense".into(), ..all.clone() });
        for (who, wanted, number) in [(&nobody, 401, 1101), (&edited, 401, 1101), (&without, 403, 1103)] {
            let (status, answer) = who.call(method, &path, body.clone()).await;
            assert_eq!((status, &answer["error"]["number"]), (wanted, &json!(number)), "{method} {path}: {answer}");
        }
        let bare = reqwest::Client::new().request(method.parse().expect("a method"), format!("{url}{path}"));
        assert_eq!(bare.send().await.expect("answers").status(), 401, "{method} {path} without a key");
        let only = at(Admin::new(&stage, &node, &[scope]).await);
        let (status, answer) = only.call(method, &path, body).await;
        // Behind the door: there is no such order or webhook, or a key is missing.
        let names_nothing = [UNKNOWN_ORDER, UNKNOWN_HOOK, UNKNOWN_MAIL].iter().any(|unknown| path.contains(unknown));
        let code = answer["error"]["code"].as_str();
        let is_in = status == 200 || names_nothing && matches!(code, Some("order_not_found" | "bad_field"));
        assert!(is_in, "{method} {path}: {status} {answer}");
    }
    let (status, answer) = all.call("POST", &format!("/v1/admin/orders/{UNKNOWN_ORDER}/look"), Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("order_not_found")), "{answer}");
    for path in [format!("/v1/admin/events/{event}/log"), "/v1/admin/mails/open".to_owned()] {
        for cursor in ["-1", "0", "x"] {
            let (status, answer) = all.call("GET", &format!("{path}?cursor={cursor}"), Value::Null).await;
            assert_eq!(
                (status, &answer["error"]["data"]["path"]),
                (400, &json!("/cursor")),
                "{path} {cursor}: {answer}"
            );
        }
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
            .envs(UNHURRIED)
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

#[tokio::test]
async fn what_cannot_be_is_a_bad_field_and_never_a_failure() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let admin = Admin::new(&stage, &node, &Scope::ALL).await;
    let of = |rest: &str| format!("/v1/admin/events/{event}{rest}");
    let price = |code: &str, price_minor: i64| json!({"price_tiers": [{"code": code, "price_minor": price_minor, "fee_minor": 1}]});
    let section = |name: &str| {
        json!({"name": name, "outline": [[0, 200], [20, 200], [20, 220]], "price_tier": "B",
        "rows": [{"label": "1", "seats": ["1"], "x": [0], "y": [210]}]})
    };
    let most = (1i64 << 53) - 2;
    let north = Admin::door(&stage, &node).await;
    let check_in = format!("/v1/door/events/{event}/check-in");
    for (method, path, body, at) in [
        ("PUT", of("/prices"), price("A\u{0}", 1), "/price_tiers/0/code"),
        ("PUT", of("/prices"), price("A", most), "/price_tiers/0"),
        ("PUT", of("/prices"), price("A", most / 3), "/price_tiers/0"),
        ("PATCH", of(""), json!({"presale_ms": 2_000, "on_sale_ms": 1_000}), "/presale_ms"),
        ("POST", of("/sections"), section(" "), "/name"),
        ("POST", of("/sections"), section("a\u{0}"), "/name"),
        ("POST", check_in, json!({"ticket": "x\u{0}", "door": "a", "scan": "1"}), "/ticket"),
    ] {
        let whose = if path.starts_with("/v1/door/") { &north } else { &admin };
        let (status, answer) = whose.call(method, &path, body.clone()).await;
        assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!(at)), "{method} {path} {body}: {answer}");
    }
}

#[tokio::test]
async fn a_stand_of_ten_thousand_seats_is_appended_and_the_list_goes_on_behind_a_cursor() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let admin = Admin::new(&stage, &node, &[Scope::Read, Scope::Inventory]).await;
    let rows: Vec<Value> = (0..100)
        .map(|row| {
            let seats: Vec<String> = (1..=100).map(|seat| seat.to_string()).collect();
            let x: Vec<i32> = (0..100).map(|seat| seat * 5).collect();
            json!({"label": row.to_string(), "seats": seats, "x": x, "y": vec![200 + row * 5; 100]})
        })
        .collect();
    let section =
        json!({"name": "Stand", "outline": [[0, 200], [500, 200], [500, 700]], "price_tier": "B", "rows": rows});
    assert!(section.to_string().len() > 64 << 10);
    let answer = admin.done("POST", &format!("/v1/admin/events/{event}/sections"), section).await;
    assert_eq!(answer["seat_count"], 10_160, "{answer}");

    let list = admin.done("GET", "/v1/admin/events?limit=1", Value::Null).await;
    assert_eq!((&list["items"][0]["id"], list.get("next_cursor")), (&json!(event), None), "{list}");
    let other = enter_event(&stage.store, &Draft::default()).await.to_string();
    let first = admin.done("GET", "/v1/admin/events?limit=1", Value::Null).await;
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = admin.done("GET", &format!("/v1/admin/events?limit=1&cursor={cursor}"), Value::Null).await;
    let mut ids =
        [&first["items"][0]["id"], &second["items"][0]["id"]].map(|id| id.as_str().expect("an id").to_owned());
    ids.sort();
    let mut wanted = [event, other];
    wanted.sort();
    assert_eq!((ids, second.get("next_cursor")), (wanted, None), "{second}");
    let (status, answer) = admin.call("GET", "/v1/admin/events?cursor=x", Value::Null).await;
    assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!("/cursor")), "{answer}");
}

#[tokio::test]
async fn unblocking_names_what_is_not_for_sale_all_the_same() {
    let (stage, event) = Stage::with_event(&Draft { blocked: vec![1], ..Draft::default() }).await;
    let node = stage.node().await;
    let admin = Admin::new(&stage, &node, &[Scope::Inventory]).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [2]})).await;
    assert_eq!(held["ok"], true, "{held}");
    let answer = admin.done("POST", &format!("/v1/admin/events/{event}/unblock"), json!({"seats": [1, 2, 3]})).await;
    assert_eq!(answer, json!({"seats": [1, 3], "refused": [{"seat": 2, "state": "held"}]}));
}

#[tokio::test]
async fn whoever_tries_keys_gets_little_of_the_ledger_and_keeps_no_good_key_out() {
    let stage = Stage::new().await;
    let made = key::create(&stage.store, "x", &[Scope::Read], Clock::system().now_ms()).await.expect("a key");
    let keyring = key::Keyring::new(stage.store.clone());
    let good = made.key.reveal();
    assert!(matches!(keyring.verify(good).await.expect("answers"), Presented::Good(_)));

    let (id, began) = (good.split('_').nth(1).expect("an id"), std::time::Instant::now());
    let edited = format!("swadm_{id}_{}", "0".repeat(64));
    let tries = (0..600u32).map(|at| {
        let keyring = keyring.clone();
        tokio::spawn(async move {
            let unknown = format!("swadm_{at:032x}_{}", "0".repeat(64));
            keyring.verify(&unknown).await.expect("answers")
        })
    });
    let tries: Vec<_> = tries.collect();
    assert!(matches!(keyring.verify(good).await.expect("answers"), Presented::Good(_)), "while others try");
    assert_eq!(keyring.verify(&edited).await.expect("answers"), Presented::False, "known to be false");
    assert!(tries.iter().any(|tried| !tried.is_finished()), "neither waits until the others are done");
    let mut looked_up = 0;
    let mut turned_away = 0;
    for tried in tries {
        match tried.await.expect("runs") {
            Presented::False => looked_up += 1,
            Presented::Crowded => turned_away += 1,
            Presented::Good(operator) => panic!("{operator:?}"),
        }
    }
    // Four places, 20 ms each.
    let most = 4 * (began.elapsed().as_millis() / 20 + 1);
    assert!(looked_up > 0 && looked_up <= most && looked_up + turned_away == 600, "{looked_up} {turned_away}");
    assert!(turned_away > 0, "for a second, and no longer");
}

#[tokio::test]
async fn false_keys_are_counted() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let mut north = Admin::door(&stage, &node).await;
    north.key = format!("swadm_{}_{}", "0".repeat(32), "0".repeat(64));
    let path = format!("/v1/door/events/{event}/check-in");
    let (status, answer) = north.call("POST", &path, json!({"ticket": "x", "door": "a", "scan": "1"})).await;
    assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{answer}");
    let metrics = reqwest::get(format!("{}/metrics", node.admin_url)).await.expect("answers");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.lines().any(|line| line.ends_with("keys_refused_total 1")), "{metrics}");
}
