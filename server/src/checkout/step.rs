//! One step of an order: lock its row, ask [`next`], change what the step changes (seats, stock, tickets, attempt), write
//! what the world must be told, commit. Every mover of orders comes through here; a step that does not fit the present
//! state changes nothing and says where the order stands.

use super::order::{OrderEvent, OrderState, SeatEffect, next, seats_after};
use super::places::{areas, behind_fence, free, reserve, seats};
use super::refund::record;
use super::refund::{RefundAsk, RefundResult, Reversal};
use super::{Inner, owe, ticket};
use crate::store::constraint::{broken, is_lost_race};
use crate::store::order::OrderRow;
use crate::store::order_step::{self, Sale};
use crate::store::outbox::Errand;
use crate::store::payment_attempt::{Attempt, AttemptEnd};
use crate::store::{StoreError, area_stock, instrument_use, order, payment_attempt};
use seatwire_proto::id::OrderId;
use seatwire_proto::server::{Action, EventState};
use sqlx::{Acquire, PgConnection};
use std::time::Duration;

/// Times a transaction that lost a race is begun anew.
const MAX_RACES: usize = 4;
/// A buyer who was declined has at least this long to try another card.
const PAY_AGAIN: Duration = Duration::from_secs(60);
/// A provider that was asked to cancel is asked again after this.
const CANCEL_AGAIN: Duration = Duration::from_secs(5);
/// Behind the provider's own time limit: when a purchase that says nothing is given up for dead.
const GRACE: Duration = Duration::from_secs(10);
/// An approval is usually a matter of seconds, and the buyer is back before the provider tells.
const ACTION_CHECK: Duration = Duration::from_secs(2);
/// A released order is asked about once a minute: nobody waits for it.
const RELEASED_CHECK: Duration = Duration::from_secs(60);
/// First look at something that just became unclear.
const FIRST_CHECK: Duration = Duration::from_secs(1);

/// What an attempt is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Try<'a> {
    /// The payment method.
    pub(super) method: &'a str,
    /// The card behind it, where the event limits cards.
    pub(super) instrument: Option<&'a str>,
}

/// What happened, with what must be remembered of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum News<'a> {
    /// The provider knows the order by this name.
    IntentCreated(&'a str),
    /// Paying could not begin; the buyer may try again.
    IntentFailed(&'a str),
    /// The provider is about to be asked for money.
    AttemptStarted(Try<'a>),
    /// The provider has the money.
    Succeeded {
        /// By this charge.
        charge: Option<&'a str>,
    },
    /// The provider says no.
    Declined {
        /// Why.
        reason: &'a str,
        /// By this failed charge.
        charge: Option<&'a str>,
    },
    /// The buyer must do this.
    ActionNeeded(Action),
    /// Money is to go back.
    RefundAsked(&'a RefundAsk),
    /// The provider told what became of refunds.
    RefundAnswered(&'a [RefundResult]),
    /// The provider says that so much has gone back in all.
    RefundSeen(i64),
    /// Money that had gone back came back to us.
    RefundReversed(&'a Reversal),
    /// The buyer cancels.
    GivenUp,
    /// Everything that carries nothing but itself.
    Plain(OrderEvent),
}

impl News<'_> {
    const fn event(&self) -> OrderEvent {
        match self {
            Self::IntentCreated(_) => OrderEvent::IntentCreated,
            Self::IntentFailed(_) => OrderEvent::IntentFailed,
            Self::AttemptStarted(_) => OrderEvent::AttemptStarted,
            Self::Succeeded { .. } => OrderEvent::Succeeded,
            Self::Declined { .. } => OrderEvent::Declined,
            Self::ActionNeeded(_) => OrderEvent::ActionNeeded,
            Self::RefundAsked(_) => OrderEvent::RefundAsked,
            Self::RefundAnswered(_) | Self::RefundSeen(_) => OrderEvent::RefundDelayed,
            Self::RefundReversed(_) => OrderEvent::RefundRejected,
            Self::GivenUp => OrderEvent::BuyerCancelled,
            Self::Plain(event) => *event,
        }
    }
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stepped {
    /// The order moved and stands so now.
    Moved(Box<OrderRow>),
    /// It did not fit: the order stands so.
    Stays(Box<OrderRow>),
}

impl Stepped {
    /// The order as it stands now.
    pub(super) fn into_row(self) -> OrderRow {
        match self {
            Self::Moved(row) | Self::Stays(row) => *row,
        }
    }
}

impl Inner {
    /// Does one step after the other in one transaction. The first that does not fit ends it, with nothing changed; so does
    /// a `from` that is not where the order stands.
    pub(super) async fn step(
        &self,
        id: OrderId,
        from: Option<OrderState>,
        news: &[News<'_>],
    ) -> Result<Stepped, StoreError> {
        let mut races = 0;
        loop {
            match self.step_once(id, from, news).await {
                Err(error) if is_lost_race(&error) && races < MAX_RACES => races += 1,
                done => return done,
            }
        }
    }

    async fn step_once(&self, id: OrderId, from: Option<OrderState>, news: &[News<'_>]) -> Result<Stepped, StoreError> {
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        let before =
            order::lock(&mut transaction, id).await?.ok_or_else(|| StoreError::Malformed(format!("no order {id}")))?;
        let mut row = before.clone();
        let mut is_freed = false;
        let mut fits = from.is_none_or(|from| from == before.state);
        for news in news {
            if !fits {
                break;
            }
            match self.take(&mut transaction, &mut row, news).await? {
                Some(frees) => is_freed |= frees,
                None => fits = false,
            }
        }
        if !fits {
            transaction.rollback().await?;
            return Ok(Stepped::Stays(Box::new(before)));
        }
        let owed = owe::after_step(&before, &row, errand(&before, &row, is_freed));
        if !order_step::save(&mut transaction, &row, before.state, &owed, self.clock.now_ms()).await? {
            return Err(StoreError::Malformed(format!("order {id} moved under its lock")));
        }
        transaction.commit().await?;
        tracing::debug!(order = %id, from = before.state.as_str(), to = row.state.as_str(), "order moved");
        if owed.errand.is_some() {
            self.relay_nudge.notify_one();
        }
        Ok(Stepped::Moved(Box::new(row)))
    }

    /// Takes one piece of news. `None`: it does not fit. Else whether places came free.
    async fn take(
        &self,
        transaction: &mut PgConnection,
        row: &mut OrderRow,
        news: &News<'_>,
    ) -> Result<Option<bool>, StoreError> {
        let now_ms = self.clock.now_ms();
        match news {
            News::RefundAnswered(results) => {
                let (to, is_freed) = record::record_answers(transaction, row, results, now_ms).await?;
                self.enter_if_new(row, to, now_ms);
                return Ok(Some(is_freed));
            }
            News::RefundSeen(back_minor) => {
                let seen = record::record_seen(transaction, row, *back_minor, now_ms).await?;
                return Ok(seen.map(|(to, is_freed)| {
                    self.enter_if_new(row, to, now_ms);
                    is_freed
                }));
            }
            News::RefundReversed(reversal) => {
                let seen = record::record_reversed(transaction, row, reversal, now_ms).await?;
                return Ok(seen.map(|to| {
                    self.enter(row, to, now_ms);
                    false
                }));
            }
            _ => {}
        }
        let Some(to) = next(row.state, news.event()) else { return Ok(None) };
        if to == OrderState::Disputed {
            let is_freed = record::void_rest(transaction, row, now_ms).await?;
            self.enter(row, to, now_ms);
            return Ok(Some(is_freed));
        }
        if let News::RefundAsked(ask) = news {
            let Some(is_freed) = record::record_ask(transaction, row, ask, now_ms).await? else { return Ok(None) };
            let to = if row.refunding_minor > 0 { to } else { record::state_without_money(transaction, row).await? };
            self.enter_if_new(row, to, now_ms);
            return Ok(Some(is_freed));
        }
        let effect = seats_after(row.state, to);
        if !self.apply(transaction, row, news, to).await? {
            return Ok(None);
        }
        if row.state == OrderState::RefundDue {
            record::record_late(transaction, row, now_ms).await?;
        }
        Ok(Some(effect == SeatEffect::Free))
    }

    /// Does what goes with a move. False: the event does not allow it any more.
    async fn apply(
        &self,
        transaction: &mut PgConnection,
        row: &mut OrderRow,
        news: &News<'_>,
        to: OrderState,
    ) -> Result<bool, StoreError> {
        let effect = seats_after(row.state, to);
        let mut charge = None;
        let now_ms = self.clock.now_ms();
        match news {
            News::IntentCreated(intent) => row.intent = Some((*intent).to_owned()),
            News::IntentFailed(reason) => row.decline_reason = Some((*reason).to_owned()),
            News::AttemptStarted(Try { method, instrument }) => {
                row.attempts_n += 1;
                row.decline_reason = None;
                self.change_instrument(transaction, row, *instrument).await?;
                if !payment_attempt::insert(&mut *transaction, &attempt_of(row, method), now_ms).await? {
                    return Ok(false);
                }
            }
            News::Succeeded { charge: by } => {
                row.captured_minor = row.total_minor;
                charge = *by;
                if effect != SeatEffect::Sell {
                    payment_attempt::end_open(&mut *transaction, row.id, AttemptEnd::Succeeded, charge, now_ms).await?;
                }
            }
            News::Declined { reason, charge } => {
                row.decline_reason = Some((*reason).to_owned());
                let end = AttemptEnd::Declined(reason);
                payment_attempt::end_open(&mut *transaction, row.id, end, *charge, now_ms).await?;
            }
            News::GivenUp => row.given_up_ms = Some(now_ms),
            News::ActionNeeded(action) => row.action = Some(action.clone()),
            News::Plain(OrderEvent::CancelConfirmed) => {
                payment_attempt::end_open(&mut *transaction, row.id, AttemptEnd::Cancelled, None, now_ms).await?;
            }
            News::RefundAsked(_)
            | News::RefundAnswered(_)
            | News::RefundSeen(_)
            | News::RefundReversed(_)
            | News::Plain(_) => {}
        }
        match effect {
            SeatEffect::Keep => self.enter(row, to, now_ms),
            SeatEffect::Free => {
                free(transaction, row).await?;
                self.enter(row, to, now_ms);
            }
            SeatEffect::Sell => {
                let tickets = ticket::draw(row);
                let sale = Sale { charge, tickets: &tickets };
                let seats_n = order_step::sell(&mut *transaction, row, sale, now_ms).await?;
                if seats_n != seats(row).len() as u64 {
                    return Err(StoreError::Malformed(format!("order {} has {seats_n} reserved seats", row.id)));
                }
                for (area, quantity) in areas(row) {
                    area_stock::sell(&mut *transaction, row.event, area, quantity).await?;
                }
                self.enter(row, to, now_ms);
                self.enter(row, OrderState::Fulfilled, now_ms);
            }
        }
        if row.state == OrderState::LateSuccess {
            self.settle_late(transaction, row, now_ms).await?;
        }
        Ok(true)
    }

    /// From now on the order counts for this card; a broken `InstrumentLimit` when the card has its fill.
    async fn change_instrument(
        &self,
        transaction: &mut PgConnection,
        row: &mut OrderRow,
        instrument: Option<&str>,
    ) -> Result<(), StoreError> {
        if row.instrument.as_deref() == instrument {
            return Ok(());
        }
        if let Some(before) = row.instrument.take() {
            instrument_use::subtract(&mut *transaction, row.event, &before, row.seats_n).await?;
        }
        if let Some(instrument) = instrument
            && let Some(limit) = self.limits_of(row).await?.seats_per_instrument
        {
            instrument_use::add(transaction, row.event, instrument, row.seats_n, limit).await?;
            row.instrument = Some(instrument.to_owned());
        }
        Ok(())
    }

    /// Charged after the seats were given back: take them again, all or none, or the money goes back.
    async fn settle_late(
        &self,
        transaction: &mut PgConnection,
        row: &mut OrderRow,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let limits = self.limits_of(row).await?;
        let selling = behind_fence(&mut *transaction, row).await?;
        if selling.state == Some(EventState::Cancelled) {
            tracing::warn!(order = %row.id, "charged late, and the event is cancelled: the money goes back");
            self.enter(row, OrderState::RefundDue, now_ms);
            return Ok(());
        }
        row.epoch = selling.epoch.unwrap_or(row.epoch);
        let mut attempt = transaction.begin().await?;
        match reserve(&mut attempt, row, &limits).await {
            Ok(()) => {
                let tickets = ticket::draw(row);
                order_step::sell(&mut attempt, row, Sale { charge: None, tickets: &tickets }, now_ms).await?;
                for (area, quantity) in areas(row) {
                    area_stock::sell(&mut *attempt, row.event, area, quantity).await?;
                }
                attempt.commit().await?;
                if limits.seats_per_instrument.is_none() {
                    // The event limits cards no more: nothing was counted, and nothing is to be given back later.
                    row.instrument = None;
                }
                self.enter(row, OrderState::Paid, now_ms);
                self.enter(row, OrderState::Fulfilled, now_ms);
            }
            Err(error) if broken(&error).is_some() => {
                attempt.rollback().await?;
                tracing::warn!(order = %row.id, "charged late and the seats are gone: the money goes back");
                self.enter(row, OrderState::RefundDue, now_ms);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A state that goes on is not entered anew: since when, and how often it was looked at, are counted from its beginning.
    fn enter_if_new(&self, row: &mut OrderRow, to: OrderState, now_ms: u64) {
        if row.state != to {
            self.enter(row, to, now_ms);
        }
    }

    /// Enters a state: since when, and when to look at it again.
    pub(super) fn enter(&self, row: &mut OrderRow, to: OrderState, now_ms: u64) {
        use OrderState as S;
        let after = |wait: Duration| Some(now_ms + wait.as_millis() as u64);
        row.state = to;
        row.state_since_ms = now_ms;
        row.checks_n = 0;
        if to != S::ActionRequired {
            row.action = None;
        }
        if to == S::Payable {
            row.lock_until_ms = row.lock_until_ms.max(now_ms + PAY_AGAIN.as_millis() as u64);
        }
        row.unknown_since_ms = match to {
            S::PaymentUnknown | S::Cancelling | S::ReleasedUnresolved => row.unknown_since_ms.or(Some(now_ms)),
            _ => None,
        };
        row.check_at_ms = match to {
            S::Creating | S::Confirming => after(self.config.payment_timeout + GRACE),
            S::Payable => Some(row.lock_until_ms),
            S::ActionRequired => after(ACTION_CHECK),
            S::Processing | S::PaymentUnknown => after(FIRST_CHECK),
            S::Cancelling => after(CANCEL_AGAIN),
            S::ReleasedUnresolved => after(RELEASED_CHECK),
            S::RefundDue => Some(now_ms),
            S::RefundSubmitted | S::RefundPending => after(CANCEL_AGAIN),
            S::LateSuccess
            | S::Paid
            | S::Fulfilled
            | S::RefundFailed
            | S::PartiallyRefunded
            | S::Refunded
            | S::Disputed
            | S::Cancelled => None,
        };
    }
}

/// The attempt an order is at.
pub(super) fn attempt_of(row: &OrderRow, method: &str) -> Attempt {
    Attempt {
        order: row.id,
        attempt_n: row.attempts_n,
        event: row.event,
        provider: row.provider.clone(),
        idempotency_key: attempt_key(row),
        method: method.to_owned(),
        amount_minor: row.total_minor,
    }
}

/// The key an attempt is asked by.
pub(super) fn attempt_key(row: &OrderRow) -> String {
    format!("{}:confirm:{}", row.id, row.attempts_n)
}

/// What the world must be told of a step.
fn errand(before: &OrderRow, after: &OrderRow, is_freed: bool) -> Option<Errand> {
    let is_sold = after.state == OrderState::Fulfilled && before.state != OrderState::Fulfilled;
    if is_sold {
        return Some(Errand::Sell);
    }
    if is_freed {
        return Some(Errand::Free);
    }
    let seen =
        |row: &OrderRow| (row.state.public(row.decline_reason.is_some()), row.refunded_minor, row.action.clone());
    (seen(before) != seen(after)).then_some(Errand::Update)
}
