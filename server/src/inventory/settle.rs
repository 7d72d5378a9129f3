//! What the till decided, told to the shelf through the outbox: seats of a paid order are sold, seats of a cancelled or
//! refunded one are free. Absolute and idempotent: the relay may say it twice, late, or across a rebuild.

use super::answer;
use super::call::{Head, ask};
use super::script::Verb;
use super::{Answer, ChangeOutcome, Inner, Inventory, InventoryError, Place, SellOutcome};
use crate::catalogue::EventFacts;
use seatwire_proto::id::{IdentityId, OrderId};
use std::sync::Arc;

/// Most places of one order line up in one call.
const MAX_PLACES: usize = 1_000;

impl Inventory {
    /// A paid order's places are sold. Call it after the commit, as often as you like. `places`: everything in the order.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn sell(
        &self,
        event: &Arc<EventFacts>,
        order: OrderId,
        identity: IdentityId,
        places: &[(Place, u32)],
    ) -> Result<Answer<SellOutcome>, InventoryError> {
        sell(&self.0, event, order, identity, places).await
    }

    /// Places of a cancelled or refunded order are free again. Call it after the commit, as often as you like. `places`:
    /// everything of this order that is free now, what an earlier call named included.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn free(
        &self,
        event: &Arc<EventFacts>,
        order: OrderId,
        identity: IdentityId,
        places: &[(Place, u32)],
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        free(&self.0, event, order, identity, places).await
    }
}

fn body(order: OrderId, places: &[(Place, u32)]) -> Result<Vec<u8>, InventoryError> {
    if places.len() > MAX_PLACES {
        return Err(InventoryError::Malformed(format!("an order of {} lines", places.len())));
    }
    let mut body = order.uuid().as_bytes().to_vec();
    let seats: Vec<u32> = places
        .iter()
        .filter_map(|(place, _)| match place {
            Place::Seat(seat) => Some(seat.0),
            Place::Area(_) => None,
        })
        .collect();
    body.extend((seats.len() as u16).to_le_bytes());
    body.extend(seats.iter().flat_map(|seat| seat.to_le_bytes()));
    let mut areas: Vec<(u32, u32)> = Vec::new();
    for &(place, quantity) in places {
        if let Place::Area(area) = place {
            match areas.iter_mut().find(|(known, _)| *known == area.0) {
                Some((_, sum)) => *sum += quantity,
                None => areas.push((area.0, quantity)),
            }
        }
    }
    for (area, quantity) in areas {
        body.extend(area.to_le_bytes());
        body.extend(quantity.to_le_bytes());
    }
    Ok(body)
}

async fn sell(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    order: OrderId,
    identity: IdentityId,
    places: &[(Place, u32)],
) -> Result<Answer<SellOutcome>, InventoryError> {
    let head = Head::without_key(event, identity);
    ask(inner, Verb::Sell, &head, &body(order, places)?, |outcome, reply| match outcome {
        Ok(success) => Ok(SellOutcome { hold: success.hold, revoked: answer::revoked(reply.bytes(2))? }),
        Err(refusal) => Err(InventoryError::Malformed(format!("sell was refused: {refusal:?}"))),
    })
    .await
}

async fn free(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    order: OrderId,
    identity: IdentityId,
    places: &[(Place, u32)],
) -> Result<Answer<ChangeOutcome>, InventoryError> {
    let head = Head::without_key(event, identity);
    ask(inner, Verb::Free, &head, &body(order, places)?, |outcome, _| match outcome {
        Ok(success) => Ok(ChangeOutcome::Done(success.hold)),
        Err(refusal) => Err(InventoryError::Malformed(format!("free was refused: {refusal:?}"))),
    })
    .await
}
