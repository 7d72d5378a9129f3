//! Everything at once: buyers on two nodes, every fault of the provider, webhooks lost, doubled, late and forged, refunds on
//! the provider's pages, and nodes that die by SIGKILL and come back. Afterwards the provider's ledger is joined with the
//! database and with what buyers were told. `SEATWIRE_STORM_S` sets how long it blows (default 10 s).

use super::books::violations;
use super::dead_node::Scene;
use crate::support::eventually;
use crate::support::node::Node;
use crate::support::stage::Draft;
use parking_lot::Mutex;
use rand::prelude::IndexedRandom;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const BUYERS: usize = 24;
/// Calls of buyers between the deaths of two nodes: a few seconds.
const CALLS_BETWEEN_DEATHS: usize = 200;
const METHODS: [&str; 16] = [
    "pm_card_visa",
    "pm_card_visa",
    "pm_card_mastercard",
    "pm_card_chargeDeclined",
    "pm_card_chargeDeclinedInsufficientFunds",
    "pm_card_authenticationRequired",
    "pm_sim_delay_300ms",
    "pm_sim_timeout_charged",
    "pm_sim_timeout_not_charged",
    "pm_sim_500_charged",
    "pm_sim_500_not_charged",
    "pm_sim_429_then_ok",
    "pm_sim_processing_then_ok",
    "pm_sim_processing_then_fail",
    "pm_sim_late_success_2s",
    "pm_sim_late_success_6s",
];
/// Short deadlines, so that each of them passes within the storm.
const SETTINGS: [(&str, &str); 7] = [
    ("SEATWIRE_PAYMENT_TIMEOUT_MS", "700"),
    ("SEATWIRE_ANSWER_WITHIN_MS", "1500"),
    ("SEATWIRE_UNKNOWN_SOFT_MS", "1500"),
    ("SEATWIRE_UNKNOWN_HARD_MS", "3000"),
    ("SEATWIRE_ACTION_MS", "2000"),
    ("SEATWIRE_RECONCILE_MS", "100"),
    ("SEATWIRE_POLL_PROVIDER_MS", "1000"),
];

/// What buyers were told and did.
#[derive(Default)]
struct Told {
    /// Orders somebody saw paid, by id, with the buyer's token.
    paid: HashMap<String, String>,
    /// Orders somebody saw cancelled.
    cancelled: HashMap<String, String>,
    /// Tokens of everybody who may have an order.
    tokens: Vec<String>,
    commands_n: usize,
}

fn pick<T>(choices: &[T]) -> &T {
    choices.choose(&mut rand::rng()).expect("something to choose from")
}

struct Storm {
    scene: Scene,
    urls: Mutex<Vec<String>>,
    http: reqwest::Client,
    told: Mutex<Told>,
    is_over: AtomicBool,
    kills_n: AtomicUsize,
}

impl Storm {
    fn url(&self) -> String {
        pick(&self.urls.lock()).clone()
    }

    /// One call; `None` when nobody answered.
    async fn call(&self, method: Method, path: &str, token: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
        self.told.lock().commands_n += 1;
        let mut call = self.http.request(method.clone(), format!("{}{path}", self.url())).bearer_auth(token);
        if method == Method::POST {
            call = call.header("Idempotency-Key", key).json(body);
        }
        let answer = call.send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    /// The same command by the same key until somebody answers it, on whichever node.
    async fn command(&self, path: &str, token: &str, key: &str, body: Value) -> Value {
        loop {
            if let Some((_, answer)) = self.call(Method::POST, path, token, key, &body).await {
                let code = answer["error"]["code"].as_str().unwrap_or_default();
                let again = ["timeout_unknown", "key_in_use", "unavailable", "overloaded", "draining", "internal"];
                if !again.contains(&code) {
                    return answer;
                }
            }
            if self.is_over.load(Ordering::Relaxed) && self.urls.lock().is_empty() {
                return Value::Null;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn note(&self, token: &str, order: &Value) {
        let Some(id) = order["id"].as_str() else { return };
        let mut told = self.told.lock();
        match order["state"].as_str() {
            Some("paid") => drop(told.paid.insert(id.to_owned(), token.to_owned())),
            Some("cancelled") => drop(told.cancelled.insert(id.to_owned(), token.to_owned())),
            _ => {}
        }
    }

    async fn press(&self, order: &Value, button: &str) {
        if let Some(page) = order["action"]["url"].as_str() {
            let _ = self.http.post(page.replace('?', &format!("/{button}?"))).send().await;
        }
    }

    /// One buyer's evening.
    async fn buy(&self) {
        let made = self.call(Method::POST, "/v1/identities", "", "i", &json!({})).await;
        let Some(token) = made.and_then(|(_, body)| body["token"].as_str().map(str::to_owned)) else { return };
        self.told.lock().tokens.push(token.clone());
        let path = format!("/v1/events/{}/holds", self.scene.event);
        let wish = if rand::random_range(0..5) == 0 {
            json!({"area": 0, "quantity": rand::random_range(1..3)})
        } else {
            json!({"seats": [rand::random_range(0..160)]})
        };
        let held = self.command(&path, &token, "h", wish).await;
        let hold = &held["hold"];
        if !hold.is_object() {
            return;
        }
        let path = format!("/v1/holds/{}/checkout", hold["id"].as_str().expect("an id"));
        let body = |method: &str| {
            json!({
                "buyer": {"name": "Ada", "email": "ada@example.org"},
                "payment": {"method": method},
                "expect_total_minor": hold["total_minor"],
            })
        };
        let draw = || *pick(&METHODS);
        let first = draw();
        let mut answer = self.command(&path, &token, "c", body(first)).await;
        // The same key again, later and elsewhere, has the same order.
        if rand::random_range(0..4) == 0 {
            let again = self.command(&path, &token, "c", body(first)).await;
            assert_eq!(again["order"]["id"], answer["order"]["id"], "{again} after {answer}");
        }
        for turn in 0..6 {
            let order = answer["order"].clone();
            let Some(id) = order["id"].as_str().map(str::to_owned) else { return };
            self.note(&token, &order);
            match order["state"].as_str().expect("a state") {
                "payment_declined" => {
                    let (end, body) = if rand::random_range(0..3) == 0 {
                        ("cancel", json!({}))
                    } else {
                        ("pay", json!({"payment": {"method": draw()}}))
                    };
                    let key = format!("{end}{turn}");
                    answer = self.command(&format!("/v1/orders/{id}/{end}"), &token, &key, body).await;
                }
                "action_required" => {
                    let choices = ["approve", "approve", "fail", "walk away"];
                    self.press(&order, pick::<&str>(&choices)).await;
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    answer = self.read(&id, &token).await;
                }
                "paid" if turn == 0 && rand::random_range(0..6) == 0 => {
                    self.give_back_at_the_providers(&id, order["total_minor"].as_i64().expect("an amount")).await;
                    return;
                }
                "paid" | "cancelled" => return,
                _ => {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    answer = self.read(&id, &token).await;
                }
            }
        }
    }

    async fn read(&self, id: &str, token: &str) -> Value {
        let path = format!("/v1/orders/{id}");
        self.call(Method::GET, &path, token, "", &Value::Null).await.map(|(_, body)| body).unwrap_or_default()
    }

    /// Somebody refunds on the provider's own pages, all or half.
    async fn give_back_at_the_providers(&self, order: &str, total_minor: i64) {
        let ledger = self.scene.ledger().await;
        let intents = ledger["intents"].as_array().expect("a list");
        let Some(intent) = intents.iter().find(|intent| intent["metadata"]["order"] == order) else { return };
        let amount_minor = if rand::random() { total_minor } else { total_minor / 2 };
        let form = [
            ("payment_intent", intent["id"].as_str().expect("an id").to_owned()),
            ("amount", amount_minor.to_string()),
        ];
        let url = format!("{}/v1/refunds", self.scene.payment_url);
        let _ = self.http.post(url).bearer_auth("sk_test_it").form(&form).send().await;
    }

    /// Faults come and go.
    async fn weather(self: Arc<Self>) {
        let draw = |most: u32| rand::random_range(0..=most).to_string();
        while !self.is_over.load(Ordering::Relaxed) {
            let outage = *pick(&["none", "none", "none", "none", "fail", "hang", "garbage"]);
            let faults = [
                ("outage", outage.to_owned()),
                ("delay_ms", draw(50)),
                ("busy_percent", draw(20)),
                ("fail_before_percent", draw(10)),
                ("fail_after_percent", draw(10)),
                ("silent_percent", draw(10)),
            ];
            self.switch("faults", &faults).await;
            let hooks =
                ["duplicate_percent", "reorder_percent", "drop_percent", "forge_percent"].map(|n| (n, draw(50)));
            self.switch("webhooks", &hooks).await;
            tokio::time::sleep(Duration::from_millis(rand::random_range(100..600))).await;
        }
        let calm = ["delay_ms", "busy_percent", "fail_before_percent", "fail_after_percent", "silent_percent"];
        self.switch("faults", &calm.map(|name| (name, "0".to_owned()))).await;
        self.switch("faults", &[("outage", "none".to_owned())]).await;
        let hooks = ["duplicate_percent", "reorder_percent", "drop_percent", "forge_percent"];
        self.switch("webhooks", &hooks.map(|name| (name, "0".to_owned()))).await;
    }

    async fn switch(&self, what: &str, form: &[(&str, String)]) {
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.scene.sim(what, &form).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_storm_of_all_faults_money_and_seats_agree() {
    let storm_s: u64 = std::env::var("SEATWIRE_STORM_S").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let draft = Draft { seats_per_identity: 4, ..Draft::default() };
    let scene = Scene::new(&draft).await;
    let mut nodes: Vec<Node> = vec![scene.node(&SETTINGS).await, scene.node(&SETTINGS).await];
    let http = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client");
    let urls = Mutex::new(nodes.iter().map(|node| node.url.clone()).collect());
    let storm = Arc::new(Storm {
        scene,
        urls,
        http,
        told: Mutex::default(),
        is_over: AtomicBool::new(false),
        kills_n: AtomicUsize::new(0),
    });
    let weather = tokio::spawn(storm.clone().weather());
    let buyers: Vec<_> = (0..BUYERS)
        .map(|_| {
            let storm = storm.clone();
            tokio::spawn(async move {
                while !storm.is_over.load(Ordering::Relaxed) {
                    storm.buy().await;
                }
            })
        })
        .collect();
    let began = Instant::now();
    let mut turn = 0;
    while began.elapsed() < Duration::from_secs(storm_s) {
        // Buyers are in the middle of everything when it happens.
        let goal = storm.told.lock().commands_n + CALLS_BETWEEN_DEATHS;
        eventually("the storm to blow", || async { (storm.told.lock().commands_n >= goal).then_some(()) }).await;
        // One node dies, the other serves; the next one begins on the same stores.
        let at = turn % 2;
        let dead = nodes.remove(at);
        storm.urls.lock().remove(at);
        dead.signal("KILL");
        dead.ended().await;
        storm.kills_n.fetch_add(1, Ordering::Relaxed);
        let node = storm.scene.node(&SETTINGS).await;
        storm.urls.lock().insert(at, node.url.clone());
        nodes.insert(at, node);
        turn += 1;
    }
    storm.is_over.store(true, Ordering::Relaxed);
    weather.await.expect("the weather ends");
    for buyer in buyers {
        buyer.await.expect("a buyer ends well");
    }

    // Calm: buyers give up what waits for them, time and the provider's answers settle the rest.
    let tokens = storm.told.lock().tokens.clone();
    for token in &tokens {
        eventually("a buyer's orders to settle", || async {
            let (_, body) = storm.call(Method::GET, "/v1/orders?limit=100", token, "", &Value::Null).await?;
            for order in body["items"].as_array()? {
                let id = order["id"].as_str()?;
                match order["state"].as_str()? {
                    "payment_declined" => {
                        let key = format!("end {}", rand::random::<u32>());
                        storm.command(&format!("/v1/orders/{id}/cancel"), token, &key, json!({})).await;
                        return None;
                    }
                    "paid" | "cancelled" | "refunded" | "partially_refunded" => storm.note(token, order),
                    _ => return None,
                }
            }
            Some(())
        })
        .await;
    }
    let pool = storm.scene.stage.store.pool();
    // The provider's list of events has to be read to its end: refunds on its own pages are told nowhere else.
    let found = Mutex::new(Vec::new());
    let is_right = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let now = violations(pool, &storm.scene.ledger().await, true).await;
            let is_right = now.is_empty();
            *found.lock() = now;
            if is_right {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    assert!(is_right.await.is_ok(), "{:#?}", found.lock());

    // I13 and I15: what a buyer was told stands.
    let (paid, cancelled, commands_n) = {
        let told = storm.told.lock();
        (told.paid.clone(), told.cancelled.clone(), told.commands_n)
    };
    for (id, token) in &paid {
        let order = storm.read(id, token).await;
        let state = order["order"]["state"].as_str().unwrap_or_default().to_owned();
        assert!(["paid", "refunded", "partially_refunded"].contains(&state.as_str()), "was paid: {order}");
    }
    let ledger = storm.scene.ledger().await;
    let intents = ledger["intents"].as_array().expect("a list");
    for id in cancelled.keys() {
        let kept: i64 = intents
            .iter()
            .filter(|intent| intent["metadata"]["order"] == id.as_str())
            .flat_map(|intent| intent["charges"].as_array().expect("a list"))
            .filter(|charge| charge["paid"] == true)
            .map(|charge| charge["amount"].as_i64().unwrap_or(0) - charge["amount_refunded"].as_i64().unwrap_or(0))
            .sum();
        assert_eq!(kept, 0, "said cancelled and kept the money: {id}");
    }
    let states = "select state || ' ' || count(*) from orders group by state order by state";
    let states: Vec<String> = sqlx::query_scalar(states).fetch_all(pool).await.expect("reads");
    println!(
        "storm of {storm_s} s: {commands_n} calls, {} nodes killed, {} intents, orders: {}",
        storm.kills_n.load(Ordering::Relaxed),
        intents.len(),
        states.join(", ")
    );
    assert!(paid.len() > 5, "a storm in which nobody buys tells nothing");
}
