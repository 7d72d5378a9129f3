//! Sends the mails that are due. Whoever pays waits at this moment, whoever is written to has the tickets on the page already:
//! while the till is busy mails go slowly, and those that wait are sent when it is not.

use super::Round;
use crate::app::App;
use std::sync::Arc;
use std::time::Duration;

/// Between two rounds while the till is busy: with five mails a round, twenty a second.
const YIELD: Duration = Duration::from_millis(250);
/// Mails that have waited so long do not yield any more: an on-sale that goes on for hours delays them by no more.
const MAX_LATE: Duration = Duration::from_secs(300);

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    if app.checkout.is_busy() && app.notices.mails_late() < MAX_LATE {
        tokio::time::sleep(YIELD).await;
    }
    Ok(Round { is_full: app.notices.send_mails(&app.shutdown).await? > 0 })
}
