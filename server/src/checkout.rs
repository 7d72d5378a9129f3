//! The till: a hold becomes an order, money moves, tickets come out. `command` and `http` come in here with a request; the
//! answer is an order or a refusal as soon as it is settled, at latest after a few seconds; what happens later reaches the
//! buyer by push. `order` says what can follow what, `step` does it, `purchase` drives it, `resolve` picks up what is left.

mod ask;
mod charge;
mod dispute;
mod keyed;
mod letter;
mod many;
mod office;
pub mod order;
mod owe;
mod pace;
pub mod payment;
mod places;
mod purchase;
mod refund;
mod refusal;
mod resolve;
mod step;
mod ticket;
mod together;
mod view;
mod webhook;

pub use ask::{CheckoutAnswer, CheckoutRequest, OrderFile, OrderRequest};
pub use letter::Letter;
pub use refund::RefundWhat;
pub use refusal::{CheckoutError, CheckoutRefusal, CrashPoint};
pub use resolve::Looked;
pub use ticket::seal::{Claims, Seal, SealError, verify as verify_ticket};
pub use ticket::{Admission, PassOn};
pub use webhook::{APPLIED as APPLIED_EVENTS, Polled, Received};

use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::config::CheckoutConfig;
use crate::inventory::Inventory;
use crate::sender::Sender;
use crate::store::mail::MailKind;
use crate::store::{Store, order as orders, ticket as tickets};
use dashmap::DashMap;
use many::Lines;
use order::OrderState;
use pace::Pace;
use parking_lot::Mutex;
use payment::stripe::Provider;
use seatwire_proto::id::{EventId, IdentityId, OrderId, TicketId};
use seatwire_proto::server::Order;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use uuid::Uuid;

/// Open orders told to a buyer who says hello; nobody has more at once.
const MAX_OPEN_ORDERS: u32 = 20;
/// Money that is not settled after this long is shown to operators; most is within seconds.
const LISTED_AFTER: Duration = Duration::from_secs(60);
/// A buyer who looks at an order that waits for the provider makes us ask at once, but not more often than this.
const HASTEN_AFTER: Duration = Duration::from_secs(1);

/// Purchases under way at once beyond which the till is busy: at rest one takes some ten milliseconds, so this is hundreds a
/// second, or a provider that is slow.
const BUSY_AT: usize = 8;

#[derive(Debug)]
struct Inner {
    node: Uuid,
    config: CheckoutConfig,
    public_url: String,
    provider_name: String,
    provider: Provider,
    clock: Clock,
    store: Store,
    catalogue: Catalogue,
    inventory: Inventory,
    sender: Sender,
    relay_nudge: Arc<Notify>,
    check_nudge: Arc<Notify>,
    inbox_nudge: Arc<Notify>,
    crash_point: Mutex<Option<CrashPoint>>,
    dies_at: Option<CrashPoint>,
    /// Orders whose command waits for the relay; an entry lives as long as its command.
    waiting: DashMap<OrderId, Arc<Notify>>,
    seal: Seal,
    lines: Lines,
    /// Where the next batch of refunds of cancelled events begins.
    cancelled_cursor: Mutex<Option<OrderId>>,
    /// What is left of the looks of this second.
    pace: Mutex<Pace>,
    /// When old events of the inbox are forgotten next.
    prune_ms: AtomicU64,
}

/// What the till is built of.
#[derive(Debug)]
pub struct CheckoutParts {
    /// This run of this node, as its heartbeat names it.
    pub node: Uuid,
    /// Settings.
    pub config: CheckoutConfig,
    /// Where buyers reach us, without a slash at the end.
    pub public_url: String,
    /// The name kept with every order, e.g. `paysim`.
    pub provider_name: String,
    /// The payment provider.
    pub provider: Provider,
    /// Signs tickets.
    pub seal: Seal,
    /// The clock.
    pub clock: Clock,
    /// The ledger.
    pub store: Store,
    /// What is on sale.
    pub catalogue: Catalogue,
    /// The shelf.
    pub inventory: Inventory,
    /// Tells buyers' other pages.
    pub sender: Sender,
}

/// Handle to the till; cheap to clone.
#[derive(Debug, Clone)]
pub struct Checkout(Arc<Inner>);

impl Checkout {
    /// The till of these parts.
    #[must_use]
    pub fn new(parts: CheckoutParts) -> Self {
        Self(Arc::new(Inner {
            node: parts.node,
            config: parts.config,
            public_url: parts.public_url,
            provider_name: parts.provider_name,
            provider: parts.provider,
            clock: parts.clock,
            store: parts.store,
            catalogue: parts.catalogue,
            inventory: parts.inventory,
            sender: parts.sender,
            relay_nudge: Arc::new(Notify::new()),
            check_nudge: Arc::new(Notify::new()),
            inbox_nudge: Arc::new(Notify::new()),
            crash_point: Mutex::new(None),
            dies_at: CrashPoint::of_this_process(),
            waiting: DashMap::new(),
            seal: parts.seal,
            lines: Lines::default(),
            cancelled_cursor: Mutex::new(None),
            pace: Mutex::new(Pace::new(Instant::now())),
            prune_ms: AtomicU64::new(0),
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

    /// Whose order this is, told to whoever knows the secret of its `pay_url`; `None` for everyone else.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn owner_by_secret(&self, id: OrderId, secret: String) -> Result<Option<IdentityId>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let row = orders::read(inner.store.pool(), id).await?;
            Ok(row.filter(|row| ticket::is_secret(&row.pay_secret, &secret)).map(|row| row.identity))
        })
        .await
    }

    /// What a mail of this kind about an order says; `None`: there is nobody to write to (any more).
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn letter(
        &self,
        id: OrderId,
        ticket: Option<TicketId>,
        kind: MailKind,
    ) -> Result<Option<Letter>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.letter(id, ticket, kind).await }).await
    }

    /// The public key that tickets are verified with, base64.
    #[must_use]
    pub fn ticket_key(&self) -> String {
        self.0.seal.public_key()
    }

    /// The tickets of an order of this identity as a document to print; `None`: no such order, or nothing that admits.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn print_tickets(&self, identity: IdentityId, id: OrderId) -> Result<Option<Vec<u8>>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            match orders::read_own(inner.store.pool(), identity, id).await? {
                Some(row) => {
                    let tickets = tickets::of_order(inner.store.pool(), row.event, row.id, false).await?;
                    inner.print(&row, &row.buyer_name, tickets).await
                }
                None => Ok(None),
            }
        })
        .await
    }

    /// A ticket of an order of this identity as the fields of phones' wallets; `None`: no such ticket that admits.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn wallet(
        &self,
        identity: IdentityId,
        id: OrderId,
        ticket: seatwire_proto::id::TicketId,
    ) -> Result<Option<serde_json::Value>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            match orders::read_own(inner.store.pool(), identity, id).await? {
                Some(row) => inner.wallet(&row, ticket).await,
                None => Ok(None),
            }
        })
        .await
    }

    /// Passes a ticket on to somebody else: the old code no longer admits. Under a key, as paying is.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn pass_on(&self, ask: PassOn) -> Result<CheckoutAnswer, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.pass_on(&ask).await }).await
    }

    /// Admits a ticket at a door, once. `presented` is its code or what its QR code says; `scan` names this scan, so that
    /// asking again after a lost answer is no second entry.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn admit(
        &self,
        event: EventId,
        presented: String,
        door: String,
        scan: String,
    ) -> Result<Admission, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.admit(event, &presented, &door, &scan).await }).await
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
            Ok(inner.views(&rows).await?)
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
            Ok(inner.views(&rows).await?)
        })
        .await
    }

    /// An order as its buyer sees it, whoever asks; for the relay.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn view(&self, row: &orders::OrderRow) -> Result<Order, CheckoutError> {
        Ok(self.0.view(row).await?)
    }

    /// Orders as their buyers see them, whoever asks, in the order given; for the relay.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn views(&self, rows: &[orders::OrderRow]) -> Result<Vec<Order>, CheckoutError> {
        Ok(self.0.views(rows).await?)
    }

    /// The shelf knows what became of an order; the relay says so.
    pub fn shelf_knows(&self, id: OrderId) {
        if let Some(waiting) = self.0.waiting.get(&id) {
            waiting.notify_one();
        }
    }

    /// Whether so many buyers wait for the till that what nobody waits for should let them go first.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.0.waiting.len() >= BUSY_AT
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

    /// Told when the provider said something.
    #[must_use]
    pub fn inbox_nudge(&self) -> Arc<Notify> {
        self.0.inbox_nudge.clone()
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
    /// How many of `wanted` questions this node may ask now on its own account; they are counted.
    fn take_looks(&self, wanted: usize) -> usize {
        let share = self.provider.share();
        self.pace.lock().take(wanted, share, Instant::now())
    }

    fn crash(&self, here: CrashPoint) -> Result<(), CheckoutError> {
        if self.dies_at == Some(here) {
            // Nothing is cleaned up, as if the power had gone.
            let _ = std::process::Command::new("kill").args(["-s", "KILL", &std::process::id().to_string()]).status();
            std::process::abort();
        }
        let mut point = self.crash_point.lock();
        if *point == Some(here) {
            *point = None;
            return Err(CheckoutError::Interrupted(here));
        }
        Ok(())
    }
}
