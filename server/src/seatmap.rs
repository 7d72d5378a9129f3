//! What everyone sees: one live event for each map somebody looks at on this node. `socket` subscribes, `http` takes
//! snapshots and counts, `command` looks at states; changes come in by the feed from Redis, never from a command.
//! A delta walks feed -> board -> batch -> hub; `actor` is the event's own task.

mod actor;
mod alternatives;
mod batch;
mod board;
mod candidates;
mod feed;
mod grow;
mod history;
mod hub;
mod in_flight;
mod live;
mod pick;
mod snapshot;
mod source;

pub use alternatives::alternatives;
pub use board::{Applied, Board, Dirty, UnknownState};
pub use candidates::Wish;
pub use feed::Feed;
pub use history::History;
pub use hub::{Delivery, Hub, MapFrame, Round, Viewer};
pub use live::{Counts, LiveEvent, Next};
pub use pick::{Choice, Picked};
pub use snapshot::{HttpSnapshot, SnapshotEncoding};
pub use source::MapSource;

use crate::catalogue::EventFacts;
use crate::clock::Clock;
use crate::config::SeatmapConfig;
use crate::inventory::{FeedMessage, Inventory, InventoryError};
use crate::metrics::Metrics;
use crate::subscriber::SubscriberError;
use dashmap::DashMap;
use seatwire_proto::client::Position;
use seatwire_proto::id::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{Notify, OnceCell};

/// The live events of this node; cheap to clone.
#[derive(Clone)]
pub struct SeatMap {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for SeatMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeatMap").field("live_events", &self.shared.events.len()).finish_non_exhaustive()
    }
}

struct Shared {
    config: SeatmapConfig,
    clock: Clock,
    metrics: Arc<Metrics>,
    source: Arc<dyn MapSource>,
    /// `None` in tests and benches that bring changes themselves.
    feed: Option<Arc<Feed>>,
    events: DashMap<EventId, Arc<OnceCell<Arc<LiveEvent>>>>,
    last_channel: AtomicU32,
    outdated: Arc<Notify>,
}

impl SeatMap {
    /// The map of the shelf, told of changes by Redis.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn start(
        config: &SeatmapConfig,
        redis_url: &str,
        inventory: Inventory,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Result<Self, SubscriberError> {
        let feed = Feed::connect(redis_url).await?;
        Ok(Self::new(config.clone(), clock, metrics, Arc::new(inventory), Some(feed)))
    }

    /// A map of `source`, told of changes by `feed`.
    #[must_use]
    pub fn new(
        config: SeatmapConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
        source: Arc<dyn MapSource>,
        feed: Option<Arc<Feed>>,
    ) -> Self {
        let shared = Shared {
            config,
            clock,
            metrics,
            source,
            feed,
            events: DashMap::new(),
            last_channel: AtomicU32::new(0),
            outdated: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The live event, begun if nobody looked at it yet; many who ask at once wait for one reading.
    ///
    /// # Errors
    /// When the store does not answer; the next who asks tries again.
    pub async fn live(&self, facts: &Arc<EventFacts>) -> Result<Arc<LiveEvent>, InventoryError> {
        let cell = Arc::clone(&self.shared.events.entry(facts.id).or_default());
        let live = cell.get_or_try_init(|| self.begin(facts)).await?;
        if live.facts().rank() < facts.rank() {
            live.refresh_facts(Arc::clone(facts)).await;
        }
        Ok(Arc::clone(live))
    }

    /// The live event, if it is live already.
    #[must_use]
    pub fn live_now(&self, event: EventId) -> Option<Arc<LiveEvent>> {
        self.shared.events.get(&event)?.get().cloned()
    }

    /// Every live event.
    #[must_use]
    pub fn live_events(&self) -> Vec<Arc<LiveEvent>> {
        self.shared.events.iter().filter_map(|entry| entry.value().get().cloned()).collect()
    }

    /// Notified when the facts of a live event must be read anew.
    #[must_use]
    pub fn outdated(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.outdated)
    }

    /// Takes a change that did not come by the feed; tests and benches.
    pub fn take(&self, event: EventId, change: &FeedMessage) -> Option<Applied> {
        Some(self.live_now(event)?.take(change))
    }

    async fn begin(&self, facts: &Arc<EventFacts>) -> Result<Arc<LiveEvent>, InventoryError> {
        let shared = &self.shared;
        let map = shared.source.read_map(facts).await?;
        // When the last change was made, so that every node stamps the same snapshot with the same time.
        let before = Position { epoch: map.epoch, seq: map.seq.saturating_sub(1) };
        let last = shared.source.changes_since(facts, before).await.ok().flatten();
        let changed_ms = last
            .and_then(|changes| changes.iter().find(|change| change.seq == map.seq).map(|change| change.server_ms))
            .unwrap_or_else(|| shared.clock.now_ms());
        let board =
            Board::new(facts, &map, changed_ms).map_err(|error| InventoryError::Malformed(error.to_string()))?;
        let channel = shared.last_channel.fetch_add(1, Ordering::Relaxed) + 1;
        let live = Arc::new(LiveEvent::new(
            Arc::clone(facts),
            channel,
            shared.clock.clone(),
            board,
            Arc::clone(&shared.outdated),
        ));
        if let Some(feed) = &shared.feed {
            feed.follow(&live).await.map_err(|error| InventoryError::Unavailable(error.to_string()))?;
            // What was published between the reading and the subscription.
            live.suspect();
        }
        shared.metrics.live_events.inc();
        tokio::spawn(actor::run(Arc::clone(shared), Arc::clone(&live)));
        Ok(live)
    }
}

impl Shared {
    async fn put_away(&self, live: &LiveEvent) {
        self.events
            .remove_if(&live.id(), |_, cell| cell.get().is_some_and(|known| std::ptr::eq(Arc::as_ptr(known), live)));
        self.metrics.live_events.dec();
        if let Some(feed) = &self.feed {
            feed.leave(live).await;
        }
    }
}
