//! Ends holds whose time has come, on the events this node has touched, and tells their owners; also 60 s and 15 s
//! before. Any number of nodes may run it: the script decides who ends what.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::{HoldRecord, InventoryError};
use futures_util::{StreamExt, stream};
use seatwire_proto::server::Push;
use std::sync::Arc;

/// Owners told side by side.
const MAX_TOLD_AT_ONCE: usize = 32;

pub(super) async fn run(app: &App) -> anyhow::Result<()> {
    let mut failed = None;
    for event in app.inventory.events_to_sweep() {
        // One event that cannot be opened must not keep the others' holds alive.
        if let Err(error) = sweep(app, &event).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

async fn sweep(app: &App, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
    let swept = app.inventory.sweep(event).await?;
    // Side by side, or the next sweep waits for a thousand owners.
    stream::iter(swept.expired).for_each_concurrent(MAX_TOLD_AT_ONCE, |hold| tell_expired(app, event, hold)).await;
    stream::iter(swept.expiring).for_each_concurrent(MAX_TOLD_AT_ONCE, |hold| tell_expiring(app, event, hold)).await;
    Ok(())
}

async fn tell_expired(app: &App, event: &EventFacts, hold: HoldRecord) {
    let wire = hold.to_wire(event, app.inventory.now_ms());
    app.sender.to_identity(hold.identity, &Push::HoldExpired { hold: wire }).await;
    app.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: None }).await;
}

async fn tell_expiring(app: &App, event: &EventFacts, hold: HoldRecord) {
    let wire = hold.to_wire(event, app.inventory.now_ms());
    app.sender.to_identity(hold.identity, &Push::HoldExpiring { hold: wire }).await;
}
