//! The same sale on a Redis Cluster: events spread over its masters, a master that dies, a slot that moves.

use crate::support::client::{Client, Guest};
use crate::support::cluster::{Cluster, MASTERS};
use crate::support::map::{Map, Took};
use crate::support::node::Node;
use crate::support::stage::{Draft, enter_event};
use crate::support::{UNHURRIED, eventually};
use seatwire::config::Config;
use seatwire::store::Store;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No failover is faster: the members wait so long before they are sure that a master is dead.
const FAILOVER: Duration = Duration::from_secs(6);

static NEXT_KEY: AtomicU32 = AtomicU32::new(0);

fn key() -> String {
    format!("k{}", NEXT_KEY.fetch_add(1, Ordering::Relaxed))
}

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

/// A database, a cluster, and one event for each of its masters.
struct Fair {
    database_url: String,
    store: Store,
    cluster: Cluster,
    events: Vec<String>,
}

impl Fair {
    async fn open(draft: &Draft) -> Self {
        let database_url = crate::support::postgres::fresh_database().await;
        let config = Config::from_pairs([("SEATWIRE_DB_CONNECTIONS", "4"), UNHURRIED[0]]).expect("fits");
        let store = Store::connect(&database_url, &config.store).await.expect("the database answers");
        let cluster = Cluster::start().await;
        let mut events: Vec<Option<String>> = vec![None; MASTERS];
        while events.contains(&None) {
            let event = enter_event(&store, draft).await.to_string();
            events[Cluster::master_of(&event)].get_or_insert(event);
        }
        Self { database_url, store, cluster, events: events.into_iter().flatten().collect() }
    }

    async fn node(&self) -> Node {
        let redis_url = self.cluster.url();
        let settings = HashMap::from([
            ("DATABASE_URL", self.database_url.as_str()),
            ("REDIS_URL", redis_url.as_str()),
            // Eight nodes at once on one Postgres, maybe on a busy machine, which is not what these tests are about.
            ("SEATWIRE_DB_CONNECTIONS", "6"),
        ]);
        Node::start(&settings).await
    }

    async fn audit(&self, event: &str) -> (Option<i32>, String) {
        let mut command = Command::new(crate::support::program());
        command.args(["audit", event]).env("DATABASE_URL", &self.database_url).env("REDIS_URL", self.cluster.url());
        command.envs(UNHURRIED).env("SEATWIRE_DB_CONNECTIONS", "4");
        let output = tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    async fn is_clean(&self, event: &str) {
        let (code, said) = self.audit(event).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("everything agrees"), "{said}");
    }

    async fn epoch(&self, event: &str) -> i32 {
        let event: seatwire_proto::id::EventId = event.parse().expect("an id");
        let read = sqlx::query_scalar("select epoch from event_epochs where event_id = $1").bind(event.uuid());
        read.fetch_one(self.store.pool()).await.expect("the event was opened")
    }

    /// Waits until the journal in Postgres knows of so many identities of the event that have a hold or had one.
    async fn journalled(&self, event: &str, identities: i64) {
        let event: seatwire_proto::id::EventId = event.parse().expect("an id");
        eventually("the journal to know the holds", || async {
            let read =
                sqlx::query_scalar("select count(*) from journal_records where event_id = $1").bind(event.uuid());
            let n: i64 = read.fetch_one(self.store.pool()).await.ok()?;
            (n >= identities).then_some(())
        })
        .await;
    }
}

/// A viewer of one event.
struct Viewer {
    client: Client,
    map: Map,
}

impl Viewer {
    async fn of(node: &Node, event: &str) -> Self {
        let mut client = Client::hello(&node.url, None).await;
        // On a busy machine a first opening may take longer than anybody waits.
        let began = Instant::now();
        loop {
            let reply = client.call("subscribe", json!({"event": event})).await;
            if code(&reply) == "ok" {
                break;
            }
            assert_eq!(code(&reply), "unavailable", "{reply}");
            assert!(began.elapsed() < crate::support::PATIENCE, "the event does not open: {reply}");
            as_told(&reply).await;
        }
        Self { client, map: Map::new(160, 1) }
    }

    /// Reads frames until the seat is as wanted.
    async fn until(&mut self, seat: usize, state: u8) {
        while self.map.epoch == 0 || self.map.states[seat] != state {
            let frame = self.client.frame().await;
            assert_ne!(self.map.take(&frame), Took::NeedsResync, "the stream has no hole");
        }
    }
}

/// Waits as long as the refusal says; where it says nothing, for a turn of everybody else.
async fn as_told(refused: &Value) {
    match refused["error"]["retry_after_ms"].as_u64() {
        Some(after_ms) => tokio::time::sleep(Duration::from_millis(after_ms)).await,
        None => tokio::task::yield_now().await,
    }
}

/// A buyer's socket and who it is.
async fn buyer(node: &Node) -> (Client, Guest) {
    Client::guest(&node.url).await
}

/// The answer to a hold, whatever it is but "slower".
async fn try_hold(buyer: &mut Client, event: &str, seats: &[u32]) -> Value {
    loop {
        let reply = buyer.call("hold", json!({"key": key(), "event": event, "seats": seats})).await;
        if code(&reply) != "rate_limited" {
            return reply;
        }
        as_told(&reply).await;
    }
}

async fn hold(buyer: &mut Client, event: &str, seats: &[u32]) -> Value {
    let reply = try_hold(buyer, event, seats).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    reply["hold"].clone()
}

async fn buy(buyer: &mut Client, hold: &Value) -> Value {
    let fields = json!({
        "key": key(),
        "hold": hold["id"],
        "buyer": {"name": "Ada Example", "email": "ada@example.org"},
        "payment": {"method": "pm_card_visa"},
        "expect_total_minor": hold["total_minor"],
    });
    let reply = buyer.call("checkout", fields).await;
    assert_eq!((code(&reply), &reply["order"]["state"]), ("ok", &json!("paid")), "{reply}");
    reply["order"].clone()
}

/// Holds one seat under one key until it is held; how long that took.
async fn hold_again_and_again(buyer: &mut Client, event: &str, seat: u32) -> Duration {
    let (began, key) = (Instant::now(), key());
    loop {
        let reply = buyer.call("hold", json!({"key": key, "event": event, "seats": [seat]})).await;
        match code(&reply) {
            "ok" => return began.elapsed(),
            "unavailable" | "timeout_unknown" | "overloaded" | "rate_limited" => {
                as_told(&reply).await;
            }
            other => panic!("{other}: {reply}"),
        }
        assert!(began.elapsed() < crate::support::PATIENCE, "waited in vain for the event: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_on_every_master_are_sold_and_seen_at_every_node() {
    let fair = Fair::open(&Draft::default()).await;
    let nodes = [fair.node().await, fair.node().await];
    for event in &fair.events {
        let mut viewer = Viewer::of(&nodes[1], event).await;
        let (mut ada, guest) = buyer(&nodes[0]).await;
        let held = hold(&mut ada, event, &[3, 4]).await;
        viewer.until(3, 1).await;
        let best = ada.call("hold_best", json!({"key": key(), "event": event, "quantity": 2})).await;
        assert_eq!((code(&best), best["hold"]["lines"].as_array().map(Vec::len)), ("ok", Some(4)), "{best}");
        let area = ada.call("hold_area", json!({"key": key(), "event": event, "area": 0, "quantity": 2})).await;
        assert_eq!(code(&area), "ok", "{area}");
        let extended = ada.call("extend", json!({"key": key(), "hold": held["id"]})).await;
        assert_eq!(extended["hold"]["extended"], true, "{extended}");
        // Another node refuses what is taken, and tells the owner's socket there what happens here.
        let (mut bob, _) = buyer(&nodes[1]).await;
        let taken = bob.call("hold", json!({"key": key(), "event": event, "seats": [4]})).await;
        assert_eq!(code(&taken), "seat_taken", "{taken}");
        let mut elsewhere = Client::hello(&nodes[1].url, Some(&guest.token)).await;
        let released = ada.call("release", json!({"key": key(), "hold": held["id"], "seats": [4]})).await;
        assert_eq!(code(&released), "ok", "{released}");
        viewer.until(4, 0).await;
        let order = buy(&mut ada, &released["hold"]).await;
        let pushed = elsewhere.push_where("order.update", |push| push["order"]["state"] == "paid").await;
        assert_eq!(pushed["order"]["id"], order["id"]);
        viewer.until(3, 2).await;
        assert_eq!(viewer.map.areas[0], 48);
        fair.is_clean(event).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_a_cluster_ends_by_itself_and_its_owner_is_told_wherever_he_is() {
    let fair = Fair::open(&Draft { hold_ttl_ms: 2_000, ..Draft::default() }).await;
    let nodes = [fair.node().await, fair.node().await];
    let mut begun = Vec::new();
    for event in &fair.events {
        let viewer = Viewer::of(&nodes[1], event).await;
        let (mut ada, guest) = buyer(&nodes[0]).await;
        let elsewhere = Client::hello(&nodes[1].url, Some(&guest.token)).await;
        let held = hold(&mut ada, event, &[7]).await;
        begun.push((event, viewer, elsewhere, held));
    }
    for (event, mut viewer, mut elsewhere, held) in begun {
        viewer.until(7, 1).await;
        viewer.until(7, 0).await;
        assert_eq!(elsewhere.push("hold.expired").await["hold"]["id"], held["id"]);
        fair.is_clean(event).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_master_closes_its_events_alone_and_its_replica_goes_on_with_their_baskets() {
    let mut fair = Fair::open(&Draft { seats_per_identity: 150, ..Draft::default() }).await;
    let nodes = [fair.node().await, fair.node().await];
    let mut owners = Vec::new();
    for event in &fair.events {
        Viewer::of(&nodes[0], event).await;
        let (mut bob, _) = buyer(&nodes[1]).await;
        let held = hold(&mut bob, event, &[10]).await;
        buy(&mut bob, &held).await;
        let (mut ada, _) = buyer(&nodes[0]).await;
        let held = hold(&mut ada, event, &[20, 21]).await;
        fair.journalled(event, 2).await;
        owners.push((ada, held));
    }
    // Somebody whose pushes go through the master that dies.
    let guest = loop {
        let guest = Guest::new(&nodes[0].url).await;
        if Cluster::master_of(&seatwire::sender::cluster_channel(guest.identity.parse().expect("an identity"))) == 0 {
            break guest;
        }
    };
    let mut here = Client::hello(&nodes[0].url, Some(&guest.token)).await;
    let mut elsewhere = Client::hello(&nodes[1].url, Some(&guest.token)).await;
    let mut viewer = Viewer::of(&nodes[1], &fair.events[0]).await;
    viewer.until(10, 2).await;

    fair.cluster.kill(0);
    let lost = fair.events[0].clone();
    let mut reopened = tokio::spawn({
        let (mut carol, _) = buyer(&nodes[1]).await;
        async move { (hold_again_and_again(&mut carol, &lost, 30).await, carol) }
    });
    // Nothing is refused elsewhere meanwhile, at both nodes, and nothing takes long.
    let (mut dave, _) = buyer(&nodes[0]).await;
    let (mut erin, _) = buyer(&nodes[1]).await;
    let mut seat = 40;
    let (closed, mut carol) = loop {
        for buyer in [&mut dave, &mut erin] {
            for event in &fair.events[1..] {
                let began = Instant::now();
                hold(buyer, event, &[seat]).await;
                assert!(began.elapsed() < FAILOVER, "another event waited {:?}", began.elapsed());
            }
            seat += 1;
        }
        // A pause, or its end: the budget of commands is for a few a second.
        if let Ok(reopened) = tokio::time::timeout(Duration::from_millis(400), &mut reopened).await {
            break reopened.expect("runs");
        }
        assert!(seat < 158, "the event stays closed");
    };
    eprintln!("closed for {closed:?}, most of it until the members are sure and have voted");
    fair.cluster.promoted(0).await;

    let lost = &fair.events[0];
    assert_eq!(
        [fair.epoch(lost).await, fair.epoch(&fair.events[1]).await, fair.epoch(&fair.events[2]).await],
        [2, 1, 1]
    );
    viewer.until(30, 1).await;
    assert_eq!((viewer.map.states[10], viewer.map.states[20], viewer.map.states[21]), (2, 1, 1));
    for taken in [10, 20] {
        let reply = carol.call("hold", json!({"key": key(), "event": lost, "seats": [taken]})).await;
        assert_eq!(code(&reply), "seat_taken", "{reply}");
    }
    // The basket of the life before is paid, and changes are heard again at the other node.
    let (ada, held) = &mut owners[0];
    buy(ada, held).await;
    viewer.until(21, 2).await;
    // So are pushes that went through the dead master.
    hold(&mut here, lost, &[50]).await;
    elsewhere.push("hold.update").await;
    for event in &fair.events {
        fair.is_clean(event).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_closes_its_event_until_it_is_there_and_nothing_is_torn() {
    let fair = Fair::open(&Draft { seats_per_identity: 150, ..Draft::default() }).await;
    let nodes = [fair.node().await, fair.node().await];
    let event = &fair.events[0];
    let slot = Cluster::slot(&format!("{{{event}}}"));
    let mut viewer = Viewer::of(&nodes[1], event).await;
    let (mut bob, _) = buyer(&nodes[1]).await;
    let held = hold(&mut bob, event, &[10]).await;
    buy(&mut bob, &held).await;
    for other in &fair.events[1..] {
        Viewer::of(&nodes[1], other).await;
        hold(&mut bob, other, &[10]).await;
    }
    let (mut ada, _) = buyer(&nodes[0]).await;
    let kept = hold(&mut ada, event, &[20, 21]).await;
    viewer.until(21, 1).await;
    fair.journalled(event, 2).await;

    fair.cluster.begin_move(slot, 0, 1).await;
    let (mut carol, _) = buyer(&nodes[0]).await;
    let (mut dave, _) = buyer(&nodes[1]).await;
    let mut steps = 0;
    loop {
        // Nothing is taken on either side, however many keys have left, and the map that is seen does not change.
        for buyer in [&mut carol, &mut dave] {
            let reply = try_hold(buyer, event, &[30, 31]).await;
            assert_eq!(code(&reply), "unavailable", "after {steps} keys: {reply}");
        }
        hold(&mut carol, &fair.events[2], &[100 + steps]).await;
        if fair.cluster.move_keys(slot, 0, 1, 1).await == 0 {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 6, "only {steps} keys were moved");
    let held = tokio::spawn({
        let event = event.clone();
        async move { (hold_again_and_again(&mut carol, &event, 30).await, carol) }
    });
    fair.cluster.end_move(slot, 0, 1).await;
    let (closed, _) = held.await.expect("runs");
    eprintln!("open {closed:?} after the move");
    viewer.until(30, 1).await;
    assert_eq!((viewer.map.states[10], viewer.map.states[20], viewer.map.states[31]), (2, 1, 0));
    assert!(fair.epoch(event).await >= 2);
    assert_eq!([fair.epoch(&fair.events[1]).await, fair.epoch(&fair.events[2]).await], [1, 1]);
    buy(&mut ada, &kept).await;
    viewer.until(20, 2).await;
    for event in &fair.events {
        fair.is_clean(event).await;
    }
}
