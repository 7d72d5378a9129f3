//! The simulator tells the shop what happened, as a provider does: signed, again after a failure, and on its worst days
//! twice, in the wrong order, not at all or with a wrong signature (`POST /_sim/webhooks`).

use super::form::Form;
use super::object::Event;
use crate::clock::Clock;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Events that wait to be told; beyond, they are dropped as a provider's are on its worst day: the shop polls.
const MAX_WAITING: usize = 20_000;
/// Deliveries at once.
const MAX_IN_FLIGHT: usize = 64;
/// Longest wait for the shop.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Waits before each further try.
const RETRIES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
];
/// How long an event is held back when the order is to be wrong.
const HELD_BACK: Duration = Duration::from_millis(300);

/// Where to tell, and how badly.
#[derive(Debug, Clone, Default)]
pub(super) struct Endpoint {
    /// The shop's URL; none = nobody is told.
    pub(super) url: Option<String>,
    /// Signs.
    pub(super) secret: String,
    /// What is told; empty = everything.
    pub(super) enabled: Vec<String>,
    /// Of a hundred events, told twice.
    pub(super) duplicate_percent: u8,
    /// Of a hundred events, told late.
    pub(super) reorder_percent: u8,
    /// Of a hundred events, never told.
    pub(super) drop_percent: u8,
    /// Of a hundred events, told first with a wrong signature.
    pub(super) forge_percent: u8,
}

impl Endpoint {
    fn wants(&self, kind: &str) -> bool {
        self.url.is_some() && (self.enabled.is_empty() || self.enabled.iter().any(|wanted| wanted == kind))
    }
}

/// The telling side; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Webhooks {
    endpoint: Arc<Mutex<Endpoint>>,
    waiting: mpsc::Sender<Event>,
}

impl Webhooks {
    /// Begins to tell.
    pub(super) fn start(endpoint: Endpoint, clock: Clock) -> Self {
        let (waiting, events) = mpsc::channel(MAX_WAITING);
        let endpoint = Arc::new(Mutex::new(endpoint));
        tokio::spawn(tell(endpoint.clone(), events, clock));
        Self { endpoint, waiting }
    }

    /// Something happened; never waits.
    pub(super) fn push(&self, event: &Event) {
        if self.endpoint.lock().wants(&event.kind) && self.waiting.try_send(event.clone()).is_err() {
            tracing::warn!(event = event.id, "a webhook is dropped: too many wait");
        }
    }

    /// Sets what the form names.
    pub(super) fn set(&self, form: &Form) -> Value {
        let mut endpoint = self.endpoint.lock();
        if let Some(url) = form.get("url") {
            endpoint.url = (url != "none").then(|| url.to_owned());
        }
        if let Some(secret) = form.get("secret") {
            secret.clone_into(&mut endpoint.secret);
        }
        if form.get("enabled_events").is_some() || !form.list("enabled_events").is_empty() {
            endpoint.enabled = form.list("enabled_events");
        }
        let percent = |name: &str, value: &mut u8| {
            if let Some(percent) = form.get(name).and_then(|text| text.parse::<u8>().ok()) {
                *value = percent.min(100);
            }
        };
        percent("duplicate_percent", &mut endpoint.duplicate_percent);
        percent("reorder_percent", &mut endpoint.reorder_percent);
        percent("drop_percent", &mut endpoint.drop_percent);
        percent("forge_percent", &mut endpoint.forge_percent);
        json!({
            "url": endpoint.url,
            "duplicate_percent": endpoint.duplicate_percent,
            "reorder_percent": endpoint.reorder_percent,
            "drop_percent": endpoint.drop_percent,
            "forge_percent": endpoint.forge_percent,
        })
    }
}

fn hits(percent: u8) -> bool {
    percent > 0 && rand::random_range(0..100) < percent
}

async fn tell(endpoint: Arc<Mutex<Endpoint>>, mut events: mpsc::Receiver<Event>, clock: Clock) {
    let http = match reqwest::Client::builder().timeout(TIMEOUT).build() {
        Ok(http) => http,
        Err(error) => {
            tracing::error!(%error, "the simulator cannot send webhooks");
            return;
        }
    };
    let slots = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    while let Some(event) = events.recv().await {
        let now = endpoint.lock().clone();
        let Some(url) = now.url.clone() else { continue };
        if hits(now.drop_percent) {
            continue;
        }
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let (http, clock) = (http.clone(), clock.clone());
        tokio::spawn(async move {
            // Held only for the first try: a shop that is down must not stop the others' news.
            let mut slot = Some(slot);
            if hits(now.reorder_percent) {
                tokio::time::sleep(HELD_BACK).await;
            }
            let body = event.to_json().to_string();
            let times = if hits(now.duplicate_percent) { 2 } else { 1 };
            if hits(now.forge_percent) {
                send(&http, &url, "wrong", &clock, &body).await;
            }
            for _ in 0..times {
                for wait in std::iter::once(Duration::ZERO).chain(RETRIES) {
                    tokio::time::sleep(wait).await;
                    let is_told = send(&http, &url, &now.secret, &clock, &body).await;
                    slot.take();
                    if is_told {
                        break;
                    }
                }
            }
        });
    }
}

async fn send(http: &reqwest::Client, url: &str, secret: &str, clock: &Clock, body: &str) -> bool {
    let now_s = clock.now_ms() / 1_000;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{now_s}.{body}").as_bytes());
    let signature = format!("t={now_s},v1={}", hex::encode(mac.finalize().into_bytes()));
    let request = http.post(url).header("Content-Type", "application/json").header("Stripe-Signature", signature);
    request.body(body.to_owned()).send().await.is_ok_and(|response| response.status().is_success())
}
