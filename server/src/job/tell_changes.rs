//! What changed reaches the shelf and this node's viewers: changes of organisers that were not told when they were made,
//! states that time opens, sell-outs and their end, holds of cancelled events. Any node, safe twice.

use super::Round;
use crate::app::App;
use crate::catalogue::EventFacts;
use crate::store::{self, event_change, event_log};
use seatwire_proto::server::EventState;
use std::sync::Arc;

/// Changes told to the shelf in one round; the next follows within a second.
const MAX_TOLD: u32 = 20;
/// Openings by time noted in one round.
const MAX_OPENED: u32 = 50;
/// An event that opened longer ago, while no node ran, is not news.
const OPENING_IS_NEWS_MS: u64 = 24 * 3_600_000;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    for live in app.seatmap.live_events() {
        let facts = if live.take_outdated() {
            app.catalogue.refresh(live.id()).await?
        } else {
            app.catalogue.event(live.id()).await?
        };
        if let Some(facts) = facts {
            app.seatmap.live(&facts).await?;
        }
    }
    for event in event_change::behind(app.store.pool(), MAX_TOLD).await? {
        if let Err(error) = app.organiser.tell(event).await {
            tracing::warn!(%event, %error, "a change is told later");
        }
    }
    for (event, may_have_holds) in app.inventory.touched_events() {
        if let Some(facts) = app.catalogue.event(event.id).await?
            && let Err(error) = follow(app, &facts, may_have_holds).await
        {
            tracing::warn!(event = %facts.id, error = %format!("{error:#}"), "an event is looked at later");
        }
    }
    note_openings(app).await?;
    Ok(Round { is_full: false })
}

/// Selling begins by time alone: whoever looks first notes it.
async fn note_openings(app: &Arc<App>) -> anyhow::Result<()> {
    let now_ms = app.clock.now_ms();
    let mut transaction = store::begin(app.store.pool()).await?;
    let since_ms = now_ms.saturating_sub(OPENING_IS_NEWS_MS);
    event_log::insert_openings(&mut transaction, since_ms, now_ms, MAX_OPENED).await?;
    transaction.commit().await?;
    Ok(())
}

async fn follow(app: &Arc<App>, facts: &Arc<EventFacts>, may_have_holds: bool) -> anyhow::Result<()> {
    match facts.state {
        EventState::Cancelled if may_have_holds => app.organiser.end_holds(facts).await?,
        // With holds open nothing is sold out yet.
        EventState::OnSale if may_have_holds => {}
        EventState::OnSale | EventState::SoldOut => app.organiser.follow_stock(facts).await?,
        _ => {}
    }
    Ok(())
}
