//! Sends organisers what happened.

use super::Round;
use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    Ok(Round { is_full: app.notices.send_hooks(&app.shutdown).await? > 0 })
}
