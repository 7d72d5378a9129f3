//! Reads the provider's list of events from a cursor, so that nothing rests on webhooks arriving. Nudged when a provider that
//! was away is back: what happened meanwhile is learnt from its list, before its orders are asked about one by one.

use super::Round;
use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    let polled = app.checkout.poll_events().await?;
    if polled.new_n > 0 {
        tracing::debug!(new = polled.new_n, "events read from the provider's list");
    }
    Ok(Round { is_full: polled.is_behind })
}
