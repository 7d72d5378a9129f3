//! The till for those behind the counter: jobs that take orders further, operators who look and give back, the door the
//! provider speaks at. Each call runs to its end by itself, as those of buyers do.

use super::{
    APPLIED_EVENTS, Checkout, CheckoutAnswer, CheckoutError, CrashPoint, LISTED_AFTER, Looked, OrderFile, OrderRequest,
    Polled, Received, RefundWhat, detached,
};
use crate::organiser::Operator;
use crate::store::dispute;
use crate::store::open_payment::{self, OpenPayment};
use crate::store::unreadable_event::{self, UnreadableEvent};
use crate::store::{StoreError, order as orders, refund as refund_rows};
use bytes::Bytes;
use seatwire_proto::id::OrderId;
use std::sync::Arc;
use tokio::sync::Notify;

impl Checkout {
    /// Looks at an order whose time has come; `job/reconcile_payments` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn look_at(&self, id: OrderId) -> Result<Looked, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.look_at(id).await }).await
    }

    /// How many of `wanted` orders this node may look at now without asking the provider too often; they are counted.
    #[must_use]
    pub fn take_looks(&self, wanted: usize) -> usize {
        self.0.take_looks(wanted)
    }

    /// Gives money back, once for the caller's key: the order as it stands then, or why not. For operators: the identity is
    /// their key's, `key_name` its name, both stand in the log.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn refund(
        &self,
        request: OrderRequest,
        key_name: String,
        what: RefundWhat,
        reason: String,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.refund_by_key(request, key_name, what, reason).await }).await
    }

    /// An order with everything an operator may see of it; `None`: no such order.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn file(&self, id: OrderId) -> Result<Option<OrderFile>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let pool = inner.store.pool();
            let Some(row) = orders::read(pool, id).await? else { return Ok(None) };
            let refunds = refund_rows::list_of_order(pool, id).await?;
            let disputes = dispute::list_of_order(pool, id).await?;
            Ok(Some(OrderFile {
                order: inner.view(&row).await?,
                state: row.state,
                intent: row.intent,
                refunds,
                disputes,
            }))
        })
        .await
    }

    /// Asks the provider about an order now, whatever its time; false: there is nothing to ask.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn look_now(&self, id: OrderId) -> Result<bool, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let is_due = orders::make_due(inner.store.pool(), id, inner.clock.now_ms()).await?;
            inner.check_nudge.notify_one();
            Ok(is_due)
        })
        .await
    }

    /// Begins the refunds of paid orders of cancelled events, a bounded number; how many. `job/refund_cancelled` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn refund_cancelled(&self) -> Result<usize, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.refund_cancelled().await }).await
    }

    /// Gives up unpaid orders of cancelled events, a bounded number; how many. `job/refund_cancelled` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn cancel_unpaid(&self) -> Result<usize, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.cancel_unpaid().await }).await
    }

    /// Whether the provider is being asked for money: false while its circuit is open, when nobody should be admitted to a
    /// till that cannot take anything.
    #[must_use]
    pub fn is_provider_open(&self) -> bool {
        self.0.provider.is_open()
    }

    /// Whether nobody should begin to pay because the provider says that it is busy and those who pay already wait for it.
    #[must_use]
    pub fn is_provider_jammed(&self) -> bool {
        self.0.provider.is_jammed()
    }

    /// Asks a provider whose circuit is open something that costs nothing: where nothing worked, its first answer has events
    /// read and lets a buyer try at once; where only charges fail, it changes nothing. Whether the circuit is closed now.
    /// `job/probe_provider` calls it.
    pub async fn probe_provider(&self) -> bool {
        if !self.0.provider.is_open() {
            // What it says does not matter, only that it does.
            let _ = self.0.provider.events_after(None, APPLIED_EVENTS, 1).await;
        }
        self.0.provider.is_open()
    }

    /// Told when the provider answers again after it failed again and again.
    #[must_use]
    pub fn provider_back(&self) -> Arc<Notify> {
        self.0.provider.back()
    }

    /// Signed words of the provider that nobody could read, oldest first; at most `limit`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn unreadable_events(&self, limit: u32) -> Result<Vec<UnreadableEvent>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { Ok(unreadable_event::list(inner.store.pool(), limit).await?) }).await
    }

    /// A person has looked at one of them; false: there is none of this hash.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn put_away_unreadable(&self, by: Operator, hash: Vec<u8>) -> Result<bool, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let mut transaction = crate::store::begin(inner.store.pool()).await?;
            if !unreadable_event::remove(&mut *transaction, &hash).await? {
                return Ok(false);
            }
            let detail = serde_json::json!({"id": hex::encode(&hash)});
            by.note(&mut *transaction, "payment.put_away", None, detail, inner.clock.now_ms()).await?;
            transaction.commit().await.map_err(StoreError::from)?;
            Ok(true)
        })
        .await
    }

    /// Orders whose money has not been settled for a while, or that a person must look at; the oldest first, behind
    /// `after`, at most `limit`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn open_payments(&self, after: Option<OrderId>, limit: u32) -> Result<Vec<OpenPayment>, CheckoutError> {
        let inner = self.0.clone();
        detached(async move {
            let before_ms = inner.clock.now_ms().saturating_sub(LISTED_AFTER.as_millis() as u64);
            Ok(open_payment::list(inner.store.pool(), before_ms, after, limit).await?)
        })
        .await
    }

    /// Keeps a webhook of the provider; it is applied soon after.
    ///
    /// # Errors
    /// When Postgres does not answer: nothing was kept.
    pub async fn receive_webhook(&self, signature: String, body: Bytes) -> Result<Received, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.receive(&signature, &body).await }).await
    }

    /// Applies due events of the inbox; how many. `job/apply_webhooks` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn apply_inbox(&self) -> Result<usize, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.apply_inbox().await }).await
    }

    /// Reads the provider's list of events from where it was last read. `job/poll_provider` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn poll_events(&self) -> Result<Polled, CheckoutError> {
        let inner = self.0.clone();
        detached(async move { inner.poll_events().await }).await
    }

    /// The next purchase that comes to this point ends there, as if the process had died. For tests of recovery.
    pub fn crash_at(&self, point: CrashPoint) {
        *self.0.crash_point.lock() = Some(point);
    }
}
