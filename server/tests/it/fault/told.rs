//! What buyers hear of a loss: at their sockets, and when they say hello again, at whatever node.

use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::node::Node;
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

async fn hold(client: &mut Client, event: &str, seats: &[u32]) -> Value {
    let reply = client.call("hold", json!({"event": event, "seats": seats, "key": format!("k{seats:?}")})).await;
    assert_eq!(reply["ok"], true, "{reply}");
    reply["hold"].clone()
}

async fn hello(url: &str, guest: &Guest) -> Value {
    let mut client = Client::open(url).await;
    client.call("hello", json!({"token": guest.token})).await
}

/// Rows of the journal with a hold.
async fn holds_written(stage: &Stage) -> i64 {
    let count = "select count(*) from journal_records where has_hold";
    sqlx::query_scalar(count).fetch_one(stage.store.pool()).await.expect("counts")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_is_told_that_the_basket_is_still_there() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let nodes = (stage.node().await, stage.node().await);
    let (mut client, guest) = Client::guest(&nodes.0.url).await;
    // A second device, at the other node.
    let mut other = Client::hello(&nodes.1.url, Some(&guest.token)).await;
    let held = hold(&mut client, &event, &[1, 2]).await;
    for device in [&mut client, &mut other] {
        device.push_where("hold.update", |push| push["hold"]["lines"] == held["lines"]).await;
    }
    eventually("the journal", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    stage.redis.kill();
    stage.redis.restart().await;
    for device in [&mut client, &mut other] {
        let push = device.push_where("hold.update", |_| true).await;
        assert_eq!((&push["id"], &push["hold"]["lines"]), (&held["id"], &held["lines"]));
        assert_eq!(push["hold"]["expires_ms"], held["expires_ms"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_seats_are_gone_is_revoked_with_a_reason() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut client, _) = Client::guest(&node.url).await;
    let held = hold(&mut client, &event, &[1]).await;
    eventually("the journal", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    stage.redis.kill();
    // Postgres knows better: the seat is sold to somebody else.
    sqlx::query(
        "insert into taken_seats (event_id, seat_index, state, order_id, identity_id, epoch)
         select id, 1, 'sold', gen_random_uuid(), gen_random_uuid(), 1 from events",
    )
    .execute(stage.store.pool())
    .await
    .expect("writes");
    stage.redis.restart().await;
    let push = client.push("hold.revoked").await;
    assert_eq!((&push["hold"]["id"], &push["reason"]), (&held["id"], &"store_lost".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_names_every_open_hold_of_the_identity_also_of_events_the_node_never_touched() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let elsewhere = crate::support::stage::enter_event(&stage.store, &Draft::default()).await.to_string();
    let first = stage.node().await;
    let (mut client, guest) = Client::guest(&first.url).await;
    let (one, two) = (hold(&mut client, &event, &[1]).await, hold(&mut client, &elsewhere, &[9]).await);
    eventually("the journal", || async { (holds_written(&stage).await == 2).then_some(()) }).await;
    // A node that has just started and knows no event at all.
    let second = stage.node().await;
    let reply = hello(&second.url, &guest).await;
    let mut named: Vec<&Value> = reply["holds"].as_array().expect("a list").iter().map(|hold| &hold["id"]).collect();
    named.sort_by_key(|id| id.as_str());
    let mut expected = [&one["id"], &two["id"]];
    expected.sort_by_key(|id| id.as_str());
    assert_eq!(named, expected);
    client.call("release", json!({"hold": one["id"], "key": "r"})).await;
    let reply = hello(&second.url, &guest).await;
    assert_eq!(reply["holds"].as_array().map(Vec::len), Some(1), "what is open the shelf says, not the journal");
    // Another identity sees none of it.
    let stranger = Guest::new(&second.url).await;
    assert_eq!(hello(&second.url, &stranger).await["holds"], json!([]));
}

/// A folder of an embedded server; gone when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_restart_of_an_embedded_server_keeps_baskets() {
    let folder = Folder(PathBuf::from(format!("/tmp/seatwire-it-{}-kept", std::process::id())));
    let data = folder.0.to_string_lossy().into_owned();
    let settings = HashMap::from([("SEATWIRE_DATA", &*data)]);
    let create = |name: &str| {
        let mut command = Command::new(crate::support::program());
        command.args(["event", "list"]).env("SEATWIRE_DATA", &data).stdout(Stdio::piped());
        let output = command.output().expect("runs");
        assert!(output.status.success(), "{name}");
        String::from_utf8(output.stdout).expect("text")
    };
    let node = Node::start(&settings).await;
    let list = create("the demo is there");
    let event = list.split_whitespace().find(|word| word.starts_with("evt_")).expect("an event").to_owned();
    let (mut client, guest) = Client::guest(&node.url).await;
    let held = hold(&mut client, &event, &[0]).await;
    // At once: what the last moments brought is written on the way out.
    node.signal("TERM");
    assert_eq!(node.ended().await, Some(0));
    let node = Node::start(&settings).await;
    let reply = hello(&node.url, &guest).await;
    assert_eq!(reply["holds"][0]["id"], held["id"], "{reply}");
    assert_eq!(reply["holds"][0]["expires_ms"], held["expires_ms"]);
    node.signal("TERM");
    assert_eq!(node.ended().await, Some(0));
}
