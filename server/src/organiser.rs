//! What the organiser does while it sells: prices, limits, times and states of an event, seats blocked, unblocked and
//! appended. The admin listener and the waitlist come in; every change is written with who made it, then the shelf and the
//! viewers of every node are told. No change breaks a hold or an order.
//! Taking seats away goes Redis first, then Postgres; giving them goes Postgres first, then Redis. A crash between the two
//! leaves a seat that looks taken, and `tell` puts that right.

pub mod append;
mod area;
pub mod key;
mod owe;
mod price;
mod seat;
mod settings;
mod state;
mod tell;

pub use key::{Operator, Scope};
pub use price::NewPrice;
pub use seat::Blocked;

use crate::catalogue::{Catalogue, EventFacts};
use crate::clock::Clock;
use crate::inventory::{Inventory, InventoryError};
use crate::seatmap::SeatMap;
use crate::sender::Sender;
use crate::store::admin_log::{self, NewEntry};
use crate::store::event_change::{self, LockedEvent};
use crate::store::{Store, StoreError, event_log};
use seatwire_proto::client::FieldError;
use seatwire_proto::id::EventId;
use sqlx::{Postgres, Transaction};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::Notify;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum OrganiserError {
    /// No such event.
    #[error("no such event")]
    EventUnknown,
    /// It cannot be changed like this; nothing was changed.
    #[error("{0}")]
    Refused(FieldError),
    /// No such area.
    #[error("no such area")]
    AreaUnknown,
    /// The area cannot have so few places; nothing was changed.
    #[error("{taken} places are held, being paid or sold")]
    PlacesTaken {
        /// Places that somebody has.
        taken: u32,
        /// Places that nobody has.
        remaining: u32,
    },
    /// Postgres did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis did not take it.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The work ended under us.
    #[error("interrupted: {0}")]
    Interrupted(String),
}

impl From<sqlx::Error> for OrganiserError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl OrganiserError {
    fn refused(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Refused(FieldError { path: path.into(), message: why.into() })
    }
}

/// The rooms a change goes through; cheap to clone.
#[derive(Debug, Clone)]
pub struct Organiser {
    store: Store,
    catalogue: Catalogue,
    inventory: Inventory,
    seatmap: SeatMap,
    sender: Sender,
    clock: Clock,
    over: Arc<Notify>,
}

impl Organiser {
    /// An organiser on these rooms.
    #[must_use]
    pub fn new(
        store: Store,
        catalogue: Catalogue,
        inventory: Inventory,
        seatmap: SeatMap,
        sender: Sender,
        clock: Clock,
    ) -> Self {
        Self { store, catalogue, inventory, seatmap, sender, clock, over: Arc::default() }
    }

    /// Told when an event was closed or cancelled here: its books should agree now.
    #[must_use]
    pub fn over(&self) -> Arc<Notify> {
        self.over.clone()
    }

    /// Begins a change: the event's row is this transaction's until it ends.
    async fn begin(&self, event: EventId) -> Result<(Transaction<'static, Postgres>, LockedEvent), OrganiserError> {
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        let locked = event_change::lock(&mut transaction, event).await?.ok_or(OrganiserError::EventUnknown)?;
        Ok((transaction, locked))
    }

    /// Writes who did it and ends the change.
    async fn commit(
        &self,
        mut transaction: Transaction<'static, Postgres>,
        by: &Operator,
        action: &str,
        event: EventId,
        detail: serde_json::Value,
    ) -> Result<(), OrganiserError> {
        let now_ms = self.clock.now_ms();
        event_log::insert_all(&mut *transaction, event, &owe::told(action, event, &detail), now_ms).await?;
        let entry = NewEntry { key: by.key, key_name: &by.name, action, event: Some(event), detail };
        admin_log::insert(&mut *transaction, &entry, now_ms).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// After a change: tells the shelf and every node. What cannot be told now is told by the job.
    async fn tell_now(&self, event: EventId) -> Result<Arc<EventFacts>, OrganiserError> {
        if let Err(error) = self.tell(event).await {
            tracing::warn!(%event, %error, "a change is told later");
        }
        let facts = self.catalogue.refresh(event).await?;
        facts.ok_or(OrganiserError::EventUnknown)
    }

    /// Runs a change by itself, so that a client that goes away does not drop a transaction half way.
    async fn whole<T: Send + 'static>(
        work: impl Future<Output = Result<T, OrganiserError>> + Send + 'static,
    ) -> Result<T, OrganiserError> {
        tokio::spawn(work).await.map_err(|error| OrganiserError::Interrupted(error.to_string()))?
    }
}
