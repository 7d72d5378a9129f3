//! An event as Redis has it, read with plain commands that open and rebuild nothing. `audit` compares it.

use super::beside::{self, Beside};
use crate::catalogue::EventFacts;
use crate::inventory::key::Life;
use crate::inventory::record::{IdentityRecord, Reader, SLOT_BYTES, StoredHold};
use crate::inventory::script::failure;
use crate::inventory::{HoldRecord, Inner, InventoryError};
use crate::store::audit::Ledger;
use fred::bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface, SortedSetsInterface};
use fred::types::{ClusterHash, CustomCommand, Value};
use seatwire_proto::id::IdentityId;
use std::collections::{HashMap, HashSet};

/// Records read at once.
const RECORDS_AT_ONCE: u32 = 500;

/// An event as Redis has it.
#[derive(Debug, Clone, Default)]
pub struct ShelfState {
    /// Whether the Redis that answers is the one the life was begun in.
    pub(super) is_same_redis: bool,
    /// `None`: this Redis does not have the life.
    pub(super) meta: Option<MetaState>,
    pub(super) owners: Vec<u32>,
    pub(super) areas: Vec<i32>,
    /// Places each area has.
    pub(super) capacities: Vec<u32>,
    /// Places of each area that are kept for the waitlist.
    pub(super) kept: Vec<i32>,
    /// Seats the waitlist knows as kept for it.
    pub(super) kept_seats: HashSet<u32>,
    pub(super) slots: Vec<Slot>,
    pub(super) holds: HashMap<IdentityId, HoldRecord>,
    pub(super) records: HashMap<IdentityId, (IdentityRecord, Vec<u8>)>,
    /// Why each seat is kept back; shorter than the seats, or empty, where none is.
    pub(super) kinds: Vec<u8>,
    pub(super) beside: Beside,
    pub(super) now_ms: u64,
}

/// The meta.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetaState {
    pub(super) state: u8,
    /// Whether what becomes free is kept for the waitlist.
    pub(super) keeps: bool,
    /// Rank of the newest facts it knows.
    pub(super) revision: u64,
    pub(super) limit: u32,
    pub(super) ttl_ms: u32,
    pub(super) seq: u64,
    /// Where the event's clock stood last; it never goes back.
    pub(super) high_ms: u64,
    /// The event's own clock less that of Redis.
    pub(super) skew: i64,
    pub(super) open: u32,
    /// The next number of an identity.
    pub(super) numbers: u32,
    pub(super) available: u32,
    /// The last list of holds that ended, and how far the next one is through.
    pub(super) swept: u64,
    pub(super) swept_at: u32,
    /// The last minute of identities that were forgotten.
    pub(super) forgotten: u64,
    /// The last lists of holds that were told of their end: a minute before, a moment before.
    pub(super) soon: [u64; 2],
}

impl MetaState {
    fn decode(bytes: &[u8]) -> Result<Self, InventoryError> {
        let mut reader = Reader(bytes);
        reader.bytes(1)?;
        let (state, flags) = (reader.uint(1)? as u8, reader.uint(1)?);
        reader.bytes(4)?;
        let (revision, limit, ttl_ms) = (reader.uint(8)?, reader.u32()?, reader.u32()?);
        let (seq, high_ms, skew) = (reader.uint(8)?, reader.uint(8)?, reader.uint(8)?.cast_signed());
        let (open, numbers, available) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (swept, swept_at) = (reader.uint(8)?, reader.u32()?);
        let mut cursor = || {
            let at = reader.uint(8)?;
            reader.u32().map(|_| at)
        };
        let (forgotten, soon) = (cursor()?, [cursor()?, cursor()?]);
        let keeps = flags & 2 != 0;
        Ok(Self {
            state,
            keeps,
            revision,
            limit,
            ttl_ms,
            seq,
            high_ms,
            skew,
            open,
            numbers,
            available,
            swept,
            swept_at,
            forgotten,
            soon,
        })
    }

    /// The event's clock at this moment of Redis'.
    pub(super) fn event_ms(&self, redis_ms: u64) -> u64 {
        (redis_ms.cast_signed() - self.skew).max(0).cast_unsigned().max(self.high_ms)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) identity: IdentityId,
    pub(super) ends_ms: u64,
    pub(super) status: u8,
}

pub(in crate::inventory) async fn read(
    inner: &Inner,
    event: &EventFacts,
    ledger: &Ledger,
) -> Result<ShelfState, InventoryError> {
    let Some((epoch, redis)) = &ledger.life else { return Ok(ShelfState::default()) };
    let master = inner.scripts.of(event.id)?;
    let client = master.client()?;
    let life = Life { event: event.id, epoch: *epoch };
    let mut state = ShelfState {
        is_same_redis: master.check().await?.0 == *redis,
        now_ms: master.now_ms(),
        ..ShelfState::default()
    };
    let bytes = async |name: &str| -> Result<Bytes, InventoryError> {
        let value: Option<Bytes> = client.get(life.key(name)).await.map_err(|error| failure(&error))?;
        Ok(value.unwrap_or_default())
    };
    let meta = bytes("m").await?;
    if meta.is_empty() {
        return Ok(state);
    }
    let meta = MetaState::decode(&meta)?;
    state.meta = Some(meta);
    let word = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    state.owners = bytes("s").await?.chunks_exact(4).map(word).collect();
    state.areas = bytes("a").await?.chunks_exact(4).map(|chunk| word(chunk).cast_signed()).collect();
    state.kinds = bytes("k").await?.to_vec();
    state.capacities = bytes("z").await?.chunks_exact(4).map(word).collect();
    state.kept = bytes("v").await?.chunks_exact(4).map(|chunk| word(chunk).cast_signed()).collect();
    let kept: Vec<String> =
        client.zrange(life.key("w"), 0, -1, None, false, None, false).await.map_err(|error| failure(&error))?;
    state.kept_seats = kept.iter().filter_map(|seat| seat.parse().ok()).collect();
    for slot in bytes("n").await?.chunks_exact(SLOT_BYTES) {
        let mut reader = Reader(slot);
        let (identity, ends_ms) = (IdentityId::from_uuid(reader.uuid()?), reader.uint(6)?);
        state.slots.push(Slot { identity, ends_ms, status: reader.uint(1)? as u8 });
    }
    let mut cursor = "0".to_owned();
    loop {
        let command = CustomCommand::new_static("HSCAN", ClusterHash::FirstKey, false);
        let args = vec![
            Value::from(life.key("p")),
            Value::from(cursor.as_str()),
            Value::from("COUNT"),
            Value::from(RECORDS_AT_ONCE.to_string()),
        ];
        let (next, found): (String, Vec<Bytes>) =
            client.custom(command, args).await.map_err(|error| failure(&error))?;
        for pair in found.chunks_exact(2) {
            let identity = IdentityId::from_uuid(Reader(&pair[0]).uuid()?);
            let record = IdentityRecord::decode(&pair[1])?;
            if let Some(hold) = StoredHold::decode(&record.hold)? {
                state.holds.insert(identity, hold.into_record(identity));
            } else {
                state.holds.remove(&identity);
            }
            state.records.insert(identity, (record, pair[1].to_vec()));
        }
        if next == "0" {
            break;
        }
        cursor = next;
    }
    state.beside = beside::read(client, life, &meta, state.now_ms, &state.records, &state.holds).await?;
    Ok(state)
}
