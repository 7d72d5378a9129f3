//! The steps that every checkout takes, done for all buyers who are at the same step: one statement and one commit instead of
//! one each. `keyed`, `purchase` and `charge` come in here first. Whoever is left out (the order was moved meanwhile, a row is
//! taken, somebody of the run broke a rule) is told so and goes the way of `step`, alone and under its lock; that way decides
//! every outcome but the plain one.

use super::keyed::Ended;
use super::order::{OrderEvent, OrderState, next};
use super::places::{Limits, areas, seats};
use super::step::{Try, attempt_of};
use super::together::Together;
use super::{Inner, owe, ticket};
use crate::store::event_log::LogKind;
use crate::store::order::OrderRow;
use crate::store::order_batch::{self, NewOrder, Sold, Start};
use crate::store::order_command::{self, Claim, NewClaim};
use crate::store::order_step::told;
use crate::store::ticket::NewTicket;
use crate::store::webhook_inbox::{self, InboxEvent};
use crate::store::{Store, StoreError, epoch};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::server::{Ticket, TicketState};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;

/// A claimed key is its run's alone for this long: longer than a run needs to its answer. A dead run blocks the key so long,
/// or until its node is known to be dead.
const CLAIM_MS: u64 = 15_000;

/// Those who wait for the same step, a line each.
#[derive(Debug, Default)]
pub(super) struct Lines {
    claims: Arc<Together<NewClaim, Option<Result<Claim, StoreError>>>>,
    orders: Arc<Together<NewOrder, bool>>,
    starts: Arc<Together<Start, bool>>,
    sales: Arc<Together<Sold, bool>>,
    events: Arc<Together<InboxEvent, Option<Result<bool, StoreError>>>>,
}

impl Inner {
    /// What a key says.
    pub(super) async fn claim_key(&self, claim: NewClaim) -> Result<Claim, StoreError> {
        let (store, now_ms) = (self.store.clone(), self.clock.now_ms());
        let work = move |claims: Vec<NewClaim>| {
            let store = store.clone();
            async move {
                let said = order_command::claim(store.batches(), &claims, now_ms, now_ms + CLAIM_MS).await;
                each(claims.len(), said)
            }
        };
        match self.lines.claims.join(claim.clone(), work).await.flatten() {
            Some(said) => said,
            None => {
                let said = order_command::claim(self.store.pool(), &[claim], now_ms, now_ms + CLAIM_MS).await?;
                said.into_iter().next().ok_or_else(|| StoreError::Malformed("a claim that says nothing".to_owned()))
            }
        }
    }

    /// Keeps an event of the provider's. False: it was there.
    pub(super) async fn keep_event(&self, event: InboxEvent) -> Result<bool, StoreError> {
        let (store, provider) = (self.store.clone(), self.provider_name.clone());
        let work = move |events: Vec<InboxEvent>| {
            let (store, provider) = (store.clone(), provider.clone());
            async move {
                let new = webhook_inbox::insert(store.batches(), &provider, &events).await;
                each(events.len(), new.map(|new| events.iter().map(|event| new.contains(&event.id)).collect()))
            }
        };
        match self.lines.events.join(event.clone(), work).await.flatten() {
            Some(kept) => kept,
            None => Ok(!webhook_inbox::insert(self.store.pool(), &self.provider_name, &[event]).await?.is_empty()),
        }
    }

    /// Enters an order and reserves its seats. False: do it alone, it may stand.
    pub(super) async fn insert_order(&self, row: &OrderRow, limits: &Limits) -> bool {
        if row.instrument.is_some() || row.state != OrderState::Creating {
            return false;
        }
        let order = NewOrder {
            row: row.clone(),
            seats: seats(row),
            areas: areas(row).into_iter().map(|(area, quantity)| (area, quantity, limits.capacity(area))).collect(),
            seats_per_identity: limits.seats_per_identity,
            facts: owe::facts(row),
        };
        let store = self.store.clone();
        let work = move |orders: Vec<NewOrder>| {
            let store = store.clone();
            async move {
                let entered = enter(&store, &orders).await.unwrap_or_else(|error| left_out(&error));
                orders.iter().map(|order| entered.contains(&order.row.id)).collect()
            }
        };
        self.lines.orders.join(order, work).await.unwrap_or(false)
    }

    /// Records the first attempt of an order that was just made; the order as it stands then. `None`: do it alone.
    pub(super) async fn start_attempt(&self, row: &OrderRow, intent: &str, begins: Try<'_>) -> Option<OrderRow> {
        if row.instrument.as_deref() != begins.instrument {
            return None;
        }
        let now_ms = self.clock.now_ms();
        let mut after = row.clone();
        after.intent = Some(intent.to_owned());
        for event in [OrderEvent::IntentCreated, OrderEvent::AttemptStarted] {
            let to = next(after.state, event)?;
            self.enter(&mut after, to, now_ms);
        }
        after.attempts_n += 1;
        let attempt = attempt_of(&after, begins.method);
        let store = self.store.clone();
        let work = move |starts: Vec<Start>| {
            let store = store.clone();
            async move {
                let started = order_batch::start_attempts(store.batches(), &starts, now_ms).await;
                let started = started.unwrap_or_else(|error| left_out(&error));
                starts.iter().map(|start| started.contains(&start.before.id)).collect()
            }
        };
        let start = Start { before: row.clone(), after: after.clone(), attempt };
        self.lines.starts.join(start, work).await.unwrap_or(false).then_some(after)
    }

    /// Sells an order whose money is there, and remembers the answer of its command in the same transaction. `None`: do it
    /// alone, it may be done.
    pub(super) async fn sell(
        &self,
        row: &OrderRow,
        charge: Option<&str>,
        (identity, key): (IdentityId, IdempotencyKey),
    ) -> Option<Ended> {
        if row.state != OrderState::Confirming {
            return None;
        }
        let now_ms = self.clock.now_ms();
        let mut after = row.clone();
        after.captured_minor = after.total_minor;
        for event in [OrderEvent::Succeeded, OrderEvent::TicketsIssued] {
            let to = next(after.state, event)?;
            self.enter(&mut after, to, now_ms);
        }
        let tickets = ticket::draw(row);
        let mut said: Vec<_> = tickets.iter().map(|ticket| (LogKind::TicketIssued, told(row, ticket))).collect();
        said.push((LogKind::OrderPaid, owe::facts(&after)));
        let order = self.draw(&after, tickets.iter().map(as_issued).collect());
        let sold = Sold {
            before: row.clone(),
            after: after.clone(),
            charge: charge.map(str::to_owned),
            tickets,
            told: said,
            answer: Some((identity, key, json!({ "order": order }))),
        };
        let store = self.store.clone();
        let work = move |sales: Vec<Sold>| {
            let store = store.clone();
            async move {
                let sold = sell_all(&store, &sales, now_ms).await.unwrap_or_else(|error| left_out(&error));
                sales.iter().map(|sale| sold.contains(&sale.before.id)).collect()
            }
        };
        if !self.lines.sales.join(sold, work).await.unwrap_or(false) {
            return None;
        }
        tracing::debug!(order = %row.id, "order sold");
        self.relay_nudge.notify_one();
        Some(Ended { row: after, answer: Some(Box::new(order)) })
    }
}

/// What a statement said, for each of those it was about. One that was by itself is told why it failed; of several each tries
/// by itself.
fn each<T>(n: usize, said: Result<Vec<T>, StoreError>) -> Vec<Option<Result<T, StoreError>>> {
    match said {
        Ok(said) => said.into_iter().map(|said| Some(Ok(said))).collect(),
        Err(error) if n == 1 => vec![Some(Err(error))],
        Err(error) => {
            left_out(&error);
            (0..n).map(|_| None).collect()
        }
    }
}

/// Nobody of the run was taken.
fn left_out(error: &StoreError) -> HashSet<OrderId> {
    tracing::debug!(%error, "a step of several orders is taken one by one");
    HashSet::new()
}

async fn enter(store: &Store, orders: &[NewOrder]) -> Result<HashSet<OrderId>, StoreError> {
    let mut events: Vec<_> = orders.iter().map(|order| order.row.event).collect();
    events.sort_unstable();
    events.dedup();
    let mut transaction = crate::store::begin(store.batches()).await?;
    if !epoch::try_lock_shared(&mut transaction, &events).await? {
        transaction.rollback().await?;
        return Ok(HashSet::new());
    }
    let entered = order_batch::insert(&mut transaction, orders).await?;
    transaction.commit().await?;
    Ok(entered)
}

async fn sell_all(store: &Store, sales: &[Sold], now_ms: u64) -> Result<HashSet<OrderId>, StoreError> {
    let mut transaction = crate::store::begin(store.batches()).await?;
    let sold = order_batch::sell(&mut transaction, sales, now_ms).await?;
    let is_whole = |sale: &Sold| sold.get(&sale.before.id).is_none_or(|&n| n == seats(&sale.before).len() as u64);
    if !sales.iter().all(is_whole) {
        // One of them has not the seats it was made for; which one is found when each is sold by itself.
        transaction.rollback().await?;
        return Ok(HashSet::new());
    }
    transaction.commit().await?;
    Ok(sold.into_keys().collect())
}

/// A ticket that was just issued, as its buyer sees it.
fn as_issued(ticket: &NewTicket) -> Ticket {
    Ticket {
        id: ticket.id,
        code: ticket.code.clone(),
        seat: ticket.seat,
        area: ticket.area,
        state: TicketState::Valid,
        qr: None,
    }
}
