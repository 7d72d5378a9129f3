//! Keys this installation signs with. Made once, by whichever node comes first, and shared by all of them.

use crate::config::Secret;
use crate::store::StoreError;
use rand::RngExt;
use sqlx::PgPool;

/// The newest key of a purpose; made when there is none.
///
/// # Errors
/// As any statement.
pub async fn current(pool: &PgPool, purpose: &str, now_ms: u64) -> Result<Secret, StoreError> {
    let mut fresh = [0u8; 32];
    rand::rng().fill(&mut fresh);
    sqlx::query!(
        "insert into server_keys (purpose, version, secret, created_ms) values ($1, 1, $2, $3)
         on conflict (purpose, version) do nothing",
        purpose,
        &fresh[..],
        now_ms as i64
    )
    .execute(pool)
    .await?;
    let secret =
        sqlx::query_scalar!("select secret from server_keys where purpose = $1 order by version desc limit 1", purpose)
            .fetch_one(pool)
            .await?;
    Ok(Secret::new(hex::encode(secret)))
}
