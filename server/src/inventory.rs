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
mod rebuild;
mod record;
mod rule;
mod script;
mod settle;
mod told;

use crate::catalogue::{AllocationFacts, Catalogue, EventFacts};
use crate::config::InventoryConfig;
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
use parking_lot::Mutex;
pub use rule::{OrphanCheck, ReleaseRules, SeatRules, orphan_checks};
use seatwire_proto::client::{AreaQuantity, IdempotencyKey, Position};
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

mod wire;

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

/// A hold as Redis keeps it, prices as they were when each line was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRecord {
    /// Its id.
    pub id: HoldId,
    /// Whose.
    pub identity: IdentityId,
    /// When it ends, Redis' clock; while locked, when the lock ends.
    pub expires_ms: u64,
    /// Whether its one extension is used.
    pub is_extended: bool,
    /// The order whose checkout has begun.
    pub locked_by: Option<OrderId>,
    /// Whether it is a waitlist offer.
    pub is_offer: bool,
    /// Seats in the order they were added, then areas.
    pub lines: Vec<HoldLine>,
}

/// One seat, or some places of one area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldLine {
    /// What.
    pub place: Place,
    /// 1 for a seat.
    pub quantity: u32,
    /// Index into the event's price tiers.
    pub price_tier: u8,
    /// Per unit.
    pub price_minor: i64,
    /// Per unit.
    pub fee_minor: i64,
}

/// A seat or an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A seat.
    Seat(SeatIndex),
    /// An area.
    Area(AreaIndex),
}

/// An outcome, where the map stood, and whether it is a remembered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// What came of it.
    pub outcome: T,
    /// Position of the map at that moment.
    pub position: Position,
    /// Redis' clock at that moment; a remembered answer keeps its first one, so that it is given again byte for byte.
    pub server_ms: u64,
    /// Given again under the same key.
    pub is_replayed: bool,
}

/// What came of `hold`, `hold_best`, `hold_area`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldOutcome {
    /// Held: the whole basket, and the seats this command added.
    Held {
        /// The basket now.
        hold: HoldRecord,
        /// Seats added by this command.
        added: Vec<SeatIndex>,
        /// `hold_best`: whether they are one block.
        is_together: bool,
    },
    /// Not now.
    Refused(Refusal),
}

/// What came of `extend` and `release`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Done: the basket now, `None` when nothing is left of it.
    Done(Option<HoldRecord>),
    /// Not now.
    Refused(Refusal),
}

/// What came of `lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockOutcome {
    /// Locked for the order: the basket as it will be paid.
    Locked(HoldRecord),
    /// Not now.
    Refused(Refusal),
}

/// Why an inventory command was refused; in the order in which the scripts look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Same key, other body.
    KeyReused,
    /// The event has a waiting room and the identity is not admitted.
    AdmissionRequired,
    /// Selling has not begun or is over.
    NotOnSale,
    /// Selling is paused.
    Paused,
    /// Nothing is left.
    SoldOut,
    /// No such hold of this identity.
    HoldNotFound,
    /// Its time is over.
    HoldExpired,
    /// Extended already.
    ExtendRefused,
    /// Being paid for.
    HoldLocked(OrderId),
    /// One of the sections sells best available only.
    ModeNotAllowed,
    /// These seats are not available.
    SeatTaken(Vec<SeatIndex>),
    /// `hold_best`: the longest block there is.
    NotEnough {
        /// Seats in the longest block.
        most_together: u32,
    },
    /// The area has fewer places than asked for.
    AreaFull {
        /// Places left.
        remaining: u32,
    },
    /// The identity's limit.
    LimitExceeded {
        /// Seats and places allowed.
        limit: u32,
        /// Held and bought already.
        used: u32,
    },
    /// The code opens nothing.
    CodeInvalid,
    /// Companion seats go with an accessible seat.
    CompanionRule,
    /// These single seats would be left.
    OrphanSeat(Vec<SeatIndex>),
    /// A released seat or place is not in the hold; its position in the list.
    NotInHold {
        /// `seats` or `areas`.
        is_area: bool,
        /// Position in the command's list.
        position: usize,
    },
}

/// What to give back of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseWhat {
    /// All of it.
    All,
    /// These.
    Parts {
        /// Seats.
        seats: Vec<SeatIndex>,
        /// Places.
        areas: Vec<AreaQuantity>,
    },
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

impl From<StoreError> for InventoryError {
    /// A rebuild that Postgres stopped: nothing was opened, so it is safe to try again.
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// The whole map at one position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapState {
    /// Life of the inventory.
    pub epoch: u32,
    /// Counter within it.
    pub seq: u64,
    /// Redis' clock.
    pub server_ms: u64,
    /// Public state of each seat, by the numbers of the wire.
    pub states: Vec<u8>,
    /// What is left of each area.
    pub areas: Vec<u32>,
}

/// What came of `sell`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SellOutcome {
    /// The buyer's hold after it: none, unless another one was opened meanwhile.
    pub hold: Option<HoldRecord>,
    /// Open holds that lost seats to a late success.
    pub revoked: Vec<Revoked>,
}

/// An open hold that lost seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// As it was.
    pub was: HoldRecord,
    /// What is left of it; `None`: nothing.
    pub now: Option<HoldRecord>,
}

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Holds that ended, as they were.
    pub expired: Vec<HoldRecord>,
    /// Holds that have come to 60 s or to 15 s before their end; each is named once for each.
    pub expiring: Vec<HoldRecord>,
    /// Holds still open.
    pub open_holds: u32,
}

/// What a rebuild made of the baskets of the life before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Which event.
    pub event: EventId,
    /// Holds that go on, maybe with fewer places.
    pub holds: Vec<(IdentityId, HoldId)>,
    /// Holds of which nothing could be given back, as they were.
    pub revoked: Vec<HoldRecord>,
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
    /// seats, or with `takes_any` any seats. `nothing`: what to answer when these stretches were the last ones.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn hold_scanned(
        &self,
        caller: &Caller,
        wanted: u16,
        takes_any: bool,
        part: &Stretches,
        nothing: Option<Nothing>,
    ) -> Result<BestTry, InventoryError> {
        best::scan(&self.0, caller, wanted, takes_any, part, nothing).await
    }

    /// Opens an allocation for the caller; `None`: the code opened nothing, which is remembered under the key.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn unlock_allocation(
        &self,
        caller: &Caller,
        allocation: Option<&AllocationFacts>,
    ) -> Result<Answer<UnlockOutcome>, InventoryError> {
        allocation::unlock(&self.0, caller, allocation).await
    }

    /// Brings Redis to what the facts say of allocations. As often as you like.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn keep_allocations(&self, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
        allocation::keep(&self.0, event).await
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

    /// Tells the shelf of the event's newest state, limits, seats and areas.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn configure(&self, event: &Arc<EventFacts>) -> Result<(), InventoryError> {
        organise::configure(&self.0, event).await
    }

    /// Takes seats out of the sale, at most 500; names those left alone and what they are.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn block(
        &self,
        event: &Arc<EventFacts>,
        seats: &[SeatIndex],
    ) -> Result<Answer<Vec<(SeatIndex, SeatState)>>, InventoryError> {
        organise::block(&self.0, event, seats, true).await
    }

    /// Puts blocked seats back on sale, at most 500.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn unblock(&self, event: &Arc<EventFacts>, seats: &[SeatIndex]) -> Result<(), InventoryError> {
        organise::block(&self.0, event, seats, false).await.map(drop)
    }

    /// Ends open holds of an event that is over, from the identity with number `from` on; also where to go on.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn end_holds(
        &self,
        event: &Arc<EventFacts>,
        from: u32,
        most: u32,
    ) -> Result<(Vec<HoldRecord>, Option<u32>), InventoryError> {
        organise::end_holds(&self.0, event, from, most).await
    }

    /// What is left of an event.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn stock(&self, event: &Arc<EventFacts>) -> Result<Stock, InventoryError> {
        organise::stock(&self.0, event).await
    }

    /// Whether what becomes free is kept for the waitlist from now on. Ending it puts kept seats on the map, and says
    /// whether more are left: then ask again.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn keep_for_waitlist(&self, event: &Arc<EventFacts>, keeps: bool) -> Result<bool, InventoryError> {
        offer::keep(&self.0, event, keeps).await
    }

    /// Puts these kept seats, at most 500, and all kept places of these areas on the map: nobody who waits can use them.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn give_up_kept(
        &self,
        event: &Arc<EventFacts>,
        seats: &[SeatIndex],
        areas: &[AreaIndex],
    ) -> Result<(), InventoryError> {
        offer::give_up(&self.0, event, seats, areas).await
    }

    /// What is kept for the waitlist.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn kept(&self, event: &Arc<EventFacts>) -> Result<Kept, InventoryError> {
        offer::kept(&self.0, event).await
    }

    /// Makes kept seats and places a hold of somebody who waited.
    ///
    /// # Errors
    /// When Redis does not answer; asked again it answers with the offer that was made.
    pub async fn offer(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        offer: &NewOffer,
    ) -> Result<OfferOutcome, InventoryError> {
        offer::offer(&self.0, event, identity, offer).await
    }

    /// Adds 120 s to a hold, once.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn extend(&self, caller: Caller, hold: HoldId) -> Result<Answer<ChangeOutcome>, InventoryError> {
        change::extend(&self.0, &caller, hold).await
    }

    /// Gives back a hold or parts of it. A refusal `NotInHold` is not remembered.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn release(
        &self,
        caller: Caller,
        hold: HoldId,
        what: ReleaseWhat,
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        change::release(&self.0, &caller, hold, &what, &ReleaseRules::default()).await
    }

    /// The same under the rules that follow from the plan for the seats that leave, when others stay.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn release_by_rules(
        &self,
        caller: Caller,
        hold: HoldId,
        what: ReleaseWhat,
        rules: &ReleaseRules,
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        change::release(&self.0, &caller, hold, &what, rules).await
    }

    /// The identity's open hold.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn open_hold(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
    ) -> Result<Option<HoldRecord>, InventoryError> {
        change::open_hold(&self.0, event, identity).await
    }

    /// What is behind a hold's id: open, over, or nothing of this identity's.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn find_hold(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        hold: HoldId,
    ) -> Result<FoundHold, InventoryError> {
        change::find_hold(&self.0, event, identity, hold).await
    }

    /// The hold in a record of the journal, if its time is not over: what was known a moment ago, while Redis is silent.
    ///
    /// # Errors
    /// `Malformed` for bytes that are no record.
    pub fn journalled_hold(&self, identity: IdentityId, record: &[u8]) -> Result<Option<HoldRecord>, InventoryError> {
        journal::hold_of(identity, record, self.now_ms())
    }

    /// Holds this node answered a moment before their life was lost, each named once: the journal may not know them.
    #[must_use]
    pub fn take_outlived(&self) -> Vec<HoldRecord> {
        self.0.told.take_outlived(&self.0.lives)
    }

    /// Keeps a hold for a checkout until `until_ms` by Redis' clock ([`Inventory::now_ms`]); a locked hold does not end by
    /// itself, whoever locked it must sell, free or unlock it. Again for the same order: the later end counts. The
    /// answer's epoch is the one the checkout's fence must find.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn lock(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        hold: HoldId,
        order: OrderId,
        until_ms: u64,
    ) -> Result<Answer<LockOutcome>, InventoryError> {
        change::lock(&self.0, event, identity, hold, order, until_ms).await
    }

    /// The checkout was refused before anything was reserved: the hold goes on with the time it has left.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn unlock(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        hold: HoldId,
        order: OrderId,
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        change::unlock(&self.0, event, identity, hold, order).await
    }

    /// A paid order's places are sold. Call it after the commit, as often as you like. `places`: everything in the order.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn sell(
        &self,
        event: &Arc<EventFacts>,
        order: OrderId,
        identity: IdentityId,
        places: &[(Place, u32)],
    ) -> Result<Answer<SellOutcome>, InventoryError> {
        settle::sell(&self.0, event, order, identity, places).await
    }

    /// Places of a cancelled or refunded order are free again. Call it after the commit, as often as you like. `places`:
    /// everything of this order that is free now, what an earlier call named included.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn free(
        &self,
        event: &Arc<EventFacts>,
        order: OrderId,
        identity: IdentityId,
        places: &[(Place, u32)],
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        settle::free(&self.0, event, order, identity, places).await
    }

    /// The whole map; opens or rebuilds the event when that is needed.
    ///
    /// # Errors
    /// When Redis does not answer, or Postgres does not while the event must be rebuilt.
    pub async fn read_map(&self, event: &Arc<EventFacts>) -> Result<MapState, InventoryError> {
        map::read_map(&self.0, event).await
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
        map::changes_since(&self.0, event, epoch, seq).await
    }

    /// What the journal must still learn of this life, from a position in its stream on.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn journal_changes(
        &self,
        event: &Arc<EventFacts>,
        epoch: u32,
        from: StreamPosition,
    ) -> Result<Changes, InventoryError> {
        journal::changes(&self.0, event, epoch, from).await
    }

    /// Some records of the event's life, for a journal that is not whole; from `cursor` on.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn journal_copy(&self, event: &Arc<EventFacts>, cursor: &CopyCursor) -> Result<Copied, InventoryError> {
        journal::copy(&self.0, event, cursor).await
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

    /// Ends holds of the event whose time has come.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn sweep(&self, event: &Arc<EventFacts>) -> Result<Swept, InventoryError> {
        expiry::sweep(&self.0, event).await
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
        self.0.lives.all().iter().filter(|life| expiry::is_due(life)).map(|life| life.facts()).collect()
    }

    /// Looks whether the Redis that answers is still the one we know. Another one: every event is looked at anew before
    /// the next command. In a cluster each master counts for its own events.
    ///
    /// # Errors
    /// When Redis does not answer; of a cluster, when no master does.
    pub async fn check_redis(&self) -> Result<(), InventoryError> {
        self.0.scripts.check().await
    }

    /// Redis' clock in epoch milliseconds, as far as this node knows it: the clock of `expires_ms`.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.0.scripts.now_ms()
    }
}
