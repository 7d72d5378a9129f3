//! The map on the wire: begin, follow, fall behind, come back, start anew.

use super::foyer::Foyer;
use crate::support::client::Client;
use crate::support::map::{Header, Map, Took};
use seatwire_proto::seat::SeatState::{Available, Blocked, Held, Sold};
use serde_json::{Value, json};

/// A client and its map, kept by the protocol's text.
struct Watcher {
    client: Client,
    map: Map,
    channel: u32,
}

impl Watcher {
    async fn subscribe(foyer: &Foyer, fields: Value) -> (Self, Value) {
        let mut client = foyer.viewer().await;
        let mut body = fields;
        body["event"] = json!(foyer.event);
        let reply = client.call("subscribe", body).await;
        assert_eq!(reply["ok"], true, "{reply}");
        let count = |name: &str| reply[name].as_u64().expect("a number") as usize;
        let map = Map::new(count("seat_count"), count("area_count"));
        let channel = reply["channel"].as_u64().expect("a channel") as u32;
        assert_ne!(channel, 0);
        (Self { client, map, channel }, reply)
    }

    /// Takes frames until the map is the truth; kinds of the frames that moved it.
    async fn catch_up(&mut self, foyer: &Foyer) -> Vec<u8> {
        let mut kinds = Vec::new();
        loop {
            let truth = foyer.truth();
            if (self.map.epoch, self.map.seq) == (truth.epoch, truth.seq) {
                assert_eq!((&self.map.states, &self.map.areas), (&truth.states, &truth.areas));
                return kinds;
            }
            let frame = self.client.frame().await;
            let header = Header::read(&frame);
            assert_eq!(header.channel, self.channel);
            match self.map.take(&frame) {
                Took::Applied => kinds.push(header.kind),
                Took::Dropped => {}
                Took::NeedsResync => panic!("a hole: {header:?} at {}", self.map.seq),
            }
        }
    }

    async fn resync(&mut self, epoch: u32, seq: u64) -> Value {
        self.client.call("resync", json!({"channel": self.channel, "epoch": epoch, "seq": seq})).await
    }
}

#[tokio::test]
async fn a_viewer_begins_with_a_snapshot_and_follows_by_deltas() {
    let foyer = Foyer::open(100).await;
    foyer.change(&[(3, Held), (99, Sold), (50, Blocked)], &[(0, 420)]);
    let (mut watcher, reply) = Watcher::subscribe(&foyer, json!({})).await;
    assert_eq!((&reply["recovered"], &reply["epoch"], &reply["seq"]), (&json!(false), &json!(1), &json!(11)));
    assert_eq!(watcher.catch_up(&foyer).await, [1]);
    foyer.publish(&[(4, Held)], &[]);
    assert_eq!(watcher.catch_up(&foyer).await, [2]);
    foyer.publish(&[(4, Sold), (3, Available)], &[(0, 419)]);
    foyer.publish(&[], &[]);
    assert!(watcher.catch_up(&foyer).await.iter().all(|kind| *kind == 2));
}

#[tokio::test]
async fn a_storm_is_coalesced_and_everyone_sees_the_same_bytes() {
    let foyer = Foyer::open_with(1000, &[("SEATWIRE_TICK_MIN_MS", "200")]).await;
    let (mut one, _) = Watcher::subscribe(&foyer, json!({})).await;
    let (mut other, _) = Watcher::subscribe(&foyer, json!({})).await;
    one.catch_up(&foyer).await;
    other.catch_up(&foyer).await;
    for seat in 0..300 {
        foyer.publish(&[(seat, Held)], &[]);
    }
    let mut frames = Vec::new();
    while other.map.seq < foyer.truth().seq {
        let frame = other.client.frame().await;
        other.map.take(&frame);
        frames.push(frame);
    }
    // Beacons come when their time is, to whoever is there.
    let is_delta = |frame: &Vec<u8>| Header::read(frame).kind == 2;
    frames.retain(is_delta);
    let deltas: Vec<Header> = frames.iter().map(|frame| Header::read(frame)).collect();
    assert!(deltas.len() <= 4, "300 changes in {} frames", deltas.len());
    assert!(deltas.iter().any(|header| header.flags & 2 == 2), "one of them says that it is coalesced");
    let mut same = Vec::new();
    while one.map.seq < foyer.truth().seq {
        let frame = one.client.frame().await;
        one.map.take(&frame);
        same.push(frame);
    }
    same.retain(is_delta);
    assert_eq!(same, frames);
}

#[tokio::test]
async fn packed_snapshots_go_to_those_who_accept_them() {
    let foyer = Foyer::open(1000).await;
    foyer.change(&[(1, Sold)], &[]);
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({"accepts": ["packed2"]})).await;
    let frame = watcher.client.frame().await;
    assert_eq!(Header::read(&frame).enc, 2);
    watcher.map.take(&frame);
    assert_eq!(watcher.map.states, foyer.truth().states);
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({"accepts": []})).await;
    assert_eq!(Header::read(&watcher.client.frame().await).enc, 1);
}

#[tokio::test]
async fn a_beacon_proves_the_position_within_a_second_of_a_change() {
    let foyer = Foyer::open(100).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    foyer.publish(&[(7, Held)], &[]);
    watcher.catch_up(&foyer).await;
    let began = std::time::Instant::now();
    let beacon = watcher.client.frame().await;
    let header = Header::read(&beacon);
    assert_eq!((header.kind, header.seq_to, header.epoch), (3, watcher.map.seq, 1));
    assert_eq!(header.digest, watcher.map.digest());
    // Where nothing changes it comes after more than four.
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn who_comes_back_within_seconds_gets_only_what_it_missed() {
    let foyer = Foyer::open_with(100, &[("SEATWIRE_TICK_MIN_MS", "5")]).await;
    let (mut first, _) = Watcher::subscribe(&foyer, json!({})).await;
    first.catch_up(&foyer).await;
    foyer.publish(&[(1, Held)], &[]);
    first.catch_up(&foyer).await;
    let left_at = (first.map.epoch, first.map.seq);
    let known = first.map.clone();
    foyer.publish(&[(2, Held)], &[]);
    first.catch_up(&foyer).await;
    foyer.publish(&[(1, Sold)], &[]);
    first.catch_up(&foyer).await;

    let from = json!({"from": {"epoch": left_at.0, "seq": left_at.1}});
    let (mut back, reply) = Watcher::subscribe(&foyer, from).await;
    assert_eq!(reply["recovered"], true);
    back.map = known;
    assert_eq!(back.catch_up(&foyer).await, [2, 2]);

    let current = foyer.truth();
    let ahead = json!({"from": {"epoch": current.epoch, "seq": current.seq + 5}});
    let (_, reply) = Watcher::subscribe(&foyer, ahead).await;
    assert_eq!(reply["recovered"], true, "ahead of the node: nothing to tell yet");
    for (epoch, seq) in [(current.epoch, 0), (current.epoch + 1, 3), (current.epoch, 2)] {
        let (mut back, reply) = Watcher::subscribe(&foyer, json!({"from": {"epoch": epoch, "seq": seq}})).await;
        assert_eq!(reply["recovered"], false, "from {epoch}, {seq}");
        assert_eq!(back.catch_up(&foyer).await, [1]);
    }
}

#[tokio::test]
async fn a_live_subscription_has_no_snapshot() {
    let foyer = Foyer::open(100).await;
    foyer.change(&[(9, Sold)], &[]);
    let (mut watcher, reply) = Watcher::subscribe(&foyer, json!({"from": "live"})).await;
    assert_eq!((&reply["recovered"], &reply["seq"]), (&json!(true), &json!(11)));
    foyer.publish(&[(10, Held)], &[]);
    let header = Header::read(&watcher.client.frame().await);
    assert_eq!((header.kind, header.seq_from, header.seq_to), (2, 12, 12));
}

#[tokio::test]
async fn a_resync_is_answered_from_the_ring_or_with_a_snapshot() {
    let foyer = Foyer::open_with(100, &[("SEATWIRE_TICK_MIN_MS", "5")]).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    let known = watcher.map.clone();
    for seat in 0..3 {
        foyer.publish(&[(seat, Held)], &[]);
        watcher.catch_up(&foyer).await;
    }
    watcher.map = known;
    let reply = watcher.resync(watcher.map.epoch, watcher.map.seq).await;
    assert_eq!(reply["ok"], true, "{reply}");
    assert_eq!(watcher.catch_up(&foyer).await, [2, 2, 2]);

    watcher.map = Map::new(100, 1);
    watcher.resync(1, 0).await;
    assert_eq!(watcher.catch_up(&foyer).await, [1]);
    foyer.publish(&[(50, Held)], &[]);
    assert_eq!(watcher.catch_up(&foyer).await, [2], "live again after it");

    let reply = watcher.client.call("resync", json!({"channel": 77, "epoch": 1, "seq": 0})).await;
    assert_eq!((&reply["error"]["code"], &reply["error"]["data"]["path"]), (&json!("bad_field"), &json!("/channel")));
}

#[tokio::test]
async fn a_change_nobody_told_us_of_is_found_and_repaired_from_the_stream() {
    let foyer = Foyer::open(100).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    let reads = foyer.reads();
    foyer.change(&[(1, Held)], &[]);
    foyer.change(&[(2, Held)], &[]);
    // The third is heard, and with it that two are missing.
    foyer.publish(&[(3, Held)], &[]);
    watcher.catch_up(&foyer).await;
    assert_eq!(foyer.reads(), reads, "the stream was enough");
    // A loss that nobody hears of: the beat finds it.
    foyer.change(&[(4, Held)], &[]);
    watcher.catch_up(&foyer).await;
}

#[tokio::test]
async fn a_hole_in_the_stream_is_closed_with_the_whole_map_but_viewers_get_a_delta() {
    let foyer = Foyer::open(100).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    foyer.change(&[(1, Held)], &[]);
    foyer.change(&[(2, Sold)], &[(0, 7)]);
    foyer.forget_changes();
    foyer.publish(&[(3, Held)], &[]);
    let kinds = watcher.catch_up(&foyer).await;
    assert!(kinds.iter().all(|kind| *kind == 2), "{kinds:?}");
}

#[tokio::test]
async fn a_new_life_begins_with_its_snapshot() {
    let foyer = Foyer::open(100).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    foyer.publish(&[(1, Held), (2, Sold)], &[]);
    watcher.catch_up(&foyer).await;
    let change = foyer.rebuild(&[2]);
    foyer.seatmap.take(foyer.event, &change);
    assert_eq!(watcher.catch_up(&foyer).await, [1]);
    assert_eq!((watcher.map.epoch, watcher.map.states[1], watcher.map.states[2]), (2, 0, 2));
    foyer.publish(&[(5, Held)], &[]);
    assert_eq!(watcher.catch_up(&foyer).await, [2]);
}

#[tokio::test]
async fn the_map_stays_while_the_store_is_down_and_heals_after() {
    let foyer = Foyer::open(100).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    foyer.set_down(true);
    foyer.change(&[(1, Held)], &[]);
    foyer.publish(&[(2, Held)], &[]);
    let frame = watcher.client.frame().await;
    assert_eq!(Header::read(&frame).kind, 3, "beacons go on");
    assert_eq!(watcher.map.take(&frame), Took::Dropped);
    let (mut late, _) = Watcher::subscribe(&foyer, json!({})).await;
    late.map.take(&late.client.frame().await);
    assert_eq!(late.map, watcher.map, "who comes now sees the same map");
    foyer.set_down(false);
    watcher.catch_up(&foyer).await;
    late.catch_up(&foyer).await;
}

#[tokio::test]
async fn an_unsubscribed_channel_is_silent_and_unknown() {
    let foyer = Foyer::open(100).await;
    let (mut watcher, _) = Watcher::subscribe(&foyer, json!({})).await;
    watcher.catch_up(&foyer).await;
    assert_eq!(foyer.live().await.viewer_count(), 1);
    let reply = watcher.client.call("unsubscribe", json!({"channel": watcher.channel})).await;
    assert_eq!(reply["ok"], true);
    assert_eq!(foyer.live().await.viewer_count(), 0);
    let reply = watcher.client.call("unsubscribe", json!({"channel": watcher.channel})).await;
    assert_eq!(reply["error"]["code"], "bad_field");
    let reply = watcher.client.call("subscribe", json!({"event": seatwire_proto::id::EventId::generate()})).await;
    assert_eq!(reply["error"]["code"], "event_unknown");
}

#[tokio::test]
async fn http_and_json_snapshots_say_the_same_and_are_frozen() {
    use seatwire::seatmap::SnapshotEncoding;
    let foyer = Foyer::open(1000).await;
    foyer.change(&[(3, Held), (999, Sold)], &[(0, 1)]);
    let live = foyer.live().await;
    let first = live.http_snapshot(SnapshotEncoding::Roaring);
    foyer.clock.advance_ms(5_000);
    let again = live.http_snapshot(SnapshotEncoding::Roaring);
    assert_eq!(first.bytes, again.bytes, "frozen per position");
    let mut map = Map::new(1000, 1);
    assert_eq!(map.take(&first.bytes), Took::Applied);
    assert_eq!(Header::read(&first.bytes).channel, 0);
    let json: Value = serde_json::from_slice(&live.json_snapshot().bytes).expect("JSON");
    let states: Vec<u8> = json["states"].as_str().expect("digits").bytes().map(|digit| digit - b'0').collect();
    assert_eq!((states, &json["areas"], &json["seq"]), (map.states, &json!([1]), &json!(11)));
    let counts = live.counts();
    assert_eq!((counts.available, counts.remaining), (vec![499, 499], vec![1]));
}
