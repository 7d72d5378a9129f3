//! The sweeper's step: ends holds whose time has come and names those that will end soon. Any node may call it at any
//! time; the scripts expire what they touch by themselves, so a late sweep delays the map, never a buyer.

use super::answer;
use super::call::{Head, call};
use super::script::Verb;
use super::{HoldRecord, Inner, InventoryError, Swept};
use crate::catalogue::EventFacts;
use seatwire_proto::id::IdentityId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Holds ended in one script call: about a millisecond of Redis.
const MAX_ENDED_PER_CALL: u32 = 64;
/// Calls in one sweep; what is left waits for the next.
const MAX_CALLS_PER_SWEEP: usize = 64;

pub(super) async fn sweep(inner: &Arc<Inner>, event: &Arc<EventFacts>) -> Result<Swept, InventoryError> {
    let head = Head::without_key(event, IdentityId::from_uuid(Uuid::nil()));
    let mut swept = Swept::default();
    let some = |bytes: &[u8]| -> Result<Vec<HoldRecord>, InventoryError> {
        Ok(answer::holds(bytes)?.into_iter().filter_map(|(_, hold)| hold).collect())
    };
    for _ in 0..MAX_CALLS_PER_SWEEP {
        let (_, reply) = call(inner, Verb::Expire, &head, &MAX_ENDED_PER_CALL.to_le_bytes()).await?;
        swept.open_holds = reply.int(1) as u32;
        swept.expired.extend(some(reply.bytes(2))?);
        swept.expiring.extend(some(reply.bytes(3))?);
        swept.expiring.extend(some(reply.bytes(4))?);
        if reply.int(0) == 1 {
            break;
        }
    }
    inner.lives.of(event).may_have_holds.store(swept.open_holds > 0, Ordering::Relaxed);
    Ok(swept)
}
