//! Forgets what was told long ago, and counts the mails that wait for a person.

use super::Round;
use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    let given_up_n = app.notices.count_given_up().await?;
    app.metrics.mails_for_people.set(i64::try_from(given_up_n).unwrap_or(i64::MAX));
    Ok(Round { is_full: app.notices.forget_told().await? })
}
