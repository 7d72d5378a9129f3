//! Endpoints of organisers: made, changed, rotated, forgotten and told again by operators, each change written with who made
//! it. A rotated secret signs beside the new one for a day; public addresses only. What is sent there: `deliver`.

use super::Notices;
use crate::organiser::Operator;
use crate::outbound::{is_plain, may_be_public};
use crate::store::StoreError;
use crate::store::event_log::{self, LogCursor, LogKind, LogRow};
use crate::store::webhook_delivery::{self, DeliveryRow};
use crate::store::webhook_endpoint::{self, EndpointRow, EndpointSecret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use serde_json::json;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

/// Endpoints of one installation: each multiplies what is sent.
const MAX_ENDPOINTS: usize = 50;
/// How long an old secret signs as well after a rotation.
const OLD_SECRET_MS: u64 = 24 * 3_600_000;
/// Bytes of a secret: the specification allows 24 to 64.
const SECRET_BYTES: usize = 32;
/// Longest address of an endpoint.
const MAX_URL_CHARS: usize = 500;
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

/// An address without what stands behind its server, for those who may not know it whole and for what is written down.
#[must_use]
pub fn server_of(url: &str) -> String {
    let uri: Option<Uri> = url.parse().ok();
    let server = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?.as_str())));
    server.map_or_else(|| "***".to_owned(), |(scheme, authority)| format!("{scheme}://{authority}/***"))
}

fn draw_secret() -> String {
    format!("whsec_{}", STANDARD.encode(rand::random::<[u8; SECRET_BYTES]>()))
}

async fn end(transaction: Transaction<'static, Postgres>) -> Result<(), StoreError> {
    Ok(transaction.commit().await?)
}

impl Notices {
    /// Makes an endpoint, which is told from now on.
    ///
    /// # Errors
    /// `Refused` for what is no HTTPS address outside of our own network.
    pub async fn add_hook(&self, by: &Operator, url: &str, types: Option<&[String]>) -> Result<NewHook, HookError> {
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
        let now_ms = self.clock.now_ms();
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        webhook_endpoint::insert(&mut *transaction, new.id, url, types, &secrets, now_ms).await?;
        let detail = json!({"webhook": new.id, "server": server_of(url), "types": types});
        by.note(&mut *transaction, "webhook.add", None, detail, now_ms).await?;
        end(transaction).await?;
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
    pub async fn set_hook_types(&self, by: &Operator, id: Uuid, types: Option<&[String]>) -> Result<bool, HookError> {
        types.map_or(Ok(()), check_types)?;
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        if !webhook_endpoint::set_types(&mut *transaction, id, types).await? {
            return Ok(false);
        }
        let detail = json!({"webhook": id, "types": types});
        by.note(&mut *transaction, "webhook.types", None, detail, self.clock.now_ms()).await?;
        end(transaction).await?;
        Ok(true)
    }

    /// Sends to an endpoint again, also what it did not take before. False: there is none of this id.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn enable_hook(&self, by: &Operator, id: Uuid) -> Result<bool, StoreError> {
        let now_ms = self.clock.now_ms();
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        if !webhook_endpoint::enable(&mut *transaction, id, now_ms).await? {
            return Ok(false);
        }
        by.note(&mut *transaction, "webhook.enable", None, json!({"webhook": id}), now_ms).await?;
        end(transaction).await?;
        Ok(true)
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
    pub async fn rotate_hook(&self, by: &Operator, id: Uuid) -> Result<Option<NewHook>, StoreError> {
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        let Some(known) = webhook_endpoint::list(&mut *transaction).await?.into_iter().find(|row| row.id == id) else {
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
        if !webhook_endpoint::set_secrets(&mut *transaction, id, &secrets).await? {
            return Ok(None);
        }
        if known.disabled.is_some() {
            webhook_endpoint::enable(&mut *transaction, id, now_ms).await?;
        }
        by.note(&mut *transaction, "webhook.rotate", None, json!({"webhook": id}), now_ms).await?;
        end(transaction).await?;
        Ok(Some(new))
    }

    /// Forgets an endpoint. False: there is none of this id.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn remove_hook(&self, by: &Operator, id: Uuid) -> Result<bool, StoreError> {
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        if !webhook_endpoint::delete(&mut *transaction, id).await? {
            return Ok(false);
        }
        by.note(&mut *transaction, "webhook.delete", None, json!({"webhook": id}), self.clock.now_ms()).await?;
        end(transaction).await?;
        Ok(true)
    }

    /// Sends an endpoint once more what stands behind a cursor; how many.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn replay_hook(&self, by: &Operator, id: Uuid, after: LogCursor) -> Result<u64, StoreError> {
        let now_ms = self.clock.now_ms();
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        let n = webhook_delivery::replay(&mut *transaction, id, after, now_ms).await?;
        if n > 0 {
            let detail = json!({"webhook": id, "after": after.to_string(), "queued": n});
            by.note(&mut *transaction, "webhook.replay", None, detail, now_ms).await?;
        }
        end(transaction).await?;
        Ok(n)
    }

    /// Sends an endpoint one message once more. False: it was never on its way there.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn replay_hook_one(&self, by: &Operator, id: Uuid, log_id: i64) -> Result<bool, StoreError> {
        let now_ms = self.clock.now_ms();
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        if !webhook_delivery::replay_one(&mut *transaction, id, log_id, now_ms).await? {
            return Ok(false);
        }
        let detail = json!({"webhook": id, "message": format!("msg_{log_id}")});
        by.note(&mut *transaction, "webhook.replay", None, detail, now_ms).await?;
        end(transaction).await?;
        Ok(true)
    }

    /// What happened behind a cursor, oldest first; at most `limit`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn log(&self, after: LogCursor, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        event_log::list_after(self.store.pool(), after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_address_only_the_server_is_told() {
        for (url, server) in [
            ("https://example.org/hook/s3cret?t=1", "https://example.org/***"),
            ("https://example.org:8443", "https://example.org:8443/***"),
            ("https://[2606:4700::1111]:8443/x", "https://[2606:4700::1111]:8443/***"),
            ("/s3cret", "***"),
        ] {
            assert_eq!(server_of(url), server);
        }
    }
}
