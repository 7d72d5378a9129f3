//! The middle of a purchase: the provider learns of the order, is asked for the money once, and what it says is written.
//! `purchase` and `keyed` come in here with an order whose seats are reserved; `resolve` and `webhook` with what the
//! provider said later. Ends in a step of `order`; what is not known stays unknown.

use super::keyed::Ended;
use super::order::{OrderEvent, OrderState, next};
use super::payment::stripe::Turn;
use super::payment::{Confirmation, Intent, IntentStatus, NewIntent, ProviderError};
use super::step::{News, Stepped, attempt_key};
use super::{CheckoutError, CrashPoint, Inner};
use crate::store::StoreError;
use crate::store::open_payment::{self, Concern};
use crate::store::order::OrderRow;
use crate::store::payment_attempt::is_known_charge;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::server::Action;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// How long a purchase keeps trying to write what the provider said; then the reconciler asks the provider itself.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
const WRITE_RETRY: Duration = Duration::from_millis(250);

/// The reason a buyer is told when the provider could not be asked.
pub(super) const UNAVAILABLE: &str = "provider_unavailable";

impl Inner {
    /// The provider's name for the order; `Err` is the reason the buyer is told. Each command of the buyer asks by a key
    /// of its own: the provider remembers a failure under its key, and no money can move before an intent is confirmed.
    pub(super) async fn ensure_intent(
        &self,
        row: &OrderRow,
        command_key: &str,
        turn: Option<&Turn>,
    ) -> Result<String, String> {
        if let Some(intent) = &row.intent {
            return Ok(intent.clone());
        }
        let key = format!("{}:intent:{}", row.id, hex::encode(&Sha256::digest(command_key)[..8]));
        let new = NewIntent {
            order: row.id,
            reference: &row.reference,
            amount_minor: row.total_minor,
            currency: row.currency,
            key: &key,
        };
        match self.provider.create_intent(&new, turn).await {
            Ok(intent) => Ok(intent.id),
            Err(error) => {
                tracing::warn!(order = %row.id, %error, "no intent could be made");
                Err(match error {
                    ProviderError::Refused { reason, .. } => reason,
                    _ => UNAVAILABLE.to_owned(),
                })
            }
        }
    }

    /// Asks for the money, once, and writes what came of it.
    /// The order as it stands then.
    /// `under`: the command that is answered with it.
    pub(super) async fn confirm(
        &self,
        row: OrderRow,
        method: &str,
        under: (IdentityId, IdempotencyKey),
        turn: Option<&Turn>,
    ) -> Result<Option<Ended>, CheckoutError> {
        let Some(intent) = &row.intent else { return Ok(Some(row.into())) };
        let key = attempt_key(&row);
        let return_url = format!("{}/orders/{}", self.public_url, row.id);
        let confirmation = Confirmation { intent, method, return_url: &return_url, key: &key };
        let answer = self.provider.confirm(&confirmation, turn).await;
        self.crash(CrashPoint::Confirmed)?;
        if let Ok(seen) = &answer
            && seen.status == IntentStatus::Succeeded
            && self.is_about(&row, seen).await?
            && let Some(ended) = self.sell(&row, seen.charge.as_deref(), under).await
        {
            return Ok(Some(ended));
        }
        let stepped = match answer {
            Ok(seen) => self.write_seen(&row, &seen).await?,
            Err(ProviderError::Moved(seen)) => self.write_seen(&row, &seen).await?,
            Err(ProviderError::Refused { reason, charge }) => {
                Some(self.write(row.id, &[News::Declined { reason: &reason, charge: charge.as_deref() }]).await?)
            }
            // Nothing was begun in all that time, so nothing can have been charged.
            Err(
                ProviderError::NotBegun(why)
                | ProviderError::Busy(why)
                | ProviderError::Locked(why)
                | ProviderError::Unauthorized(why),
            ) => {
                tracing::warn!(order = %row.id, %why, "the provider could not be asked");
                Some(self.write(row.id, &[News::Declined { reason: UNAVAILABLE, charge: None }]).await?)
            }
            Err(ProviderError::Unknown(why) | ProviderError::InFlight(why) | ProviderError::Remembered(why)) => {
                tracing::warn!(order = %row.id, %why, "it is not known whether the payment succeeded");
                Some(self.write(row.id, &[News::Plain(OrderEvent::AnswerLost)]).await?)
            }
        };
        let stepped = match stepped {
            Some(stepped) => stepped,
            None => self.write(row.id, &[News::Plain(OrderEvent::AnswerLost)]).await?,
        };
        let row = stepped.into_row();
        if row.state.has_open_payment() {
            self.check_nudge.notify_one();
        }
        Ok(Some(row.into()))
    }

    /// Writes what an intent says; `None` when it says nothing new.
    pub(super) async fn write_seen(&self, row: &OrderRow, seen: &Intent) -> Result<Option<Stepped>, StoreError> {
        if !self.is_about(row, seen).await? {
            return Ok(None);
        }
        if let Some(event) = final_event(seen.status)
            && next(row.state, event).is_none()
        {
            // A repetition: nothing an order that stands so could still do with it.
            return Ok(None);
        }
        let news = match seen.status {
            IntentStatus::Succeeded => News::Succeeded { charge: seen.charge.as_deref() },
            IntentStatus::Canceled => News::Plain(OrderEvent::CancelConfirmed),
            IntentStatus::Processing => News::Plain(OrderEvent::ProcessingStarted),
            IntentStatus::ActionRequired => match action_of(seen) {
                Some(action) => News::ActionNeeded(action),
                None => return Ok(None),
            },
            IntentStatus::Open => {
                let Some(decline) = &seen.decline else { return Ok(None) };
                let charge = decline.charge.as_deref();
                // An open intent remembers its last decline: is it this attempt's or the one before?
                let is_of_this_attempt = match (row.state, charge) {
                    (OrderState::ActionRequired | OrderState::Processing, _) => true,
                    (_, Some(charge)) => !is_known_charge(self.store.pool(), row.id, charge).await?,
                    // There is none before the first.
                    (OrderState::Confirming | OrderState::PaymentUnknown, None) => row.attempts_n == 1,
                    (_, None) => false,
                };
                if !is_of_this_attempt {
                    return Ok(None);
                }
                return Ok(Some(self.write(row.id, &[News::Declined { reason: &decline.reason, charge }]).await?));
            }
        };
        Ok(Some(self.write(row.id, &[news]).await?))
    }

    /// Whether an intent is about what the order costs; if not, a person is told.
    pub(super) async fn is_about(&self, row: &OrderRow, seen: &Intent) -> Result<bool, StoreError> {
        let is_same = seen.amount_minor == row.total_minor && seen.currency == row.currency.as_str();
        if !is_same {
            tracing::error!(order = %row.id, intent = seen.id, "the intent is about another amount; a person must look");
            open_payment::set_concern(self.store.pool(), row.id, Concern::AmountDiffers).await?;
        }
        Ok(is_same)
    }

    /// A step that must not get lost: tried again while Postgres is away.
    pub(super) async fn write(&self, id: OrderId, news: &[News<'_>]) -> Result<Stepped, StoreError> {
        let began = tokio::time::Instant::now();
        loop {
            match self.step(id, None, news).await {
                Err(StoreError::Unavailable(error)) if began.elapsed() < WRITE_PATIENCE => {
                    tracing::warn!(order = %id, %error, "a step waits for the store");
                    tokio::time::sleep(WRITE_RETRY).await;
                }
                done => return done,
            }
        }
    }
}

/// What a status that is final means for an order.
pub(super) const fn final_event(status: IntentStatus) -> Option<OrderEvent> {
    match status {
        IntentStatus::Succeeded => Some(OrderEvent::Succeeded),
        IntentStatus::Canceled => Some(OrderEvent::CancelConfirmed),
        _ => None,
    }
}

fn action_of(seen: &Intent) -> Option<Action> {
    match (&seen.action_url, &seen.client_secret) {
        (Some(url), _) => Some(Action::Redirect { url: url.clone() }),
        (None, Some(value)) => Some(Action::ClientSecret { value: value.clone() }),
        (None, None) => None,
    }
}
