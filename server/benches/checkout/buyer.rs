//! Buyers over HTTP, at a pace: each call is begun when it is due, whatever the ones before do, and its time is counted
//! from when it was due. So a shop that falls behind shows it.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use seatwire::outbound::{Outbound, Reach};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The simulator's books, a kilobyte an order.
pub(crate) const LEDGER: &str = "/_sim/ledger";
const MAX_LEDGER_BYTES: usize = 1 << 28;
/// Calls in flight; what is due beyond them waits, and its time runs.
const MAX_IN_FLIGHT: usize = 512;
/// Refusals after which something else is wrong than the kind of seat.
const MAX_REFUSALS: u32 = 200;
/// Calls in flight while baskets are filled.
const FILLING: usize = 64;

/// A client of one address; cheap to clone.
#[derive(Clone)]
pub(crate) struct Caller {
    http: Outbound,
    url: Arc<str>,
}

impl Caller {
    pub(crate) fn to(url: &str) -> Self {
        Self { http: Outbound::new(Reach::Anywhere).expect("a client"), url: url.into() }
    }

    /// One call; the status (0: no answer) and the body.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> (u16, Bytes) {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).expect("a request");
        let most = if path == LEDGER { MAX_LEDGER_BYTES } else { MAX_ANSWER_BYTES };
        match self.http.send(request, PATIENCE, most).await {
            Ok(answer) => (answer.status().as_u16(), answer.into_body()),
            Err(error) => (0, Bytes::from(error.to_string())),
        }
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Bytes) {
        self.send("GET", path, headers, Bytes::new()).await
    }

    async fn post_json(&self, path: &str, token: Option<&str>, key: &str, body: &Value) -> (u16, Value) {
        let bearer = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
        let mut headers = vec![("content-type", "application/json"), ("idempotency-key", key)];
        if token.is_some() {
            headers.push(("authorization", &bearer));
        }
        let (status, body) = self.send("POST", path, &headers, body.to_string().into()).await;
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// Somebody with a full basket.
#[derive(Clone)]
pub(crate) struct Buyer {
    token: String,
    path: String,
    total_minor: i64,
}

impl Buyer {
    /// A new guest with this seat in the basket.
    pub(crate) async fn with_seat(shop: &Caller, event: &str, seat: u32) -> Self {
        Self::try_with_seat(shop, event, seat).await.unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// The same where somebody else may have it.
    pub(crate) async fn try_with_seat(shop: &Caller, event: &str, seat: u32) -> Result<Self, Value> {
        let (status, guest) = shop.post_json("/v1/identities", None, "i", &json!({})).await;
        assert!((200..300).contains(&status), "{status} {guest}");
        let token = guest["token"].as_str().expect("a token").to_owned();
        let path = format!("/v1/events/{event}/holds");
        let (status, body) = shop.post_json(&path, Some(&token), "h", &json!({"seats": [seat]})).await;
        if status != 201 {
            return Err(body);
        }
        let hold = &body["hold"];
        Ok(Self {
            path: format!("/v1/holds/{}/checkout", hold["id"].as_str().expect("an id")),
            total_minor: hold["total_minor"].as_i64().expect("an amount"),
            token,
        })
    }

    /// Pays the basket; the status and the order.
    pub(crate) async fn pay(&self, shop: &Caller, method: &str) -> (u16, Value) {
        let body = json!({
            "buyer": {"name": "Ada Example", "email": "ada@example.org"},
            "payment": {"method": method},
            "expect_total_minor": self.total_minor,
        });
        let (status, mut body) = shop.post_json(&self.path, Some(&self.token), "c", &body).await;
        (status, if body["order"].is_object() { body["order"].take() } else { body })
    }

    /// The order as it stands.
    pub(crate) async fn order(&self, shop: &Caller, id: &str) -> Value {
        let bearer = format!("Bearer {}", self.token);
        let (_, body) = shop.get(&format!("/v1/orders/{id}"), &[("authorization", &bearer)]).await;
        serde_json::from_slice::<Value>(&body).unwrap_or_default()["order"].take()
    }
}

/// Buyers with a seat each in their baskets, from the seat on that `next` names; it is left behind the last one. Seats for
/// wheelchair users and their companions are refused to others while there are plain ones, and left out.
pub(crate) async fn buyers(shop: &Caller, event: &str, next: &Arc<AtomicU32>, n: usize) -> Vec<Buyer> {
    let slots = Arc::new(Semaphore::new(FILLING));
    let mut filling = JoinSet::new();
    for _ in 0..n {
        let slot = slots.clone().acquire_owned().await.expect("never closed");
        let (shop, event, next) = (shop.clone(), event.to_owned(), next.clone());
        filling.spawn(async move {
            let mut refusals = 0;
            let buyer = loop {
                match Buyer::try_with_seat(&shop, &event, next.fetch_add(1, Ordering::Relaxed)).await {
                    Ok(buyer) => break buyer,
                    Err(refusal) => {
                        refusals += 1;
                        assert!(refusals < MAX_REFUSALS, "one seat after the other is refused: {refusal}");
                    }
                }
            };
            drop(slot);
            buyer
        });
    }
    filling.join_all().await
}

/// What a run at a pace came to.
pub(crate) struct Times {
    /// Milliseconds from due to answered, sorted; those that went well.
    pub(crate) good_ms: Vec<f64>,
    /// The others.
    pub(crate) failed: Vec<String>,
    /// From the first that was due to the last answer.
    pub(crate) seconds: f64,
}

impl Times {
    pub(crate) fn per_s(&self) -> f64 {
        self.good_ms.len() as f64 / self.seconds
    }

    /// The time under which this share of the calls stayed.
    pub(crate) fn ms(&self, share: f64) -> f64 {
        let last = self.good_ms.len().saturating_sub(1);
        self.good_ms.get(((self.good_ms.len() as f64 * share) as usize).min(last)).copied().unwrap_or(f64::NAN)
    }
}

/// Begins `work` of each item when it is due, `per_s` a second; `Err` says why one did not go well.
pub(crate) async fn paced<T, F, W>(items: Vec<T>, per_s: f64, work: F) -> Times
where
    F: Fn(T) -> W,
    W: Future<Output = Result<(), String>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let mut running = JoinSet::new();
    let began = Instant::now();
    for (n, item) in items.into_iter().enumerate() {
        let due = began + Duration::from_secs_f64(n as f64 / per_s);
        tokio::time::sleep_until(due.into()).await;
        let slot = slots.clone().acquire_owned().await.expect("never closed");
        let work = work(item);
        running.spawn(async move {
            let done = work.await;
            drop(slot);
            (done, due.elapsed().as_secs_f64() * 1_000.0)
        });
    }
    let (mut good_ms, mut failed) = (Vec::new(), Vec::new());
    for (done, ms) in running.join_all().await {
        match done {
            Ok(()) => good_ms.push(ms),
            Err(why) => failed.push(why),
        }
    }
    good_ms.sort_by(f64::total_cmp);
    Times { good_ms, failed, seconds: began.elapsed().as_secs_f64() }
}
