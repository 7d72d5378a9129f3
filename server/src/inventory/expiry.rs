//! The sweeper's step: ends holds whose time has come and names those that will end soon. Any node may call it at any
//! time; the scripts expire what they touch by themselves, so a late sweep delays the map, never a buyer.

use super::answer;
use super::call::{BELIEVE_CLOCK, CORRECT_CLOCK, Head, call};
use super::life::EventLife;
use super::script::Verb;
use super::{HoldRecord, Inner, Inventory, InventoryError, Swept};
use crate::catalogue::EventFacts;
use seatwire_proto::id::IdentityId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Holds ended in one script call: about a millisecond of Redis.
const MAX_ENDED_PER_CALL: u32 = 64;
/// Calls in one sweep; what is left waits for the next.
const MAX_CALLS_PER_SWEEP: usize = 64;
/// An event without open holds, as far as this node knows, is looked at as often as this: another node may have died
/// before it swept.
const IDLE_SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Redis' clock moved, rather than nobody swept, when it ran ahead of this node's stopwatch by more than this.
const CLOCK_MOVED_MS: i64 = 10_000;

impl Inventory {
    /// Ends holds of the event whose time has come.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn sweep(&self, event: &Arc<EventFacts>) -> Result<Swept, InventoryError> {
        sweep(&self.0, event).await
    }

    /// Events this node has touched, and whether they may have open holds, as of the last sweep.
    #[must_use]
    pub fn touched_events(&self) -> Vec<(Arc<EventFacts>, bool)> {
        let lives = self.0.lives.all();
        lives.iter().map(|life| (life.facts(), life.may_have_holds.load(Ordering::Relaxed))).collect()
    }

    /// Events this node has touched whose next sweep is due.
    #[must_use]
    pub fn events_to_sweep(&self) -> Vec<Arc<EventFacts>> {
        self.0.lives.all().iter().filter(|life| is_due(life)).map(|life| life.facts()).collect()
    }
}

/// Whether a sweep is due.
fn is_due(life: &EventLife) -> bool {
    let swept = *life.swept.lock();
    life.may_have_holds.load(Ordering::Relaxed) || swept.is_none_or(|swept| swept.elapsed() >= IDLE_SWEEP_INTERVAL)
}

async fn sweep(inner: &Arc<Inner>, event: &Arc<EventFacts>) -> Result<Swept, InventoryError> {
    let head = Head::without_key(event, IdentityId::from_uuid(Uuid::nil()));
    let mut swept = Swept::default();
    let some = |bytes: &[u8]| -> Result<Vec<HoldRecord>, InventoryError> {
        Ok(answer::holds(bytes)?.into_iter().filter_map(|(_, hold)| hold).collect())
    };
    let life = inner.lives.of(event);
    *life.swept.lock() = Some(Instant::now());
    let (mut flags, mut passed_ms) = (0, 0_u64);
    for _ in 0..MAX_CALLS_PER_SWEEP {
        let head = Head { flags, ..head.clone() };
        let mut body = MAX_ENDED_PER_CALL.to_le_bytes().to_vec();
        body.extend(passed_ms.to_le_bytes());
        let (_, reply) = call(inner, Verb::Expire, &head, &body).await?;
        swept.open_holds = reply.int(1) as u32;
        swept.expired.extend(some(reply.bytes(2))?);
        swept.expiring.extend(some(reply.bytes(3))?);
        swept.expiring.extend(some(reply.bytes(4))?);
        // A small step back is waited for; a large jump stands still until it is judged here.
        let jump_ms = reply.int(5);
        if jump_ms.abs() > CLOCK_MOVED_MS && flags == 0 {
            // The first call may have opened the event, and learned when it was swept last.
            let since_last_ms = life.swept_well.lock().map(|last| last.elapsed().as_millis() as i64);
            let moved = jump_ms < 0 || since_last_ms.is_some_and(|since| jump_ms - since > CLOCK_MOVED_MS);
            // Of a step back it is not known what else has passed: a moment, as nodes sweep.
            passed_ms = if jump_ms < 0 { 0 } else { since_last_ms.map_or(0, i64::cast_unsigned) };
            flags = if moved { CORRECT_CLOCK } else { BELIEVE_CLOCK };
            tracing::warn!(event = %event.id, jump_ms, moved, "a jump of Redis' clock; expiry stood still");
            continue;
        }
        // Only now: a jump that nobody has judged yet must be measured against the sweep before it, also by the next sweep.
        *life.swept_well.lock() = Some(Instant::now());
        flags = 0;
        if reply.int(0) == 1 {
            break;
        }
    }
    life.may_have_holds.store(swept.open_holds > 0, Ordering::Relaxed);
    Ok(swept)
}
