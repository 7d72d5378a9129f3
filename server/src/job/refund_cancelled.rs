//! Gives the money of cancelled events back, a bounded number of orders a second, so that the provider's own limit is kept.

use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<()> {
    let begun = app.checkout.refund_cancelled().await?;
    if begun > 0 {
        tracing::info!(begun, "refunds of a cancelled event");
    }
    Ok(())
}
