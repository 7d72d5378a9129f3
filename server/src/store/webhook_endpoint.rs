//! Where organisers want to be told, what of it, and by which secrets. What is on its way there: `webhook_delivery`.

use super::StoreError;
use serde::{Deserialize, Serialize};
use sqlx::PgExecutor;
use sqlx::types::{Json, Uuid};

/// A secret that signs, and until when.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSecret {
    /// `whsec_` and base64.
    pub secret: String,
    /// The newest has no end.
    pub until_ms: Option<u64>,
}

impl std::fmt::Debug for EndpointSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointSecret").field("until_ms", &self.until_ms).finish_non_exhaustive()
    }
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRow {
    /// Its id.
    pub id: Uuid,
    /// Where.
    pub url: String,
    /// What signs, newest first.
    pub secrets: Vec<EndpointSecret>,
    /// What it wants: types, or what stands before their dot. `None`: everything but holds.
    pub types: Option<Vec<String>>,
    /// Since when nothing was taken.
    pub failing_since_ms: Option<u64>,
    /// Tries that failed since then.
    pub failures_n: u32,
    /// What happened up to this time was forgotten before it was taken.
    pub missed_until_ms: Option<u64>,
    /// When it was made.
    pub created_ms: u64,
    /// Since when nothing is sent, and why.
    pub disabled: Option<(u64, String)>,
}

/// Makes an endpoint that is told from now on.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    url: &str,
    types: Option<&[String]>,
    secrets: &[EndpointSecret],
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into webhook_endpoints (endpoint_id, url, secrets, created_ms, cursor_xid, cursor_id, types)
         values ($1, $2, $3, $4, pg_current_xact_id(), 0, $5)",
        id,
        url,
        Json(secrets) as _,
        now_ms.cast_signed(),
        types
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Every endpoint, oldest first.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list(executor: impl PgExecutor<'_>) -> Result<Vec<EndpointRow>, StoreError> {
    let rows = sqlx::query!(
        r#"select endpoint_id, url, secrets as "secrets: Json<Vec<EndpointSecret>>", types, created_ms,
             disabled_ms, disabled_reason, failing_since_ms, failures_n, missed_until_ms from webhook_endpoints order by created_ms, endpoint_id"#
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| EndpointRow {
            id: row.endpoint_id,
            url: row.url,
            secrets: row.secrets.0,
            types: row.types,
            failing_since_ms: row.failing_since_ms.map(i64::cast_unsigned),
            failures_n: row.failures_n.cast_unsigned(),
            missed_until_ms: row.missed_until_ms.map(i64::cast_unsigned),
            created_ms: row.created_ms.cast_unsigned(),
            disabled: row.disabled_ms.map(|ms| (ms.cast_unsigned(), row.disabled_reason.unwrap_or_default())),
        })
        .collect())
}

/// Sets the secrets. False: there is none of this id.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_secrets(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    secrets: &[EndpointSecret],
) -> Result<bool, StoreError> {
    let done = sqlx::query!("update webhook_endpoints set secrets = $2 where endpoint_id = $1", id, Json(secrets) as _)
        .execute(executor)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Sets what it wants, from the next row of the log on. False: there is none of this id.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_types(executor: impl PgExecutor<'_>, id: Uuid, types: Option<&[String]>) -> Result<bool, StoreError> {
    let done = sqlx::query!("update webhook_endpoints set types = $2 where endpoint_id = $1", id, types)
        .execute(executor)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Sends there again, and once more what ran out of tries meanwhile. False: there is none of this id.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn enable(executor: impl PgExecutor<'_>, id: Uuid, now_ms: u64) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"with enabled as (
               update webhook_endpoints set disabled_ms = null, disabled_reason = null, failing_since_ms = null,
                   failures_n = 0, last_failed_ms = null
               where endpoint_id = $1 returning endpoint_id),
           again as (
               update webhook_deliveries d set due_ms = $2, tries_n = 0 from enabled
               where d.endpoint_id = enabled.endpoint_id and d.sent_ms is null)
           select count(*) as "n!" from enabled"#,
        id,
        now_ms.cast_signed()
    )
    .fetch_one(executor)
    .await?;
    Ok(found == 1)
}

/// Sends nothing there any more if every try since `before_ms` failed, and at least so many did. True: it ends now.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn disable_if_failing(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    before_ms: u64,
    min_failures: u32,
    reason: &str,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update webhook_endpoints set disabled_ms = $3, disabled_reason = $4
         where endpoint_id = $1 and disabled_ms is null and failing_since_ms <= $2 and failures_n >= $5",
        id,
        before_ms.cast_signed(),
        now_ms.cast_signed(),
        reason,
        min_failures.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Sends nothing there any more.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn disable(executor: impl PgExecutor<'_>, id: Uuid, reason: &str, now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "update webhook_endpoints set disabled_ms = $2, disabled_reason = $3 where endpoint_id = $1",
        id,
        now_ms.cast_signed(),
        reason
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Forgets an endpoint. False: there is none of this id.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn delete(executor: impl PgExecutor<'_>, id: Uuid) -> Result<bool, StoreError> {
    let done = sqlx::query!("delete from webhook_endpoints where endpoint_id = $1", id).execute(executor).await?;
    Ok(done.rows_affected() == 1)
}
