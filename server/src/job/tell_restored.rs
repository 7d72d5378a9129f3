//! Tells owners what became of their baskets when Redis was lost: once as soon as the event is open again, and once more a
//! little later, because sockets hear of pushes through the same Redis and may have been reconnecting. What is told is read
//! at that moment, so it is true both times. That a hold is lost is told last: by then every node that answered a release a
//! moment before the loss has said so again.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::key::event_number_of;
use crate::inventory::{FoundHold, Restored, ToldHold};
use crate::shutdown::Phase;
use crate::store::{StoreError, hold_journal, order};
use futures_util::StreamExt;
use futures_util::stream;
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use seatwire_proto::server::Push;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks.
const TICK: Duration = Duration::from_millis(100);
/// Longer than a node's longest wait before it reconnects to Redis.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Before ends are told once more, and well before anybody is told of a loss.
const ENDS_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Baskets read and told side by side.
const MAX_AT_ONCE: usize = 32;
/// Why a hold was taken back, as the push says it.
const REASON: &str = "store_lost";

/// Which time holds are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    First,
    Last,
}

pub(super) async fn run(app: &App) {
    let mut again: Vec<(Instant, Restored)> = Vec::new();
    let mut ends_again: Option<Instant> = None;
    let mut looked_for: Vec<(Instant, Turn, Vec<ToldHold>)> = Vec::new();
    let stopping = app.shutdown.reached(Phase::Stopping);
    tokio::pin!(stopping);
    loop {
        for restored in app.inventory.take_restored() {
            tell(app, &restored).await;
            again.push((Instant::now() + AGAIN_AFTER, restored));
        }
        let now = Instant::now();
        if let Some(outlived) = app.inventory.take_outlived() {
            app.sender.tell_ends_again();
            ends_again = Some(now + ENDS_AGAIN_AFTER);
            looked_for.push((now + AGAIN_AFTER, Turn::First, outlived));
        }
        if ends_again.take_if(|at| *at <= now).is_some() {
            app.sender.tell_ends_again();
        }
        for (_, turn, holds) in looked_for.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            let missing = tell_missing(app, holds).await;
            if turn == Turn::First {
                looked_for.push((Instant::now() + AGAIN_AFTER, Turn::Last, missing));
            }
        }
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
        let wire = hold.to_wire(&event, app.inventory.event_ms(event.id));
        let push = Push::HoldRevoked { hold: wire, reason: REASON.into() };
        app.sender.to_identity(hold.identity, &push);
        app.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: None });
    }
}

/// Tells the owners of holds that were answered a moment before the loss and of which the new life knows nothing; returns
/// those, and those that could not be looked for.
async fn tell_missing(app: &App, all: Vec<ToldHold>) -> Vec<ToldHold> {
    let looks = stream::iter(all).map(|told| async move {
        let hold = &told.hold;
        let found = match app.catalogue.event_by_number(event_number_of(hold.id)).await {
            Ok(Some(event)) => {
                app.inventory.find_hold(&event, hold.identity, hold.id).await.map(|found| (event, found))
            }
            Ok(None) => return None,
            Err(error) => Err(error.into()),
        };
        match found {
            Ok((_, FoundHold::Open(_) | FoundHold::Ended)) => None,
            Ok((event, FoundHold::Unknown)) if hold.expires_ms <= app.inventory.event_ms(event.id) => None,
            Ok((event, FoundHold::Unknown)) => {
                match was_given_up(app, event.id, &told).await {
                    Ok(false) => {}
                    Ok(true) => return None,
                    // A word that is not true is worse than one that comes later.
                    Err(_) => return Some(told),
                }
                let wire = hold.to_wire(&event, app.inventory.event_ms(event.id));
                let revoked = Push::HoldRevoked { hold: wire, reason: REASON.into() };
                app.sender.to_identity(hold.identity, &revoked);
                app.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: None });
                Some(told)
            }
            Err(error) => {
                tracing::debug!(identity = %hold.identity, %error, "a basket could not be looked for");
                Some(told)
            }
        }
    });
    looks.buffer_unordered(MAX_AT_ONCE).filter_map(std::future::ready).collect().await
}

/// Whether the hold came to its end by its owner, maybe at another node: the journal had come as far as the answer, or knows
/// a later life, so it would have been restored; or it was sold, and what becomes of it is said of the order.
async fn was_given_up(app: &App, event: EventId, told: &ToldHold) -> Result<bool, StoreError> {
    let pool = app.store.pool();
    let ToldHold { position, hold } = told;
    let known = hold_journal::known_of_life_before(pool, event).await?;
    if known.is_some_and(|known| known >= (position.epoch, position.seq)) {
        return Ok(true);
    }
    order::was_made_of(pool, hold.identity, hold.id).await
}

async fn tell_owner(app: &App, event: &Arc<EventFacts>, identity: IdentityId, id: HoldId) {
    let (at, open) = match app.inventory.open_hold_at(event, identity).await {
        Ok((at, open)) => (at, open.filter(|hold| hold.id == id)),
        Err(error) => {
            tracing::debug!(%identity, %error, "a basket could not be read for its owner");
            return;
        }
    };
    let hold = open.map(|hold| hold.to_wire(event, app.inventory.event_ms(event.id)));
    app.sender.to_identity_at(identity, Some(at), &Push::HoldUpdate { id, hold });
}
