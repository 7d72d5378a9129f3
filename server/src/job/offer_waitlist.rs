//! Offers what is kept to those who wait, on every event with a list or whose list may still keep. Any number of nodes may run it: the list's lock lets
//! one at a time at an event.

use crate::app::App;
use crate::store::waitlist;
use anyhow::Context;
use seatwire_proto::id::EventId;
use std::sync::Arc;

/// Events read at once; all of them are looked at in every round. Lists of events that are over end, so these are few.
const EVENTS_AT_ONCE: u32 = 500;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let events = waitlist::events(app.store.pool(), after, EVENTS_AT_ONCE).await?;
        for &event in &events {
            if let Err(error) = round(app, event).await {
                tracing::warn!(%event, error = %format!("{error:#}"), "the waitlist is looked at later");
            }
        }
        after = events.last().copied();
        if events.len() < EVENTS_AT_ONCE as usize {
            break;
        }
    }
    app.waitlist.forget_answers().await?;
    Ok(())
}

async fn round(app: &Arc<App>, event: EventId) -> anyhow::Result<()> {
    let Some(facts) = app.catalogue.event(event).await? else { return Ok(()) };
    let layout = app.catalogue.layout(&facts.layout).await?.with_context(|| format!("no plan {}", facts.layout))?;
    Ok(app.waitlist.round(&facts, layout).await?)
}
