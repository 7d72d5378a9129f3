//! The shelf: who holds which seat, in Redis, changed only by atomic scripts (`lua/`). Truth about sales is Postgres'.
//! `command` and `checkout` come in with a request; outcomes go back as values, refusals included; the change itself
//! reaches the map by the event's feed, never through the caller.

mod allocation;
mod answer;
pub mod audit;
mod best;
mod call;
mod change;
mod expiry;
mod far_clock;
pub mod feed_message;
mod fill;
mod hold;
mod journal;
pub mod key;
mod life;
mod map;
mod master;
mod offer;
mod organise;
mod outcome;
mod rebuild;
mod record;
mod rule;
mod script;
mod settle;
mod told;
mod wire;

use crate::catalogue::{Catalogue, EventFacts};
use crate::config::InventoryConfig;
use crate::masters::line::LineError;
use crate::metrics::Metrics;
use crate::store::{Store, StoreError};
pub use allocation::UnlockOutcome;
pub use best::{BestTry, Block, Looked, MAX_BLOCKS, MAX_SCANNED, Nothing, Stretches};
pub use change::FoundHold;
pub use feed_message::FeedMessage;
pub use journal::{Changes, Copied, CopyCursor, StreamPosition};
use life::Lives;
use master::Scripts;
pub use offer::{Kept, NewOffer, OfferOutcome};
pub use organise::Stock;
pub use outcome::{
    Answer, ChangeOutcome, HoldLine, HoldOutcome, HoldRecord, LockOutcome, MapState, Place, Refusal, ReleaseWhat,
    Restored, Revoked, SellOutcome, Swept,
};
use parking_lot::Mutex;
pub use rule::{OrphanCheck, ReleaseRules, SeatRules, orphan_checks};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
pub use told::ToldHold;

/// Who asks, in which event, under which key.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The event's facts at the time of asking.
    pub event: Arc<EventFacts>,
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention; `None` for our own jobs.
    pub key: Option<IdempotencyKey>,
    /// SHA-256 of op and fields: the same key with another one is `KeyReused`.
    pub fingerprint: [u8; 32],
}

/// Why the shelf could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InventoryError {
    /// Redis or Postgres is down, or the event is being rebuilt: safe to try again later.
    #[error("the inventory is unavailable: {0}")]
    Unavailable(String),
    /// The script may or may not have run; the same key will tell.
    #[error("no answer in time")]
    TimeoutUnknown,
    /// Redis says it is full or busy: releases and sales still work.
    #[error("the inventory is overloaded: {0}")]
    Overloaded(String),
    /// The caller's facts of the event are old ones: read them anew and ask again.
    #[error("the event was changed meanwhile")]
    Stale,
    /// A reply we cannot read: a defect of ours.
    #[error("unexpected reply: {0}")]
    Malformed(String),
}

impl From<LineError> for InventoryError {
    fn from(error: LineError) -> Self {
        match error {
            LineError::NotConnected => Self::Unavailable(error.to_string()),
            LineError::TooMany => Self::Overloaded(error.to_string()),
            LineError::Unknown => Self::TimeoutUnknown,
        }
    }
}

impl From<StoreError> for InventoryError {
    /// A rebuild that Postgres stopped: nothing was opened, so it is safe to try again.
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

#[derive(Debug)]
struct Inner {
    scripts: Scripts,
    lives: Lives,
    store: Store,
    metrics: Arc<Metrics>,
    /// Events opened or rebuilt at once: each takes two connections to Postgres, and checkouts need theirs.
    openings: Semaphore,
    /// Baskets that rebuilds of this node gave back, until their owners are told; one entry a rebuild.
    restored: Mutex<Vec<Restored>>,
    /// Holds this node answered a moment ago.
    told: told::Told,
    /// Where newer facts come from.
    catalogue: OnceLock<Catalogue>,
    /// Whether callers with old facts are told so.
    wants_fresh: AtomicBool,
}

/// Events opened or rebuilt at once; further ones wait.
const MAX_OPENINGS: usize = 4;

/// Handle to the shelf; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inventory(Arc<Inner>);

impl Inventory {
    /// Connects to Redis (`redis://host:port`, `redis+unix:///path`, or a cluster at `redis-cluster://host:port,host:port`)
    /// and loads the scripts.
    ///
    /// # Errors
    /// `Unavailable` when Redis does not answer.
    pub async fn connect(
        config: &InventoryConfig,
        redis_url: &str,
        store: Store,
        metrics: Arc<Metrics>,
    ) -> Result<Self, InventoryError> {
        let scripts = Scripts::connect(redis_url, config).await?;
        Ok(Self(Arc::new(Inner {
            scripts,
            lives: Lives::default(),
            store,
            metrics,
            openings: Semaphore::new(MAX_OPENINGS),
            restored: Mutex::default(),
            told: told::Told::default(),
            catalogue: OnceLock::new(),
            wants_fresh: AtomicBool::new(false),
        })))
    }

    /// Adds seats to the caller's hold, all or none. 1 to 200 seats of the event, each once.
    ///
    /// # Errors
    /// `TimeoutUnknown` when it may or may not have happened; the same key will tell.
    pub async fn hold(&self, caller: Caller, seats: &[SeatIndex]) -> Result<Answer<HoldOutcome>, InventoryError> {
        hold::hold(&self.0, &caller, seats, &SeatRules::default()).await
    }

    /// The same under the rules that follow from the plan.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn hold_by_rules(
        &self,
        caller: Caller,
        seats: &[SeatIndex],
        rules: &SeatRules,
    ) -> Result<Answer<HoldOutcome>, InventoryError> {
        hold::hold(&self.0, &caller, seats, rules).await
    }

    /// Adds the first free one of at most [`MAX_BLOCKS`] blocks to the caller's hold. Without blocks: says that there is
    /// `nothing`, if the map is still the one that was `looked` at.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn hold_best(
        &self,
        caller: &Caller,
        blocks: &[Block],
        looked: Looked,
        nothing: Option<Nothing>,
    ) -> Result<BestTry, InventoryError> {
        best::hold(&self.0, caller, blocks, looked, nothing).await
    }

    /// Looks through a part of the map inside the script, ends what is due first, and takes the first block of `wanted`
    /// seats, or with `takes_any` any seats. `most_before`: these stretches are the last ones, and the longest free one seen
    /// before them was so long; `None`: there is more to look at, so nothing is refused for want of seats.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn hold_scanned(
        &self,
        caller: &Caller,
        wanted: u16,
        takes_any: bool,
        part: &Stretches,
        most_before: Option<u32>,
    ) -> Result<BestTry, InventoryError> {
        best::scan(&self.0, caller, wanted, takes_any, part, most_before).await
    }

    /// Adds places of an area to the caller's hold.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn hold_area(
        &self,
        caller: Caller,
        area: AreaIndex,
        quantity: u32,
    ) -> Result<Answer<HoldOutcome>, InventoryError> {
        hold::hold_area(&self.0, &caller, area, quantity).await
    }

    /// Names where newer facts come from, so that nobody holds at a price that is over. Without it callers' facts are taken
    /// as they are.
    pub fn follow(&self, catalogue: Catalogue) {
        // Named twice it stays the first: there is one a node.
        let _ = self.0.catalogue.set(catalogue);
        self.0.wants_fresh.store(true, Ordering::Relaxed);
    }

    /// Holds this node answered a moment before their life was lost, each named once: the journal may not know them. `None`
    /// when no life was lost since the last look.
    #[must_use]
    pub fn take_outlived(&self) -> Option<Vec<ToldHold>> {
        self.0.told.take_outlived(&self.0.lives)
    }

    /// Baskets that rebuilds of this node gave back or could not, each named once: their owners are to be told.
    #[must_use]
    pub fn take_restored(&self) -> Vec<Restored> {
        std::mem::take(&mut self.0.restored.lock())
    }

    /// The event as Redis has it, for an audit; opens and rebuilds nothing.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn audit(
        &self,
        event: &EventFacts,
        ledger: &crate::store::audit::Ledger,
    ) -> Result<audit::ShelfState, InventoryError> {
        audit::read(&self.0, event, ledger).await
    }

    /// Looks whether the Redis that answers is still the one we know. Another one: every event is looked at anew before
    /// the next command. In a cluster each master counts for its own events.
    ///
    /// # Errors
    /// When Redis does not answer; of a cluster, when no master does.
    pub async fn check_redis(&self) -> Result<(), InventoryError> {
        self.0.scripts.check().await
    }

    /// The event's time in epoch milliseconds, as far as this node knows it: that of `expires_ms`. Of an event that has
    /// not been spoken of here yet, Redis' clock, which its time began with.
    #[must_use]
    pub fn event_ms(&self, event: EventId) -> u64 {
        self.0.event_ms(event)
    }

    /// The event's time; `None` while nothing has been heard of it at this node.
    #[must_use]
    pub fn heard_event_ms(&self, event: EventId) -> Option<u64> {
        self.0.lives.time_of(event)
    }
}

impl Inner {
    /// The mask of the allocations that are open now; most events have none.
    fn open_allocations(&self, event: &EventFacts) -> u32 {
        if event.allocations.is_empty() { 0 } else { event.open_allocations(self.event_ms(event.id)) }
    }

    fn event_ms(&self, event: EventId) -> u64 {
        self.lives.time_of(event).unwrap_or_else(|| self.scripts.of(event).map_or(0, |master| master.now_ms()))
    }
}
