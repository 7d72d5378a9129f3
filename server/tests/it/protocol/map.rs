//! Map frames: every viewer equals the truth, however it came and whatever it missed.

use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::map::{Header, Map, Took};
use crate::support::stage::{Draft, Stage};
use serde_json::{Value, json};

/// A subscribed viewer and its map.
struct Viewer {
    client: Client,
    channel: u32,
    map: Map,
}

impl Viewer {
    async fn subscribe(url: &str, event: &str, fields: Value) -> (Self, Value) {
        let mut client = Client::hello(url, None).await;
        let mut body = fields;
        body["event"] = event.into();
        let reply = client.call("subscribe", body).await;
        assert_eq!(reply["ok"], true, "{reply}");
        let number = |name: &str| reply[name].as_u64().unwrap_or_else(|| panic!("{name} in {reply}"));
        let map = Map::new(number("seat_count") as usize, number("area_count") as usize);
        (Self { client, channel: number("channel") as u32, map }, reply)
    }

    /// Takes frames until the map is there.
    async fn until(&mut self, epoch: u64, seq: u64) {
        while (u64::from(self.map.epoch), self.map.seq) < (epoch, seq) {
            let frame = self.client.frame().await;
            assert_eq!(Header::read(&frame).channel, self.channel);
            assert_ne!(self.map.take(&frame), Took::NeedsResync, "nothing was lost");
        }
    }
}

fn position(reply: &Value) -> (u64, u64) {
    assert_eq!(reply["ok"], true, "{reply}");
    (reply["epoch"].as_u64().expect("epoch"), reply["seq"].as_u64().expect("seq"))
}

#[tokio::test]
async fn a_viewer_gets_a_snapshot_and_then_every_change() {
    let draft = Draft { blocked: vec![0, 159], ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    let (mut viewer, reply) = Viewer::subscribe(&node.url, &event, json!({})).await;
    assert_eq!((&reply["event"], &reply["recovered"]), (&json!(event), &json!(false)));
    assert_eq!((&reply["seat_count"], &reply["area_count"]), (&json!(160), &json!(1)));
    assert!(viewer.channel != 0);
    let snapshot = viewer.client.frame().await;
    assert_eq!(Header::read(&snapshot).kind, 1);
    assert_eq!(viewer.map.take(&snapshot), Took::Applied);
    assert_eq!((viewer.map.states[0], viewer.map.states[159], viewer.map.areas[0]), (3, 3, 50));

    let (mut buyer, _) = Client::guest(&node.url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [5, 6, 7]})).await;
    let (epoch, seq) = position(&held);
    viewer.until(epoch, seq).await;
    assert_eq!(viewer.map.states[5..=8], [1, 1, 1, 0]);
    let hold = held["hold"]["id"].clone();
    let area = buyer.call("hold_area", json!({"key": "2", "event": event, "area": 0, "quantity": 4})).await;
    let (epoch, seq) = position(&area);
    viewer.until(epoch, seq).await;
    assert_eq!(viewer.map.areas[0], 46);
    let released = buyer.call("release", json!({"key": "3", "hold": hold})).await;
    assert_eq!(released["hold"], Value::Null);
    let (epoch, seq) = position(&released);
    viewer.until(epoch, seq).await;
    assert_eq!((viewer.map.states[5], viewer.map.areas[0]), (0, 50));
}

#[tokio::test]
async fn both_encodings_the_json_form_and_http_say_the_same() {
    let (stage, event) = Stage::with_event(&Draft { blocked: vec![3], ..Draft::default() }).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let (epoch, seq) = position(&buyer.call("hold", json!({"key": "1", "event": event, "seats": [10, 12]})).await);
    let (mut plain, _) = Viewer::subscribe(&node.url, &event, json!({})).await;
    let (mut packed, _) = Viewer::subscribe(&node.url, &event, json!({"accepts": ["packed2"]})).await;
    plain.until(epoch, seq).await;
    let frame = packed.client.frame().await;
    assert_eq!(Header::read(&frame).enc, 2, "packed states when accepted");
    packed.map.take(&frame);
    packed.until(epoch, seq).await;
    assert_eq!(plain.map, packed.map);

    let http = reqwest::Client::new();
    let path = format!("{}/v1/events/{event}/snapshot", node.url);
    let response = http.get(&path).send().await.expect("answers");
    assert_eq!(response.headers()["content-type"], "application/vnd.seatwire.map");
    assert!(response.headers().get("content-encoding").is_none());
    assert_eq!(response.headers()["cache-control"], "public, max-age=1, stale-while-revalidate=1");
    let etag = response.headers()["etag"].to_str().expect("text").to_owned();
    assert!(etag.starts_with(&format!("\"{epoch}-{seq}")), "{etag}");
    let frame = response.bytes().await.expect("a body");
    assert_eq!((Header::read(&frame).channel, Header::read(&frame).enc), (0, 1));
    let mut map = Map::new(160, 1);
    map.take(&frame);
    assert_eq!(map, plain.map);
    let response = http.get(&path).header("If-None-Match", etag).send().await.expect("answers");
    assert_eq!(response.status(), 304);
    let body: Value =
        http.get(format!("{path}?format=json")).send().await.expect("answers").json().await.expect("JSON");
    let states: Vec<u8> = body["states"].as_str().expect("digits").bytes().map(|digit| digit - b'0').collect();
    assert_eq!((states, &body["areas"], &body["seq"]), (map.states, &json!([50]), &json!(seq)));
}

#[tokio::test]
async fn who_was_away_gets_what_was_missed_and_no_snapshot() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let (epoch, seq) = position(&buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await);
    let (mut viewer, _) = Viewer::subscribe(&node.url, &event, json!({})).await;
    viewer.until(epoch, seq).await;
    let reply = viewer.client.call("unsubscribe", json!({"channel": viewer.channel})).await;
    assert_eq!(reply["ok"], true, "{reply}");
    let (_, last) = position(&buyer.call("hold", json!({"key": "2", "event": event, "seats": [2]})).await);

    let from = json!({"from": {"epoch": epoch, "seq": seq}});
    let (mut again, reply) = Viewer::subscribe(&node.url, &event, from).await;
    assert_eq!(reply["recovered"], true, "{reply}");
    again.map = viewer.map.clone();
    let frame = again.client.frame().await;
    assert_eq!(Header::read(&frame).kind, 2, "a delta");
    assert_eq!(again.map.take(&frame), Took::Applied);
    again.until(epoch, last).await;
    assert_eq!(again.map.states[..4], [0, 1, 1, 0]);

    let (mut ahead, reply) =
        Viewer::subscribe(&node.url, &event, json!({"from": {"epoch": epoch, "seq": last + 100}})).await;
    assert_eq!(reply["recovered"], true, "ahead of the node: {reply}");
    let pong = ahead.client.call("ping", json!({"t0": 1})).await;
    assert_eq!(pong["ok"], true, "{pong}");
    let only_beacons = ahead.client.frames_waiting().all(|frame| Header::read(frame).kind == 3);
    assert!(only_beacons, "and nothing of the map is sent");
    let (mut stale, reply) =
        Viewer::subscribe(&node.url, &event, json!({"from": {"epoch": epoch + 1, "seq": 1}})).await;
    assert_eq!(reply["recovered"], false, "another epoch: {reply}");
    assert_eq!(Header::read(&stale.client.frame().await).kind, 1, "a snapshot");
    let (mut live, reply) = Viewer::subscribe(&node.url, &event, json!({"from": "live"})).await;
    assert_eq!((&reply["recovered"], &reply["seq"]), (&json!(true), &json!(last)), "{reply}");
    assert_eq!(Header::read(&live.client.frame().await).kind, 3, "no snapshot");
}

#[tokio::test]
async fn resync_repairs_a_hole_and_seq_zero_brings_a_snapshot() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut viewer, reply) = Viewer::subscribe(&node.url, &event, json!({})).await;
    let (epoch, start) = position(&reply);
    viewer.until(epoch, start).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let (_, seq) = position(&buyer.call("hold", json!({"key": "1", "event": event, "seats": [9]})).await);
    // This delta is thrown away, as a bad network would.
    while Header::read(&viewer.client.frame().await).seq_to < seq {}
    let reply = viewer.client.call("resync", json!({"channel": viewer.channel, "epoch": epoch, "seq": start})).await;
    assert_eq!(reply["ok"], true, "{reply}");
    viewer.until(epoch, seq).await;
    assert_eq!(viewer.map.states[9], 1);
    let reply = viewer.client.call("resync", json!({"channel": viewer.channel, "epoch": epoch, "seq": 0})).await;
    assert_eq!(reply["ok"], true, "{reply}");
    loop {
        let frame = viewer.client.frame().await;
        let header = Header::read(&frame);
        if header.kind == 1 {
            assert_eq!(viewer.map.take(&frame), Took::Applied);
            break;
        }
        viewer.map.take(&frame);
    }
    let reply = viewer.client.call("resync", json!({"channel": 999_999, "epoch": epoch, "seq": 0})).await;
    assert_eq!(reply["error"]["code"], "bad_field", "{reply}");
}

#[tokio::test]
async fn a_quiet_event_still_sends_beacons_that_agree() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut viewer, reply) = Viewer::subscribe(&node.url, &event, json!({})).await;
    let (epoch, seq) = position(&reply);
    viewer.until(epoch, seq).await;
    let frame = viewer.client.frame().await;
    assert_eq!((Header::read(&frame).kind, Header::read(&frame).seq_to), (3, viewer.map.seq));
    assert_eq!(viewer.map.take(&frame), Took::Dropped, "and its digest is ours");
}

#[tokio::test]
async fn an_unknown_event_is_refused() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let mut client = Client::hello(&node.url, None).await;
    let reply = client.call("subscribe", json!({"event": "evt_01h455vb4pex5vsknk084sn02q"})).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["number"]),
        (&json!("event_unknown"), &json!(2011)),
        "{reply}"
    );
}

#[tokio::test]
async fn two_nodes_show_the_same_map_and_push_to_the_same_identity() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = tokio::join!(stage.node(), stage.node());
    let (mut here, _) = Viewer::subscribe(&first.url, &event, json!({})).await;
    let (mut there, _) = Viewer::subscribe(&second.url, &event, json!({})).await;
    let guest = Guest::new(&first.url).await;
    let mut buyer = Client::hello(&first.url, Some(&guest.token)).await;
    let mut phone = Client::hello(&second.url, Some(&guest.token)).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [30, 31]})).await;
    let (epoch, seq) = position(&held);
    here.until(epoch, seq).await;
    there.until(epoch, seq).await;
    assert_eq!(here.map, there.map);
    let push = phone.push("hold.update").await;
    assert_eq!((&push["id"], &push["hold"]["lines"]), (&held["hold"]["id"], &held["hold"]["lines"]), "{push}");
    // The other node answers for the same basket.
    let released = phone.call("release", json!({"key": "2", "hold": held["hold"]["id"], "seats": [30]})).await;
    let (epoch, seq) = position(&released);
    here.until(epoch, seq).await;
    assert_eq!(here.map.states[30..32], [0, 1]);
    let push = buyer
        .push_where("hold.update", |push| push["hold"]["lines"].as_array().is_some_and(|lines| lines.len() == 1))
        .await;
    assert_eq!(push["hold"]["lines"][0]["seat"], 31);
}

#[tokio::test]
async fn a_node_that_was_alone_pushes_to_one_that_comes_later() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let first = stage.node().await;
    let metrics = format!("{}/metrics", first.admin_url);
    eventually("the first node to find itself alone", || async {
        let text = reqwest::get(&metrics).await.ok()?.text().await.ok()?;
        text.lines().any(|line| line == "seatwire_has_company 0").then_some(())
    })
    .await;
    let second = stage.node().await;
    let guest = Guest::new(&first.url).await;
    let mut phone = Client::hello(&second.url, Some(&guest.token)).await;
    let mut buyer = Client::hello(&first.url, Some(&guest.token)).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [30]})).await;
    let push = phone.push("hold.update").await;
    assert_eq!((&push["id"], &push["hold"]["lines"]), (&held["hold"]["id"], &held["hold"]["lines"]), "{push}");
}
