//! What is on sale, read from Postgres and kept in memory: facts for commands, pages for readers, plans by hash.
//! `command`, `http` and `seatmap` come in with an id; nothing here says which seat is free: that is `inventory` and
//! `seatmap`. Changes are noticed by the event's revision, within about a second of asking.

mod facts;
mod layout;
mod names;
mod page;
mod shape;

pub use facts::{AllocationFacts, AreaFacts, EventFacts, SectionFacts, code_hash};
pub use layout::StoredLayout;
pub use names::{SeatName, SeatNames};
pub use page::EventPage;
pub use shape::{Run, SeatShape};

use crate::clock::Clock;
use crate::store::event::{self, EventFilter};
use crate::store::{Store, StoreError};
use dashmap::DashMap;
use parking_lot::Mutex;
use seatwire_proto::id::EventId;
use seatwire_proto::server::EventSummary;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Younger pages are given without a look: the price of a look a second per event and node.
const FRESH_MS: u64 = 1_000;
/// Older pages are checked before they are given; in between they are given at once and checked behind the back.
/// Bounds how long a change can go unnoticed on a node nobody asks.
const STALE_MS: u64 = 5_000;
/// Most events in memory. A whole stadium takes about 0.5 MB, a small hall 10 kB. The longest unasked goes first.
const MAX_EVENTS: usize = 2_048;
/// Most plans in memory, a few MB for the largest. The least recently loaded goes first; it is read again when asked for.
const MAX_LAYOUTS: usize = 64;
/// Most events and plans being read at once: a crowd asking for unknown ids must not take every connection.
const MAX_CONCURRENT_LOADS: usize = 4;
/// Longest wait for somebody else who reads the same plan; then it is read once more, as when nobody did.
const LAYOUT_PATIENCE: Duration = Duration::from_secs(1);
/// How old the number of taken seats of an event without a live map may be.
const TAKEN_FRESH_MS: u64 = 5_000;

/// Handle to what is on sale; cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalogue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Clock,
    events: DashMap<EventId, Arc<Entry>>,
    numbers: DashMap<u32, EventId>,
    layouts: DashMap<String, Arc<StoredLayout>>,
    /// Plans being read, each by one.
    reading: DashMap<String, Arc<tokio::sync::Mutex<()>>>,
    taken: DashMap<EventId, (u64, u32)>,
    loads: Semaphore,
    loading: DashMap<EventId, Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Debug)]
struct Entry {
    page: Mutex<Arc<EventPage>>,
    checked_ms: AtomicU64,
    is_checking: AtomicBool,
}

/// A plan that somebody reads; also one who goes away in the middle leaves nothing behind.
struct Reading<'a> {
    of: &'a DashMap<String, Arc<tokio::sync::Mutex<()>>>,
    hash: &'a str,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.of.remove(self.hash);
    }
}

impl Catalogue {
    /// A catalogue with nothing read yet.
    #[must_use]
    pub fn new(store: Store, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            store,
            clock,
            events: DashMap::new(),
            numbers: DashMap::new(),
            layouts: DashMap::new(),
            reading: DashMap::new(),
            taken: DashMap::new(),
            loads: Semaphore::new(MAX_CONCURRENT_LOADS),
            loading: DashMap::new(),
        }))
    }

    /// The facts of an event, at most about a second old where it is asked for often; `None` = no such event.
    ///
    /// # Errors
    /// Only when the event is not in memory and Postgres does not answer.
    pub async fn event(&self, id: EventId) -> Result<Option<Arc<EventFacts>>, StoreError> {
        Ok(self.page(id).await?.map(|page| page.facts.clone()))
    }

    /// The same by the short number that hold ids carry.
    ///
    /// # Errors
    /// As [`Catalogue::event`].
    pub async fn event_by_number(&self, number: u32) -> Result<Option<Arc<EventFacts>>, StoreError> {
        let known = self.0.numbers.get(&number).map(|id| *id);
        let id = match known {
            Some(id) => id,
            None => {
                let _permit = self.permit().await?;
                match self.0.store.find(|pool| async move { event::id_of_number(&pool, number).await }).await? {
                    Some(id) => {
                        self.0.numbers.insert(number, id);
                        id
                    }
                    None => return Ok(None),
                }
            }
        };
        self.event(id).await
    }

    /// An event with everything readers see of it but the counts of seats.
    ///
    /// # Errors
    /// As [`Catalogue::event`].
    pub async fn page(&self, id: EventId) -> Result<Option<Arc<EventPage>>, StoreError> {
        let known = self.0.events.get(&id).map(|entry| entry.clone());
        let Some(entry) = known else { return Box::pin(self.load(id)).await };
        let now_ms = self.0.clock.now_ms();
        let age_ms = now_ms.saturating_sub(entry.checked_ms.load(Ordering::Relaxed));
        // What time opens is open to the millisecond, looked at or not.
        let page = {
            let mut page = entry.page.lock();
            let at_now = page.at(now_ms);
            *page = at_now.clone();
            at_now
        };
        if age_ms < FRESH_MS {
            return Ok(Some(page));
        }
        if age_ms >= STALE_MS {
            // Postgres down: commands decide by Redis and the ledger; old facts are better than none.
            return match Box::pin(self.check(id, &entry)).await {
                Ok(page) => Ok(page),
                Err(error) => {
                    tracing::warn!(event = %id, %error, "event not refreshed");
                    Ok(Some(page))
                }
            };
        }
        if !entry.is_checking.swap(true, Ordering::AcqRel) {
            let catalogue = self.clone();
            tokio::spawn(async move {
                if let Err(error) = catalogue.check(id, &entry).await {
                    tracing::warn!(event = %id, %error, "event not refreshed");
                }
                entry.is_checking.store(false, Ordering::Release);
            });
        }
        Ok(Some(page))
    }

    /// Forgets what is in memory of an event, so that the next look reads it anew: after a change made by this node.
    pub fn forget(&self, id: EventId) {
        self.0.events.remove(&id);
        self.0.taken.remove(&id);
    }

    /// The facts as Postgres has them now, read from the primary: after a change, here or elsewhere. They are kept, and
    /// never give way to older ones.
    ///
    /// # Errors
    /// Postgres' own.
    pub async fn refresh(&self, id: EventId) -> Result<Option<Arc<EventFacts>>, StoreError> {
        let Some(page) = self.read_from(self.0.store.pool().clone(), id).await? else {
            self.0.events.remove(&id);
            return Ok(None);
        };
        let known = self.0.events.get(&id).map(|entry| entry.clone());
        match known {
            Some(entry) => {
                let mut kept = entry.page.lock();
                if kept.facts.revision <= page.facts.revision {
                    *kept = page.clone();
                    entry.checked_ms.store(self.0.clock.now_ms(), Ordering::Relaxed);
                }
                Ok(Some(kept.facts.clone()))
            }
            None => Ok(Some(self.keep(id, page).facts.clone())),
        }
    }

    /// A plan by its hash; `None` = no such plan.
    ///
    /// # Errors
    /// Postgres' own; `Malformed` when the stored plan is damaged.
    pub async fn layout(&self, hash: &str) -> Result<Option<Arc<StoredLayout>>, StoreError> {
        if let Some(layout) = self.0.layouts.get(hash) {
            return Ok(Some(layout.clone()));
        }
        // Boxed like all that is asked of Postgres here: a command that finds what it needs in memory pays nothing for it.
        Box::pin(self.load_layout(hash)).await
    }

    /// Reads a plan once, however many ask for it.
    async fn load_layout(&self, hash: &str) -> Result<Option<Arc<StoredLayout>>, StoreError> {
        let reading = Reading { of: &self.0.reading, hash };
        let lock = self.0.reading.entry(hash.to_owned()).or_default().clone();
        let _only = tokio::time::timeout(LAYOUT_PATIENCE, lock.lock()).await;
        if let Some(layout) = self.0.layouts.get(hash) {
            return Ok(Some(layout.clone()));
        }
        let _permit = self.permit().await?;
        let stored = |pool| async move { crate::store::layout::stored_json(&pool, hash).await };
        let Some(stored_json) = self.0.store.find(stored).await? else { return Ok(None) };
        // Milliseconds of parsing for a stadium: not on a thread that drives sockets.
        let layout = tokio::task::spawn_blocking(move || StoredLayout::from_stored_json(&stored_json))
            .await
            .map_err(|error| StoreError::Malformed(error.to_string()))??;
        let layout = Arc::new(layout);
        while self.0.layouts.len() >= MAX_LAYOUTS {
            let Some(other) = self.0.layouts.iter().next().map(|entry| entry.key().clone()) else { break };
            self.0.layouts.remove(&other);
        }
        self.0.layouts.insert(hash.to_owned(), layout.clone());
        drop(reading);
        Ok(Some(layout))
    }

    /// Events in order of (starts_ms, id). `available` counts what is neither blocked nor reserved nor sold, a few
    /// seconds old; a live map knows better.
    ///
    /// # Errors
    /// Postgres' own.
    pub async fn list(&self, filter: &EventFilter) -> Result<Vec<EventSummary>, StoreError> {
        let rows = self.0.store.read(|pool| async move { event::events(&pool, filter).await }).await?;
        let ids: Vec<EventId> = rows.iter().map(|row| row.id).collect();
        let taken = self.taken(&ids).await?;
        let now_ms = self.0.clock.now_ms();
        rows.into_iter()
            .zip(taken)
            .map(|(row, taken)| {
                let known = self.0.events.get(&row.id).map(|entry| entry.page.lock().facts.saleable());
                let saleable = known.unwrap_or_else(|| row.seat_count.saturating_add(row.area_places));
                page::summary(row, saleable.saturating_sub(taken), now_ms)
            })
            .collect()
    }

    /// Seats and places reserved or sold, by Postgres, at most a few seconds old.
    ///
    /// # Errors
    /// Postgres' own.
    pub async fn taken(&self, ids: &[EventId]) -> Result<Vec<u32>, StoreError> {
        let now_ms = self.0.clock.now_ms();
        let is_fresh =
            |id: &EventId| self.0.taken.get(id).is_some_and(|known| now_ms.saturating_sub(known.0) < TAKEN_FRESH_MS);
        let missing: Vec<EventId> = ids.iter().copied().filter(|id| !is_fresh(id)).collect();
        if !missing.is_empty() {
            let missing_ids = missing.as_slice();
            let counts = self.0.store.read(|pool| async move { event::taken_counts(&pool, missing_ids).await }).await?;
            if self.0.taken.len() > MAX_EVENTS {
                self.0.taken.retain(|_, known| now_ms.saturating_sub(known.0) < TAKEN_FRESH_MS);
            }
            for (id, count) in missing.iter().zip(counts) {
                self.0.taken.insert(*id, (now_ms, count));
            }
        }
        Ok(ids.iter().map(|id| self.0.taken.get(id).map_or(0, |known| known.1)).collect())
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, StoreError> {
        self.0.loads.acquire().await.map_err(|error| StoreError::Malformed(error.to_string()))
    }

    /// Looks whether the event changed and reads it anew when it did.
    async fn check(&self, id: EventId, entry: &Entry) -> Result<Option<Arc<EventPage>>, StoreError> {
        let now_ms = self.0.clock.now_ms();
        let known = entry.page.lock().clone();
        match self.0.store.find(|pool| async move { event::revision(&pool, id).await }).await? {
            // An older one is a replica that is behind.
            Some(revision) if revision <= known.facts.revision => {
                let page = known.at(now_ms);
                *entry.page.lock() = page.clone();
                entry.checked_ms.store(now_ms, Ordering::Relaxed);
                Ok(Some(page))
            }
            Some(_) => {
                let page = self.read(id).await?;
                let Some(page) = page else { return Ok(None) };
                let mut kept = entry.page.lock();
                if kept.facts.revision <= page.facts.revision {
                    *kept = page;
                }
                entry.checked_ms.store(now_ms, Ordering::Relaxed);
                Ok(Some(kept.clone()))
            }
            None => {
                self.0.events.remove(&id);
                Ok(None)
            }
        }
    }

    /// Reads an event that is not in memory; those who ask meanwhile wait for the same reading.
    async fn load(&self, id: EventId) -> Result<Option<Arc<EventPage>>, StoreError> {
        let lock = self.0.loading.entry(id).or_default().clone();
        let _only = lock.lock().await;
        let known = self.0.events.get(&id).map(|entry| entry.page.lock().clone());
        if known.is_some() {
            return Ok(known);
        }
        let read = {
            let _permit = self.permit().await?;
            self.read(id).await
        };
        let kept = read.map(|page| page.map(|page| self.keep(id, page)));
        self.0.loading.remove(&id);
        kept
    }

    /// Keeps a page, unless a newer one came meanwhile.
    fn keep(&self, id: EventId, page: Arc<EventPage>) -> Arc<EventPage> {
        self.make_room();
        self.0.numbers.insert(page.facts.number, id);
        let now_ms = self.0.clock.now_ms();
        let entry = self.0.events.entry(id).or_insert_with(|| {
            let page = Mutex::new(page.clone());
            Arc::new(Entry { page, checked_ms: AtomicU64::new(now_ms), is_checking: AtomicBool::new(false) })
        });
        let mut kept = entry.page.lock();
        if kept.facts.revision < page.facts.revision {
            *kept = page;
        }
        kept.clone()
    }

    async fn read(&self, id: EventId) -> Result<Option<Arc<EventPage>>, StoreError> {
        self.0.store.find(|pool| self.read_from(pool, id)).await
    }

    async fn read_from(&self, pool: PgPool, id: EventId) -> Result<Option<Arc<EventPage>>, StoreError> {
        // Several statements as one moment: a change between them would mix two revisions.
        let mut transaction = crate::store::begin(&pool).await?;
        sqlx::raw_sql("set transaction isolation level repeatable read read only").execute(&mut *transaction).await?;
        let row = event::event(&mut transaction, id).await?;
        transaction.commit().await?;
        let Some(row) = row else { return Ok(None) };
        EventPage::from_row(row, self.0.clock.now_ms()).map(Arc::new).map(Some)
    }

    fn make_room(&self) {
        while self.0.events.len() >= MAX_EVENTS {
            let oldest = self
                .0
                .events
                .iter()
                .min_by_key(|entry| entry.checked_ms.load(Ordering::Relaxed))
                .map(|entry| *entry.key());
            let Some(oldest) = oldest else { break };
            self.0.events.remove(&oldest);
        }
        if self.0.numbers.len() >= MAX_EVENTS * 4 {
            self.0.numbers.clear();
        }
    }
}
