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
async fn the_owner_is_told_also_where_the_lock_of_the_rebuild_was_lost_on_the_way() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut client, _) = Client::guest(&node.url).await;
    let held = hold(&mut client, &event, &[1, 2]).await;
    client.push_where("hold.update", |push| push["hold"]["lines"] == held["lines"]).await;
    eventually("the journal", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    stage.redis.kill();
    // The rebuild gets as far as the truth, and waits there while its own transaction idles.
    let mut barrier = seatwire::store::begin(stage.store.pool()).await.expect("begins");
    sqlx::query("lock table identity_use in access exclusive mode").execute(&mut *barrier).await.expect("locks");
    stage.redis.restart().await;
    const END: &str = "select count(pg_terminate_backend(a.pid)) from pg_stat_activity a
        where a.datname = current_database() and a.state = 'idle in transaction' and a.query like '%event_epochs%'
            and exists (select 1 from pg_locks l where l.pid = a.pid and l.locktype = 'advisory' and l.granted)
            and exists (select 1 from pg_locks w where w.relation = 'identity_use'::regclass and not w.granted)";
    eventually("the lock to be lost", || async {
        let ended: i64 = sqlx::query_scalar(END).fetch_one(stage.store.pool()).await.expect("ends");
        (ended > 0).then_some(())
    })
    .await;
    barrier.rollback().await.expect("lets go");
    let push = client.push_where("hold.update", |_| true).await;
    assert_eq!((&push["id"], &push["hold"]["lines"]), (&held["id"], &held["lines"]));
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
    let update = client.push_where("hold.update", |push| push["hold"].is_null()).await;
    assert_eq!(update["id"], held["id"]);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_the_journal_had_not_yet_is_revoked_by_the_node_that_answered_it() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut client, _) = Client::guest(&node.url).await;
    let (mut other, _) = Client::guest(&node.url).await;
    let held = hold(&mut client, &event, &[1]).await;
    let kept = hold(&mut other, &event, &[5]).await;
    eventually("the journal", || async { (holds_written(&stage).await == 2).then_some(()) }).await;
    stage.redis.kill();
    // As if it had been written a moment later.
    sqlx::raw_sql(
        "update journal_positions set seq = 0;
         delete from journal_records where identity_id = (select identity_id from journal_records limit 1)",
    )
    .execute(stage.store.pool())
    .await
    .expect("writes");
    stage.redis.restart().await;
    let lost: i64 = 2 - holds_written(&stage).await;
    assert_eq!(lost, 1);
    let which: Vec<u8> = sqlx::query_scalar("select record from journal_records where has_hold")
        .fetch_one(stage.store.pool())
        .await
        .expect("reads");
    let is_client_kept = {
        let id: seatwire_proto::id::HoldId = held["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        which.windows(16).any(|bytes| bytes == id.uuid().as_bytes())
    };
    let (loser, lost, lucky, found) =
        if is_client_kept { (&mut other, &kept, &mut client, &held) } else { (&mut client, &held, &mut other, &kept) };
    let push = loser.push("hold.revoked").await;
    assert_eq!((&push["hold"]["id"], &push["reason"]), (&lost["id"], &"store_lost".into()));
    let push = loser.push_where("hold.update", |push| push["hold"].is_null()).await;
    assert_eq!(push["id"], lost["id"]);
    let push = lucky.push_where("hold.update", |_| true).await;
    assert_eq!((&push["id"], &push["hold"]["id"]), (&found["id"], &found["id"]), "{push}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_never_says_that_there_is_no_hold_while_nobody_can_know() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut client, guest) = Client::guest(&node.url).await;
    let held = hold(&mut client, &event, &[1]).await;
    eventually("the journal", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    stage.redis.signal("STOP");
    // The journal answers for a Redis that does not.
    let mut second = Client::open(&node.url).await;
    let reply = second.call("hello", json!({"token": guest.token})).await;
    assert_eq!(reply["holds"][0]["id"], held["id"], "{reply}");
    assert_eq!(reply["holds"][0]["lines"], held["lines"]);
    let (status, body) = guest.get(&format!("/v1/holds/{}", held["id"].as_str().expect("an id"))).await;
    assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "a read has no key: {body}");
    // Without the journal nobody knows; the same socket asks again.
    let change = async |sql: &'static str| {
        sqlx::raw_sql(sql).execute(stage.store.pool()).await.expect("renames");
    };
    change("alter table journal_records rename to journal_gone").await;
    let mut third = Client::open(&node.url).await;
    let reply = third.call("hello", json!({"token": guest.token})).await;
    assert_eq!((&reply["ok"], &reply["error"]["code"]), (&json!(false), &json!("unavailable")), "{reply}");
    change("alter table journal_gone rename to journal_records").await;
    let reply = third.call("hello", json!({"token": guest.token})).await;
    assert_eq!(reply["holds"][0]["id"], held["id"], "{reply}");
    stage.redis.signal("CONT");
    // And once Redis answers, its word.
    let push = second.push_where("hold.update", |push| push["id"] == held["id"]).await;
    assert_eq!(push["hold"]["lines"], held["lines"]);
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
