//! Seats taken out of the sale and put back. Only what is available can be blocked: what somebody holds or has bought is
//! named and left alone.

use super::tell::SEATS_PER_CALL;
use super::{Operator, Organiser, OrganiserError};
use crate::inventory::InventoryError;
use crate::store::{StoreError, epoch, event_change};
use roaring::RoaringBitmap;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::{SeatIndex, SeatState};

/// Most seats of one change: a stand of a stadium.
const MAX_SEATS: usize = 10_000;

/// What became of the seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Blocked (or not blocked) now, whether this change did it or an earlier one.
    pub done: Vec<SeatIndex>,
    /// Left alone, and what they are.
    pub refused: Vec<(SeatIndex, SeatState)>,
}

impl Organiser {
    /// Takes seats out of the sale.
    ///
    /// # Errors
    /// `Refused` for seats the event does not have; `Inventory` when Redis does not answer: then say it again, seats that
    /// were blocked already stay so.
    pub async fn block(&self, by: Operator, event: EventId, seats: Vec<SeatIndex>) -> Result<Blocked, OrganiserError> {
        let organiser = self.clone();
        Self::whole(async move {
            let facts = organiser.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
            check(&seats, facts.seat_count())?;
            // Open it now: a rebuild would wait for the lock that is taken below.
            organiser.inventory.configure(&facts).await?;
            let (mut transaction, locked) = organiser.begin(event).await?;
            epoch::lock_shared(&mut transaction, event).await?;
            let epoch = epoch::current(&mut *transaction, event).await?;
            let mut refused = Vec::new();
            for some in seats.chunks(SEATS_PER_CALL) {
                let answer = organiser.inventory.block(&facts, some).await?;
                if Some(answer.position.epoch) != epoch {
                    // Redis was lost in between: nothing is written, and the new life knows nothing of these blocks.
                    return Err(InventoryError::Unavailable("the event was rebuilt meanwhile".into()).into());
                }
                refused.extend(answer.outcome);
            }
            let done: Vec<SeatIndex> =
                seats.into_iter().filter(|seat| refused.iter().all(|(other, _)| other != seat)).collect();
            let mut blocked = bitmap(&locked.blocked)?;
            blocked.extend(done.iter().map(|seat| seat.0));
            event_change::set_blocked(&mut *transaction, event, &bytes(&blocked)).await?;
            let detail = serde_json::json!({"blocked": ranges(&done), "refused": refused.len()});
            organiser.commit(transaction, &by, "seats.block", event, detail).await?;
            organiser.tell_now(event).await?;
            Ok(Blocked { done, refused })
        })
        .await
    }

    /// Puts seats back on sale; those that are not blocked stay as they are.
    ///
    /// # Errors
    /// `Refused` for seats the event does not have. Once it is written it will be told, also when Redis is away now.
    pub async fn unblock(
        &self,
        by: Operator,
        event: EventId,
        seats: Vec<SeatIndex>,
    ) -> Result<Blocked, OrganiserError> {
        let organiser = self.clone();
        Self::whole(async move {
            let (mut transaction, locked) = organiser.begin(event).await?;
            check(&seats, locked.seat_tiers.len() as u32)?;
            let mut blocked = bitmap(&locked.blocked)?;
            for seat in &seats {
                blocked.remove(seat.0);
            }
            event_change::set_blocked(&mut *transaction, event, &bytes(&blocked)).await?;
            let detail = serde_json::json!({"unblocked": ranges(&seats)});
            organiser.commit(transaction, &by, "seats.unblock", event, detail).await?;
            organiser.tell_now(event).await?;
            Ok(Blocked { done: seats, refused: Vec::new() })
        })
        .await
    }
}

fn check(seats: &[SeatIndex], seat_count: u32) -> Result<(), OrganiserError> {
    if seats.is_empty() || seats.len() > MAX_SEATS {
        return Err(OrganiserError::refused("/seats", format!("expected 1 to {MAX_SEATS} seats")));
    }
    let mut seen = RoaringBitmap::new();
    for (at, seat) in seats.iter().enumerate() {
        if seat.0 >= seat_count {
            return Err(OrganiserError::refused(format!("/seats/{at}"), "no such seat"));
        }
        if !seen.insert(seat.0) {
            return Err(OrganiserError::refused(format!("/seats/{at}"), "named twice"));
        }
    }
    Ok(())
}

fn bitmap(stored: &[u8]) -> Result<RoaringBitmap, StoreError> {
    if stored.is_empty() {
        return Ok(RoaringBitmap::new());
    }
    RoaringBitmap::deserialize_from(stored).map_err(|_| StoreError::Malformed("blocked is not a set".into()))
}

fn bytes(set: &RoaringBitmap) -> Vec<u8> {
    let mut set = set.clone();
    set.optimize();
    let mut out = Vec::with_capacity(set.serialized_size());
    set.serialize_into(&mut out).expect("a Vec takes everything");
    out
}

/// Seats as runs, for the log: a stand is a few numbers.
fn ranges(seats: &[SeatIndex]) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    let mut sorted: Vec<u32> = seats.iter().map(|seat| seat.0).collect();
    sorted.sort_unstable();
    for seat in sorted {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == seat => *last = seat,
            _ => runs.push([seat, seat]),
        }
    }
    runs
}
