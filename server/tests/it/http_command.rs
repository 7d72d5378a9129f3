//! What is done over HTTP: identities and holds, their keys, and every way in which a call can be wrong.

use crate::support::client::{Client, Guest};
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

#[tokio::test]
async fn a_guest_gets_an_identity_and_a_token() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    assert!(guest.identity.starts_with("idn_") && guest.token.len() > 40);
    let other = Guest::new(&node.url).await;
    assert_ne!(guest.identity, other.identity);
}

#[tokio::test]
async fn a_hold_is_made_read_extended_and_released() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let holds = format!("/v1/events/{event}/holds");
    let (status, body) = guest.post(&holds, "k1", json!({"seats": [2, 3]})).await;
    assert_eq!(status, 201, "{body}");
    assert_eq!((&body["epoch"], &body["seq"]), (&json!(1), &json!(1)));
    let hold = body["hold"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(body["hold"]["total_minor"], 2 * (4500 + 250));
    let (status, body) = guest.post(&holds, "k2", json!({"area": 0, "quantity": 2})).await;
    assert_eq!((status, body["hold"]["lines"].as_array().map(Vec::len)), (201, Some(3)), "{body}");

    let (status, body) = guest.get(&format!("/v1/holds/{hold}")).await;
    assert_eq!((status, &body["hold"]["id"]), (200, &json!(hold)), "{body}");
    assert!(body["epoch"].is_u64() && body["seq"].is_u64());
    let expires_ms = body["hold"]["expires_ms"].as_u64().expect("a time");
    let (status, body) = guest.post(&format!("/v1/holds/{hold}/extend"), "k3", json!({})).await;
    assert_eq!((status, body["hold"]["expires_ms"].as_u64()), (200, Some(expires_ms + 120_000)), "{body}");
    let (status, body) = guest.post(&format!("/v1/holds/{hold}/extend"), "k4", json!({})).await;
    assert_eq!((status, &body["error"]["code"]), (409, &json!("extend_refused")));
    assert!(body["epoch"].is_u64(), "refusals say where the map stood: {body}");

    let release = format!("/v1/holds/{hold}/release");
    let (status, body) = guest.post(&release, "k5", json!({"seats": [2]})).await;
    assert_eq!((status, body["hold"]["lines"].as_array().map(Vec::len)), (200, Some(2)), "{body}");
    let (status, body) = guest.post(&release, "k6", json!({"seats": [2]})).await;
    assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!("/seats/0")));
    let (status, body) = guest.post(&release, "k7", json!({})).await;
    assert_eq!((status, &body["hold"]), (200, &Value::Null), "{body}");
    let (status, body) = guest.get(&format!("/v1/holds/{hold}")).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("hold_not_found")));
}

#[tokio::test]
async fn a_hold_that_is_over_says_so_to_its_owner_and_nothing_to_others() {
    let (stage, event) = Stage::with_event(&Draft { hold_ttl_ms: 1_000, ..Draft::default() }).await;
    let node = stage.node().await;
    let (guest, other) = (Guest::new(&node.url).await, Guest::new(&node.url).await);
    let (status, body) = guest.post(&format!("/v1/events/{event}/holds"), "k1", json!({"seats": [2]})).await;
    assert_eq!(status, 201, "{body}");
    let path = format!("/v1/holds/{}", body["hold"]["id"].as_str().expect("an id"));
    let (status, body) = crate::support::eventually("the end of the hold", || async {
        let answer = guest.get(&path).await;
        (answer.0 != 200).then_some(answer)
    })
    .await;
    assert_eq!((status, &body["error"]["code"]), (410, &json!("hold_expired")), "{body}");
    let (status, body) = other.get(&path).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("hold_not_found")), "{body}");
}

#[tokio::test]
async fn a_key_means_the_same_over_http_and_on_a_socket() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut socket, guest) = Client::guest(&node.url).await;
    let first = socket.call("hold", json!({"event": event, "seats": [5], "key": "same"})).await;
    assert_eq!(first["ok"], true, "{first}");
    let holds = format!("/v1/events/{event}/holds");
    let (status, again) = guest.post(&holds, "same", json!({"seats": [5]})).await;
    assert_eq!((status, &again["replayed"]), (201, &json!(true)), "{again}");
    assert_eq!(again["hold"]["id"], first["hold"]["id"]);
    let (status, other) = guest.post(&holds, "same", json!({"seats": [6]})).await;
    assert_eq!((status, &other["error"]["code"]), (422, &json!("key_reused")), "{other}");
    let push = socket.push("hold.update").await;
    assert_eq!(push["hold"]["id"], first["hold"]["id"]);
}

#[tokio::test]
async fn refusals_carry_their_status_and_their_data() {
    let (stage, event) = Stage::with_event(&Draft { seats_per_identity: 2, ..Draft::default() }).await;
    let node = stage.node().await;
    let (guest, rival) = (Guest::new(&node.url).await, Guest::new(&node.url).await);
    let holds = format!("/v1/events/{event}/holds");
    let (_, body) = rival.post(&holds, "k", json!({"seats": [0]})).await;
    let foreign = body["hold"]["id"].as_str().expect("an id");
    for (path, body, status, code) in [
        (holds.clone(), json!({"seats": [0]}), 409, "seat_taken"),
        (holds.clone(), json!({"seats": [9999]}), 400, "seat_unknown"),
        (holds.clone(), json!({"area": 7, "quantity": 1}), 400, "seat_unknown"),
        (holds.clone(), json!({"seats": [1, 2, 3]}), 409, "limit_exceeded"),
        (holds.clone(), json!({"seats": []}), 400, "bad_field"),
        (holds.clone(), json!({"seats": [1, 1]}), 400, "bad_field"),
        (holds.clone(), json!({"seats": "all"}), 400, "bad_field"),
        (holds.clone(), json!({}), 400, "bad_field"),
        (holds.clone(), json!({"seats": [1], "area": 0}), 400, "bad_field"),
        (holds.clone(), json!({"best": 4}), 400, "bad_field"),
        (holds.clone(), json!({"best": {"quantity": 0}}), 400, "bad_field"),
        (
            format!("/v1/events/{}/holds", seatwire_proto::id::EventId::generate()),
            json!({"seats": [1]}),
            404,
            "event_unknown",
        ),
        ("/v1/events/evt_x/holds".to_owned(), json!({"seats": [1]}), 404, "event_unknown"),
        (format!("/v1/holds/{foreign}/extend"), json!({}), 404, "hold_not_found"),
        (format!("/v1/holds/{foreign}/release"), json!({}), 404, "hold_not_found"),
        ("/v1/holds/hld_x/release".to_owned(), json!({}), 404, "hold_not_found"),
        (format!("/v1/holds/{}/extend", seatwire_proto::id::HoldId::generate()), json!({}), 404, "hold_not_found"),
    ] {
        let key = format!("{path} {body}").bytes().map(u32::from).sum::<u32>().to_string();
        let (found, answer) = guest.post(&path, &key, body.clone()).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &json!(code)), "{path} {body}: {answer}");
    }
    let (_, taken) = guest.post(&holds, "data", json!({"seats": [0]})).await;
    assert_eq!(taken["error"]["data"]["seats"], json!([0]));
    assert!(taken["error"]["data"]["alternatives"].is_array() && taken["seq"].is_u64(), "{taken}");
    let (_, best) = guest.post(&holds, "best", json!({"best": {"quantity": 0}})).await;
    assert_eq!(best["error"]["data"]["path"], "/best/quantity");
}

/// A call with every part of it open to mistakes.
async fn raw(url: &str, token: Option<&str>, key: Option<&str>, kind: Option<&str>, body: String) -> (u16, Value) {
    let mut request = reqwest::Client::new().post(url).body(body);
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    if let Some(kind) = kind {
        request = request.header("Content-Type", kind);
    }
    let response = request.send().await.expect("answers");
    (response.status().as_u16(), response.json().await.expect("every refusal is JSON"))
}

#[tokio::test]
async fn wrong_tokens_keys_and_bodies_are_told_apart() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let url = format!("{}/v1/events/{event}/holds", node.url);
    let bearer = format!("Bearer {}", guest.token);
    let (token, key, kind) = (Some(bearer.as_str()), Some("k"), Some("application/json"));
    let seats = || r#"{"seats":[1]}"#.to_owned();
    let edited = format!("Bearer {}x", &guest.token[..guest.token.len() - 1]);
    for (token, key, kind, body, status, code) in [
        (None, key, kind, seats(), 401, "unauthorized"),
        (Some("Bearer nonsense"), key, kind, seats(), 401, "unauthorized"),
        (Some(edited.as_str()), key, kind, seats(), 401, "unauthorized"),
        (Some("Basic dTpw"), key, kind, seats(), 401, "unauthorized"),
        (token, None, kind, seats(), 400, "bad_field"),
        (token, Some(""), kind, seats(), 400, "bad_field"),
        (token, Some(&"k".repeat(65)), kind, seats(), 400, "bad_field"),
        (token, key, Some("text/plain"), seats(), 415, "bad_field"),
        (token, key, None, seats(), 415, "bad_field"),
        (token, key, kind, "{".to_owned(), 400, "bad_json"),
        (token, key, kind, "[1]".to_owned(), 400, "bad_json"),
        (token, key, kind, "\"text\"".to_owned(), 400, "bad_json"),
        (token, key, kind, String::new(), 400, "bad_field"),
        (token, key, kind, format!(r#"{{"seats":[1],"x":"{}"}}"#, "x".repeat(70_000)), 413, "too_large"),
    ] {
        let shown = format!("{token:?} {key:?} {kind:?} {}", &body[..body.len().min(40)]);
        let (found, answer) = raw(&url, token, key, kind, body).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &json!(code)), "{shown}: {answer}");
    }
    let (_, answer) = raw(&url, token, None, kind, seats()).await;
    assert_eq!(answer["error"]["data"]["path"], "/Idempotency-Key");
    let twice = reqwest::Client::new().post(&url).bearer_auth(&guest.token).json(&json!({"seats": [1]}));
    let twice = twice.header("Idempotency-Key", "k").header("Idempotency-Key", "k").send().await.expect("answers");
    assert_eq!(twice.status().as_u16(), 400, "two keys are two intentions");
    let (_, answer) = raw(&url, token, key, Some("text/plain"), seats()).await;
    assert_eq!(answer["error"]["data"]["path"], "/Content-Type");
    let (status, answer) = raw(&url, token, key, Some("application/json; charset=utf-8"), seats()).await;
    assert_eq!(status, 201, "{answer}");
    let response =
        reqwest::Client::new().get(format!("{}/v1/holds/{}", node.url, answer["hold"]["id"].as_str().expect("id")));
    assert_eq!(response.send().await.expect("answers").status().as_u16(), 401);
}
