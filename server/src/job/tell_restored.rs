//! Tells owners what became of their baskets when Redis was lost: once as soon as the event is open again, and once more a
//! little later, because sockets hear of pushes through the same Redis and may have been reconnecting. What is told is read
//! at that moment, so it is true both times.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::Restored;
use crate::shutdown::Phase;
use futures_util::StreamExt;
use futures_util::stream;
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::server::Push;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks.
const TICK: Duration = Duration::from_millis(100);
/// Longer than a node's longest wait before it reconnects to Redis.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Baskets read and told side by side.
const MAX_AT_ONCE: usize = 32;
/// Why a hold was taken back, as the push says it.
const REASON: &str = "store_lost";

pub(super) async fn run(app: &App) {
    let mut again: Vec<(Instant, Restored)> = Vec::new();
    let stopping = app.shutdown.reached(Phase::Stopping);
    tokio::pin!(stopping);
    loop {
        for restored in app.inventory.take_restored() {
            tell(app, &restored).await;
            again.push((Instant::now() + AGAIN_AFTER, restored));
        }
        let now = Instant::now();
        for (_, restored) in again.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            tell(app, &restored).await;
        }
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

async fn tell(app: &App, restored: &Restored) {
    let event = match app.catalogue.event(restored.event).await {
        Ok(Some(event)) => event,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(event = %restored.event, %error, "owners learn of their baskets at the next hello");
            return;
        }
    };
    stream::iter(&restored.holds)
        .for_each_concurrent(MAX_AT_ONCE, |&(identity, hold)| tell_owner(app, &event, identity, hold))
        .await;
    for hold in &restored.revoked {
        let push = Push::HoldRevoked { hold: hold.to_wire(&event, app.inventory.now_ms()), reason: REASON.into() };
        app.sender.to_identity(hold.identity, &push).await;
    }
}

async fn tell_owner(app: &App, event: &Arc<EventFacts>, identity: IdentityId, id: HoldId) {
    let open = match app.inventory.open_hold(event, identity).await {
        Ok(open) => open.filter(|hold| hold.id == id),
        Err(error) => {
            tracing::debug!(%identity, %error, "a basket could not be read for its owner");
            return;
        }
    };
    let hold = open.map(|hold| hold.to_wire(event, app.inventory.now_ms()));
    app.sender.to_identity(identity, &Push::HoldUpdate { id, hold }).await;
}
