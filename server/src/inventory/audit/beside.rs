//! What a life keeps beside its places: lists of what ends and is forgotten, the stream of changes, what it knows of orders,
//! and older answers. `shelf` comes in with the records it found; only lists that these need are read.

use super::shelf::MetaState;
use crate::inventory::fill::BUCKET_MS;
use crate::inventory::key::Life;
use crate::inventory::record::{IdentityRecord, Reader};
use crate::inventory::script::failure;
use crate::inventory::{HoldRecord, InventoryError, Place};
use fred::bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::{ClientLike, HashesInterface, KeysInterface, StreamsInterface};
use fred::types::{ClusterHash, CustomCommand, Value};
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Lists read at once.
const LISTS_AT_ONCE: usize = 500;
/// Lists of the next moments, into which holds are put that could not be ended when they were due; more when a sweeper is late.
const MAX_LATE_LISTS: u64 = 4_000;
/// Width of a bucket of older answers (`ANSWER_BUCKET_MS` of the scripts), and how many of them an answer may lie in.
const ANSWER_BUCKET_MS: u64 = 300_000;
const ANSWER_BUCKETS: u64 = 4;

/// What this life knows of an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KnownOrder {
    /// 1 reserved before this life began, 2 sold, 3 freed.
    pub(super) state: u8,
    /// What was given back of it, by place.
    pub(super) freed: HashMap<Place, u32>,
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub(super) struct Beside {
    /// Numbers of identities by the list of holds that end then.
    pub(super) endings: HashMap<u64, Vec<u32>>,
    /// Identities by the minute they are looked at to be forgotten.
    pub(super) forgotten: HashMap<u64, HashSet<IdentityId>>,
    /// Seq of the first and of the last entry of the stream of changes, and how many there are.
    pub(super) stream: Option<(u64, u64, u64)>,
    pub(super) orders: HashMap<OrderId, KnownOrder>,
    /// Fingerprint and answer, by identity and key.
    pub(super) answers: HashMap<(IdentityId, Vec<u8>), Vec<u8>>,
}

pub(super) async fn read(
    client: &Client,
    life: Life,
    meta: &MetaState,
    now_ms: u64,
    records: &HashMap<IdentityId, (IdentityRecord, Vec<u8>)>,
    holds: &HashMap<IdentityId, HoldRecord>,
) -> Result<Beside, InventoryError> {
    let mut beside = Beside::default();
    let open = || holds.values().filter(|hold| hold.locked_by.is_none());
    let mut ticks: BTreeSet<u64> = open().map(|hold| hold.expires_ms.div_ceil(BUCKET_MS)).collect();
    if !ticks.is_empty() {
        let next = meta.event_ms(now_ms) / BUCKET_MS + 2;
        ticks.extend(meta.swept + 1..=next.min(meta.swept + MAX_LATE_LISTS));
    }
    let word = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    for (tick, bytes) in lists(client, life, "x", ticks).await? {
        beside.endings.insert(tick, bytes.chunks_exact(4).map(word).collect());
    }
    let idle = records.values().filter(|(record, _)| record.hold.is_empty());
    let minutes = idle.map(|(record, _)| u64::from(record.listed)).filter(|minute| *minute > meta.forgotten);
    for (minute, bytes) in lists(client, life, "f", minutes.collect()).await? {
        let identities = bytes.chunks_exact(16).map(|chunk| Reader(chunk).uuid().map(IdentityId::from_uuid));
        beside.forgotten.insert(minute, identities.collect::<Result<_, _>>()?);
    }
    let (first, last) = (end_of(client, life, "XRANGE").await?, end_of(client, life, "XREVRANGE").await?);
    let len: u64 = client.xlen(life.key("c")).await.map_err(|error| failure(&error))?;
    beside.stream = first.zip(last).map(|(first, last)| (first, last, len));
    beside.orders = orders(client, life).await?;
    let bucket = meta.event_ms(now_ms) / ANSWER_BUCKET_MS;
    for bucket in (0..ANSWER_BUCKETS).filter_map(|back| bucket.checked_sub(back)) {
        let found: HashMap<Bytes, Bytes> =
            client.hgetall(life.key(&format!("r{bucket}"))).await.map_err(|error| failure(&error))?;
        for (name, answer) in found {
            let mut reader = Reader(&name);
            let name = (IdentityId::from_uuid(reader.uuid()?), reader.0.to_vec());
            // The newest bucket is read first.
            beside.answers.entry(name).or_insert_with(|| answer.to_vec());
        }
    }
    Ok(beside)
}

/// Those of these lists that are there.
async fn lists(
    client: &Client,
    life: Life,
    name: &str,
    numbers: BTreeSet<u64>,
) -> Result<Vec<(u64, Bytes)>, InventoryError> {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let mut found = Vec::new();
    for numbers in numbers.chunks(LISTS_AT_ONCE) {
        let keys: Vec<String> = numbers.iter().map(|number| life.key(&format!("{name}{number}"))).collect();
        let values: Vec<Option<Bytes>> = client.mget(keys).await.map_err(|error| failure(&error))?;
        found.extend(numbers.iter().zip(values).filter_map(|(number, bytes)| Some((*number, bytes?))));
    }
    Ok(found)
}

/// Seq of the first or last entry of the stream.
async fn end_of(client: &Client, life: Life, command: &'static str) -> Result<Option<u64>, InventoryError> {
    let (from, to) = if command == "XRANGE" { ("-", "+") } else { ("+", "-") };
    let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
    let args =
        vec![Value::from(life.key("c")), Value::from(from), Value::from(to), Value::from("COUNT"), Value::from("1")];
    let entries: Vec<(String, Vec<Bytes>)> = client.custom(command, args).await.map_err(|error| failure(&error))?;
    let seq = |id: &str| id.split_once('-').and_then(|(seq, _)| seq.parse().ok());
    match entries.first() {
        None => Ok(None),
        Some((id, _)) => {
            seq(id).map(Some).ok_or_else(|| InventoryError::Malformed(format!("an entry of the stream named {id}")))
        }
    }
}

async fn orders(client: &Client, life: Life) -> Result<HashMap<OrderId, KnownOrder>, InventoryError> {
    let found: HashMap<Bytes, Bytes> = client.hgetall(life.key("o")).await.map_err(|error| failure(&error))?;
    let mut orders = HashMap::with_capacity(found.len());
    for (order, bytes) in &found {
        let mut reader = Reader(bytes);
        let mut known = KnownOrder { state: reader.uint(1)? as u8, freed: HashMap::new() };
        for _ in 0..reader.uint(2)? {
            known.freed.insert(Place::Seat(SeatIndex(reader.u32()?)), 1);
        }
        while !reader.0.is_empty() {
            let area = Place::Area(AreaIndex(reader.u32()?));
            known.freed.insert(area, reader.u32()?);
        }
        orders.insert(OrderId::from_uuid(Reader(order).uuid()?), known);
    }
    Ok(orders)
}
