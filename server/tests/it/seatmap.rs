//! The map over real stores: what the scripts publish is what viewers see, on every node, also after Redis was away.

use crate::support::client::Client;
use crate::support::map::{Map, Took};
use crate::support::stage::{Draft, Stage};
use serde_json::json;

/// A client and its map.
struct Watcher {
    client: Client,
    map: Map,
    channel: u64,
}

impl Watcher {
    async fn watch(url: &str, event: &str) -> Self {
        let mut client = Client::hello(url, None).await;
        let reply = client.call("subscribe", json!({"event": event})).await;
        assert_eq!(reply["ok"], true, "{reply}");
        let count = |name: &str| reply[name].as_u64().expect("a number");
        let map = Map::new(count("seat_count") as usize, count("area_count") as usize);
        Self { client, map, channel: count("channel") }
    }

    /// Follows until `is_there`, asking again after holes.
    async fn follow(&mut self, is_there: impl Fn(&Map) -> bool) {
        while !is_there(&self.map) {
            let frame = self.client.frame().await;
            if self.map.take(&frame) == Took::NeedsResync {
                let body = json!({"channel": self.channel, "epoch": self.map.epoch, "seq": self.map.seq});
                self.client.call("resync", body).await;
            }
        }
    }
}

/// Sends one inline command to Redis and waits for its answer.
fn say(stage: &Stage, command: &[u8]) {
    use std::io::{Read, Write};
    let path = stage.redis.url().replacen("redis+unix://", "", 1);
    let mut redis = std::os::unix::net::UnixStream::connect(path).expect("redis listens");
    redis.write_all(command).expect("sends");
    assert!(redis.read(&mut [0; 64]).expect("an answer") > 0);
}

async fn hold(client: &mut Client, event: &str, key: &str, seats: &[u32]) -> serde_json::Value {
    client.call("hold", json!({"key": key, "event": event, "seats": seats})).await
}

#[tokio::test]
async fn a_hold_on_one_node_is_seen_on_the_other_and_pushed_to_both() {
    let (stage, event) = Stage::with_event(&Draft { blocked: vec![5], ..Draft::default() }).await;
    let (one, two) = (stage.node().await, stage.node().await);
    let mut here = Watcher::watch(&one.url, &event).await;
    let mut there = Watcher::watch(&two.url, &event).await;
    here.follow(|map| map.epoch > 0).await;
    there.follow(|map| map.states[5] == 3).await;

    let (mut buyer, guest) = Client::guest(&one.url).await;
    let mut phone = Client::hello(&two.url, Some(&guest.token)).await;
    let reply = hold(&mut buyer, &event, "k", &[1, 2]).await;
    assert_eq!(reply["ok"], true, "{reply}");
    let (epoch, seq) = (reply["epoch"].as_u64().expect("a number"), reply["seq"].as_u64().expect("a number"));
    let is_there = |map: &Map| u64::from(map.epoch) == epoch && map.seq >= seq;
    for watcher in [&mut here, &mut there] {
        watcher.follow(is_there).await;
        assert_eq!((watcher.map.states[1], watcher.map.states[2], watcher.map.states[3]), (1, 1, 0));
    }
    assert_eq!(here.map, there.map);
    for client in [&mut buyer, &mut phone] {
        let push = client.push("hold.update").await;
        assert_eq!(push["hold"]["lines"].as_array().map(Vec::len), Some(2), "{push}");
    }
    let mut tablet = Client::open(&two.url).await;
    let reply = tablet.call("hello", json!({"token": guest.token})).await;
    assert_eq!(reply["holds"][0]["lines"].as_array().map(Vec::len), Some(2), "hello tells of the open hold: {reply}");
}

#[tokio::test]
async fn a_lost_redis_begins_a_new_life_that_viewers_see_by_its_snapshot() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let mut watcher = Watcher::watch(&node.url, &event).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    assert_eq!(hold(&mut buyer, &event, "a", &[1]).await["ok"], true);
    watcher.follow(|map| map.states[1] == 1).await;
    let epoch = watcher.map.epoch;
    stage.redis.kill();
    let frame = watcher.client.frame().await;
    assert_eq!(watcher.map.take(&frame), Took::Dropped, "beacons go on while Redis is away");
    stage.redis.restart().await;
    watcher.follow(|map| map.epoch > epoch).await;
    let mut tries = 0;
    while hold(&mut buyer, &event, &format!("b{tries}"), &[7]).await["ok"] != true {
        tries += 1;
        assert!(tries < 100, "holds work again");
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    watcher.follow(|map| map.states[7] == 1).await;
}

#[tokio::test]
async fn what_redis_loses_without_a_word_is_found_by_the_beat() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let mut watcher = Watcher::watch(&node.url, &event).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    assert_eq!(hold(&mut buyer, &event, "a", &[1]).await["ok"], true);
    watcher.follow(|map| map.states[1] == 1).await;

    // The subscriber's connection is cut, and a change is made before it is back.
    say(&stage, b"CLIENT KILL TYPE pubsub\r\n");
    assert_eq!(hold(&mut buyer, &event, "b", &[2]).await["ok"], true);
    watcher.follow(|map| map.states[2] == 1).await;

    let epoch = watcher.map.epoch;
    say(&stage, b"FLUSHALL\r\n");
    watcher.follow(|map| map.epoch > epoch).await;
}
