//! Seats taken out of the sale and put back. Only what is available can be blocked: what somebody holds or has bought is
//! named and left alone.

use super::tell::SEATS_PER_CALL;
use super::{Operator, Organiser, OrganiserError};
use crate::catalogue::EventFacts;
use crate::inventory::InventoryError;
use crate::store::{StoreError, epoch, event_change};
use roaring::RoaringBitmap;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::{SeatIndex, SeatState};
use std::collections::HashSet;
use std::sync::Arc;

/// Most seats of one change: a stand of a stadium.
const MAX_SEATS: usize = 10_000;

/// What became of the seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Blocked (or no longer blocked) now, whether this change did it or an earlier one.
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
            organiser.inventory.open(&facts).await?;
            let answer = organiser.block_at(&by, &facts, seats).await;
            if answer.is_err()
                && let Err(error) = organiser.tell(event).await
            {
                tracing::warn!(%event, %error, "what Redis has blocked is taken back later");
            }
            let blocked = answer?;
            organiser.tell_now(event).await?;
            Ok(blocked)
        })
        .await
    }

    /// Redis first, then Postgres. That it must be told stands in Postgres before: whatever ends this half way, the job
    /// takes back what only Redis has blocked.
    async fn block_at(
        &self,
        by: &Operator,
        facts: &Arc<EventFacts>,
        seats: Vec<SeatIndex>,
    ) -> Result<Blocked, OrganiserError> {
        let event = facts.id;
        let (mut transaction, locked) = self.begin(event).await?;
        epoch::lock_shared(&mut transaction, event).await?;
        let epoch = epoch::current(&mut *transaction, event).await?;
        // With the row held, so that nobody tells in between; by a connection of its own, so that it stands at once.
        event_change::owe(self.store.pool(), event).await?;
        let mut refused = Vec::new();
        for some in seats.chunks(SEATS_PER_CALL) {
            let answer = self.inventory.block(facts, some).await?;
            if Some(answer.position.epoch) != epoch {
                // Redis was lost in between: nothing is written.
                return Err(InventoryError::Unavailable("the event was rebuilt meanwhile".into()).into());
            }
            refused.extend(answer.outcome);
        }
        let left_alone: HashSet<SeatIndex> = refused.iter().map(|(seat, _)| *seat).collect();
        let done: Vec<SeatIndex> = seats.into_iter().filter(|seat| !left_alone.contains(seat)).collect();
        let mut blocked = bitmap(&locked.blocked)?;
        blocked.extend(done.iter().map(|seat| seat.0));
        event_change::set_blocked(&mut *transaction, event, &bytes(&blocked)).await?;
        let detail = serde_json::json!({"blocked": ranges(&done), "refused": refused.len()});
        self.commit(transaction, by, "seats.block", event, detail).await?;
        Ok(Blocked { done, refused })
    }

    /// Puts seats back on sale; those that are not blocked stay as they are, and are named where they are not available.
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
            let before = bitmap(&locked.blocked)?;
            let mut blocked = before.clone();
            for seat in &seats {
                blocked.remove(seat.0);
            }
            event_change::set_blocked(&mut *transaction, event, &bytes(&blocked)).await?;
            let (freed, others): (Vec<SeatIndex>, Vec<SeatIndex>) =
                seats.into_iter().partition(|seat| before.contains(seat.0));
            let detail = serde_json::json!({"unblocked": ranges(&freed)});
            organiser.commit(transaction, &by, "seats.unblock", event, detail).await?;
            let facts = organiser.tell_now(event).await?;
            Ok(organiser.unblocked(&facts, freed, others).await)
        })
        .await
    }

    /// What became of seats that were to be unblocked: those that were not blocked are named by what they are, if Redis can
    /// say so now, unless they are available; of the others only those that an allocation keeps.
    async fn unblocked(&self, facts: &Arc<EventFacts>, mut done: Vec<SeatIndex>, others: Vec<SeatIndex>) -> Blocked {
        let mut refused = Vec::new();
        let states = self.inventory.read_map(facts).await.map(|map| map.states).unwrap_or_default();
        for seat in others {
            match states.get(seat.position()).and_then(|state| SeatState::from_u8(*state)) {
                None | Some(SeatState::Available) => done.push(seat),
                Some(state) => refused.push((seat, state)),
            }
        }
        let is_kept =
            |seat: &SeatIndex| facts.allocations.iter().any(|kept| !kept.is_closed && kept.seats.contains(seat.0));
        let (kept, mut done): (Vec<SeatIndex>, Vec<SeatIndex>) = done.into_iter().partition(is_kept);
        refused.extend(kept.into_iter().map(|seat| (seat, SeatState::Blocked)));
        refused.sort_unstable_by_key(|(seat, _)| *seat);
        done.sort_unstable();
        Blocked { done, refused }
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
