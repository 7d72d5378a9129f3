//! What nodes say of holds that they cannot see any more: nothing that is not true.

use crate::fault::redis;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::node::Node;
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

async fn hold(client: &mut Client, event: &str, seats: &[u32]) -> Value {
    let reply = client.call("hold", json!({"event": event, "seats": seats, "key": format!("k{seats:?}")})).await;
    assert_eq!(reply["ok"], true, "{reply}");
    reply["hold"].clone()
}

/// Waits until the loss of a hold was told; and that it is gone twice: all holds are looked at together, two times.
async fn told_twice(loser: &mut Client, lost: &Value) {
    let push = loser.push("hold.revoked").await;
    assert_eq!(push["hold"]["id"], lost["id"]);
    for _ in 0..2 {
        loser.push_where("hold.update", |push| push["id"] == lost["id"] && push["hold"].is_null()).await;
    }
    assert!(!loser.has_push("hold.revoked"), "said once");
}

async fn holds_written(stage: &Stage) -> i64 {
    let count = "select count(*) from journal_records where has_hold";
    sqlx::query_scalar(count).fetch_one(stage.store.pool()).await.expect("counts")
}

/// Waits until the journal has all changes of the map up to this one.
async fn journalled(stage: &Stage, seq: i64) {
    eventually("the journal", || async {
        let known = "select seq from journal_positions where is_whole";
        let written: i64 = sqlx::query_scalar(known).fetch_optional(stage.store.pool()).await.expect("reads")?;
        (written >= seq).then_some(())
    })
    .await;
}

/// Waits until nobody writes the journal any more: what a node had read of a Redis that is dead would stand behind what a test
/// changes there.
async fn journal_is_quiet(stage: &Stage) {
    let writing = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
        and state <> 'idle' and query like '%journal_%'";
    let quiet_n = std::cell::Cell::new(0);
    eventually("the journal to be quiet", || async {
        let n: i64 = sqlx::query_scalar(writing).fetch_one(stage.store.pool()).await.expect("counts");
        quiet_n.set(if n == 0 { quiet_n.get() + 1 } else { 0 });
        // Between reading and writing it is nowhere to be seen for a moment.
        (quiet_n.get() > 30).then_some(())
    })
    .await;
}

/// Redis is lost, with a journal that knows of no hold, as if it had come no farther than `seq`.
async fn lose_redis(stage: &mut Stage, seq: i64) {
    stage.redis.kill();
    journal_is_quiet(stage).await;
    let pool = stage.store.pool();
    sqlx::query("update journal_positions set seq = $1").bind(seq).execute(pool).await.expect("writes");
    sqlx::query("delete from journal_records where has_hold").execute(pool).await.expect("writes");
    stage.redis.restart().await;
}

/// A buyer with a hold, who sits at the first of two nodes, which answered it, and at the second; and somebody else at the
/// first, whose hold is lost together with Redis.
struct Two {
    stage: Stage,
    event: String,
    first: Node,
    _second: Node,
    buyer: Client,
    device: Client,
    loser: Client,
    held: Value,
}

impl Two {
    async fn open() -> Self {
        let (stage, event) = Stage::with_event(&Draft::default()).await;
        let (first, second) = (stage.node().await, stage.node().await);
        let (mut buyer, guest) = Client::guest(&first.url).await;
        let (loser, _) = Client::guest(&first.url).await;
        let held = hold(&mut buyer, &event, &[1]).await;
        let device = Client::hello(&second.url, Some(&guest.token)).await;
        Self { stage, event, first, _second: second, buyer, device, loser, held }
    }

    /// The hold that is lost.
    async fn lost(&mut self) -> Value {
        hold(&mut self.loser, &self.event, &[5]).await
    }

    /// The buyer gives the hold back at the second node.
    async fn give_back(&mut self) {
        let released = self.device.call("release", json!({"key": "r", "hold": self.held["id"]})).await;
        assert_eq!(released["ok"], true, "{released}");
    }

    /// Redis is lost with a journal that had come to `seq`: the one is told, and after that the other is not.
    async fn only_the_loser_is_told(&mut self, seq: i64, lost: &Value, why: &str) {
        lose_redis(&mut self.stage, seq).await;
        told_twice(&mut self.loser, lost).await;
        for client in [&mut self.buyer, &mut self.device] {
            // Behind all that was on its way.
            client.call("ping", json!({"t0": 1})).await;
            assert!(!client.has_push("hold.revoked"), "{why}");
        }
    }
}

async fn is_over(client: &mut Client, held: &Value) {
    client.push_where("hold.update", |push| push["id"] == held["id"] && push["hold"].is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_sold_at_another_node_is_not_revoked_when_redis_is_lost() {
    let mut two = Two::open().await;
    let body = json!({"key": "c", "hold": two.held["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": two.held["total_minor"]});
    let paid = two.device.call("checkout", body).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    eventually("the shelf to know", || async { (holds_written(&two.stage).await == 0).then_some(()) }).await;
    let lost = two.lost().await;
    eventually("the journal", || async { (holds_written(&two.stage).await == 1).then_some(()) }).await;
    two.only_the_loser_is_told(0, &lost, "it was sold").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_given_back_at_another_node_is_not_revoked_when_redis_is_lost() {
    let mut two = Two::open().await;
    two.give_back().await;
    journalled(&two.stage, 2).await;
    // Another one is answered and lost: as if the journal had come no farther.
    let lost = two.lost().await;
    journalled(&two.stage, 3).await;
    two.only_the_loser_is_told(2, &lost, "its owner gave it back").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_given_back_a_moment_before_redis_is_lost_is_not_revoked() {
    let mut two = Two::open().await;
    let lost = two.lost().await;
    two.give_back().await;
    for client in [&mut two.buyer, &mut two.device] {
        is_over(client, &two.held).await;
    }
    // What it writes now would stand there behind what is written below.
    journalled(&two.stage, 3).await;
    two.only_the_loser_is_told(0, &lost, "its owner gave it back").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_word_redis_took_along_is_said_again_by_the_node_that_answered_it() {
    let mut two = Two::open().await;
    let lost = two.lost().await;
    // A node that is stopped in the middle of a round would go on with it later.
    journalled(&two.stage, 2).await;
    // From here on the first node hears nothing before Redis is lost.
    two.first.signal("STOP");
    let cut = redis::command(&two.stage.redis.url(), &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert!(matches!(cut, fred::types::Value::Integer(1..)), "{cut:?}");
    two.give_back().await;
    two.stage.redis.kill();
    two.first.signal("CONT");
    two.only_the_loser_is_told(0, &lost, "its owner gave it back").await;
    is_over(&mut two.buyer, &two.held).await;
    assert!(!two.buyer.has_push("hold.revoked"), "nor behind it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_release_was_lost_with_redis_is_told_of_as_before() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let (mut buyer, guest) = Client::guest(&first.url).await;
    let mut device = Client::hello(&second.url, Some(&guest.token)).await;
    let held = hold(&mut buyer, &event, &[1]).await;
    eventually("the journal", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    let pool = stage.store.pool().clone();
    let write = async |sql: &'static str| sqlx::raw_sql(sql).execute(&pool).await.expect("writes");
    write("create table journal_then as select * from journal_records").await;
    let released = buyer.call("release", json!({"key": "r", "hold": held["id"]})).await;
    assert_eq!(released["ok"], true, "{released}");
    for client in [&mut buyer, &mut device] {
        client.push_where("hold.update", |push| push["id"] == held["id"] && push["hold"].is_null()).await;
    }
    journalled(&stage, 2).await;
    stage.redis.kill();
    // As if the journal had not come to the release.
    write(
        "update journal_positions set seq = 1, step = 0; delete from journal_records;
         insert into journal_records select * from journal_then",
    )
    .await;
    stage.redis.restart().await;
    for client in [&mut buyer, &mut device] {
        client.push_where("hold.update", |push| push["hold"]["lines"] == held["lines"]).await;
    }
    let more = hold(&mut buyer, &event, &[3]).await;
    assert_eq!(more["id"], held["id"], "it lives on");
    for client in [&mut buyer, &mut device] {
        client.push_where("hold.update", |push| push["hold"]["lines"] == more["lines"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_an_event_the_node_never_saw_is_told_once_the_journal_answers() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let first = stage.node().await;
    let (mut client, guest) = Client::guest(&first.url).await;
    let held = hold(&mut client, &event, &[1]).await;
    eventually("the journal", || async { (holds_written(&stage).await == 1).then_some(()) }).await;
    let second = stage.node().await;
    let change = async |sql: &'static str| {
        sqlx::raw_sql(sql).execute(stage.store.pool()).await.expect("renames");
    };
    change("alter table journal_records rename to journal_gone").await;
    let mut device = Client::open(&second.url).await;
    let reply = device.call("hello", json!({"token": guest.token})).await;
    assert_eq!((&reply["ok"], &reply["holds"]), (&json!(true), &json!([])), "the map flows on: {reply}");
    change("alter table journal_gone rename to journal_records").await;
    let push = device.push_where("hold.update", |push| push["id"] == held["id"]).await;
    assert_eq!(push["hold"]["lines"], held["lines"]);
    // Whoever has none hears nothing.
    let stranger = Guest::new(&second.url).await;
    let mut other = Client::open(&second.url).await;
    let reply = other.call("hello", json!({"token": stranger.token})).await;
    assert_eq!(reply["holds"], json!([]));
}
