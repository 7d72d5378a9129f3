//! Buyers who race for the seats of one event on two nodes, and who write down what they were told. The judge at the end
//! shares nothing with the server: it looks at what was said, in the order of (epoch, seq).

mod judge;

use crate::organiser::Viewer;
use crate::support::client::Client;
use crate::support::map::{Map, Took};
use crate::support::node::Node;
use crate::support::stage::{Draft, Stage};
use crate::support::{HURRIED, eventually};
use parking_lot::Mutex;
use seatwire::clock::Clock;
use seatwire::paysim::PaysimConfig;
use seatwire::shutdown::Shutdown;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const BUYERS: u32 = 16;
/// Few enough that buyers meet, enough that the sale goes on to the end.
const ROWS: usize = 25;
const SEATS: u64 = 20 * ROWS as u64;
/// Seats and places an identity may have.
const LIMIT: u64 = 4;
/// Long enough to outlive a fault, short enough to wait for: every hold ends.
const HOLD_TTL_MS: u64 = 5_000;
/// Viewers of each node.
const VIEWERS: usize = 2;
/// Nothing was done, or it is not known: the same key asks again.
const AGAIN: [&str; 6] = ["timeout_unknown", "key_in_use", "unavailable", "overloaded", "draining", "internal"];

/// Where the map stood.
type Position = (u64, u64);

/// What a buyer was told of a seat.
#[derive(Debug, Clone)]
enum Told {
    Granted {
        until_ms: u64,
        at_ms: u64,
    },
    /// Given back.
    Released,
    Paid,
}

#[derive(Debug, Default)]
struct History {
    /// By seat: who was told what, where.
    of_seats: HashMap<u64, Vec<(Position, String, Told)>>,
    /// Every change once: who made the change at this position.
    changes: HashMap<Position, String>,
    wrongs: Vec<String>,
}

pub(super) struct Race {
    pub(super) stage: tokio::sync::Mutex<Stage>,
    pub(super) event: String,
    /// Where buyers go, each call anywhere.
    pub(super) urls: Mutex<Vec<String>>,
    payment_url: String,
    http: reqwest::Client,
    history: Mutex<History>,
    is_over: AtomicBool,
    next_key: AtomicU32,
    /// Holds that were granted.
    pub(super) granted_n: AtomicU32,
    pub(super) nodes: Mutex<Vec<Node>>,
}

/// The event they race for.
pub(super) fn draft() -> Draft {
    Draft {
        rows: vec![20; ROWS],
        areas: vec![200],
        seats_per_identity: LIMIT as u32,
        hold_ttl_ms: HOLD_TTL_MS,
        ..Draft::default()
    }
}

impl Race {
    pub(super) async fn start(redis_settings: &[&str], redis_url: Option<&str>) -> Arc<Self> {
        let (stage, event) = Stage::with_redis(&draft(), redis_settings).await;
        Self::on(stage, event, redis_url).await
    }

    pub(super) async fn on(stage: Stage, event: String, redis_url: Option<&str>) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let sim = seatwire::paysim::start(listener, PaysimConfig::default(), Clock::system(), Shutdown::new()).await;
        let payment_url = sim.expect("starts").url();
        let mut settings = vec![("SEATWIRE_PAYMENT_URL", payment_url.as_str()), ("SEATWIRE_RECONCILE_MS", "200")];
        settings.extend(HURRIED);
        settings.extend(redis_url.map(|url| ("REDIS_URL", url)));
        let (first, second) = tokio::join!(stage.node_with(&settings), stage.node_with(&settings));
        let nodes = vec![first, second];
        Arc::new(Self {
            event,
            urls: Mutex::new(nodes.iter().map(|node| node.url.clone()).collect()),
            payment_url,
            http: reqwest::Client::builder().timeout(Duration::from_secs(10)).build().expect("a client"),
            history: Mutex::default(),
            is_over: AtomicBool::new(false),
            next_key: AtomicU32::new(0),
            granted_n: AtomicU32::new(0),
            stage: tokio::sync::Mutex::new(stage),
            nodes: Mutex::new(nodes),
        })
    }

    fn key(&self) -> String {
        format!("k{}", self.next_key.fetch_add(1, Ordering::Relaxed))
    }

    /// One call; `None` when nobody answered.
    pub(super) async fn try_post(&self, path: &str, token: &str, key: &str, body: &Value) -> Option<Value> {
        let url = {
            let urls = self.urls.lock();
            urls[rand::random_range(0..urls.len())].clone()
        };
        let call = self.http.post(format!("{url}{path}")).bearer_auth(token).header("Idempotency-Key", key);
        call.json(body).send().await.ok()?.json().await.ok()
    }

    /// The same command by the same key until somebody answers it. Whoever gives up instead leaves it to be found, and a
    /// checkout that nobody comes back to is found after minutes.
    pub(super) async fn post(&self, path: &str, token: &str, key: &str, body: &Value) -> Value {
        eventually("an answer", || async {
            let answer = self.try_post(path, token, key, body).await;
            let is_final = |answer: &Value| !AGAIN.contains(&answer["error"]["code"].as_str().unwrap_or_default());
            if answer.as_ref().is_some_and(is_final) {
                return answer;
            }
            // Together with the pause of every look: a few times a second.
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        })
        .await
    }

    /// A new identity's token.
    pub(super) async fn identity(&self) -> String {
        eventually("a new identity", || async {
            let made = self.try_post("/v1/identities", "", "i", &json!({})).await?;
            made["token"].as_str().map(str::to_owned)
        })
        .await
    }

    pub(super) fn holds_path(&self) -> String {
        format!("/v1/events/{}/holds", self.event)
    }

    fn wrong(&self, what: String) {
        self.history.lock().wrongs.push(what);
    }

    fn note(&self, at: Position, who: &str, seats: &[u64], told: &Told) {
        let mut history = self.history.lock();
        for seat in seats {
            history.of_seats.entry(*seat).or_default().push((at, who.to_owned(), told.clone()));
        }
    }

    /// A change has a position of its own, for ever: nobody else made another one there.
    fn note_change(&self, at: Position, who: &str) {
        let before = self.history.lock().changes.insert(at, who.to_owned());
        if let Some(before) = before.filter(|before| before != who) {
            self.wrong(format!("I8: {before} and {who} changed the map at {at:?}"));
        }
    }

    /// One buyer's evening, one identity.
    async fn buy(&self, stranger: &str) {
        let token = self.identity().await;
        let first = rand::random_range(0..SEATS);
        let mut seats: Vec<u64> = (first..(first + rand::random_range(1..=2)).min(SEATS)).collect();
        if rand::random_range(0..4) == 0 {
            seats.clear();
        }
        let wish = if seats.is_empty() { json!({"area": 0, "quantity": 2}) } else { json!({"seats": seats}) };
        let (path, key) = (self.holds_path(), self.key());
        let answer = self.post(&path, &token, &key, &wish).await;
        let hold = &answer["hold"];
        let Some(id) = hold["id"].as_str().map(str::to_owned) else { return };
        self.granted_n.fetch_add(1, Ordering::Relaxed);
        let at = position(&answer);
        let ms = |name: &str| hold[name].as_u64().expect("a time");
        self.note(at, &token, &seats, &Told::Granted { until_ms: ms("expires_ms"), at_ms: ms("server_ms") });
        if answer["replayed"] != true {
            self.note_change(at, &token);
        }
        if places(hold) > LIMIT {
            self.wrong(format!("I7: {hold}"));
        }
        // Another command of the same identity, for more than it may have.
        let more = json!({"area": 0, "quantity": LIMIT});
        let more_key = self.key();
        let refused = self.post(&path, &token, &more_key, &more).await;
        if places(&refused["hold"]) > LIMIT {
            self.wrong(format!("I7: {refused}"));
        }
        // A refusal that stands by its key is given again as it was.
        let again = self.post(&path, &token, &more_key, &more).await;
        let is_remembered = |answer: &Value| matches!(answer["error"]["number"].as_u64(), Some(2000..4000));
        if is_remembered(&refused) && position(&again).0 == position(&refused).0 && again["error"] != refused["error"] {
            self.wrong(format!("I12: {refused} and then {again}"));
        }
        // The same key again, wherever: the same first answer, unless a new life lost it.
        let again = self.post(&path, &token, &key, &wish).await;
        if position(&again).0 == at.0 && again["hold"] != *hold {
            self.wrong(format!("I12: {hold} and then {again}"));
        }
        // Somebody else can do nothing to it.
        let of_hold = |what: &str| format!("/v1/holds/{id}{what}");
        let release = of_hold("/release");
        let pays = json!({
            "buyer": {"name": "Ada", "email": "ada@example.org"},
            "payment": {"method": "pm_card_visa"},
            "expect_total_minor": hold["total_minor"],
        });
        for (what, body) in [("/release", &json!({})), ("/extend", &json!({})), ("/checkout", &pays)] {
            let refused = self.post(&of_hold(what), stranger, &self.key(), body).await;
            if refused["error"]["code"] != "hold_not_found" {
                self.wrong(format!("I5: a stranger at {what} of {hold}: {refused}"));
            }
        }
        match rand::random_range(0..3) {
            0 => {
                let key = self.key();
                let answer = self.post(&release, &token, &key, &json!({})).await;
                self.note(position(&answer), &token, &seats, &Told::Released);
            }
            1 => {
                let answer = self.post(&of_hold("/checkout"), &token, &self.key(), &pays).await;
                if answer["order"]["state"] == "paid" {
                    self.note(at, &token, &seats, &Told::Paid);
                    // What was bought counts, in every life.
                    let more = json!({"area": 0, "quantity": LIMIT - places(hold) + 1});
                    let refused = self.post(&path, &token, &self.key(), &more).await;
                    if refused.get("hold").is_some() {
                        self.wrong(format!("I7: {hold} was paid, and then {refused}"));
                    }
                } else if let Some(order) = answer["order"]["id"].as_str() {
                    // A busy machine may be too slow for the provider. Whoever may pay again has minutes; not this one.
                    self.note(at, &token, &seats, &Told::Released);
                    self.post(&format!("/v1/orders/{order}/cancel"), &token, &self.key(), &json!({})).await;
                }
            }
            _ => {}
        }
    }

    /// A viewer of this node, as soon as the node can show the event.
    async fn viewer(&self, url: &str) -> Viewer {
        let mut client = Client::hello(url, None).await;
        loop {
            let reply = client.call("subscribe", json!({"event": self.event})).await;
            if reply["ok"] == true {
                return Viewer { client, map: Map::new(SEATS as usize, 1) };
            }
            let after_ms = reply["error"]["retry_after_ms"].as_u64().unwrap_or_else(|| panic!("no map: {reply}"));
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
        }
    }

    /// Looks on as the protocol says until the race is over: every frame fits, and it never goes back.
    async fn watch(self: Arc<Self>, mut url: String) -> Viewer {
        let mut viewer = self.viewer(&url).await;
        while !self.is_over.load(Ordering::Relaxed) {
            let before = (viewer.map.epoch, viewer.map.seq);
            tokio::select! {
                frame = viewer.client.frame_unless_closed() => {
                    let Some(frame) = frame else {
                        // Its node is dead: it comes back at one that lives.
                        url = eventually("a node that lives", || async {
                            self.urls.lock().iter().find(|other| **other != url).cloned()
                        })
                        .await;
                        viewer = self.viewer(&url).await;
                        continue;
                    };
                    let took = viewer.map.take(&frame);
                    let now = (viewer.map.epoch, viewer.map.seq);
                    if took == Took::NeedsResync || now < before {
                        self.wrong(format!("I8: a viewer at {before:?} took a frame to {now:?}: {took:?}"));
                    }
                }
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
        viewer
    }

    /// Lets buyers race while `fault` does what it does, then a little longer; waits for calm and judges. What `fault` says.
    pub(super) async fn run<F: Future>(self: Arc<Self>, fault: F) -> F::Output {
        let stranger = self.identity().await;
        let urls = self.urls.lock().clone();
        let mut watching = Vec::new();
        for url in urls.iter().flat_map(|url| [url; VIEWERS]) {
            watching.push(tokio::spawn(self.clone().watch(url.clone())));
        }
        let buyers: Vec<_> = (0..BUYERS)
            .map(|_| {
                let (race, stranger) = (self.clone(), stranger.clone());
                tokio::spawn(async move {
                    while !race.is_over.load(Ordering::Relaxed) {
                        race.buy(&stranger).await;
                    }
                })
            })
            .collect();
        self.more_grants(100).await;
        let said = fault.await;
        // The sale goes on after it.
        self.more_grants(100).await;
        self.is_over.store(true, Ordering::Relaxed);
        for buyer in buyers {
            buyer.await.expect("a buyer ends well");
        }
        let mut viewers = Vec::new();
        for viewer in watching {
            viewers.push(viewer.await.expect("a viewer ends well"));
        }
        self.judge(viewers).await;
        said
    }

    /// Waits until so many more holds were granted.
    pub(super) async fn more_grants(&self, n: u32) {
        let goal = self.granted_n.load(Ordering::Relaxed) + n;
        eventually("more holds", || async { (self.granted_n.load(Ordering::Relaxed) >= goal).then_some(()) }).await;
    }

    /// The life the event is in.
    pub(super) async fn epoch(&self) -> u64 {
        let stage = self.stage.lock().await;
        let event: seatwire_proto::id::EventId = self.event.parse().expect("an id");
        let epoch = seatwire::store::epoch::current(stage.store.pool(), event).await.expect("reads");
        epoch.map_or(0, u64::from)
    }
}

fn position(answer: &Value) -> Position {
    (answer["epoch"].as_u64().unwrap_or(0), answer["seq"].as_u64().unwrap_or(0))
}

fn places(hold: &Value) -> u64 {
    hold["lines"].as_array().map_or(0, |lines| lines.iter().filter_map(|line| line["quantity"].as_u64()).sum())
}
