//! The till: a hold becomes an order, money moves, tickets come out. `command` and `http` come in here with a request; the
//! answer is an order or a refusal as soon as it is settled, at latest after a few seconds; what happens later reaches the
//! buyer by push. `order` says what can follow what, `step` does it, `purchase` drives it, `resolve` picks up what is left.

pub mod order;
pub mod payment;
mod purchase;
mod refund;
mod resolve;
mod step;
mod ticket;
mod view;

pub use resolve::Looked;

use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::config::CheckoutConfig;
use crate::inventory::{Inventory, InventoryError};
use crate::store::order_command::{Claim, NewClaim};
use crate::store::{Store, StoreError, order as orders, order_command};
use dashmap::DashMap;
use order::{OrderEvent, OrderState};
use parking_lot::Mutex;
use payment::stripe::Provider;
use purchase::Reserved;
use seatwire_proto::client::{Buyer, IdempotencyKey};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::Order;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use step::{News, Stepped};
use tokio::sync::Notify;

/// A claimed key is its run's alone for this long: longer than a run needs to its answer. A dead run blocks the key so long.
const CLAIM_MS: u64 = 15_000;
/// An answer waits this long for the shelf to learn of it, so that a buyer who was answered `paid` is not told that the
/// hold is still locked. Redis down: the answer does not wait longer, the relay tells later.
const SHELF_PATIENCE: Duration = Duration::from_millis(250);
/// Open orders told to a buyer who says hello; nobody has more at once.
const MAX_OPEN_ORDERS: u32 = 20;
/// A buyer who looks at an order that waits for the provider makes us ask at once, but not more often than this.
const HASTEN_AFTER: Duration = Duration::from_secs(1);

/// A checkout to be done.
#[derive(Debug, Clone)]
pub struct CheckoutRequest {
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention.
    pub key: IdempotencyKey,
    /// SHA-256 of op and fields.
    pub fingerprint: [u8; 32],
    /// What is bought.
    pub hold: HoldId,
    /// Who buys.
    pub buyer: Buyer,
    /// The provider's payment method.
    pub method: String,
    /// What the buyer was shown.
    pub expect_total_minor: i64,
}

/// A `pay` or `cancel` to be done.
#[derive(Debug, Clone)]
pub struct OrderRequest {
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention.
    pub key: IdempotencyKey,
    /// SHA-256 of op and fields.
    pub fingerprint: [u8; 32],
    /// Which order.
    pub order: OrderId,
}

/// What a command of the till came to.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckoutAnswer {
    /// The order, or why not.
    pub outcome: Result<Order, CheckoutRefusal>,
    /// Given again under the same key.
    pub is_replayed: bool,
}

/// Why a command of the till was refused. Serialised under its key, so names and fields are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum CheckoutRefusal {
    /// No such hold of this identity.
    HoldNotFound,
    /// Its time is over.
    HoldExpired,
    /// Another order has it.
    HoldLocked {
        /// Which.
        order: OrderId,
    },
    /// Selling is over or has not begun.
    NotOnSale {
        /// When it begins.
        on_sale_ms: u64,
    },
    /// The total is another than the buyer was shown.
    PriceChanged {
        /// The total now.
        total_minor: i64,
    },
    /// Somebody else has these seats after all.
    SeatTaken {
        /// Which.
        seats: Vec<SeatIndex>,
    },
    /// The area is full after all.
    AreaFull {
        /// Places left.
        remaining: u32,
    },
    /// The identity has its fill after all.
    LimitExceeded {
        /// Seats and places allowed.
        limit: u32,
        /// Had already.
        used: u32,
    },
    /// No such order of this identity.
    OrderNotFound,
    /// It is paid.
    AlreadyPaid,
    /// A payment is open; its outcome comes by itself.
    PaymentOpen,
    /// No further payment is taken.
    PayRefused,
    /// It cannot be cancelled now.
    CancelRefused,
    /// Same key, other fields.
    KeyReused,
    /// The command with this key is still running.
    KeyInUse,
}

/// Why the till could not answer. Any but `TimeoutUnknown` and `Internal` means that no order was made or changed.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// Postgres.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// It may have happened; the same key will tell.
    #[error("the outcome is not known yet")]
    TimeoutUnknown,
    /// A defect of ours.
    #[error("{0}")]
    Internal(String),
    /// A test ended the purchase here.
    #[error("interrupted at {0:?}")]
    Interrupted(CrashPoint),
}

/// Places between two durable steps where a process may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashPoint {
    /// The key is claimed.
    Claimed,
    /// The hold is locked.
    Locked,
    /// The order stands, its seats are reserved.
    Reserved,
    /// The provider knows the order; we have not written so.
    IntentCreated,
    /// The attempt is recorded; the provider was not asked.
    AttemptRecorded,
    /// The provider has answered; we have not written so.
    Confirmed,
    /// The provider has cancelled; we have not written so.
    Fenced,
}

impl CrashPoint {
    /// All of them.
    pub const ALL: &'static [CrashPoint] = &[
        Self::Claimed,
        Self::Locked,
        Self::Reserved,
        Self::IntentCreated,
        Self::AttemptRecorded,
        Self::Confirmed,
        Self::Fenced,
    ];
}

#[derive(Debug)]
struct Inner {
    config: CheckoutConfig,
    public_url: String,
    provider_name: String,
    provider: Provider,
    clock: Clock,
    store: Store,
    catalogue: Catalogue,
    inventory: Inventory,
    relay_nudge: Arc<Notify>,
    check_nudge: Arc<Notify>,
    crash_point: Mutex<Option<CrashPoint>>,
    /// Orders whose command waits for the relay; an entry lives as long as its command.
    waiting: DashMap<OrderId, Arc<Notify>>,
}

/// What the till is built of.
#[derive(Debug)]
pub struct CheckoutParts {
    /// Settings.
    pub config: CheckoutConfig,
    /// Where buyers reach us, without a slash at the end.
    pub public_url: String,
    /// The name kept with every order, e.g. `paysim`.
    pub provider_name: String,
    /// The payment provider.
    pub provider: Provider,
    /// The clock.
    pub clock: Clock,
    /// The ledger.
    pub store: Store,
    /// What is on sale.
    pub catalogue: Catalogue,
    /// The shelf.
    pub inventory: Inventory,
}

/// Handle to the till; cheap to clone.
#[derive(Debug, Clone)]
pub struct Checkout(Arc<Inner>);

impl Checkout {
    /// The till of these parts.
    #[must_use]
    pub fn new(parts: CheckoutParts) -> Self {
        Self(Arc::new(Inner {
            config: parts.config,
            public_url: parts.public_url,
            provider_name: parts.provider_name,
            provider: parts.provider,
            clock: parts.clock,
            store: parts.store,
            catalogue: parts.catalogue,
            inventory: parts.inventory,
            relay_nudge: Arc::new(Notify::new()),
            check_nudge: Arc::new(Notify::new()),
            crash_point: Mutex::new(None),
            waiting: DashMap::new(),
        }))
    }

    /// Turns a hold into an order and pays it.
    ///
    /// # Errors
    /// As [`CheckoutError`] says.
    pub async fn checkout(&self, request: CheckoutRequest) -> Result<CheckoutAnswer, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.checkout(request).await }).await
    }

    /// Pays an order again after a decline.
    ///
    /// # Errors
    /// As [`CheckoutError`] says.
    pub async fn pay(&self, request: OrderRequest, method: String) -> Result<CheckoutAnswer, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.pay(request, method).await }).await
    }

    /// Gives an order up before it is paid.
    ///
    /// # Errors
    /// As [`CheckoutError`] says.
    pub async fn cancel(&self, request: OrderRequest) -> Result<CheckoutAnswer, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.cancel(request).await }).await
    }

    /// An order of this identity. One that waits for the provider is asked about at once.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn order(&self, identity: IdentityId, id: OrderId) -> Result<Option<Order>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let Some(row) = orders::read_own(inner.store.pool(), identity, id).await? else { return Ok(None) };
            if matches!(row.state, OrderState::ActionRequired | OrderState::PaymentUnknown | OrderState::Processing) {
                let at_ms = inner.clock.now_ms() + HASTEN_AFTER.as_millis() as u64;
                orders::hasten_check(inner.store.pool(), id, at_ms).await?;
                inner.check_nudge.notify_one();
            }
            Ok(Some(inner.view(&row).await?))
        })
        .await
    }

    /// Orders of this identity, newest first, older than `before`; at most `limit`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn orders(
        &self,
        identity: IdentityId,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let rows = orders::list_own(inner.store.pool(), identity, before, limit).await?;
            inner.views(&rows).await
        })
        .await
    }

    /// Orders of this identity that are not settled.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn open_orders(&self, identity: IdentityId) -> Result<Vec<Order>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let rows = orders::list_own_open(inner.store.pool(), identity, MAX_OPEN_ORDERS).await?;
            inner.views(&rows).await
        })
        .await
    }

    /// Looks at an order whose time has come; `job/reconcile_payments` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn look_at(&self, id: OrderId) -> Result<Looked, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.look_at(id).await }).await
    }

    /// An order as its buyer sees it, whoever asks; for the relay.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn view(&self, row: &orders::OrderRow) -> Result<Order, CheckoutError> {
        Ok(self.0.view(row).await?)
    }

    /// The shelf knows what became of an order; the relay says so.
    pub fn shelf_knows(&self, id: OrderId) {
        if let Some(waiting) = self.0.waiting.get(&id) {
            waiting.notify_one();
        }
    }

    /// Told when something was put into the outbox.
    #[must_use]
    pub fn relay_nudge(&self) -> Arc<Notify> {
        self.0.relay_nudge.clone()
    }

    /// Told when an order should be looked at.
    #[must_use]
    pub fn check_nudge(&self) -> Arc<Notify> {
        self.0.check_nudge.clone()
    }

    /// The next purchase that comes to this point ends there, as if the process had died. For tests of recovery.
    pub fn crash_at(&self, point: CrashPoint) {
        *self.0.crash_point.lock() = Some(point);
    }
}

/// Runs to its end even when the caller goes away: a database future dropped half way leaves its connection in an open
/// transaction.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, CheckoutError>> + Send + 'static,
) -> Result<T, CheckoutError> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(CheckoutError::Internal(error.to_string())))
}

impl Inner {
    fn crash(&self, here: CrashPoint) -> Result<(), CheckoutError> {
        let mut point = self.crash_point.lock();
        if *point == Some(here) {
            *point = None;
            return Err(CheckoutError::Interrupted(here));
        }
        Ok(())
    }

    async fn checkout(self: Arc<Self>, request: CheckoutRequest) -> Result<CheckoutAnswer, CheckoutError> {
        let claim = NewClaim {
            identity: request.identity,
            key: &request.key,
            fingerprint: &request.fingerprint,
            order: OrderId::generate(),
            hold: Some(request.hold),
        };
        let id = match self.claim(claim).await? {
            Ok(id) => id,
            Err(answer) => return Ok(answer),
        };
        self.crash(CrashPoint::Claimed)?;
        let row = match self.reserve(&request, id).await {
            Ok(Reserved::Order(row)) => *row,
            Ok(Reserved::Refused(refusal)) => {
                return Ok(self.answer(request.identity, &request.key, Err(refusal)).await);
            }
            Err(CheckoutError::Interrupted(point)) => return Err(CheckoutError::Interrupted(point)),
            Err(error) => {
                self.give_up_claim(request.identity, &request.key).await;
                return Err(error);
            }
        };
        let method = request.method.clone();
        let inner = self.clone();
        let saga = async move { inner.pay_new(row, &method).await };
        self.answer_when_settled(saga, request.identity, &request.key, id).await
    }

    async fn pay(self: Arc<Self>, request: OrderRequest, method: String) -> Result<CheckoutAnswer, CheckoutError> {
        let id = match self.claim_for(&request).await? {
            Ok(id) => id,
            Err(answer) => return Ok(answer),
        };
        let (identity, key) = (request.identity, &request.key);
        let begun = async {
            let Some(row) = orders::read_own(self.store.pool(), identity, id).await? else {
                return Ok(Err(CheckoutRefusal::OrderNotFound));
            };
            self.begin_again(&row, &method).await
        };
        let row = match begun.await {
            Ok(Ok(row)) => row,
            Ok(Err(refusal)) => return Ok(self.answer(identity, key, Err(refusal)).await),
            Err(error) => {
                self.give_up_claim(identity, key).await;
                return Err(error);
            }
        };
        let inner = self.clone();
        let saga = async move {
            inner.crash(CrashPoint::AttemptRecorded)?;
            if row.state == OrderState::Confirming { inner.confirm(row, &method).await } else { Ok(()) }
        };
        self.answer_when_settled(saga, identity, key, id).await
    }

    async fn cancel(self: Arc<Self>, request: OrderRequest) -> Result<CheckoutAnswer, CheckoutError> {
        let id = match self.claim_for(&request).await? {
            Ok(id) => id,
            Err(answer) => return Ok(answer),
        };
        let (identity, key) = (request.identity, &request.key);
        let begun = async {
            if orders::read_own(self.store.pool(), identity, id).await?.is_none() {
                return Ok(Err(CheckoutRefusal::OrderNotFound));
            }
            let stepped = self.step(id, &[News::Plain(OrderEvent::BuyerCancelled)]).await?;
            Ok::<_, CheckoutError>(match stepped {
                Stepped::Moved(row) => Ok(*row),
                Stepped::Stays(row) if matches!(row.state, OrderState::Cancelled | OrderState::Cancelling) => Ok(*row),
                Stepped::Stays(_) => Err(CheckoutRefusal::CancelRefused),
            })
        };
        let row = match begun.await {
            Ok(Ok(row)) => row,
            Ok(Err(refusal)) => return Ok(self.answer(identity, key, Err(refusal)).await),
            Err(error) => {
                self.give_up_claim(identity, key).await;
                return Err(error);
            }
        };
        let inner = self.clone();
        let saga =
            async move { if row.state == OrderState::Cancelling { inner.fence(&row).await.map(drop) } else { Ok(()) } };
        self.answer_when_settled(saga, identity, key, id).await
    }

    async fn claim_for(&self, request: &OrderRequest) -> Result<Result<OrderId, CheckoutAnswer>, CheckoutError> {
        let claim = NewClaim {
            identity: request.identity,
            key: &request.key,
            fingerprint: &request.fingerprint,
            order: request.order,
            hold: None,
        };
        self.claim(claim).await
    }

    /// Claims a key: the order to work on, or the answer that stands already.
    async fn claim(&self, claim: NewClaim<'_>) -> Result<Result<OrderId, CheckoutAnswer>, CheckoutError> {
        let now_ms = self.clock.now_ms();
        let refused = |refusal| Err(CheckoutAnswer { outcome: Err(refusal), is_replayed: false });
        Ok(match order_command::claim(self.store.pool(), claim, now_ms, now_ms + CLAIM_MS).await? {
            Claim::Ours(order) => Ok(order),
            Claim::Running => refused(CheckoutRefusal::KeyInUse),
            Claim::Reused => refused(CheckoutRefusal::KeyReused),
            Claim::Answered(answer) => Err(CheckoutAnswer { outcome: read_answer(answer)?, is_replayed: true }),
        })
    }

    /// Waits for the purchase, but not for ever; answers with the order as it stands then.
    async fn answer_when_settled(
        &self,
        saga: impl Future<Output = Result<(), CheckoutError>> + Send + 'static,
        identity: IdentityId,
        key: &IdempotencyKey,
        id: OrderId,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        let told = self.waiting.entry(id).or_default().clone();
        let ended = tokio::time::timeout(self.config.answer_within, tokio::spawn(saga)).await;
        let answer = self.answer_after(ended, &told, identity, key, id).await;
        self.waiting.remove(&id);
        answer
    }

    async fn answer_after(
        &self,
        ended: Result<Result<Result<(), CheckoutError>, tokio::task::JoinError>, tokio::time::error::Elapsed>,
        told: &Notify,
        identity: IdentityId,
        key: &IdempotencyKey,
        id: OrderId,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        match ended {
            // The purchase goes on by itself.
            Err(_) | Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(CheckoutError::Interrupted(point)))) => return Err(CheckoutError::Interrupted(point)),
            Ok(Ok(Err(error))) => tracing::error!(order = %id, %error, "a purchase is left to the reconciler"),
            Ok(Err(error)) => return Err(CheckoutError::Internal(error.to_string())),
        }
        // The order stands: from here on "no order was made" would be a lie.
        let Ok(Some(row)) = orders::read_own(self.store.pool(), identity, id).await else {
            return Err(CheckoutError::TimeoutUnknown);
        };
        if matches!(row.state, OrderState::Fulfilled | OrderState::Cancelled) {
            // Late is not wrong: the relay has the row.
            let _ = tokio::time::timeout(SHELF_PATIENCE, told.notified()).await;
        }
        let view = self.view(&row).await.map_err(|_| CheckoutError::TimeoutUnknown)?;
        Ok(self.answer(identity, key, Ok(view)).await)
    }

    /// Remembers an answer under its key and gives it.
    async fn answer(
        &self,
        identity: IdentityId,
        key: &IdempotencyKey,
        outcome: Result<Order, CheckoutRefusal>,
    ) -> CheckoutAnswer {
        let stored = match &outcome {
            Ok(order) => serde_json::json!({ "order": order }),
            Err(refusal) => serde_json::json!(refusal),
        };
        if let Err(error) = order_command::finish(self.store.pool(), identity, key, &stored).await {
            tracing::warn!(%error, "an answer could not be remembered; the key will run again");
        }
        CheckoutAnswer { outcome, is_replayed: false }
    }

    /// The same key may run again at once.
    async fn give_up_claim(&self, identity: IdentityId, key: &IdempotencyKey) {
        if let Err(error) = order_command::give_up(self.store.pool(), identity, key).await {
            tracing::warn!(%error, "a claim could not be given up; it ends by itself");
        }
    }

    async fn views(&self, rows: &[orders::OrderRow]) -> Result<Vec<Order>, CheckoutError> {
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            views.push(self.view(row).await?);
        }
        Ok(views)
    }
}

fn read_answer(answer: serde_json::Value) -> Result<Result<Order, CheckoutRefusal>, CheckoutError> {
    #[derive(Deserialize)]
    struct Stored {
        order: Order,
    }
    let malformed = |error: serde_json::Error| CheckoutError::Internal(format!("a remembered answer: {error}"));
    if answer.get("order").is_some_and(|order| order.is_object()) {
        return Ok(Ok(serde_json::from_value::<Stored>(answer).map_err(malformed)?.order));
    }
    Ok(Err(serde_json::from_value(answer).map_err(malformed)?))
}
