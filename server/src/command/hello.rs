//! `hello`: whom a token names, and what an identity has open. The session around it (first or later hello, what waits
//! behind it) is `socket::session`'s.

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::error;
use crate::identity::{Identities, TokenError, Verified};
use crate::store::hold_journal;
use seatwire_proto::client::Hello;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::IdentityId;
use seatwire_proto::server::{ErrorObject, Hold, Order};
use std::sync::Arc;

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

/// The identity's open holds, in whatever event and at whatever node they were made, and its open orders; without those of
/// a store that is down, which must not keep anybody from the map: they are told by pushes, or by the next hello.
pub(super) async fn basket(app: &App, identity: IdentityId) -> Basket {
    let (holds, orders) = tokio::join!(open_holds(app, identity), app.checkout.open_orders(identity));
    let orders = orders.map_err(|error| error::checkout(&error)).unwrap_or_default();
    Basket { holds, orders }
}

/// Where to look is known from the events this node has touched and, for all others, from the journal; what is open there
/// the shelf says.
async fn open_holds(app: &App, identity: IdentityId) -> Vec<Hold> {
    let mut events: Vec<Arc<EventFacts>> = app.inventory.touched_events().into_iter().map(|(event, _)| event).collect();
    events.truncate(MAX_EVENTS_LOOKED_AT);
    let journalled = hold_journal::events_with_hold(app.store.pool(), identity, MAX_EVENTS_LOOKED_AT as u32).await;
    for id in journalled.map_err(|error| error::store(&error)).unwrap_or_default() {
        if events.iter().all(|event| event.id != id)
            && let Ok(Some(event)) = app.catalogue.event(id).await
        {
            events.push(event);
        }
    }
    let looks = events.iter().map(|event| async move {
        let hold = app.inventory.open_hold(event, identity).await.map_err(|error| error::inventory(&error)).ok()??;
        Some(hold.to_wire(event, app.inventory.now_ms()))
    });
    futures_util::future::join_all(looks).await.into_iter().flatten().collect()
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
    use std::time::Duration;

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
