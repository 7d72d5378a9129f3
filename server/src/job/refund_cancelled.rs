//! Settles the orders of cancelled events: those that wait for their buyers are given up, the money of the others goes
//! back. A bounded number a second, so that the provider's own limit is kept; any node, safe twice.

use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<()> {
    let given_up = app.checkout.cancel_unpaid().await?;
    if given_up > 0 {
        tracing::info!(given_up, "unpaid orders of a cancelled event");
    }
    let begun = app.checkout.refund_cancelled().await?;
    if begun > 0 {
        tracing::info!(begun, "refunds of a cancelled event");
    }
    Ok(())
}
