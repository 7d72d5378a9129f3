//! The waitlist's side of the shelf: what becomes free is kept aside while somebody waits, and becomes a hold of one of
//! them in one step, so that an offer is never live for two.

use super::call::{Head, ask, call};
use super::key::compose_hold_id;
use super::map::words;
use super::organise::nobody;
use super::record::{Reader, encode_group};
use super::script::Verb;
use super::{HoldRecord, Inner, Inventory, InventoryError, Refusal};
use crate::catalogue::EventFacts;
use seatwire_proto::client::MAX_SEATS_PER_COMMAND;
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::PriceTier;
use std::sync::Arc;

/// Most kept seats of one call.
const MAX_SEATS: usize = 500;

/// What is kept for those who wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Seats, longest kept first, at most 500, and since when by the event's clock.
    pub seats: Vec<(SeatIndex, u64)>,
    /// Places, by area index.
    pub places: Vec<u32>,
}

/// What somebody is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewOffer {
    /// How long it stands.
    pub life_ms: u32,
    /// Kept seats.
    pub seats: Vec<SeatIndex>,
    /// Kept places.
    pub areas: Vec<(AreaIndex, u32)>,
}

/// What came of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferOutcome {
    /// It stands.
    Offered(HoldRecord),
    /// The identity has this hold: an offer made before, or a basket of its own, or one that just ended.
    InTheWay(HoldRecord),
    /// Not now.
    Refused(Refusal),
}

impl Inventory {
    /// Whether what becomes free is kept for the waitlist from now on. Ending it puts kept seats on the map, and says
    /// whether more are left: then ask again.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn keep_for_waitlist(&self, event: &Arc<EventFacts>, keeps: bool) -> Result<bool, InventoryError> {
        keep(&self.0, event, keeps).await
    }

    /// Puts these kept seats, at most 500, and all kept places of these areas on the map: nobody who waits can use them.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn give_up_kept(
        &self,
        event: &Arc<EventFacts>,
        seats: &[SeatIndex],
        areas: &[AreaIndex],
    ) -> Result<(), InventoryError> {
        give_up(&self.0, event, seats, areas).await
    }

    /// What is kept for the waitlist.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn kept(&self, event: &Arc<EventFacts>) -> Result<Kept, InventoryError> {
        kept(&self.0, event).await
    }

    /// Makes kept seats and places a hold of somebody who waited.
    ///
    /// # Errors
    /// When Redis does not answer; asked again it answers with the offer that was made.
    pub async fn offer(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        offer: &NewOffer,
    ) -> Result<OfferOutcome, InventoryError> {
        make(&self.0, event, identity, offer).await
    }
}

async fn keep(inner: &Arc<Inner>, event: &Arc<EventFacts>, keeps: bool) -> Result<bool, InventoryError> {
    let left = change(inner, event, &[u8::from(keeps)]).await?;
    Ok(!keeps && left > 0)
}

async fn give_up(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    seats: &[SeatIndex],
    areas: &[AreaIndex],
) -> Result<(), InventoryError> {
    if seats.len() > MAX_SEATS {
        return Err(InventoryError::Malformed(format!("{} kept seats given up", seats.len())));
    }
    if !seats.is_empty() {
        let mut body = vec![2];
        body.extend(seats.iter().flat_map(|seat| seat.0.to_le_bytes()));
        change(inner, event, &body).await?;
    }
    if !areas.is_empty() {
        let mut body = vec![3];
        body.extend(areas.iter().flat_map(|area| area.0.to_le_bytes()));
        change(inner, event, &body).await?;
    }
    Ok(())
}

async fn change(inner: &Arc<Inner>, event: &Arc<EventFacts>, body: &[u8]) -> Result<u32, InventoryError> {
    let head = Head::without_key(event, nobody());
    let answer = ask(inner, Verb::Keep, &head, body, |outcome, _| match outcome {
        Ok(success) => Reader(success.extra).u32(),
        Err(refusal) => Err(InventoryError::Malformed(format!("keep was refused: {refusal:?}"))),
    })
    .await?;
    Ok(answer.outcome)
}

async fn kept(inner: &Arc<Inner>, event: &Arc<EventFacts>) -> Result<Kept, InventoryError> {
    let (_, reply) = call(inner, Verb::Kept, &Head::without_key(event, nobody()), &[]).await?;
    let mut reader = Reader(reply.bytes(0));
    let mut seats = Vec::new();
    while !reader.0.is_empty() {
        seats.push((SeatIndex(reader.u32()?), reader.uint(8)?));
    }
    let mut places: Vec<u32> = words(reply.bytes(1)).collect();
    places.resize(event.areas.len(), 0);
    Ok(Kept { seats, places })
}

async fn make(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    identity: IdentityId,
    offer: &NewOffer,
) -> Result<OfferOutcome, InventoryError> {
    let body = body(event, offer).ok_or_else(|| InventoryError::Malformed("an offer that cannot be".into()))?;
    let new_hold = compose_hold_id(inner.scripts.now_ms(), event.number, rand::random());
    let head = Head { new_hold: Some(new_hold), ..Head::without_key(event, identity) };
    let answer = ask(inner, Verb::Offer, &head, &body, |outcome, reply| match outcome {
        Ok(success) => {
            let hold = success.hold.ok_or_else(|| InventoryError::Malformed("offered without a hold".into()))?;
            // The answer begins with its code: 1 is a hold just made.
            let is_new = reply.bytes(0).first() == Some(&1);
            Ok(if is_new { OfferOutcome::Offered(hold) } else { OfferOutcome::InTheWay(hold) })
        }
        Err(refusal) => Ok(OfferOutcome::Refused(refusal)),
    })
    .await?;
    Ok(answer.outcome)
}

fn body(event: &EventFacts, offer: &NewOffer) -> Option<Vec<u8>> {
    let places_n = offer.seats.len() + offer.areas.len();
    if places_n == 0 || places_n > MAX_SEATS_PER_COMMAND {
        return None;
    }
    let mut groups: Vec<(u8, &PriceTier)> = Vec::new();
    let mut group_of = |(tier, price)| {
        groups.iter().position(|(known, _)| *known == tier).unwrap_or_else(|| {
            groups.push((tier, price));
            groups.len() - 1
        }) as u8
    };
    let mut lines = Vec::with_capacity(places_n * 9);
    for &seat in &offer.seats {
        lines.extend(seat.0.to_le_bytes());
        lines.push(group_of(event.seat_tier(seat)?));
    }
    for &(area, quantity) in &offer.areas {
        lines.extend(area.0.to_le_bytes());
        lines.push(group_of(event.area_tier(area)?));
        lines.extend(quantity.to_le_bytes());
    }
    let mut body = offer.life_ms.to_le_bytes().to_vec();
    body.push(groups.len() as u8);
    body.extend((offer.seats.len() as u16).to_le_bytes());
    body.push(offer.areas.len() as u8);
    for (tier, price) in groups {
        encode_group(&mut body, tier, price.price_minor, price.fee_minor);
    }
    body.extend(lines);
    Some(body)
}
