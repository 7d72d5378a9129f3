//! Who makes the storm: buyers who pay, give up, come again and refund on the provider's pages, what they were told, and the
//! weather at the provider. `storm` lets them loose and judges.

use super::super::dead_node::Scene;
use parking_lot::Mutex;
use rand::prelude::IndexedRandom;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two tries of a command that nobody answered: as the app does while its socket is gone.
const RETRY_PACE: Duration = Duration::from_millis(100);
/// Between two looks of a buyer at an order, and how many looks until the next decision: patience of half a second, so that
/// buyers act on orders in the middle of something.
const LOOK_PACE: Duration = Duration::from_millis(50);
const MAX_LOOKS: usize = 10;
/// How long one weather lasts, in ms: shorter and longer than the deadlines below.
const GUST_MS: std::ops::Range<u64> = 100..600;
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
/// What buyers were told and did.
#[derive(Default)]
pub(super) struct Told {
    /// Orders somebody saw paid, by id, with the buyer's token.
    pub(super) paid: HashMap<String, String>,
    /// Orders somebody saw cancelled.
    pub(super) cancelled: HashMap<String, String>,
    /// Orders whose last word was a decline, behind which nobody asked to pay again.
    pub(super) declined: HashSet<String>,
    /// Orders whose money was given back on the provider's own pages.
    pub(super) given_back: HashSet<String>,
    /// Tokens of everybody who may have an order.
    pub(super) tokens: Vec<String>,
    pub(super) commands_n: usize,
}

fn pick<T>(choices: &[T]) -> &T {
    choices.choose(&mut rand::rng()).expect("something to choose from")
}

pub(super) struct Storm {
    pub(super) scene: Scene,
    pub(super) urls: Mutex<Vec<String>>,
    pub(super) http: reqwest::Client,
    pub(super) told: Mutex<Told>,
    pub(super) is_over: AtomicBool,
    /// Where orders stood when a node was killed.
    pub(super) kills: Mutex<Vec<&'static str>>,
}

impl Storm {
    fn url(&self) -> String {
        pick(&self.urls.lock()).clone()
    }

    /// One call; `None` when nobody answered.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        token: &str,
        key: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
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
    pub(super) async fn command(&self, path: &str, token: &str, key: &str, body: Value) -> Value {
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
            tokio::time::sleep(RETRY_PACE).await;
        }
    }

    pub(super) fn note(&self, token: &str, order: &Value) {
        let Some(id) = order["id"].as_str() else { return };
        let mut told = self.told.lock();
        match order["state"].as_str() {
            Some("paid") => drop(told.paid.insert(id.to_owned(), token.to_owned())),
            Some("cancelled") => drop(told.cancelled.insert(id.to_owned(), token.to_owned())),
            Some("payment_declined") => drop(told.declined.insert(id.to_owned())),
            _ => {}
        }
    }

    async fn press(&self, order: &Value, button: &str) {
        if let Some(page) = order["action"]["url"].as_str() {
            let _ = self.http.post(page.replace('?', &format!("/{button}?"))).send().await;
        }
    }

    /// One buyer's evening.
    pub(super) async fn buy(&self) {
        let made = self.call(Method::POST, "/v1/identities", "", "i", &json!({})).await;
        let Some(token) = made.and_then(|(_, body)| body["token"].as_str().map(str::to_owned)) else { return };
        self.told.lock().tokens.push(token.clone());
        let path = format!("/v1/events/{}/holds", self.scene.event);
        let wish = if rand::random_range(0..5) == 0 {
            json!({"area": 0, "quantity": rand::random_range(1..3)})
        } else {
            json!({"seats": [rand::random_range(0..super::HOUSE)]})
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
                    if end == "pay" {
                        self.told.lock().declined.remove(&id);
                    }
                    answer = self.command(&format!("/v1/orders/{id}/{end}"), &token, &key, body).await;
                }
                "action_required" => {
                    let choices = ["approve", "approve", "fail", "walk away"];
                    self.press(&order, pick::<&str>(&choices)).await;
                    answer = self.look(&order, &token).await;
                }
                "paid" if turn == 0 && rand::random_range(0..6) == 0 => {
                    self.give_back_at_the_providers(&id, order["total_minor"].as_i64().expect("an amount")).await;
                    return;
                }
                "paid" | "cancelled" => return,
                _ => {
                    answer = self.look(&order, &token).await;
                }
            }
        }
    }

    /// Looks until an order stands otherwise, as long as a buyer's patience lasts; as it stands then.
    async fn look(&self, was: &Value, token: &str) -> Value {
        let mut answer = Value::Null;
        for _ in 0..MAX_LOOKS {
            tokio::time::sleep(LOOK_PACE).await;
            answer = self.read(was["id"].as_str().expect("an id"), token).await;
            if answer["order"]["state"] != was["state"] {
                break;
            }
        }
        // Nobody answered: the buyer decides by what is known.
        if answer["order"].is_object() { answer } else { json!({"order": was}) }
    }

    pub(super) async fn read(&self, id: &str, token: &str) -> Value {
        let path = format!("/v1/orders/{id}");
        self.call(Method::GET, &path, token, "", &Value::Null).await.map(|(_, body)| body).unwrap_or_default()
    }

    /// Somebody refunds on the provider's own pages, all or half.
    async fn give_back_at_the_providers(&self, order: &str, total_minor: i64) {
        let ledger = self.scene.ledger().await;
        let intents = ledger["intents"].as_array().expect("a list");
        let Some(intent) = intents.iter().find(|intent| intent["metadata"]["order"] == order) else { return };
        self.told.lock().given_back.insert(order.to_owned());
        let amount_minor = if rand::random() { total_minor } else { total_minor / 2 };
        let form = [
            ("payment_intent", intent["id"].as_str().expect("an id").to_owned()),
            ("amount", amount_minor.to_string()),
        ];
        let url = format!("{}/v1/refunds", self.scene.payment_url);
        let _ = self.http.post(url).bearer_auth("sk_test_it").form(&form).send().await;
    }

    /// Faults come and go.
    pub(super) async fn weather(self: Arc<Self>) {
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
            tokio::time::sleep(Duration::from_millis(rand::random_range(GUST_MS))).await;
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
