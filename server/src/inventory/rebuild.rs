//! Opening an event: the life that is there, or a new one rebuilt from the truth in Postgres.
//! Order: the rebuild's lock -> the next epoch committed behind the checkout's fence, the journal of the old life closed ->
//! the truth and the journal read as one moment -> the new life's keys filled -> opened. A store that is slow is asked again
//! within the life that was begun; a crash anywhere leaves a life that never opens, and the next caller begins another.

use super::fill::{self, BUCKET_MS, Filled, KEEP_MS, Truth};
use super::key::{Life, newest_epoch_key};
use super::life::EventLife;
use super::master::{Master, RedisIdentity};
use super::record::Reader;
use super::script::{Failure, Verb, Word, failure};
use super::{Inner, InventoryError, Place};
use crate::catalogue::EventFacts;
use crate::store::{
    Store, StoreError, area_stock, epoch, event_life, hold_journal, identity_use, taken_seat, waitlist,
};
use fred::bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use seatwire_proto::id::{EventId, OrderId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Times a step is tried in a life that has begun: a store that is slow for longer is down.
const MAX_TRIES: u32 = 6;
/// Before the second try; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest of these pauses: what they add to the time an event is closed is below a second and a half.
const MAX_PAUSE: Duration = Duration::from_millis(400);
/// A new life is filled and opened within so long, from the last word of the rebuild's transaction on, or never: Postgres ends
/// a transaction that idles for 10 s, and with it the lock. What is left is for the call on the way.
const MAX_FILL: Duration = Duration::from_secs(8);
/// Writes values of a life until it is open.
const FILL: &str = include_str!("lua/fill.lua");

/// Redis' clock and the event's time that differ by less are one: answers take so long on their way.
const MOVED_MS: i64 = 1_000;

/// Fields of one write while a new life is filled: about 100 KB.
const FILL_BATCH: usize = 500;

/// How far ahead `begin.lua` removes the lists of the life before.
const BEGIN_LOOKS_MS: u64 = 3_600_000;
/// What an extension adds to the latest end of a hold, and a little more.
const EXTENSION_MS: u64 = 180_000;
/// Lists removed by one command: a millisecond or two of Redis; holds of a day have 70 such batches.
const FORGET_BATCH: usize = 5_000;

/// Opens the event for this node; whoever comes meanwhile waits for the same opening.
pub(super) async fn open(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    life: &Arc<EventLife>,
) -> Result<(), InventoryError> {
    let _one_at_a_time = life.opening.lock().await;
    let master = inner.scripts.of(event.id)?;
    let redis = master.check().await?;
    let generation = master.generation();
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
            open_in(&inner, &master, &event, &life, &redis, generation).await
        })
    };
    task.await.map_err(|error| InventoryError::Unavailable(format!("the rebuild ended: {error}")))?
}

async fn open_in(
    inner: &Inner,
    master: &Arc<Master>,
    event: &EventFacts,
    life: &EventLife,
    redis: &RedisIdentity,
    generation: u64,
) -> Result<(), InventoryError> {
    let known = event_life::read(inner.store.pool(), event.id).await?;
    if let Some(seq) = usable(inner, master, life, event.id, known.as_ref(), redis).await? {
        life.begin(generation, known.map_or(0, |(epoch, _)| epoch), seq);
        return Ok(());
    }
    life.may_open()?;
    let mut guard = crate::store::begin(inner.store.pool()).await?;
    event_life::lock_rebuild(&mut guard, event.id).await?;
    // Another node may have been faster.
    let known = event_life::read(&mut *guard, event.id).await?;
    if let Some(seq) = usable(inner, master, life, event.id, known.as_ref(), redis).await? {
        guard.commit().await.map_err(StoreError::from)?;
        life.begin(generation, known.map_or(0, |(epoch, _)| epoch), seq);
        return Ok(());
    }
    let until = Instant::now() + MAX_FILL;
    let before = known.map_or(0, |(epoch, _)| epoch);
    let epoch = begin_epoch(&inner.store, event.id, redis).await?;
    tracing::info!(event = %event.id, epoch, "rebuilding the inventory");
    let (old, new) = (Life { event: event.id, epoch: before }, Life { event: event.id, epoch });
    let filled = fill_life(inner, master, event, life, generation, (old, new), until)
        .await
        .inspect_err(|_| life.failed_to_open())?;
    // It is open, whatever becomes of the transaction, which was only the lock: owners must hear of it.
    life.begin(generation, epoch, 0);
    life.was_swept(Duration::ZERO);
    inner.metrics.rebuilds.inc();
    let (holds, revoked) = (filled.restored.holds.len(), filled.restored.revoked.len());
    tracing::info!(event = %event.id, epoch, seats = event.seat_count(), holds, revoked, "the inventory is open");
    let Filled { restored, kept_ms: now_ms, .. } = filled;
    inner.restored.lock().push(restored);
    if let Err(error) = guard.commit().await {
        tracing::warn!(event = %event.id, epoch, %error, "the lock of a rebuild was lost before its end");
    }
    forget_late_lists(master, old, event.rules.hold_ttl_ms, now_ms).await;
    Ok(())
}

/// Fills and opens the life that has begun. Each step may be said twice.
async fn fill_life(
    inner: &Inner,
    master: &Arc<Master>,
    event: &EventFacts,
    life: &EventLife,
    generation: u64,
    (old, new): (Life, Life),
    until: Instant,
) -> Result<Filled, InventoryError> {
    let newest = newest_epoch_key(event.id);
    let is_there = || {
        let serves = inner.scripts.of(event.id).is_ok_and(|serving| Arc::ptr_eq(&serving, master));
        serves && master.generation() == generation && Instant::now() < until
    };
    let call = |verb, keys, args| call(inner, master, generation, verb, keys, args);
    // Holds end by the event's time, whatever Redis' clock shows now and whichever Redis this is.
    let before_ms = match life.time_of(old.epoch) {
        Some(before_ms) => Some(before_ms),
        None => patiently("read the time", is_there, || time_of(&inner.store, event.id)).await?,
    };
    let read = Instant::now();
    let event_ms = || before_ms.map(|before_ms| before_ms + read.elapsed().as_millis() as u64);
    let begin = || {
        let event_ms = event_ms().unwrap_or_else(|| master.now_ms());
        let args = vec![new.epoch.to_string().into(), event_ms.to_string().into()];
        call(Verb::Begin, [old.key("m"), newest.clone()], args)
    };
    if patiently("begin", is_there, begin).await? != Word::Begun {
        return Err(InventoryError::Unavailable("another node began a newer life".into()));
    }
    // What the caller knows of the event may be old; what is filled now is not told again.
    let fresh = match inner.catalogue.get() {
        Some(catalogue) => {
            let read = || async { Ok(catalogue.refresh(event.id).await?) };
            patiently("read the event", is_there, read).await?
        }
        None => None,
    };
    let event = fresh.as_deref().unwrap_or(event);
    let redis_ms = master.now_ms();
    let ahead_ms = event_ms().map_or(0, |event_ms| redis_ms.cast_signed() - event_ms.cast_signed());
    let ahead_ms = if ahead_ms.abs() < MOVED_MS { 0 } else { ahead_ms };
    let now_ms = redis_ms.saturating_add_signed(-ahead_ms);
    let truth = patiently("read the truth", is_there, || Truth::read(&inner.store, event.id, now_ms)).await?;
    let filled = fill::fill(event, new, &truth, now_ms)?;
    filled.write(master, new, is_there).await?;
    if !is_there() {
        return Err(took_too_long());
    }
    let open = || {
        let numbers = (now_ms.to_string().into(), ahead_ms.to_string().into());
        let args = vec![new.epoch.to_string().into(), filled.meta.clone(), numbers.0, numbers.1];
        call(Verb::Open, [new.key("m"), newest.clone()], args)
    };
    if patiently("open", is_there, open).await? != Word::Opened {
        return Err(InventoryError::Unavailable("another node began a newer life".into()));
    }
    Ok(filled)
}

async fn time_of(store: &Store, event: EventId) -> Result<Option<u64>, InventoryError> {
    Ok(hold_journal::event_ms(store.pool(), event).await?)
}

/// Tries a step again while the store that did not answer may only be slow, in the Redis the life was begun in and in its time. Without this
/// every slow answer under load would cost another epoch.
async fn patiently<T, F: Future<Output = Result<T, InventoryError>>>(
    step: &str,
    is_there: impl Fn() -> bool,
    run: impl Fn() -> F,
) -> Result<T, InventoryError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..MAX_TRIES {
        match run().await {
            Err(error @ (InventoryError::TimeoutUnknown | InventoryError::Unavailable(_))) if is_there() => {
                tracing::debug!(step, %error, "a step of a rebuild is tried again");
            }
            done => return done,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
    run().await
}

/// Removes the lists of holds of the life before that would have ended later than `begin.lua` looks. The new life is open
/// already; what a lost connection leaves behind costs a little memory until Redis is emptied.
async fn forget_late_lists(master: &Master, old: Life, hold_ttl_ms: u64, now_ms: u64) {
    let latest_ms = now_ms + hold_ttl_ms + EXTENSION_MS;
    let lists: Vec<u64> = ((now_ms + BEGIN_LOOKS_MS) / BUCKET_MS..=latest_ms / BUCKET_MS).collect();
    for batch in lists.chunks(FORGET_BATCH) {
        let keys: Vec<Key> = batch.iter().map(|list| Key::from(old.key(&format!("x{list}")))).collect();
        let Ok(client) = master.client() else { return };
        if let Err(error) = client.unlink::<(), _>(keys).await {
            tracing::debug!(event = %old.event, %error, "lists of the life before were left behind");
            return;
        }
    }
}

async fn call(
    inner: &Inner,
    master: &Master,
    generation: u64,
    verb: Verb,
    keys: [String; 2],
    args: Vec<Vec<u8>>,
) -> Result<Word, InventoryError> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    match master.call(generation, verb, &[&keys[0], &keys[1]], &args).await {
        Ok(reply) => Ok(reply.word),
        Err(Failure::NoScript) => {
            master.reload(master.redis().as_ref()).await?;
            Err(InventoryError::Unavailable("Redis lost its scripts, or more, during a rebuild".into()))
        }
        Err(Failure::Moved) => {
            inner.scripts.moved().await;
            Err(InventoryError::Unavailable("the event moved during a rebuild".into()))
        }
        Err(Failure::Error(error)) => Err(error),
    }
}

/// The seq of a life that may be used as it is: begun in this Redis, not found wanting, there, and no older than the journal
/// knows it: when no node lives that saw it go on, an older copy of its keys shows by nothing else.
async fn usable(
    inner: &Inner,
    master: &Master,
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
    let meta: Option<Bytes> = master.client()?.get(key).await.map_err(|error| failure(&error))?;
    match meta {
        Some(meta) => {
            let mut reader = Reader(&meta);
            reader.bytes(23)?;
            let (seq, high_ms) = (reader.uint(8)?, reader.uint(8)?);
            let journalled = hold_journal::seq_of(inner.store.pool(), event, *epoch).await?;
            if journalled.is_some_and(|journalled| seq < journalled) {
                tracing::warn!(%event, epoch, seq, journalled, "an older copy of this life");
                return Ok(None);
            }
            if let Some(now_ms) = time_of(&inner.store, event).await? {
                life.was_swept(Duration::from_millis(now_ms.saturating_sub(high_ms)));
            }
            Ok(Some(seq))
        }
        None => Ok(None),
    }
}

async fn begin_epoch(store: &Store, event: EventId, redis: &RedisIdentity) -> Result<u32, InventoryError> {
    let mut transaction = crate::store::begin(store.pool()).await?;
    epoch::lock_exclusive(&mut transaction, event).await?;
    let epoch = epoch::begin_next(&mut *transaction, event).await?;
    event_life::bind(&mut *transaction, event, &redis.0).await?;
    hold_journal::begin_epoch(&mut *transaction, event, epoch).await?;
    transaction.commit().await.map_err(StoreError::from)?;
    Ok(epoch)
}

impl Truth {
    async fn read(store: &Store, event: EventId, now_ms: u64) -> Result<Self, InventoryError> {
        let mut transaction = crate::store::begin(store.pool()).await?;
        sqlx::raw_sql("set transaction isolation level repeatable read read only")
            .execute(&mut *transaction)
            .await
            .map_err(StoreError::from)?;
        let records = hold_journal::of_event(&mut *transaction, event).await?;
        let locking = fill::locking_orders(&records)?;
        let mut freed: HashMap<OrderId, Vec<(Place, u32)>> = HashMap::new();
        for place in event_life::freed_places(&mut *transaction, event).await? {
            let what = match (place.seat, place.area) {
                (Some(seat), _) => Place::Seat(seat),
                (None, Some(area)) => Place::Area(area),
                (None, None) => continue,
            };
            freed.entry(place.order).or_default().push((what, place.quantity));
        }
        let since_s = now_ms.saturating_sub(KEEP_MS) / 1000;
        let truth = Self {
            taken: taken_seat::of_event(&mut *transaction, event).await?,
            areas: area_stock::of_event(&mut *transaction, event).await?,
            uses: identity_use::of_event(&mut *transaction, event).await?,
            orders: event_life::living_orders(&mut *transaction, event).await?,
            freed,
            over: event_life::orders_over(&mut *transaction, event, &locking).await?.into_iter().collect(),
            answers: hold_journal::answers_of_event(&mut *transaction, event, since_s).await?,
            records,
            has_waiting: waitlist::keeps(&mut *transaction, event).await?,
        };
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(truth)
    }
}

impl Filled {
    /// Writes everything but the meta, a batch at a time.
    async fn write(&self, master: &Master, life: Life, is_there: impl Fn() -> bool) -> Result<(), InventoryError> {
        let meta = life.key("m");
        let fill = async |words: Vec<Value>| {
            if !is_there() {
                return Err(took_too_long());
            }
            patiently("fill", &is_there, || fill_some(master, &meta, words.clone())).await
        };
        for batch in self.values.chunks(FILL_BATCH) {
            let pairs = batch.iter().flat_map(|(name, bytes)| [Value::from(life.key(name)), Value::from(&bytes[..])]);
            fill([Value::from("MSET")].into_iter().chain(pairs).collect()).await?;
        }
        for seats in self.kept.chunks(FILL_BATCH) {
            let kept_ms = self.kept_ms.to_string();
            let members = seats.iter().flat_map(|seat| [Value::from(kept_ms.as_str()), Value::from(seat.to_string())]);
            let begin = [Value::from("ZADD"), Value::from(life.key("w"))];
            fill(begin.into_iter().chain(members).collect()).await?;
        }
        for (name, fields) in [("p", &self.identities), ("o", &self.orders), (&*self.answers.0, &self.answers.1)] {
            for batch in fields.chunks(FILL_BATCH) {
                let pairs = batch.iter().flat_map(|(field, value)| [Value::from(field.as_bytes()), value.clone()]);
                let begin = [Value::from("HSET"), Value::from(life.key(name))];
                fill(begin.into_iter().chain(pairs).collect()).await?;
            }
        }
        Ok(())
    }
}

fn took_too_long() -> InventoryError {
    InventoryError::Unavailable("a rebuild took too long, or its Redis is gone".into())
}

async fn fill_some(master: &Master, meta: &str, words: Vec<Value>) -> Result<(), InventoryError> {
    let mut values = vec![Value::from(FILL), Value::from(1), Value::from(meta)];
    values.extend(words);
    let command = CustomCommand::new_static("EVAL", ClusterHash::Offset(2), false);
    match master.client()?.custom::<i64, _>(command, values).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(InventoryError::Malformed("a life was open before it was filled".into())),
        Err(error) => Err(failure(&error)),
    }
}
