//! The organiser's side of the shelf: states and limits, seats blocked and appended, holds ended with their event, and
//! what is left. All of it absolute, so that saying it twice is saying it once.

use super::answer;
use super::call::{Head, ask, call};
use super::map::words;
use super::record::Reader;
use super::script::Verb;
use super::{Answer, HoldRecord, Inner, Inventory, InventoryError};
use crate::catalogue::EventFacts;
use seatwire_proto::client::Position;
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use std::sync::Arc;
use uuid::Uuid;

/// Most seats of one call: below a millisecond of Redis.
const MAX_SEATS: usize = 500;

/// What is left of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stock {
    /// Seats on the map as available.
    pub available: u32,
    /// Holds that are open or being paid.
    pub open_holds: u32,
    /// Places left in each area.
    pub areas: Vec<u32>,
    /// Seats and places kept for the waitlist.
    pub kept: u32,
}

impl Stock {
    /// Whether nobody but the waitlist can get anything any more, unless an order is given back.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        !self.has_some() && self.open_holds == 0
    }

    /// Whether there is anything for everyone.
    #[must_use]
    pub fn has_some(&self) -> bool {
        self.available > 0 || self.areas.iter().any(|&left| left > 0)
    }
}

impl Inventory {
    /// Tells the shelf of the event's newest state, limits, seats and areas, and how many places these have. Only for whoever
    /// keeps the event's row: what is half way would be taken back.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn configure(&self, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
        let capacities: Vec<u32> = event.areas.iter().map(|area| area.capacity).collect();
        configure(&self.0, event, &capacities).await
    }

    /// Opens the event if it is not open, with all seats of its plan.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn open(&self, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
        configure(&self.0, event, &[]).await
    }

    /// Takes places nobody has away from an area, until it has `capacity`. The outcome: how many somebody has; when that is
    /// more, nothing was changed.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn shrink_area(
        &self,
        event: &Arc<EventFacts>,
        area: AreaIndex,
        capacity: u32,
    ) -> Result<Answer<u32>, InventoryError> {
        let mut body = area.0.to_le_bytes().to_vec();
        body.extend(capacity.to_le_bytes());
        let head = Head::without_key(event, nobody());
        ask(&self.0, Verb::Resize, &head, &body, |outcome, _| match outcome {
            Ok(success) => Reader(success.extra).u32(),
            Err(refusal) => Err(InventoryError::Malformed(format!("resize was refused: {refusal:?}"))),
        })
        .await
    }

    /// Takes seats out of the sale, at most 500; names those left alone and what they are.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn block(
        &self,
        event: &Arc<EventFacts>,
        seats: &[SeatIndex],
    ) -> Result<Answer<Vec<(SeatIndex, SeatState)>>, InventoryError> {
        block(&self.0, event, seats, true).await
    }

    /// Puts blocked seats back on sale, at most 500.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn unblock(&self, event: &Arc<EventFacts>, seats: &[SeatIndex]) -> Result<(), InventoryError> {
        block(&self.0, event, seats, false).await.map(drop)
    }

    /// Ends open holds of a cancelled event, from the identity with number `from` on; also where to go on.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn end_holds(
        &self,
        event: &Arc<EventFacts>,
        from: u32,
        most: u32,
    ) -> Result<(Vec<HoldRecord>, Option<u32>), InventoryError> {
        end_holds(&self.0, event, from, most).await
    }

    /// Where the event's map stands.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn position(&self, event: &Arc<EventFacts>) -> Result<Position, InventoryError> {
        let (epoch, reply) = call(&self.0, Verb::Stock, &Head::without_key(event, nobody()), &[]).await?;
        Ok(Position { epoch, seq: reply.seq })
    }

    /// What is left of an event.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn stock(&self, event: &Arc<EventFacts>) -> Result<Stock, InventoryError> {
        stock(&self.0, event).await
    }
}

pub(super) fn nobody() -> IdentityId {
    IdentityId::from_uuid(Uuid::nil())
}

pub(super) async fn configure(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    capacities: &[u32],
) -> Result<(), InventoryError> {
    let mut body = event.seat_count().to_le_bytes().to_vec();
    body.extend(event.area_count().to_le_bytes());
    body.extend(capacities.iter().flat_map(|places| places.to_le_bytes()));
    let head = Head::without_key(event, nobody());
    // Some seats a call; each call that is not the last adds some.
    loop {
        let there = ask(inner, Verb::Configure, &head, &body, |outcome, _| match outcome {
            Ok(success) => Reader(success.extra).u32(),
            Err(refusal) => Err(InventoryError::Malformed(format!("configure was refused: {refusal:?}"))),
        });
        if there.await?.outcome >= event.seat_count() {
            return Ok(());
        }
    }
}

async fn block(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    seats: &[SeatIndex],
    blocks: bool,
) -> Result<Answer<Vec<(SeatIndex, SeatState)>>, InventoryError> {
    if seats.len() > MAX_SEATS {
        return Err(InventoryError::Malformed(format!("a block of {} seats", seats.len())));
    }
    let mut body = vec![u8::from(blocks)];
    body.extend(seats.iter().flat_map(|seat| seat.0.to_le_bytes()));
    let head = Head::without_key(event, nobody());
    ask(inner, Verb::Block, &head, &body, |outcome, _| match outcome {
        Ok(success) => words(success.extra)
            .map(|word| {
                let state = SeatState::from_u8((word & 3) as u8);
                state.map(|state| (SeatIndex(word >> 2), state))
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| InventoryError::Malformed("a state that is none".into())),
        Err(refusal) => Err(InventoryError::Malformed(format!("block was refused: {refusal:?}"))),
    })
    .await
}

async fn end_holds(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    from: u32,
    most: u32,
) -> Result<(Vec<HoldRecord>, Option<u32>), InventoryError> {
    let mut body = from.to_le_bytes().to_vec();
    body.extend(most.to_le_bytes());
    let (_, reply) = call(inner, Verb::EndHolds, &Head::without_key(event, nobody()), &body).await?;
    let ended = answer::holds(reply.bytes(2))?.into_iter().filter_map(|(_, hold)| hold).collect();
    let next = u32::try_from(reply.int(3)).ok().filter(|&next| next > 0);
    Ok((ended, next))
}

async fn stock(inner: &Arc<Inner>, event: &Arc<EventFacts>) -> Result<Stock, InventoryError> {
    let (_, reply) = call(inner, Verb::Stock, &Head::without_key(event, nobody()), &[]).await?;
    let kept_places: u32 = words(reply.bytes(4)).sum();
    Ok(Stock {
        available: reply.int(0) as u32,
        open_holds: reply.int(1) as u32,
        // Below nothing after a late success.
        areas: words(reply.bytes(2)).map(|left| left.cast_signed().max(0).cast_unsigned()).collect(),
        kept: reply.int(3) as u32 + kept_places,
    })
}
