//! What to do with an order that is not settled when its time to be looked at has come: ask the provider, set the fence,
//! or let go. Every branch ends in a step of `order`; an answer that says nothing changes nothing.

use super::order::{OrderEvent, OrderState};
use super::payment::{IntentStatus, ProviderError};
use super::step::{News, Stepped};
use super::{CheckoutError, CrashPoint, Inner};
use crate::store::open_payment::{self, Concern};
use crate::store::order;
use crate::store::order::OrderRow;
use seatwire_proto::id::OrderId;
use std::time::Duration;

/// Waits between two questions about an order, by the number of questions so far; the last one goes on. With its spread it
/// stays below a minute: so long after a provider's return nothing may be unknown any more.
const QUESTION_WAITS_S: [u64; 7] = [1, 2, 4, 8, 15, 30, 45];
/// A buyer at the bank's page is asked about often at first: webhooks may be late, and the buyer is waiting.
const ACTION_WAITS_S: [u64; 12] = [2, 2, 2, 2, 2, 2, 2, 2, 2, 5, 5, 10];
/// A refund may be under way for days at a bank, and nobody waits for our question.
const REFUND_WAITS_S: [u64; 10] = [1, 2, 4, 8, 15, 30, 60, 300, 900, 3_600];
/// How long an order whose seats were given back is asked about.
const ASK_RELEASED_FOR: Duration = Duration::from_secs(72 * 3_600);

/// Unpaid orders of cancelled events given up in one round, one round a second: each is one call to the provider.
const CANCELLED_BATCH: u32 = 15;

/// What a look at an order came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Looked {
    /// Another node was faster, or there was nothing to do.
    Nothing,
    /// It moved on.
    Moved,
    /// The provider's answer says nothing new.
    Waiting,
    /// Nor does it, and nothing runs there: no money was taken and none is being taken, as far as it can be seen.
    Idle,
    /// The provider could not be asked.
    Unanswered,
}

impl Inner {
    /// Looks at an order whose time has come. Safe from many nodes at once and twice in a row.
    pub(super) async fn look_at(&self, id: OrderId) -> Result<Looked, CheckoutError> {
        let Some(row) = order::read(self.store.pool(), id).await? else { return Ok(Looked::Nothing) };
        let now_ms = self.clock.now_ms();
        if !order::claim_check(self.store.pool(), id, now_ms, now_ms + self.wait_ms(&row, now_ms)).await? {
            return Ok(Looked::Nothing);
        }
        let now_in = |since_ms: u64, limit: Duration| now_ms.saturating_sub(since_ms) >= limit.as_millis() as u64;
        let unknown_for = |limit| row.unknown_since_ms.is_some_and(|since_ms| now_in(since_ms, limit));
        match row.state {
            // The purchase died before money could move: the seats are kept, the buyer may pay.
            OrderState::Creating => self.look_step(&row, News::IntentFailed("interrupted")).await,
            OrderState::Payable => self.give_up(&row).await,
            OrderState::Confirming => {
                // The purchase died while the provider was asked.
                match self.step(id, Some(row.state), &[News::Plain(OrderEvent::AnswerLost)]).await? {
                    Stepped::Moved(row) => self.ask(&row).await,
                    Stepped::Stays(_) => Ok(Looked::Nothing),
                }
            }
            OrderState::ActionRequired if now_in(row.state_since_ms, self.config.action_deadline) => {
                self.ask_or_give_up(&row).await
            }
            OrderState::Processing if now_in(row.state_since_ms, self.config.unknown_soft) => {
                self.ask_or_give_up(&row).await
            }
            OrderState::PaymentUnknown if unknown_for(self.config.unknown_soft) => self.ask_or_give_up(&row).await,
            OrderState::PaymentUnknown if unknown_for(self.config.unknown_idle) => match self.ask(&row).await? {
                // What was asked for so long ago and has not begun hardly will, and the fence makes sure: a charge that
                // comes first stands, one that comes later is refused.
                Looked::Idle => self.give_up(&row).await,
                looked => Ok(looked),
            },
            OrderState::ActionRequired | OrderState::Processing | OrderState::PaymentUnknown => self.ask(&row).await,
            OrderState::Cancelling => {
                let looked = self.fence(&row).await?;
                let since_ms = row.unknown_since_ms.unwrap_or(row.state_since_ms);
                if looked == Looked::Moved || !now_in(since_ms, self.config.unknown_hard) {
                    return Ok(looked);
                }
                tracing::error!(order = %id, "no word of this payment until the hard deadline; its seats are given back");
                self.look_step(&row, News::Plain(OrderEvent::HardDeadlinePassed)).await
            }
            OrderState::ReleasedUnresolved => {
                if now_in(row.state_since_ms, ASK_RELEASED_FOR) {
                    tracing::error!(order = %id, "no word of this payment for three days; a person must look");
                    // Not asked about any more, but a webhook still settles it.
                    order::stop_checks(self.store.pool(), id).await?;
                    open_payment::set_concern(self.store.pool(), id, Concern::NoWord).await?;
                    return Ok(Looked::Nothing);
                }
                // First the fence, so that the answer is final either way.
                self.fence(&row).await
            }
            OrderState::RefundDue | OrderState::RefundSubmitted | OrderState::RefundPending => {
                self.look_refund(&row).await
            }
            _ => Ok(Looked::Nothing),
        }
    }

    /// Gives up orders of cancelled events that wait for their buyers, so that nobody pays for them any more; how many.
    pub(super) async fn cancel_unpaid(&self) -> Result<usize, CheckoutError> {
        let open = open_payment::list_unpaid_of_cancelled_events(self.store.pool(), CANCELLED_BATCH).await?;
        for &id in &open {
            // One that moved on meanwhile stays: its money is in flight.
            match self.step(id, None, &[News::Plain(OrderEvent::BuyerCancelled)]).await? {
                Stepped::Moved(row) if row.state == OrderState::Cancelling => drop(self.fence(&row).await?),
                Stepped::Moved(_) | Stepped::Stays(_) => {}
            }
        }
        Ok(open.len())
    }

    async fn look_step(&self, row: &OrderRow, news: News<'_>) -> Result<Looked, CheckoutError> {
        Ok(match self.step(row.id, Some(row.state), &[news]).await? {
            Stepped::Moved(_) => Looked::Moved,
            Stepped::Stays(_) => Looked::Nothing,
        })
    }

    /// Asks the provider where the intent stands.
    pub(super) async fn ask(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        let Some(intent) = &row.intent else { return self.give_up(row).await };
        match self.provider.intent(intent).await {
            Ok(seen) => Ok(match self.write_seen(row, &seen).await? {
                Some(Stepped::Moved(_)) => Looked::Moved,
                // A decline that names no charge may be this attempt's, and then the buyer may pay again.
                None if seen.status == IntentStatus::Open
                    && seen.decline.as_ref().is_none_or(|decline| decline.charge.is_some()) =>
                {
                    Looked::Idle
                }
                Some(Stepped::Stays(_)) | None => Looked::Waiting,
            }),
            Err(error) => {
                tracing::debug!(order = %row.id, %error, "the provider says nothing of the intent");
                Ok(Looked::Unanswered)
            }
        }
    }

    /// Time is over: what the provider knows still counts, else the fence.
    async fn ask_or_give_up(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        match self.ask(row).await? {
            Looked::Moved => Ok(Looked::Moved),
            _ => self.give_up(row).await,
        }
    }

    /// Starts the cancellation.
    async fn give_up(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        match self.step(row.id, Some(row.state), &[News::Plain(OrderEvent::DeadlinePassed)]).await? {
            Stepped::Moved(row) => {
                self.fence(&row).await?;
                Ok(Looked::Moved)
            }
            Stepped::Stays(_) => Ok(Looked::Nothing),
        }
    }

    /// Makes sure at the provider's that the order will never be charged; only its word frees the seats.
    pub(super) async fn fence(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        let Some(intent) = &row.intent else {
            // The provider was never told the order's name by anyone who could confirm it: nothing can be charged.
            return self.look_step(row, News::Plain(OrderEvent::CancelConfirmed)).await;
        };
        let answer = self.provider.cancel_intent(intent).await;
        self.crash(CrashPoint::Fenced)?;
        let seen = match answer {
            Ok(seen) => seen,
            Err(ProviderError::Moved(seen)) => *seen,
            Err(error) => {
                tracing::debug!(order = %row.id, %error, "the provider does not confirm the cancellation");
                return Ok(Looked::Unanswered);
            }
        };
        Ok(match self.write_seen(row, &seen).await? {
            Some(Stepped::Moved(_)) => Looked::Moved,
            Some(Stepped::Stays(_)) | None => Looked::Waiting,
        })
    }

    /// How long until an order is looked at again unless this look changes it.
    fn wait_ms(&self, row: &OrderRow, now_ms: u64) -> u64 {
        let waits: &[u64] = match row.state {
            OrderState::ActionRequired => &ACTION_WAITS_S,
            OrderState::RefundDue | OrderState::RefundSubmitted | OrderState::RefundPending => &REFUND_WAITS_S,
            _ => &QUESTION_WAITS_S,
        };
        let wait_s = waits[(row.checks_n as usize).min(waits.len() - 1)];
        // Spread, so that thousands of orders of one outage are not asked about in the same second.
        let wait_ms = (wait_s as f64 * 1_000.0 * rand::random_range(0.8..1.2)) as u64;
        match (row.state, row.unknown_since_ms) {
            (OrderState::PaymentUnknown, Some(since_ms)) => {
                // Not beyond the moment from which an idle intent is given up.
                let idle_ms = since_ms + self.config.unknown_idle.as_millis() as u64;
                if idle_ms > now_ms { wait_ms.min(idle_ms - now_ms) } else { wait_ms }
            }
            _ => wait_ms,
        }
    }
}
