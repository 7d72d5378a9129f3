//! The counter as the door sees it. A trait, so that sockets can be tested and measured without stores behind them.

use super::Spoken;
use super::hello::Basket;
use crate::catalogue::EventFacts;
use futures_util::future::BoxFuture;
use seatwire_proto::client::ClientMessage;
use seatwire_proto::id::{EventId, IdentityId, SessionId};
use seatwire_proto::server::ErrorObject;
use std::sync::Arc;

/// Answers commands that need a store.
pub trait Counter: Send + Sync + 'static {
    /// Answers one command of a session; whatever goes wrong is a reply with a code.
    fn run(&self, who: Option<IdentityId>, session: SessionId, message: ClientMessage) -> BoxFuture<'_, Spoken>;

    /// What the identity has open, or `unavailable` when no store can tell.
    fn basket(&self, identity: IdentityId) -> BoxFuture<'_, Result<Basket, ErrorObject>>;

    /// The event by its id, or `event_unknown`.
    fn event(&self, event: EventId) -> BoxFuture<'_, Result<Arc<EventFacts>, ErrorObject>>;

    /// Somebody looks at the event: begins to read what commands about it will need, so that the first of a crowd does not
    /// wait for the seating plan, and the crowd behind it neither.
    fn make_ready(&self, _: &EventFacts) {}
}
