//! `subscribe`: which event, and where its frames begin for this viewer. The transport writes reply and frames.

use super::counter::Counter;
use crate::error;
use crate::seatmap::{LiveEvent, SeatMap, SnapshotEncoding};
use seatwire_proto::client::{From, Position, Subscribe};
use seatwire_proto::id::EventId;
use seatwire_proto::server::ErrorObject;
use std::sync::Arc;

/// Before the first snapshot.
const NOWHERE: Position = Position { epoch: 0, seq: 0 };

/// Where a viewer's frames begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// With a snapshot.
    Snapshot,
    /// Behind the position of the reply.
    Live,
    /// Behind a position the viewer knows.
    Behind(Position),
}

impl Start {
    /// Whether the viewer keeps what it has.
    pub(crate) const fn is_recovered(self) -> bool {
        !matches!(self, Self::Snapshot)
    }

    /// What the viewer knows, when the reply stands at `replied`.
    pub(crate) const fn position(self, replied: Position) -> Position {
        match self {
            Self::Snapshot => NOWHERE,
            Self::Live => replied,
            Self::Behind(position) => position,
        }
    }
}

/// A subscription that may be had.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) live: Arc<LiveEvent>,
    pub(crate) start: Start,
    pub(crate) encoding: SnapshotEncoding,
}

/// The event, made live if it is not.
///
/// # Errors
/// `event_unknown`, or a store is down.
pub(crate) async fn find(
    counter: &dyn Counter,
    seatmap: &SeatMap,
    event: EventId,
) -> Result<Arc<LiveEvent>, ErrorObject> {
    let facts = counter.event(event).await?;
    counter.make_ready(&facts);
    seatmap.live(&facts).await.map_err(|failure| error::inventory(&failure))
}

/// Decides between snapshot and deltas; `encoding` is the session's unless the command names its own.
pub(crate) fn grant(live: Arc<LiveEvent>, body: &Subscribe, encoding: SnapshotEncoding) -> Grant {
    let start = match body.from {
        From::Snapshot => Start::Snapshot,
        From::Live => Start::Live,
        From::Position { epoch, seq } => {
            let position = Position { epoch, seq };
            if live.can_recover(position) { Start::Behind(position) } else { Start::Snapshot }
        }
    };
    let encoding = body.accepts.as_ref().map_or(encoding, |accepts| SnapshotEncoding::of(accepts));
    Grant { live, start, encoding }
}
