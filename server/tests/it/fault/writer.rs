//! Who writes the journal: one node an event, and when it dies another one, from where it stopped.

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use serde_json::json;

async fn hold(client: &mut Client, event: &str, seat: u32) {
    let reply = client.call("hold", json!({"event": event, "seats": [seat], "key": format!("k{seat}")})).await;
    assert_eq!(reply["ok"], true, "{reply}");
}

async fn holds_written(stage: &Stage) -> i64 {
    let count = "select count(*) from journal_records where has_hold";
    sqlx::query_scalar(count).fetch_one(stage.store.pool()).await.expect("counts")
}

async fn writer(stage: &Stage) -> Option<sqlx::types::Uuid> {
    let writer = "select writer from journal_positions";
    sqlx::query_scalar(writer).fetch_optional(stage.store.pool()).await.expect("reads").flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_goes_on_when_the_writer_dies_and_at_once_when_it_leaves() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let first = stage.node().await;
    let (mut one, _) = Client::guest(&first.url).await;
    hold(&mut one, &event, 1).await;
    eventually("the first hold", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    let second = stage.node().await;
    let (mut two, _) = Client::guest(&second.url).await;
    hold(&mut two, &event, 2).await;
    eventually("the second hold", || async { (holds_written(&stage).await == 2).then_some(()) }).await;
    first.signal("KILL");
    first.ended().await;
    hold(&mut two, &event, 2).await;
    let (mut three, _) = Client::guest(&second.url).await;
    hold(&mut three, &event, 3).await;
    eventually("the survivor to write", || async { (holds_written(&stage).await == 3).then_some(()) }).await;
    let after = writer(&stage).await.expect("somebody writes");
    // A clean end leaves the journal finished and free: nobody waits for the dead.
    hold(&mut three, &event, 4).await;
    second.signal("TERM");
    assert_eq!(second.ended().await, Some(0));
    let alive = "select count(*) from journal_writers where writer = $1";
    let alive: i64 = sqlx::query_scalar(alive).bind(after).fetch_one(stage.store.pool()).await.expect("counts");
    assert_eq!(alive, 0);
    let seats = "select record from journal_records where has_hold";
    let records: Vec<Vec<u8>> = sqlx::query_scalar(seats).fetch_all(stage.store.pool()).await.expect("reads");
    assert_eq!(records.len(), 3);
    // Redis goes with it; the next node gives everything back.
    stage.redis.kill();
    stage.redis.restart().await;
    let third = stage.node().await;
    let (mut four, _) = Client::guest(&third.url).await;
    for seat in 1..=4 {
        let reply = four.call("hold", json!({"event": event, "seats": [seat], "key": format!("x{seat}")})).await;
        assert_eq!(reply["error"]["code"], "seat_taken", "{reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_while_a_round_was_held_up_is_written_on_the_way_out() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut one, _) = Client::guest(&node.url).await;
    hold(&mut one, &event, 1).await;
    eventually("the first hold", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    // A round that has read the second hold waits, and the third comes meanwhile.
    let mut held_up = seatwire::store::begin(stage.store.pool()).await.expect("begins");
    sqlx::raw_sql("lock table journal_records in exclusive mode").execute(&mut *held_up).await.expect("locks");
    let (mut two, _) = Client::guest(&node.url).await;
    hold(&mut two, &event, 2).await;
    eventually("the round to wait", || async {
        let waiting =
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        let n: i64 = sqlx::query_scalar(waiting).fetch_one(stage.store.pool()).await.expect("counts");
        (n > 0).then_some(())
    })
    .await;
    let (mut three, _) = Client::guest(&node.url).await;
    hold(&mut three, &event, 3).await;
    node.signal("TERM");
    let admin = node.admin_url.trim_start_matches("http://").to_owned();
    eventually("the node to stop", || async { tokio::net::TcpStream::connect(&admin).await.is_err().then_some(()) })
        .await;
    held_up.rollback().await.expect("lets go");
    assert_eq!(node.ended().await, Some(0));
    assert_eq!(holds_written(&stage).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_goes_on_while_the_writer_is_stopped_and_nothing_is_missing_when_it_wakes() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let first = stage.node().await;
    let (mut one, _) = Client::guest(&first.url).await;
    hold(&mut one, &event, 1).await;
    eventually("the first hold", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    let second = stage.node().await;
    let (mut two, _) = Client::guest(&second.url).await;
    hold(&mut two, &event, 2).await;
    eventually("the second hold", || async { (holds_written(&stage).await == 2).then_some(()) }).await;
    first.signal("STOP");
    let (mut three, _) = Client::guest(&second.url).await;
    hold(&mut three, &event, 3).await;
    eventually("the other one to write", || async { (holds_written(&stage).await == 3).then_some(()) }).await;
    // What it had in hand is refused, and nothing is missing.
    first.signal("CONT");
    let (mut four, _) = Client::guest(&first.url).await;
    hold(&mut four, &event, 4).await;
    eventually("the fourth hold", || async { (holds_written(&stage).await == 4).then_some(()) }).await;
}
