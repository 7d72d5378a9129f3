//! `hello`: whom a token names, and what an identity has open. The session around it (first or later hello, what waits
//! behind it) is `socket::session`'s.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::error;
use crate::identity::{Identities, TokenError, Verified};
use crate::inventory::Inventory;
use crate::store::hold_journal;
use seatwire_proto::client::Hello;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use seatwire_proto::server::{ErrorObject, Hold, Order, Push};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What an identity has open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Basket {
    /// Its open holds.
    pub holds: Vec<Hold>,
    /// Its open orders.
    pub orders: Vec<Order>,
}

/// Events looked at for open holds; beyond, a basket shows when its event is opened. A limit per identity keeps nobody from
/// holding in many events, but a hundred events at once is not a buyer.
const MAX_EVENTS_LOOKED_AT: usize = 64;
/// Longest wait for the shelf: then the journal speaks. Above the time of one call, below a buyer's patience.
const MAX_LOOK: Duration = Duration::from_secs(1);
/// Baskets told without one of the stores that are told again once it answers; beyond, the next hello tells.
static FOLLOWED: Semaphore = Semaphore::const_new(1_000);
/// Between two looks at a shelf that was silent, and how many there are: about two minutes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const MAX_LOOKS: usize = 120;

/// The identity's open holds, in whatever event and at whatever node they were made, and its open orders; without orders
/// when their store is down, which must not keep anybody from the map: they are told by pushes, or by the next hello.
///
/// # Errors
/// `unavailable` when neither store can tell the holds: to say "none" would be final to whoever hears it.
pub(super) async fn basket(app: &App, identity: IdentityId) -> Result<Basket, ErrorObject> {
    let (holds, orders) = tokio::join!(open_holds(app, identity), app.checkout.open_orders(identity));
    let orders = orders.map_err(|error| error::checkout(&error)).unwrap_or_default();
    Ok(Basket { holds: holds?, orders })
}

/// Where to look is known from the events this node has touched and, for all others, from the journal; what is open there
/// the shelf says. While it is silent the journal does, and the owner is told again later.
async fn open_holds(app: &App, identity: IdentityId) -> Result<Vec<Hold>, ErrorObject> {
    let mut events: Vec<Arc<EventFacts>> = app.inventory.touched_events().into_iter().map(|(event, _)| event).collect();
    events.truncate(MAX_EVENTS_LOOKED_AT);
    let journalled = hold_journal::with_hold(app.store.pool(), identity, MAX_EVENTS_LOOKED_AT as u32).await;
    let journalled = journalled.map(|rows| rows.into_iter().map(|row| (row.event, row)).collect::<HashMap<_, _>>());
    for &id in journalled.iter().flat_map(HashMap::keys) {
        if events.iter().all(|event| event.id != id)
            && let Ok(Some(event)) = app.catalogue.event(id).await
        {
            events.push(event);
        }
    }
    let looks = events.iter().map(|event| async move {
        let look = tokio::time::timeout(MAX_LOOK, app.inventory.open_hold(event, identity)).await;
        look.map_err(|_| error::unavailable(&"no answer in time"))?.map_err(|error| error::inventory(&error))
    });
    let looks = futures_util::future::join_all(looks).await;
    let (mut holds, mut silent) = (Vec::new(), Vec::new());
    for (event, look) in events.iter().zip(looks) {
        let mut now_ms = app.inventory.event_ms(event.id);
        let hold = match look {
            Ok(hold) => hold,
            Err(_) => {
                // Neither store can tell.
                let records = journalled.as_ref().map_err(|error| error::unavailable(error))?;
                let hold = match records.get(&event.id) {
                    Some(row) => {
                        now_ms = app.inventory.heard_event_ms(event.id).or(row.event_ms).unwrap_or(now_ms);
                        let hold = Inventory::journalled_hold(identity, &row.record, now_ms);
                        hold.map_err(|error| error::inventory(&error))?
                    }
                    None => None,
                };
                silent.push((Arc::clone(event), hold.as_ref().map(|hold| hold.id)));
                hold
            }
        };
        holds.extend(hold.map(|hold| hold.to_wire(event, now_ms)));
    }
    // Without the journal only the events this node knows were looked at. To refuse everybody the map for that would be
    // worse: whoever holds something elsewhere is told as soon as the journal answers.
    let looked = journalled.is_err().then(|| events.iter().map(|event| event.id).collect());
    if !silent.is_empty() || looked.is_some() {
        follow(app, identity, silent, looked);
    }
    Ok(holds)
}

/// Tells the identity what the shelf says of these events once it answers: the journal is a moment behind. `looked`: the
/// journal did not answer, and the identity may hold something in other events than these.
fn follow(
    app: &App,
    identity: IdentityId,
    mut silent: Vec<(Arc<EventFacts>, Option<HoldId>)>,
    mut looked: Option<Vec<EventId>>,
) {
    let Ok(permit) = FOLLOWED.try_acquire() else { return };
    let (inventory, sender) = (app.inventory.clone(), app.sender.clone());
    let (store, catalogue) = (app.store.clone(), app.catalogue.clone());
    tokio::spawn(async move {
        let _permit = permit;
        for _ in 0..MAX_LOOKS {
            tokio::time::sleep(LOOK_AGAIN.mul_f64(rand::random_range(0.5..1.0))).await;
            if let Some(known) = &looked
                && let Ok(rows) = hold_journal::with_hold(store.pool(), identity, MAX_EVENTS_LOOKED_AT as u32).await
            {
                for id in rows.into_iter().map(|row| row.event).filter(|id| !known.contains(id)) {
                    if let Ok(Some(event)) = catalogue.event(id).await {
                        silent.push((event, None));
                    }
                }
                looked = None;
            }
            let mut still = Vec::new();
            for (event, told) in silent {
                let Ok(open) = inventory.open_hold(&event, identity).await else {
                    still.push((event, told));
                    continue;
                };
                if let Some(id) = told.filter(|&id| open.as_ref().is_none_or(|hold| hold.id != id)) {
                    sender.to_identity(identity, &Push::HoldUpdate { id, hold: None });
                }
                if let Some(hold) = open {
                    let wire = hold.to_wire(&event, inventory.event_ms(event.id));
                    sender.to_identity(identity, &Push::HoldUpdate { id: hold.id, hold: Some(wire) });
                }
            }
            if still.is_empty() && looked.is_none() {
                return;
            }
            silent = still;
        }
    });
}

/// Why nobody was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotIdentified {
    /// Not ours.
    BadToken,
    /// Ours, but over.
    Expired,
    /// Of another identity than the session's.
    Foreign,
}

impl NotIdentified {
    /// What the client is told.
    pub(crate) fn error(self) -> ErrorObject {
        match self {
            Self::BadToken => error::token(TokenError::Invalid),
            Self::Expired => error::token(TokenError::Expired),
            Self::Foreign => error::refuse(ErrorCode::Forbidden),
        }
    }
}

/// Whom the token names; `None` without one.
pub(crate) fn identify(
    identities: &Identities,
    known: Option<IdentityId>,
    body: &Hello,
) -> Result<Option<Verified>, NotIdentified> {
    let Some(token) = &body.token else { return Ok(None) };
    let verified = identities.verify(token).map_err(|error| match error {
        TokenError::Invalid => NotIdentified::BadToken,
        TokenError::Expired => NotIdentified::Expired,
    })?;
    match known {
        Some(known) if known != verified.identity => Err(NotIdentified::Foreign),
        _ => Ok(Some(verified)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::Secret;

    #[test]
    fn a_token_decides_who_asks_and_nobody_changes_into_another() {
        let clock = Clock::manual(1_000_000);
        let identities = Identities::new(Secret::new("k"), clock.clone());
        let issued = identities.issue_for(IdentityId::generate(), Duration::from_secs(60));
        let hello = |token: Option<&str>| Hello { token: token.map(str::to_owned), ..Hello::default() };
        let identify = |known, token| identify(&identities, known, &hello(token));
        assert_eq!(identify(None, None), Ok(None));
        assert_eq!(identify(None, Some("x")), Err(NotIdentified::BadToken));
        let verified = identify(None, Some(&issued.token)).expect("ours").expect("a token");
        assert_eq!(verified.identity, issued.identity);
        assert!(identify(Some(issued.identity), Some(&issued.token)).is_ok());
        assert_eq!(identify(Some(IdentityId::generate()), Some(&issued.token)), Err(NotIdentified::Foreign));
        clock.advance_ms(60_001);
        assert_eq!(identify(None, Some(&issued.token)), Err(NotIdentified::Expired));
    }
}
