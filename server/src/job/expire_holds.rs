//! Ends holds whose time has come, on the events this node has touched, and tells their owners; also 60 s and 15 s
//! before. Any number of nodes may run it: the script decides who ends what.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::{HoldRecord, InventoryError};
use futures_util::{StreamExt, stream};
use seatwire_proto::server::Push;
use std::sync::Arc;

/// Events swept at once: so many may hang at a master that is away before others wait for it.
const MAX_SWEEPS_AT_ONCE: usize = 16;

pub(super) async fn run(app: &App) -> anyhow::Result<()> {
    // One event that cannot be opened must not keep the others' holds alive.
    let mut sweeps = stream::iter(app.inventory.events_to_sweep())
        .map(|event| async move { sweep(app, &event).await })
        .buffer_unordered(MAX_SWEEPS_AT_ONCE);
    let mut failed = None;
    while let Some(swept) = sweeps.next().await {
        failed = swept.err().or(failed);
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

async fn sweep(app: &App, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
    let swept = app.inventory.sweep(event).await?;
    let now_ms = app.inventory.event_ms(event.id);
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
