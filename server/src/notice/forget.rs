//! What was told and is old: forgotten in bounded portions, so that the log, its deliveries and the mails do not grow for ever.

use super::Notices;
use crate::store::event_log::{self, LogFloor};
use crate::store::{StoreError, mail, unreadable_event};
use std::time::Duration;

/// Rows of each kind forgotten in one round.
const BATCH: u32 = 1_000;
/// How long a signed word of the provider that nobody could read waits for a person: a business year.
const UNREADABLE_KEPT: Duration = Duration::from_secs(365 * 86_400);

impl Notices {
    /// Forgets what is older than it is kept; whether there may be more. `job/forget_told` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn forget_told(&self) -> Result<bool, StoreError> {
        let (pool, now_ms) = (self.store.pool(), self.clock.now_ms());
        let before = |kept: Duration| now_ms.saturating_sub(kept.as_millis() as u64);
        let mut transaction = crate::store::begin(pool).await?;
        let log_n = event_log::forget(&mut transaction, before(self.config.kept), BATCH).await?;
        transaction.commit().await?;
        let mails_n = mail::forget(pool, before(self.config.kept), BATCH).await?;
        let unreadable_n = unreadable_event::forget(pool, before(UNREADABLE_KEPT), BATCH).await?;
        if unreadable_n > 0 {
            tracing::error!(unreadable_n, "words of the provider that nobody read for a year are forgotten");
        }
        Ok([log_n, mails_n, unreadable_n].iter().any(|n| *n >= u64::from(BATCH)))
    }

    /// Mails that wait for a person.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn count_given_up(&self) -> Result<u64, StoreError> {
        mail::count_given_up(self.store.pool()).await
    }

    /// How far the log was forgotten.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn log_floor(&self) -> Result<Option<LogFloor>, StoreError> {
        event_log::floor(self.store.pool()).await
    }
}
