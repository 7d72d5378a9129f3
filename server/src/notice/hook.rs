//! Webhooks to organisers by the Standard Webhooks specification (headers `webhook-id`, `webhook-timestamp`,
//! `webhook-signature` with `v1` HMAC-SHA256 over `id.timestamp.body`): sent until taken, on its recommended schedule; a
//! rotated secret signs beside the new one for a day; an endpoint that takes nothing for days is disabled; no redirects;
//! public addresses only.

use super::Notices;
use crate::outbound::{is_plain, may_be_public};
use crate::shutdown::{Phase, Shutdown};
use crate::store::StoreError;
use crate::store::event_log::{self, LogCursor, LogKind, LogRow};
use crate::store::webhook_delivery::{self, Delivery, DeliveryRow};
use crate::store::webhook_endpoint::{self, EndpointRow, EndpointSecret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use serde_json::json;
use sha2::Sha256;
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

/// Endpoints of one installation: each multiplies what is sent.
const MAX_ENDPOINTS: usize = 50;
/// Rows of the log put on their way to one endpoint in a round.
const FAN_OUT: u32 = 500;
/// Deliveries of one round, and how many are under way at once.
const BATCH: u32 = 48;
const CONCURRENCY: usize = 16;
/// A delivery taken by a node that dies is taken again after this: longer than a whole round of silent receivers.
const TAKEN_MS: u64 = 60_000;
/// Longest wait for the receiver, and most of its answer that is read.
const TIMEOUT: Duration = Duration::from_secs(15);
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How long deliveries under way may take when the node stops.
const LAST_ANSWERS: Duration = Duration::from_secs(3);
/// Waits before each further try, as the specification recommends: a little more than two days in all.
const RETRIES_S: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/// How long an old secret signs as well after a rotation.
const OLD_SECRET_MS: u64 = 24 * 3_600_000;
/// Bytes of a secret: the specification allows 24 to 64.
const SECRET_BYTES: usize = 32;
/// Longest address of an endpoint.
const MAX_URL_CHARS: usize = 500;
/// An endpoint that took nothing for so long is disabled: longer than any retry waits, so that a weekend's outage of a
/// receiver ends with its next answer.
const FAILING_MS: u64 = 5 * 24 * 3_600_000;
/// Failures that this takes at least: the tries of two messages.
const MIN_FAILURES: u32 = 20;
/// Between two failures so far apart nothing was tried, since no retry waits so long: failing begins anew.
const QUIET_MS: u64 = 36 * 3_600_000;
/// Words of a subscription: each type and each group once.
const MAX_TYPES: usize = 64;

/// Why an endpoint was not made.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It is no address that may be called.
    #[error("{0}")]
    Refused(&'static str),
    /// Nothing of this name is ever told.
    #[error("no such type: {0}")]
    NoSuchType(String),
    /// Postgres did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An endpoint just made or rotated: the only time its secret is shown.
#[derive(Debug, Clone)]
pub struct NewHook {
    /// Its id.
    pub id: Uuid,
    /// `whsec_` and base64.
    pub secret: String,
}

fn check_types(types: &[String]) -> Result<(), HookError> {
    if types.is_empty() || types.len() > MAX_TYPES {
        return Err(HookError::NoSuchType("expected 1 to 64 of them".into()));
    }
    match types.iter().find(|word| !LogKind::is_wanted_word(word)) {
        Some(word) => Err(HookError::NoSuchType(word.clone())),
        None => Ok(()),
    }
}

fn draw_secret() -> String {
    format!("whsec_{}", STANDARD.encode(rand::random::<[u8; SECRET_BYTES]>()))
}

impl Notices {
    /// Makes an endpoint, which is told from now on.
    ///
    /// # Errors
    /// `Refused` for what is no HTTPS address outside of our own network.
    pub async fn add_hook(&self, url: &str, types: Option<&[String]>) -> Result<NewHook, HookError> {
        types.map_or(Ok(()), check_types)?;
        let uri: Uri = url.parse().map_err(|_| HookError::Refused("expected an address"))?;
        let is_https = uri.scheme_str() == Some("https");
        if url.chars().count() > MAX_URL_CHARS || uri.host().is_none() {
            return Err(HookError::Refused("expected an address of at most 500 characters"));
        }
        if !is_plain(&uri) {
            return Err(HookError::Refused("expected an address without a user, and a port of 1 to 65535 if any"));
        }
        if !self.config.may_call_private && (!is_https || !may_be_public(&uri)) {
            return Err(HookError::Refused("expected https:// and a public address"));
        }
        if webhook_endpoint::list(self.store.pool()).await?.len() >= MAX_ENDPOINTS {
            return Err(HookError::Refused("there are 50 endpoints already"));
        }
        let new = NewHook { id: Uuid::now_v7(), secret: draw_secret() };
        let secrets = [EndpointSecret { secret: new.secret.clone(), until_ms: None }];
        webhook_endpoint::insert(self.store.pool(), new.id, url, types, &secrets, self.clock.now_ms()).await?;
        Ok(new)
    }

    /// Every endpoint.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn hooks(&self) -> Result<Vec<EndpointRow>, StoreError> {
        webhook_endpoint::list(self.store.pool()).await
    }

    /// Sets what an endpoint wants, from what happens next on. False: there is none of this id.
    ///
    /// # Errors
    /// `NoSuchType` for what is never told.
    pub async fn set_hook_types(&self, id: Uuid, types: Option<&[String]>) -> Result<bool, HookError> {
        types.map_or(Ok(()), check_types)?;
        Ok(webhook_endpoint::set_types(self.store.pool(), id, types).await?)
    }

    /// Sends to an endpoint again, also what it did not take before. False: there is none of this id.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn enable_hook(&self, id: Uuid) -> Result<bool, StoreError> {
        webhook_endpoint::enable(self.store.pool(), id, self.clock.now_ms()).await
    }

    /// Deliveries to an endpoint, newest first, behind `before`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn deliveries(
        &self,
        id: Uuid,
        before: Option<i64>,
        only_open: bool,
        limit: u32,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        webhook_delivery::deliveries(self.store.pool(), id, before, only_open, limit).await
    }

    /// Gives an endpoint a new secret; the old one signs as well for a day. What was disabled is sent again. `None`: there is
    /// none of this id.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn rotate_hook(&self, id: Uuid) -> Result<Option<NewHook>, StoreError> {
        let pool = self.store.pool();
        let Some(known) = webhook_endpoint::list(pool).await?.into_iter().find(|row| row.id == id) else {
            return Ok(None);
        };
        let now_ms = self.clock.now_ms();
        let new = NewHook { id, secret: draw_secret() };
        let mut secrets = vec![EndpointSecret { secret: new.secret.clone(), until_ms: None }];
        // One old secret at a time: whoever rotates twice means it.
        secrets.extend(
            known
                .secrets
                .into_iter()
                .take(1)
                .map(|old| EndpointSecret { secret: old.secret, until_ms: Some(now_ms + OLD_SECRET_MS) }),
        );
        let is_there = webhook_endpoint::set_secrets(pool, id, &secrets).await?;
        if known.disabled.is_some() {
            webhook_endpoint::enable(pool, id, now_ms).await?;
        }
        Ok(is_there.then_some(new))
    }

    /// Forgets an endpoint. False: there is none of this id.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn remove_hook(&self, id: Uuid) -> Result<bool, StoreError> {
        webhook_endpoint::delete(self.store.pool(), id).await
    }

    /// Sends an endpoint once more what stands behind a cursor; how many.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn replay_hook(&self, id: Uuid, after: LogCursor) -> Result<u64, StoreError> {
        webhook_delivery::replay(self.store.pool(), id, after, self.clock.now_ms()).await
    }

    /// Sends an endpoint one message once more. False: it was never on its way there.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn replay_hook_one(&self, id: Uuid, log_id: i64) -> Result<bool, StoreError> {
        webhook_delivery::replay_one(self.store.pool(), id, log_id, self.clock.now_ms()).await
    }

    /// What happened behind a cursor, oldest first; at most `limit`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn log(&self, after: LogCursor, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        event_log::list_after(self.store.pool(), after, limit).await
    }

    /// Puts what is new on its way and sends what is due; how many were sent or tried. A node that stops gives back what is
    /// not answered within a few seconds. `job/send_webhooks` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn send_hooks(&self, shutdown: &Shutdown) -> anyhow::Result<usize> {
        let (pool, now_ms) = (self.store.pool(), self.clock.now_ms());
        webhook_delivery::fan_out(pool, now_ms, FAN_OUT).await?;
        let tries = RETRIES_S.len() as u32 + 1;
        let due = webhook_delivery::take(pool, now_ms, now_ms + TAKEN_MS, tries, BATCH).await?;
        let count = due.len();
        let mut open: HashSet<(Uuid, i64)> = due.iter().map(|one| (one.endpoint, one.log_id)).collect();
        let mut sent = futures_util::stream::iter(due)
            .map(|delivery| async move {
                // A node that stops begins nothing new.
                if shutdown.phase() >= Phase::Stopping {
                    return None;
                }
                let answer = self.deliver(&delivery).await;
                Some((delivery, answer))
            })
            .buffer_unordered(CONCURRENCY);
        let mut out_of_time = std::pin::pin!(shutdown.stopping_for(LAST_ANSWERS));
        loop {
            let done = tokio::select! {
                done = sent.next() => done,
                () = &mut out_of_time => None,
            };
            let Some(done) = done else { break };
            let Some((delivery, answer)) = done else { continue };
            open.remove(&(delivery.endpoint, delivery.log_id));
            match answer {
                Ok(()) => webhook_delivery::set_sent(pool, &delivery, self.clock.now_ms()).await?,
                Err(failure) => {
                    let at = (delivery.tries_n as usize - 1).min(RETRIES_S.len() - 1);
                    let wait_ms = (RETRIES_S[at] as f64 * 1_000.0 * rand::random_range(1.0..1.1)) as u64;
                    tracing::debug!(endpoint = %delivery.endpoint, failure, "a webhook waits");
                    let now_ms = self.clock.now_ms();
                    webhook_delivery::put_off(pool, &delivery, &failure, now_ms, now_ms + wait_ms, QUIET_MS).await?;
                    let before_ms = now_ms.saturating_sub(FAILING_MS);
                    if failure == GONE {
                        webhook_endpoint::disable(pool, delivery.endpoint, GONE, now_ms).await?;
                    } else if webhook_endpoint::disable_if_failing(
                        pool,
                        delivery.endpoint,
                        before_ms,
                        MIN_FAILURES,
                        DEAD,
                        now_ms,
                    )
                    .await?
                    {
                        // Addresses of webhooks often carry a secret of their own.
                        tracing::error!(endpoint = %delivery.endpoint, "a webhook took nothing for five days and is disabled");
                    }
                }
            }
        }
        drop(sent);
        if !open.is_empty() {
            // Only a node that stops leaves any: the next start, or another node, sends them at once.
            webhook_delivery::give_back(pool, &open.into_iter().collect::<Vec<_>>(), self.clock.now_ms()).await?;
        }
        Ok(count)
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
        match self.outbound.send(request, TIMEOUT, MAX_ANSWER_BYTES).await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            // The receiver wants nothing more.
            Ok(answer) if answer.status() == StatusCode::GONE => Err(GONE.into()),
            Ok(answer) => Err(format!("answered {}", answer.status())),
            Err(error) => Err(error.to_string()),
        }
    }
}

const GONE: &str = "the receiver answered 410 Gone";
const DEAD: &str = "nothing was taken for five days";

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
