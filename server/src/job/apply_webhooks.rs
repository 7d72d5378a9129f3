//! Applies what the provider told us: events of the inbox that are due. Nudged when one comes in.

use super::Round;
use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    let applied = app.checkout.apply_inbox().await?;
    Ok(Round { is_full: applied > 0 })
}
