//! Reads the provider's list of events from a cursor, so that nothing rests on webhooks arriving.

use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<()> {
    let new = app.checkout.poll_events().await?;
    if new > 0 {
        tracing::debug!(new, "events read from the provider's list");
    }
    Ok(())
}
