//! Sends the mails that are due.

use super::Round;
use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    Ok(Round { is_full: app.notices.send_mails(&app.shutdown).await? > 0 })
}
