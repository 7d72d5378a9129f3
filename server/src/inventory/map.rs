//! The map as Redis has it: the whole of it with its position, and the changes behind a position.

use super::call::{Head, call};
use super::feed_message::FeedMessage;
use super::key::Life;
use super::record::public_state;
use super::script::{Verb, failure};
use super::{Inner, Inventory, InventoryError, MapState, organise};
use crate::catalogue::EventFacts;
use fred::bytes::Bytes;
use fred::interfaces::StreamsInterface;
use fred::types::Value;
use seatwire_proto::id::IdentityId;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Changes read at once; a node farther behind takes the whole map.
const MAX_CHANGES_READ: u64 = 4_096;

impl Inventory {
    /// The whole map; opens or rebuilds the event when that is needed.
    ///
    /// # Errors
    /// When Redis does not answer, or Postgres does not while the event must be rebuilt.
    pub async fn read_map(&self, event: &Arc<EventFacts>) -> Result<MapState, InventoryError> {
        read_map(&self.0, event).await
    }

    /// The life of the event as this node knows it; `None` when it is not open here.
    #[must_use]
    pub fn epoch(&self, event: &Arc<EventFacts>) -> Option<u32> {
        let life = self.0.lives.of(event);
        life.current(self.0.scripts.generation(event.id)).map(|now| now.epoch)
    }

    /// What came behind a position, without a hole; `None` when some of it is gone: take the whole map.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn changes_since(
        &self,
        event: &Arc<EventFacts>,
        epoch: u32,
        seq: u64,
    ) -> Result<Option<Vec<FeedMessage>>, InventoryError> {
        changes_since(&self.0, event, epoch, seq).await
    }
}

pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

async fn read_map(inner: &Arc<Inner>, event: &Arc<EventFacts>) -> Result<MapState, InventoryError> {
    let head = Head::without_key(event, IdentityId::from_uuid(Uuid::nil()));
    let (mut epoch, mut reply) = call(inner, Verb::ReadMap, &head, &[]).await?;
    let (seat_count, area_count) = (event.seat_count() as usize, event.area_count() as usize);
    if reply.bytes(0).len() < seat_count * 4 || reply.bytes(1).len() < area_count * 4 {
        // The plan grew and the shelf was not told yet.
        organise::configure(inner, event, &[]).await?;
        (epoch, reply) = call(inner, Verb::ReadMap, &head, &[]).await?;
    }
    // Seats beyond the plan as the caller knows it wait until it knows more.
    let states: Vec<u8> = words(reply.bytes(0)).take(seat_count).map(|owner| public_state(owner) as u8).collect();
    // Below nothing after a late success.
    let left = |left: u32| left.cast_signed().max(0).cast_unsigned();
    let areas: Vec<u32> = words(reply.bytes(1)).take(area_count).map(left).collect();
    if states.len() != seat_count || areas.len() != area_count {
        return Err(InventoryError::Malformed(format!("a map of {} seats and {} areas", states.len(), areas.len())));
    }
    Ok(MapState { epoch, seq: reply.seq, server_ms: reply.event_ms, states, areas })
}

/// What came behind `seq` in this epoch, without a hole; `None` when some of it is gone.
async fn changes_since(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    epoch: u32,
    seq: u64,
) -> Result<Option<Vec<FeedMessage>>, InventoryError> {
    let life = inner.lives.of(event);
    if life.current(inner.scripts.generation(event.id)).is_none_or(|now| now.epoch != epoch) {
        return Ok(None);
    }
    let key = Life { event: event.id, epoch }.key("c");
    let master = inner.scripts.of(event.id)?;
    let entries: Vec<(String, HashMap<Bytes, Value>)> = master
        .client()?
        .xrange_values(key, format!("{}-0", seq + 1), "+", Some(MAX_CHANGES_READ))
        .await
        .map_err(|error| failure(&error))?;
    let mut next = seq + 1;
    let mut changes = Vec::with_capacity(entries.len());
    for (_, fields) in entries {
        // Entries without a change of the map are for the journal.
        let Some(bytes) = fields.get(&b"f"[..]).and_then(Value::as_bytes) else { continue };
        let change = FeedMessage::decode(bytes).map_err(|error| InventoryError::Malformed(error.to_string()))?;
        if change.epoch != epoch || change.seq != next {
            return Ok(None);
        }
        next += 1;
        changes.push(change);
    }
    Ok(Some(changes))
}
