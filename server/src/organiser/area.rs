//! How many places an area has. More of them are written first and then shown; fewer are taken from the shelf first, as
//! blocked seats are: only places that nobody holds, pays for or has bought can go.

use super::{Operator, Organiser, OrganiserError};
use crate::catalogue::EventFacts;
use crate::inventory::InventoryError;
use crate::store::constraint::{self, Constraint};
use crate::store::{area_stock, epoch, event_change};
use seatwire_proto::id::EventId;
use seatwire_proto::seat::AreaIndex;
use std::sync::Arc;

/// Most places of an area: what a square in a city holds. Far below what the counters could count.
const MAX_PLACES: u32 = 10_000_000;

impl Organiser {
    /// Sets how many places an area has. New ones go to the waitlist first.
    ///
    /// # Errors
    /// `PlacesTaken` when more are held, being paid or sold; nothing is changed then.
    pub async fn set_capacity(
        &self,
        by: Operator,
        event: EventId,
        area: AreaIndex,
        capacity: u32,
    ) -> Result<Arc<EventFacts>, OrganiserError> {
        if capacity > MAX_PLACES {
            return Err(OrganiserError::refused("/capacity", format!("expected 0 to {MAX_PLACES}")));
        }
        let organiser = self.clone();
        Self::whole(async move {
            let facts = organiser.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
            if area.position() >= facts.areas.len() {
                return Err(OrganiserError::AreaUnknown);
            }
            // Open it now: a rebuild would wait for the lock that is taken below.
            organiser.inventory.open(&facts).await?;
            let done = organiser.set_capacity_at(&by, event, area, capacity).await;
            if done.is_err()
                && let Err(error) = organiser.tell(event).await
            {
                tracing::warn!(%event, %error, "places taken away in vain are given back later");
            }
            done?;
            organiser.tell_now(event).await
        })
        .await
    }

    /// Under the event's row and behind the checkout's fence, so that no rebuild reads Postgres between the two stores. That
    /// Redis must be told stands in Postgres before, whatever ends this half way.
    async fn set_capacity_at(
        &self,
        by: &Operator,
        event: EventId,
        area: AreaIndex,
        capacity: u32,
    ) -> Result<(), OrganiserError> {
        let (mut transaction, _) = self.begin(event).await?;
        let facts = self.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
        epoch::lock_shared(&mut transaction, event).await?;
        let epoch = epoch::current(&mut *transaction, event).await?;
        event_change::owe(self.store.pool(), event).await?;
        let had = event_change::set_capacity(&mut *transaction, event, area, capacity).await?;
        let had = had.ok_or(OrganiserError::AreaUnknown)?;
        if capacity < had {
            let answer = self.inventory.shrink_area(&facts, area, capacity).await?;
            if Some(answer.position.epoch) != epoch {
                // Redis was lost in between: nothing is written.
                return Err(InventoryError::Unavailable("the event was rebuilt meanwhile".into()).into());
            }
            let taken = answer.outcome;
            if taken > capacity {
                return Err(OrganiserError::PlacesTaken { taken, remaining: had.saturating_sub(taken) });
            }
        }
        let written = area_stock::set_capacity(&mut *transaction, event, area, capacity).await;
        written.map_err(|error| match constraint::broken(&error) {
            // The shelf did not hear of all that is sold yet: a late success.
            Some(Constraint::AreaFull) => InventoryError::Unavailable("the shelf is behind".into()).into(),
            _ => OrganiserError::from(error),
        })?;
        let detail = serde_json::json!({"area": area, "from": had, "to": capacity});
        self.commit(transaction, by, "area.capacity", event, detail).await
    }
}
