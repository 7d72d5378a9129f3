//! Offers what is kept to those who wait, on every event with a list. Any number of nodes may run it: the list's lock lets
//! one at a time at an event.

use crate::app::App;
use crate::store::waitlist;
use std::sync::Arc;

/// Events looked at in one round, the smallest ids first; a node with more sold-out events with lists than this at a time
/// serves those behind when lists before them are empty.
const MAX_EVENTS: u32 = 500;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<()> {
    for event in waitlist::events(app.store.pool(), MAX_EVENTS).await? {
        let Some(facts) = app.catalogue.event(event).await? else { continue };
        if let Err(error) = app.waitlist.round(&facts).await {
            tracing::warn!(%event, %error, "the waitlist is looked at later");
        }
    }
    app.waitlist.forget_answers().await?;
    Ok(())
}
