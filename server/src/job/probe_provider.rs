//! Sees whether a provider whose circuit is open answers again: nobody asks it for money meanwhile, so nobody else would
//! notice. Numbers for Prometheus say how it stands.

use crate::app::App;
use std::sync::Arc;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<()> {
    let is_open = app.checkout.probe_provider().await;
    app.metrics.provider_open.set(i64::from(is_open));
    app.metrics.provider_busy.set(i64::from(app.checkout.is_provider_jammed()));
    Ok(())
}
