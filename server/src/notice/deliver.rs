//! Webhooks on their way, by the Standard Webhooks specification (headers `webhook-id`, `webhook-timestamp`,
//! `webhook-signature` with `v1` HMAC-SHA256 over `id.timestamp.body`): sent until taken, on its recommended schedule, each
//! endpoint at its own pace; one that takes nothing for days is disabled; no redirects. Endpoints are made in `hook`.

use super::Notices;
use crate::shutdown::{Phase, Shutdown};
use crate::store::StoreError;
use crate::store::webhook_delivery::{self, Delivery};
use crate::store::webhook_endpoint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use sha2::Sha256;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// Rows of the log put on their way to one endpoint at a time.
const FAN_OUT: u32 = 500;
/// Deliveries to one endpoint taken at a time. Each endpoint has places of its own, half as many more than this at most: one
/// that is silent fills its own and no other's, and with all endpoints there are, no more than 600 are under way.
const AT_ONCE: u32 = 8;
/// With so many under way an endpoint has room for more.
const REST: usize = AT_ONCE as usize / 2;
/// Between two looks for what is new while deliveries are under way: what a healthy endpoint waits behind a silent one.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A delivery taken by a node that dies is taken again after this: longer than any receiver may take.
const TAKEN_MS: u64 = 60_000;
/// Longest wait for the receiver.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long deliveries under way may take when the node stops.
const LAST_ANSWERS: Duration = Duration::from_secs(3);
/// Waits before each further try, as the specification recommends: a little more than two days in all.
const RETRIES_S: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/// An endpoint that took nothing for so long is disabled: longer than any retry waits, so that a weekend's outage of a
/// receiver ends with its next answer.
const FAILING_MS: u64 = 5 * 24 * 3_600_000;
/// Failures that this takes at least: the tries of two messages.
const MIN_FAILURES: u32 = 20;
/// Between two failures so far apart nothing was tried, since no retry waits so long: failing begins anew.
const QUIET_MS: u64 = 36 * 3_600_000;

const GONE: &str = "the receiver answered 410 Gone";
const DEAD: &str = "nothing was taken for five days";

/// What is under way, by endpoint.
#[derive(Debug, Default)]
struct UnderWay(HashMap<Uuid, HashSet<i64>>);

impl UnderWay {
    fn begin(&mut self, delivery: &Delivery) {
        self.0.entry(delivery.endpoint).or_default().insert(delivery.log_id);
    }

    /// Settled. True: its endpoint has room again.
    fn end(&mut self, delivery: &Delivery) -> bool {
        let Some(logs) = self.0.get_mut(&delivery.endpoint) else { return false };
        logs.remove(&delivery.log_id);
        let n = logs.len();
        if n == 0 {
            self.0.remove(&delivery.endpoint);
        }
        n == REST || n == 0
    }

    /// Endpoints without room.
    fn full(&self) -> Vec<Uuid> {
        self.0.iter().filter(|(_, logs)| logs.len() > REST).map(|(id, _)| *id).collect()
    }

    fn left(self) -> Vec<(Uuid, i64)> {
        self.0.into_iter().flat_map(|(id, logs)| logs.into_iter().map(move |log| (id, log))).collect()
    }
}

impl Notices {
    /// Puts what is new on its way and sends what is due, until nothing is under way; how many were sent or tried. No endpoint
    /// waits for another's answer. A node that stops gives back what is not answered within a few seconds.
    /// `job/send_webhooks` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn send_hooks(&self, shutdown: &Shutdown) -> anyhow::Result<usize> {
        let pool = self.store.pool();
        let (mut count, mut open, mut sent) = (0, UnderWay::default(), FuturesUnordered::new());
        let mut out_of_time = std::pin::pin!(shutdown.stopping_for(LAST_ANSWERS));
        let mut looks = tokio::time::interval(LOOK_PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = tokio::select! {
                biased;
                () = &mut out_of_time => break,
                // The first comes at once.
                _ = looks.tick() => {
                    if shutdown.phase() < Phase::Stopping {
                        webhook_delivery::fan_out(pool, self.clock.now_ms(), FAN_OUT).await?;
                    }
                    true
                }
                Some((delivery, answer)) = sent.next() => {
                    self.settle(&delivery, answer).await?;
                    open.end(&delivery)
                }
            };
            // A node that stops begins nothing new.
            if has_room && shutdown.phase() < Phase::Stopping {
                let (now_ms, tries) = (self.clock.now_ms(), RETRIES_S.len() as u32 + 1);
                let due = webhook_delivery::take(pool, now_ms, now_ms + TAKEN_MS, tries, AT_ONCE, &open.full()).await?;
                count += due.len();
                for delivery in due {
                    open.begin(&delivery);
                    sent.push(async move {
                        let answer = self.deliver(&delivery).await;
                        (delivery, answer)
                    });
                }
            }
            if sent.is_empty() {
                break;
            }
        }
        drop(sent);
        let left = open.left();
        if !left.is_empty() {
            // Only a node that stops leaves any: the next start, or another node, sends them at once.
            webhook_delivery::give_back(pool, &left, self.clock.now_ms()).await?;
        }
        Ok(count)
    }

    /// Writes down what came of a delivery.
    async fn settle(&self, delivery: &Delivery, answer: Result<(), String>) -> Result<(), StoreError> {
        let now_ms = self.clock.now_ms();
        let Err(failure) = answer else {
            return webhook_delivery::set_sent(self.store.pool(), delivery, now_ms).await;
        };
        let at = (delivery.tries_n as usize - 1).min(RETRIES_S.len() - 1);
        let wait_ms = (RETRIES_S[at] as f64 * 1_000.0 * rand::random_range(1.0..1.1)) as u64;
        tracing::debug!(endpoint = %delivery.endpoint, failure, "a webhook waits");
        // The failure and what it means for the endpoint are seen together.
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        webhook_delivery::put_off(&mut *transaction, delivery, &failure, now_ms, now_ms + wait_ms, QUIET_MS).await?;
        let (id, before_ms) = (delivery.endpoint, now_ms.saturating_sub(FAILING_MS));
        let mut is_dead = false;
        if failure == GONE {
            webhook_endpoint::disable(&mut *transaction, id, GONE, now_ms).await?;
        } else {
            is_dead =
                webhook_endpoint::disable_if_failing(&mut *transaction, id, before_ms, MIN_FAILURES, DEAD, now_ms)
                    .await?;
        }
        transaction.commit().await?;
        if is_dead {
            // Addresses of webhooks often carry a secret of their own.
            tracing::error!(endpoint = %id, "a webhook took nothing for five days and is disabled");
        }
        Ok(())
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<(), String> {
        let now_ms = self.clock.now_ms();
        let happened = jiff::Timestamp::from_millisecond(delivery.created_ms.cast_signed()).unwrap_or_default();
        let body = json!({"type": delivery.kind, "timestamp": happened.to_string(), "data": delivery.body}).to_string();
        let (id, timestamp) = (format!("msg_{}", delivery.log_id), (now_ms / 1_000).to_string());
        let signatures: Vec<String> = delivery
            .secrets
            .iter()
            .filter(|secret| secret.until_ms.is_none_or(|until_ms| until_ms > now_ms))
            .filter_map(|secret| sign(&secret.secret, &id, &timestamp, &body))
            .collect();
        let request = Request::post(&delivery.url)
            .header("content-type", "application/json")
            .header("user-agent", "seatwire")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signatures.join(" "))
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        match self.outbound.status(request, TIMEOUT).await {
            Ok(status) if status.is_success() => Ok(()),
            // The receiver wants nothing more.
            Ok(StatusCode::GONE) => Err(GONE.into()),
            Ok(status) => Err(format!("answered {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// `v1,` and the signature; `None` for a secret that is none.
fn sign(secret: &str, id: &str, timestamp: &str, body: &str) -> Option<String> {
    let key = STANDARD.decode(secret.strip_prefix("whsec_")?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // The example of the specification's reference libraries.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = r#"{"test": 2432232314}"#;
        let signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }
}
