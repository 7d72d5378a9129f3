//! Seats kept for those who have a code: kept in Redis as the catalogue says, and opened for one identity at a time.
//! `command::unlock` and `job::keep_allocations` come in here.

use super::call::{Head, ask};
use super::record::Reader;
use super::script::Verb;
use super::{Answer, Caller, Inner, Inventory, InventoryError, Refusal};
use crate::catalogue::{AllocationFacts, EventFacts};
use seatwire_proto::id::IdentityId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Most seats of one call: a millisecond or two of Redis.
const MAX_SEATS: usize = 1_000;
/// Kinds below this one are open and blocked seats.
pub(super) const FIRST_KIND: u8 = 2;

/// What came of `unlock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnlockOutcome {
    /// The allocation with this slot is open for the caller.
    Unlocked {
        /// Its bit.
        slot: u8,
    },
    /// `CodeInvalid` or `KeyReused`.
    Refused(Refusal),
}

impl Inventory {
    /// Opens an allocation for the caller; `None`: the code opened nothing, which is remembered under the key.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn unlock_allocation(
        &self,
        caller: &Caller,
        allocation: Option<&AllocationFacts>,
    ) -> Result<Answer<UnlockOutcome>, InventoryError> {
        unlock(&self.0, caller, allocation).await
    }

    /// Brings Redis to what the facts say of allocations. As often as you like.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn keep_allocations(&self, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
        keep(&self.0, event).await
    }
}

async fn unlock(
    inner: &Arc<Inner>,
    caller: &Caller,
    allocation: Option<&AllocationFacts>,
) -> Result<Answer<UnlockOutcome>, InventoryError> {
    let bit = allocation.map_or(0, |allocation| 1_u32 << allocation.slot);
    ask(inner, Verb::Grant, &Head::of(caller), &bit.to_le_bytes(), |outcome, _| match outcome {
        Ok(success) => {
            let granted = Reader(success.extra).u32()?;
            Ok(UnlockOutcome::Unlocked { slot: granted.trailing_zeros() as u8 })
        }
        Err(refusal) => Ok(UnlockOutcome::Refused(refusal)),
    })
    .await
}

/// Brings Redis to what the facts say of allocations; does nothing while it has seen these facts in this life.
async fn keep(inner: &Arc<Inner>, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
    let life = inner.lives.of(event);
    let epoch = life.current(inner.scripts.generation(event.id)).map_or(0, |now| now.epoch);
    if event.allocations.is_empty() || life.kept.load(Ordering::Relaxed) == kept(event, epoch) {
        return Ok(());
    }
    for allocation in &event.allocations {
        let seats: Vec<u32> = allocation.seats.iter().collect();
        for seats in seats.chunks(MAX_SEATS) {
            let mut body = vec![FIRST_KIND + allocation.slot, u8::from(!allocation.is_closed)];
            body.extend(seats.iter().flat_map(|seat| seat.to_le_bytes()));
            let head = Head::without_key(event, IdentityId::from_uuid(Uuid::nil()));
            ask(inner, Verb::Allocate, &head, &body, |_, _| Ok(())).await?;
        }
    }
    let epoch = life.current(inner.scripts.generation(event.id)).map_or(0, |now| now.epoch);
    life.kept.store(kept(event, epoch), Ordering::Relaxed);
    Ok(())
}

/// One number for what has been brought where.
const fn kept(event: &EventFacts, epoch: u32) -> u64 {
    event.revision << 32 | epoch as u64
}
