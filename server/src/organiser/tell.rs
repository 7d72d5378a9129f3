//! A change becomes known: to the shelf, which must agree with Postgres on states, limits, seats and blocks, and to the
//! nodes, whose viewers are told. Safe twice and at any time; the job `tell_changes` finds what was not told.

use super::{Organiser, OrganiserError};
use crate::store::event_change;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::{SeatIndex, SeatState};

/// Seats of one call of the script: well below a millisecond of Redis.
pub(super) const SEATS_PER_CALL: usize = 500;

impl Organiser {
    /// Brings the shelf to what Postgres says of the event, and nudges every node. The event's row is held meanwhile, so
    /// that no block is half way: what Redis has blocked beyond Postgres is left from a change that ended early. Holds of
    /// a cancelled event end behind that, since they may be many; only then is it told.
    ///
    /// # Errors
    /// When a store does not answer: it stays to be told.
    pub async fn tell(&self, event: EventId) -> Result<(), OrganiserError> {
        let organiser = self.clone();
        Self::whole(async move {
            let (mut transaction, locked) = organiser.begin(event).await?;
            let owed_n = event_change::owed(&mut *transaction, event).await?;
            let facts = organiser.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
            organiser.inventory.configure(&facts).await?;
            let map = organiser.inventory.read_map(&facts).await?;
            let left_over: Vec<SeatIndex> = (0..)
                .zip(&map.states)
                .filter(|&(seat, &state)| state == SeatState::Blocked as u8 && !facts.blocked.contains(seat))
                .map(|(seat, _)| SeatIndex(seat))
                .collect();
            for seats in left_over.chunks(SEATS_PER_CALL) {
                organiser.inventory.unblock(&facts, seats).await?;
            }
            transaction.commit().await?;
            if organiser.seatmap.live_now(event).is_some() {
                organiser.seatmap.live(&facts).await?;
            }
            organiser.sender.event_changed(event).await;
            organiser.end_holds(&facts).await?;
            event_change::shelf_knows(organiser.store.pool(), event, locked.revision, owed_n).await?;
            Ok(())
        })
        .await
    }
}
