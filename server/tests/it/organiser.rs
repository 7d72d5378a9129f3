//! What the organiser does while it sells, seen from outside: the admin listener, and viewers and buyers on two nodes.

mod area;
mod crash;
mod keeping;
mod keys;
mod live;
mod replica;
mod section;
mod states;
mod turn;
mod waitlist;

use crate::support::PATIENCE;
use crate::support::client::Client;
use crate::support::map::{Map, Took};
use serde_json::{Value, json};

pub(crate) fn code(reply: &Value) -> &str {
    if reply["ok"] == true { "ok" } else { reply["error"]["code"].as_str().unwrap_or("?") }
}

/// A viewer that applies the protocol by the letter, and grows when it is told to.
pub(crate) struct Viewer {
    pub(crate) client: Client,
    pub(crate) map: Map,
}

impl Viewer {
    pub(crate) async fn of(url: &str, event: &str) -> Self {
        let mut client = Client::hello(url, None).await;
        let reply = client.call("subscribe", json!({"event": event})).await;
        assert_eq!(reply["ok"], true, "{reply}");
        let number = |name: &str| reply[name].as_u64().unwrap_or_else(|| panic!("{name} in {reply}")) as usize;
        let mut viewer = Self { client, map: Map::new(number("seat_count"), number("area_count")) };
        viewer.until("the snapshot", |_| true).await;
        viewer
    }

    /// Takes frames until the map is as wanted; every frame fits without a resync.
    pub(crate) async fn until(&mut self, what: &str, is_wanted: impl Fn(&Map) -> bool) {
        // Beacons come for ever: without an end of its own this would wait for a map that never becomes right.
        let began = std::time::Instant::now();
        while self.map.epoch == 0 || !is_wanted(&self.map) {
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
            let frame = self.client.frame().await;
            assert_ne!(self.map.take(&frame), Took::NeedsResync, "nothing was lost while waiting for {what}");
        }
    }
}
