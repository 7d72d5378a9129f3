//! Hello, ids, budgets, tokens: what a session may and may not do.

use crate::support::client::{Client, Guest};
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

#[tokio::test]
async fn hello_says_everything_a_client_needs() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    assert!(guest.identity.starts_with("idn_") && guest.identity.len() == 30, "{guest:?}");
    let mut client = Client::open(&node.url).await;
    let reply = client.call("hello", json!({"token": guest.token, "client": {"name": "it", "version": "1"}, "accepts": ["packed2"], "lang": "de"})).await;
    assert_eq!(reply["ok"], true, "{reply}");
    assert_eq!(reply["identity"], guest.identity.as_str());
    assert_eq!(reply["heartbeat_ms"], 20_000);
    assert_eq!(reply["budget"], json!({"burst": 10, "per_s": 5}));
    assert_eq!(reply["max_command_bytes"], 4096);
    assert_eq!((&reply["holds"], &reply["orders"]), (&json!([]), &json!([])));
    assert!(reply["session"].is_string() && reply["node"].is_string());
    assert!(reply["server_ms"].as_u64().is_some_and(|ms| ms > 1_600_000_000_000));
}

#[tokio::test]
async fn commands_before_hello_are_not_ready_and_the_socket_stays() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let mut client = Client::open(&node.url).await;
    assert_eq!(code(&client.call("ping", json!({"t0": 1})).await), "not_ready");
    let hello = client.command("hello", json!({})).await;
    let ping = client.command("ping", json!({"t0": [1, {"a": 2}]})).await;
    let reply = client.reply(hello).await;
    assert_eq!((&reply["ok"], &reply["identity"]), (&json!(true), &Value::Null));
    let pong = client.reply(ping).await;
    assert_eq!(pong["t0"], json!([1, {"a": 2}]), "pipelined behind hello: {pong}");
    assert!(pong["t2"].as_u64() >= pong["t1"].as_u64());
}

#[tokio::test]
async fn bad_messages_have_their_codes_and_the_tenth_closes() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_COMMAND_BURST", "100")]).await;
    let mut client = Client::hello(&node.url, None).await;
    for (text, id, wanted) in [
        ("{", Value::Null, "bad_json"),
        ("[]", Value::Null, "bad_json"),
        (r#"{"op":"ping"}"#, Value::Null, "bad_field"),
        (r#"{"id":5,"op":"fly"}"#, json!(5), "unknown_op"),
        (r#"{"id":6,"op":"subscribe","event":"no"}"#, json!(6), "bad_field"),
    ] {
        client.send_text(text).await;
        let reply = client.any_reply().await;
        assert_eq!((&reply["id"], code(&reply), &reply["ok"]), (&id, wanted, &json!(false)), "{text}: {reply}");
        if wanted == "bad_field" {
            assert!(reply["error"]["data"]["path"].as_str().is_some_and(|path| path.starts_with('/')), "{reply}");
        }
    }
    for _ in 0..5 {
        client.send_text("nonsense").await;
    }
    assert_eq!(client.closed().await, (4500, "protocol_error".into()));
}

#[tokio::test]
async fn an_id_that_is_still_unanswered_cannot_be_used_again() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut client, _) = Client::guest(&node.url).await;
    stage.redis.signal("STOP");
    let hold = json!({"id": 77, "op": "hold", "key": "k", "event": event, "seats": [1]});
    client.send_text(hold.to_string()).await;
    client.send_text(json!({"id": 77, "op": "ping", "t0": 1}).to_string()).await;
    let reply = client.any_reply().await;
    stage.redis.signal("CONT");
    assert_eq!((&reply["id"], code(&reply)), (&json!(77), "duplicate_id"), "{reply}");
    let _ = client.reply(77).await;
    assert_eq!(client.call("ping", json!({"t0": 1})).await["ok"], true);
}

#[tokio::test]
async fn tokens_decide_who_asks() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let mut client = Client::open(&node.url).await;
    client.command("hello", json!({"token": "not ours"})).await;
    assert_eq!(client.closed().await, (4501, "bad_token".into()));

    let mut client = Client::hello(&node.url, None).await;
    let reply = client.call("hold", json!({"key": "k", "event": event, "seats": [1]})).await;
    assert_eq!(code(&reply), "unauthorized");
    let reply = client.call("hello", json!({"token": guest.token})).await;
    assert_eq!(reply["identity"], guest.identity.as_str(), "a later hello identifies");
    let reply = client.call("hold", json!({"key": "k", "event": event, "seats": [1]})).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    let other = Guest::new(&node.url).await;
    assert_eq!(code(&client.call("hello", json!({"token": other.token})).await), "forbidden");
    assert_eq!(code(&client.call("hello", json!({"token": guest.token})).await), "ok", "refreshing one's own is fine");
}

#[tokio::test]
async fn over_budget_is_rate_limited_with_a_time_and_the_socket_stays() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_COMMAND_BURST", "5"), ("SEATWIRE_COMMANDS_PER_S", "1")]).await;
    let mut client = Client::hello(&node.url, None).await;
    let ids = {
        let mut ids = Vec::new();
        for _ in 0..12 {
            ids.push(client.command("ping", json!({"t0": 1})).await);
        }
        ids
    };
    let mut limited = 0;
    for id in ids {
        let reply = client.reply(id).await;
        if code(&reply) == "rate_limited" {
            limited += 1;
            assert!(reply["error"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{reply}");
            assert_eq!((&reply["error"]["retry"], &reply["error"]["number"]), (&json!("after"), &json!(1201)));
        }
    }
    assert!((1..=8).contains(&limited), "{limited} of 12 were refused");
    let began = std::time::Instant::now();
    while client.call("ping", json!({"t0": 1})).await["ok"] != true {
        assert!(began.elapsed() < crate::support::PATIENCE, "the budget refills");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_ninth_socket_of_an_identity_replaces_the_first() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let mut first = Client::hello(&node.url, Some(&guest.token)).await;
    let mut rest = Vec::new();
    for _ in 0..8 {
        rest.push(Client::hello(&node.url, Some(&guest.token)).await);
    }
    assert_eq!(first.closed().await, (4513, "replaced".into()));
    assert_eq!(rest[0].call("ping", json!({"t0": 0})).await["ok"], true);
}

#[tokio::test]
async fn sigterm_drains_viewers_and_ends_cleanly() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let mut client = Client::hello(&node.url, None).await;
    node.signal("TERM");
    let push = client.push("server.drain").await;
    assert!(push["after_ms"].is_u64() && push["jitter_ms"].is_u64(), "{push}");
    assert_eq!(client.closed().await, (4001, "drain".into()));
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test]
async fn sockets_that_leave_while_they_are_greeted_hold_nobody_up() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    for _ in 0..100 {
        let mut leaving = Client::open(&node.url).await;
        leaving.command("hello", json!({"token": guest.token})).await;
    }
    // The same identity comes back, on every thread of the node.
    for _ in 0..8 {
        let mut back = Client::hello(&node.url, Some(&guest.token)).await;
        assert_eq!(back.call("ping", json!({"t0": 1})).await["ok"], true);
    }
}

#[tokio::test]
async fn who_comes_back_while_a_store_is_down_is_greeted_and_sees_the_map() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let mut before = Client::hello(&node.url, Some(&guest.token)).await;
    before.call("subscribe", json!({"event": event})).await;
    stage.redis.kill();
    let mut back = Client::hello(&node.url, Some(&guest.token)).await;
    assert_eq!(back.call("subscribe", json!({"event": event})).await["ok"], true);
    assert_eq!(back.frame().await[3], 1, "a snapshot");
}
