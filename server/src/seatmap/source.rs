//! Where a map comes from: whole states and the changes since a position. The shelf (`inventory`) is the one in the
//! product; the trait stands between so that the map's own tests and benches need no Redis.

use crate::catalogue::EventFacts;
use crate::inventory::{FeedMessage, Inventory, InventoryError, MapState};
use futures_util::future::BoxFuture;
use seatwire_proto::client::Position;
use std::sync::Arc;

/// Reads maps.
pub trait MapSource: Send + Sync + 'static {
    /// The whole map, opening or rebuilding the event where needed.
    fn read_map<'a>(&'a self, event: &'a Arc<EventFacts>) -> BoxFuture<'a, Result<MapState, InventoryError>>;

    /// Changes behind a position, in order; `None` when they are gone and only the whole map will do.
    fn changes_since<'a>(
        &'a self,
        event: &'a Arc<EventFacts>,
        position: Position,
    ) -> BoxFuture<'a, Result<Option<Vec<FeedMessage>>, InventoryError>>;
}

impl MapSource for Inventory {
    fn read_map<'a>(&'a self, event: &'a Arc<EventFacts>) -> BoxFuture<'a, Result<MapState, InventoryError>> {
        Box::pin(self.read_map(event))
    }

    fn changes_since<'a>(
        &'a self,
        event: &'a Arc<EventFacts>,
        position: Position,
    ) -> BoxFuture<'a, Result<Option<Vec<FeedMessage>>, InventoryError>> {
        Box::pin(self.changes_since(event, position.epoch, position.seq))
    }
}
