//! Order, waiting, budgets and tokens of one session.

use super::foyer::Foyer;
use crate::support::client::Client;
use crate::support::eventually;
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use seatwire_proto::server::Push;
use serde_json::{Value, json};
use std::time::Duration;

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

const PATIENT: &[(&str, &str)] = &[("SEATWIRE_COMMAND_BURST", "1000"), ("SEATWIRE_COMMANDS_PER_S", "1000")];

fn hold(event: EventId, key: &str) -> Value {
    json!({"key": key, "event": event, "seats": [1]})
}

#[tokio::test]
async fn two_commands_run_at_once_and_those_of_one_thing_run_in_order() {
    let foyer = Foyer::open_with(100, PATIENT).await;
    let mut client = foyer.client_of(IdentityId::generate()).await;
    foyer.clerk.permits.forget_permits(1_000);
    let other = EventId::generate();
    let a = client.command("hold", hold(foyer.event, "a")).await;
    let b = client.command("hold", hold(foyer.event, "b")).await;
    let c = client.command("hold", hold(other, "c")).await;
    let d = client.command("hold", hold(EventId::generate(), "d")).await;
    let begun = || foyer.clerk.begun.lock().clone();
    eventually("two to begin", || async { (begun().len() == 2).then_some(()) }).await;
    assert_eq!(client.call("ping", json!({"t0": 1})).await["ok"], true, "a ping waits for nobody");
    assert_eq!(begun(), ["hold a", "hold c"], "b waits for a, d for a place");
    for _ in 0..4 {
        foyer.clerk.permits.add_permits(1);
    }
    for id in [a, b, c, d] {
        assert_eq!(client.reply(id).await["ok"], true);
    }
    let begun = begun();
    let at = |what: &str| begun.iter().position(|op| op == what).expect(what);
    assert!(at("hold a") < at("hold b"));
}

#[tokio::test]
async fn too_many_that_wait_are_refused() {
    let foyer = Foyer::open_with(100, PATIENT).await;
    let mut client = foyer.client_of(IdentityId::generate()).await;
    foyer.clerk.permits.forget_permits(1_000);
    for key in 0..34 {
        client.command("hold", hold(foyer.event, &key.to_string())).await;
    }
    let reply = client.any_reply().await;
    assert_eq!(code(&reply), "rate_limited", "{reply}");
    assert!(reply["error"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0));
}

#[tokio::test]
async fn an_id_is_free_again_as_soon_as_it_is_answered() {
    let foyer = Foyer::open_with(100, PATIENT).await;
    let mut client = foyer.client_of(IdentityId::generate()).await;
    for _ in 0..200 {
        let text = json!({"id": 7, "op": "hold", "key": "k", "event": foyer.event, "seats": [1]}).to_string();
        client.send_text(text).await;
        let reply = client.reply(7).await;
        assert_eq!(code(&reply), "ok", "{reply}");
    }
    foyer.clerk.permits.forget_permits(1_000);
    let text = json!({"id": 7, "op": "hold", "key": "k", "event": foyer.event, "seats": [1]}).to_string();
    client.send_text(text.clone()).await;
    client.send_text(text).await;
    assert_eq!(code(&client.reply(7).await), "duplicate_id");
}

#[tokio::test]
async fn a_command_whose_task_dies_is_answered_and_gives_its_place_back() {
    let foyer = Foyer::open_with(100, PATIENT).await;
    let mut client = foyer.client_of(IdentityId::generate()).await;
    for key in ["1", "2", "3"] {
        let reply = client.call("unlock", json!({"key": key, "event": foyer.event, "code": "x"})).await;
        assert_eq!(code(&reply), "internal", "{reply}");
        assert!(reply["error"]["data"]["trace"].is_string());
    }
    assert_eq!(code(&client.call("hold", hold(foyer.event, "k")).await), "ok");
}

#[tokio::test]
async fn an_expired_token_is_told_and_may_be_renewed_while_the_map_flows() {
    let foyer = Foyer::open_with(100, PATIENT).await;
    let identity = IdentityId::generate();
    let short = foyer.identities.issue_for(identity, Duration::from_millis(1_000)).token;
    let mut client = Client::hello(&foyer.url, Some(&short)).await;
    assert_eq!(code(&client.call("hold", hold(foyer.event, "a")).await), "ok");
    foyer.clock.advance_ms(1_001);
    assert_eq!(code(&client.call("hold", hold(foyer.event, "b")).await), "token_expired");
    assert_eq!(code(&client.call("subscribe", json!({"event": foyer.event})).await), "ok");
    assert_eq!(code(&client.call("hello", json!({"token": short})).await), "token_expired");
    let fresh = foyer.identities.issue_for(identity, Duration::from_secs(60)).token;
    assert_eq!(code(&client.call("hello", json!({"token": fresh})).await), "ok");
    assert_eq!(code(&client.call("hold", hold(foyer.event, "b")).await), "ok");

    let mut late = Client::open(&foyer.url).await;
    let first = late.command("hello", json!({"token": short})).await;
    let behind = late.command("ping", json!({"t0": 1})).await;
    assert_eq!(code(&late.reply(first).await), "token_expired");
    assert_eq!(code(&late.reply(behind).await), "not_ready", "what came behind a refused hello");
    assert_eq!(code(&late.call("hello", json!({"token": fresh})).await), "ok");
}

#[tokio::test]
async fn anonymous_sessions_watch_and_ask_for_nothing_else() {
    let foyer = Foyer::open_with(100, PATIENT).await;
    let mut client = foyer.viewer().await;
    assert_eq!(code(&client.call("subscribe", json!({"event": foyer.event})).await), "ok");
    assert_eq!(code(&client.call("hold", hold(foyer.event, "a")).await), "unauthorized");
    assert_eq!(code(&client.call("extend", json!({"key": "k", "hold": HoldId::generate()})).await), "unauthorized");
}

#[tokio::test]
async fn a_low_budget_is_told_once() {
    let foyer = Foyer::open_with(100, &[("SEATWIRE_COMMAND_BURST", "5"), ("SEATWIRE_COMMANDS_PER_S", "1")]).await;
    let mut client = foyer.viewer().await;
    // Without waiting for the answers: on a slow machine the budget would come back meanwhile.
    for _ in 0..5 {
        client.command("ping", json!({"t0": 1})).await;
    }
    let push = client.push("budget.low").await;
    assert_eq!((&push["remaining"], &push["per_s"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn sessions_of_one_identity_share_a_budget() {
    let settings = [("SEATWIRE_COMMAND_BURST", "5"), ("SEATWIRE_COMMANDS_PER_S", "1")];
    let foyer = Foyer::open_with(100, &settings).await;
    let identity = IdentityId::generate();
    let mut clients = Vec::new();
    for _ in 0..7 {
        clients.push(foyer.client_of(identity).await);
    }
    let (mut limited, began) = (0, std::time::Instant::now());
    for client in &mut clients {
        let mut asked = Vec::new();
        for _ in 0..4 {
            asked.push(client.command("ping", json!({"t0": 1})).await);
        }
        for id in asked {
            limited += u64::from(code(&client.reply(id).await) == "rate_limited");
        }
    }
    // A slow machine takes seconds, and one comes back each second.
    let came_back = began.elapsed().as_secs();
    assert!((6_u64.saturating_sub(came_back)..=9).contains(&limited), "28 pings of 20: {limited} refused");
}

#[tokio::test]
async fn a_push_reaches_every_session_of_its_identity_and_no_other() {
    let foyer = Foyer::open(100).await;
    let identity = IdentityId::generate();
    let mut tabs = [foyer.client_of(identity).await, foyer.client_of(identity).await];
    let mut stranger = foyer.client_of(IdentityId::generate()).await;
    let push = Push::HoldUpdate { id: HoldId::generate(), hold: None };
    foyer.sender.to_identity(identity, &push);
    for tab in &mut tabs {
        assert_eq!(tab.push("hold.update").await["hold"], Value::Null);
    }
    foyer.sender.to_all(&Push::ServerDrain { after_ms: 1, jitter_ms: 2 });
    let told = stranger.push("server.drain").await;
    assert_eq!(told["jitter_ms"], 2, "the first thing the stranger hears");
    drop(tabs);
    eventually("the sessions to be forgotten", || async {
        format!("{:?}", foyer.sender).contains("identities: 1").then_some(())
    })
    .await;
}
