//! Ends holds whose time has come, on the events this node has touched, and tells their owners; also 60 s and 15 s
//! before. Any number of nodes may run it: the script decides who ends what.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::{HoldRecord, InventoryError};
use seatwire_proto::server::Push;
use std::sync::Arc;

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
    let now_ms = app.inventory.now_ms();
    let wire = |hold: &HoldRecord| hold.to_wire(event, now_ms);
    for hold in &swept.expired {
        app.sender.to_identity(hold.identity, &Push::HoldExpired { hold: wire(hold) });
        app.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: None });
    }
    for hold in &swept.expiring {
        app.sender.to_identity(hold.identity, &Push::HoldExpiring { hold: wire(hold) });
    }
    Ok(())
}
