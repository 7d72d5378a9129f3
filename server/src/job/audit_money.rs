//! Compares money, seats and tickets of all events, reads only: what does not agree is an alarm in the log and a number
//! for Prometheus. Believed only when it stays: a look beside a running sale may see half of a change. Nudged when an event
//! is closed or cancelled.

use super::Round;
use crate::app::App;
use crate::store::{money_audit, open_payment, unreadable_event};
use std::sync::Arc;
use std::time::Duration;

/// Between the look that finds something and the one that believes it.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    let pool = app.store.pool();
    let for_people = open_payment::count_for_people(pool).await?;
    app.metrics.payments_for_people.set(i64::try_from(for_people).unwrap_or(i64::MAX));
    let unreadable_n = unreadable_event::count(pool).await?;
    app.metrics.webhooks_unreadable.set(i64::try_from(unreadable_n).unwrap_or(i64::MAX));
    let mut found = money_audit::violations(pool).await?;
    if !found.is_empty() {
        tokio::time::sleep(LOOK_AGAIN).await;
        let again = money_audit::violations(pool).await?;
        found.retain(|(rule, _)| again.iter().any(|(other, _)| other == rule));
    }
    for (rule, n) in &found {
        tracing::error!(rule, n, "money, seats and tickets do not agree");
    }
    let n: u64 = found.iter().map(|(_, n)| n).sum();
    app.metrics.books_violations.set(i64::try_from(n).unwrap_or(i64::MAX));
    Ok(Round { is_full: false })
}
