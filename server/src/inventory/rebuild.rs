//! Opening an event: the life that is there, or a new one rebuilt from the truth in Postgres.
//! Order: the rebuild's lock -> the next epoch committed behind the checkout's fence -> the truth read as one moment ->
//! the new life's keys filled -> opened. A crash anywhere leaves a life that never opens; the next caller begins another.

use super::key::{Life, newest_epoch_key};
use super::life::EventLife;
use super::record::{BLOCKED, HELD_BY, Meta, RESERVED_BY, Reader, SLOT_BYTES, SOLD_TO};
use super::script::{RedisIdentity, Scripts, Verb, Word, failure};
use super::{Inner, InventoryError};
use crate::catalogue::EventFacts;
use crate::store::taken_seat::{Taken, TakenSeat};
use crate::store::{Store, StoreError, area_stock, epoch, event_life, identity_use, taken_seat};
use fred::bytes::Bytes;
use fred::interfaces::{HashesInterface, KeysInterface};
use fred::types::{Key, Value};
use seatwire_proto::id::{EventId, IdentityId};
use std::collections::HashMap;
use std::sync::Arc;

/// Fields of one write while a new life is filled: about 100 KB.
const FILL_BATCH: usize = 500;

/// Opens the event for this node; whoever comes meanwhile waits for the same opening.
pub(super) async fn open(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    life: &Arc<EventLife>,
) -> Result<(), InventoryError> {
    let _one_at_a_time = life.opening.lock().await;
    let redis = inner.scripts.check().await?;
    let generation = inner.scripts.generation();
    if life.current(generation).is_some() {
        return Ok(());
    }
    // A database future must not be dropped half way, and callers give up when they like: the work is its own task.
    let task = {
        let (inner, event, life) = (Arc::clone(inner), Arc::clone(event), Arc::clone(life));
        tokio::spawn(async move {
            let permit = inner.openings.acquire().await;
            let _permit = permit.map_err(|error| InventoryError::Unavailable(error.to_string()))?;
            if life.current(generation).is_some() {
                return Ok(());
            }
            open_in(&inner, &event, &life, &redis, generation).await
        })
    };
    task.await.map_err(|error| InventoryError::Unavailable(format!("the rebuild ended: {error}")))?
}

async fn open_in(
    inner: &Inner,
    event: &EventFacts,
    life: &EventLife,
    redis: &RedisIdentity,
    generation: u64,
) -> Result<(), InventoryError> {
    let known = event_life::read(inner.store.pool(), event.id).await?;
    if let Some(seq) = usable(&inner.scripts, life, event.id, known.as_ref(), redis).await? {
        life.begin(generation, known.map_or(0, |(epoch, _)| epoch), seq);
        return Ok(());
    }
    let mut guard = inner.store.pool().begin().await.map_err(StoreError::from)?;
    event_life::lock_rebuild(&mut guard, event.id).await?;
    // Another node may have been faster.
    let known = event_life::read(&mut *guard, event.id).await?;
    if let Some(seq) = usable(&inner.scripts, life, event.id, known.as_ref(), redis).await? {
        guard.commit().await.map_err(StoreError::from)?;
        life.begin(generation, known.map_or(0, |(epoch, _)| epoch), seq);
        return Ok(());
    }
    let before = known.map_or(0, |(epoch, _)| epoch);
    let epoch = begin_epoch(&inner.store, event.id, redis).await?;
    tracing::info!(event = %event.id, epoch, "rebuilding the inventory");
    let (old, new) = (Life { event: event.id, epoch: before }, Life { event: event.id, epoch });
    let newest = newest_epoch_key(event.id);
    let begun = call(&inner.scripts, generation, Verb::Begin, &[&old.key("m"), &newest], vec![epoch.into()]).await?;
    if begun != Word::Begun {
        return Err(InventoryError::Unavailable("another node began a newer life".into()));
    }
    let truth = Truth::read(&inner.store, event.id).await?;
    let filled = fill(event, new, &truth)?;
    filled.write(&inner.scripts, new).await?;
    let args = vec![epoch.into(), Value::from(&*filled.meta)];
    if call(&inner.scripts, generation, Verb::Open, &[&new.key("m"), &newest], args).await? != Word::Opened {
        return Err(InventoryError::Unavailable("another node began a newer life".into()));
    }
    guard.commit().await.map_err(StoreError::from)?;
    life.begin(generation, epoch, 0);
    inner.metrics.rebuilds.inc();
    tracing::info!(event = %event.id, epoch, seats = event.seat_count(), "the inventory is open");
    Ok(())
}

async fn call(
    scripts: &Scripts,
    generation: u64,
    verb: Verb,
    keys: &[&str],
    args: Vec<Value>,
) -> Result<Word, InventoryError> {
    match scripts.call(generation, verb, keys, args).await {
        Ok(reply) => Ok(reply.word),
        Err(super::script::Failure::NoScript) => {
            Err(InventoryError::Unavailable("Redis was lost during a rebuild".into()))
        }
        Err(super::script::Failure::Error(error)) => Err(error),
    }
}

/// The seq of a life that may be used as it is: begun in this Redis, not found wanting, and there.
async fn usable(
    scripts: &Scripts,
    life: &EventLife,
    event: EventId,
    known: Option<&(u32, String)>,
    redis: &RedisIdentity,
) -> Result<Option<u64>, InventoryError> {
    let Some((epoch, begun_in)) = known else { return Ok(None) };
    if *epoch <= life.lost_epoch() || *begun_in != redis.0 {
        return Ok(None);
    }
    let key = Life { event, epoch: *epoch }.key("m");
    let meta: Option<Bytes> = scripts.client()?.get(key).await.map_err(|error| failure(&error))?;
    match meta {
        Some(meta) => {
            let mut reader = Reader(&meta);
            reader.bytes(23)?;
            Ok(Some(reader.uint(8)?))
        }
        None => Ok(None),
    }
}

async fn begin_epoch(store: &Store, event: EventId, redis: &RedisIdentity) -> Result<u32, InventoryError> {
    let mut transaction = store.pool().begin().await.map_err(StoreError::from)?;
    epoch::lock_exclusive(&mut transaction, event).await?;
    let epoch = epoch::begin_next(&mut *transaction, event).await?;
    event_life::bind(&mut *transaction, event, &redis.0).await?;
    transaction.commit().await.map_err(StoreError::from)?;
    Ok(epoch)
}

/// What Postgres knows of an event's places, as one moment.
#[derive(Debug)]
struct Truth {
    taken: Vec<TakenSeat>,
    areas: Vec<area_stock::AreaStock>,
    uses: Vec<(IdentityId, u32)>,
    orders: Vec<event_life::LivingOrder>,
}

impl Truth {
    async fn read(store: &Store, event: EventId) -> Result<Self, InventoryError> {
        let mut transaction = store.pool().begin().await.map_err(StoreError::from)?;
        sqlx::raw_sql("set transaction isolation level repeatable read read only")
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::from)?;
        let truth = Self {
            taken: taken_seat::of_event(&mut *transaction, event).await?,
            areas: area_stock::of_event(&mut *transaction, event).await?,
            uses: identity_use::of_event(&mut *transaction, event).await?,
            orders: event_life::living_orders(&mut *transaction, event).await?,
        };
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(truth)
    }
}

/// A new life's values, ready to be written.
#[derive(Debug)]
struct Filled {
    meta: Vec<u8>,
    seats: Vec<u8>,
    areas: Vec<u8>,
    kept_back: Vec<u8>,
    slots: Vec<u8>,
    identities: Vec<(Key, Value)>,
    orders: Vec<(Key, Value)>,
}

/// Gives each identity its number as it is met.
#[derive(Debug, Default)]
struct Numbers {
    numbers: HashMap<IdentityId, u32>,
    in_order: Vec<IdentityId>,
}

impl Numbers {
    fn of(&mut self, identity: IdentityId) -> u32 {
        *self.numbers.entry(identity).or_insert_with(|| {
            self.in_order.push(identity);
            self.in_order.len() as u32
        })
    }
}

fn fill(event: &EventFacts, life: Life, truth: &Truth) -> Result<Filled, InventoryError> {
    let mut owners = vec![0u32; event.seat_count() as usize];
    let mut kept_back = Vec::new();
    for seat in event.blocked.iter() {
        if let Some(owner) = owners.get_mut(seat as usize) {
            *owner = BLOCKED;
            kept_back.resize(event.seat_count() as usize, 0);
            kept_back[seat as usize] = 1;
        }
    }
    let mut numbers = Numbers::default();
    for taken in &truth.taken {
        let kind = match taken.taken {
            Taken::Sold => SOLD_TO,
            Taken::Reserved => RESERVED_BY,
        };
        let owner = owners.get_mut(taken.seat.position()).ok_or_else(|| {
            InventoryError::Malformed(format!("{} of {} is taken but not in the layout", taken.seat, event.id))
        })?;
        *owner = kind | numbers.of(taken.identity);
    }
    let mut remaining: Vec<u32> = event.areas.iter().map(|area| area.capacity).collect();
    for stock in &truth.areas {
        if let Some(left) = remaining.get_mut(stock.area.position()) {
            *left = left.saturating_sub(stock.reserved + stock.sold);
        }
    }
    let mut identities = Vec::with_capacity(truth.uses.len());
    let mut bought: HashMap<IdentityId, u32> = truth.uses.iter().copied().collect();
    for &(identity, _) in &truth.uses {
        numbers.of(identity);
    }
    let mut slots = vec![0; SLOT_BYTES];
    for (index, identity) in numbers.in_order.iter().enumerate() {
        let number = index as u32 + 1;
        slots.extend(identity.uuid().as_bytes());
        slots.extend([0; 8]);
        let record = settled_identity(number, bought.remove(identity).unwrap_or(0));
        identities.push((Key::from(&identity.uuid().as_bytes()[..]), Value::from(&record[..])));
    }
    let orders = truth
        .orders
        .iter()
        .map(|order| {
            let state: [u8; 3] = [if order.is_sold { 2 } else { 1 }, 0, 0];
            (Key::from(&order.order.uuid().as_bytes()[..]), Value::from(&state[..]))
        })
        .collect();
    let meta = Meta {
        state: event.state as u8,
        has_kept_back: !kept_back.is_empty(),
        epoch: life.epoch,
        revision: event.revision,
        limit: event.rules.seats_per_identity,
        ttl_ms: u32::try_from(event.rules.hold_ttl_ms).unwrap_or(u32::MAX),
        open_holds: 0,
        next_number: numbers.in_order.len() as u32 + 1,
        available: owners.iter().filter(|&&owner| owner == 0).count() as u32,
    };
    debug_assert!(meta.next_number < HELD_BY, "numbers have 30 bits");
    Ok(Filled {
        meta: meta.encode(),
        seats: owners.iter().flat_map(|owner| owner.to_le_bytes()).collect(),
        areas: remaining.iter().flat_map(|left| left.to_le_bytes()).collect(),
        kept_back,
        slots,
        identities,
        orders,
    })
}

/// The record of an identity without a hold.
fn settled_identity(number: u32, bought: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(27);
    out.extend(number.to_le_bytes());
    out.extend(bought.to_le_bytes());
    // Admitted until, unlocked, listed, spilled, endings; length of the hold; answers.
    out.extend([0; 6 + 4 + 4 + 1 + 1 + 2 + 1]);
    out
}

impl Filled {
    async fn write(&self, scripts: &Scripts, life: Life) -> Result<(), InventoryError> {
        let client = scripts.client()?;
        for (name, bytes) in [("s", &self.seats), ("a", &self.areas), ("k", &self.kept_back), ("n", &self.slots)] {
            if !bytes.is_empty() {
                let (key, value) = (life.key(name), Value::from(&bytes[..]));
                let () = client.set(key, value, None, None, false).await.map_err(|error| failure(&error))?;
            }
        }
        for (name, fields) in [("p", &self.identities), ("o", &self.orders)] {
            for batch in fields.chunks(FILL_BATCH) {
                let () = client.hset(life.key(name), batch.to_vec()).await.map_err(|error| failure(&error))?;
            }
        }
        Ok(())
    }
}
