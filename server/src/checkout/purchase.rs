//! The purchase saga. Each step is durable before the next begins and may be done twice; what a crash leaves behind is
//! found by `job/reconcile_payments`, which moves orders by the same steps.
//!
//! | step | do | undo |
//! |---|---|---|
//! | claim | the key, with the order it will make | forgotten once the hold is unlocked |
//! | lock | the hold, in Redis | unlock |
//! | reserve | order, seats, stock, limit, in one transaction | free them, behind the provider's cancellation |
//! | intent | the provider learns of the order | cancel it |
//! | attempt | the try is recorded | ended with the cancellation |
//! | confirm | the provider is asked for money | never: unknown stays unknown until the provider tells |
//! | sell | paid, sold, tickets, outbox, in one transaction | refund |

use super::order::{MAX_ATTEMPTS, OrderEvent, OrderState};
use super::payment::{Confirmation, Intent, IntentStatus, NewIntent, ProviderError};
use super::step::{Limits, News, Stepped, attempt_key, is_in_epoch, reserve};
use super::{CheckoutError, CheckoutRefusal, CheckoutRequest, CrashPoint, Inner, ticket};
use crate::catalogue::EventFacts;
use crate::inventory::key::event_number_of;
use crate::inventory::{Answer, HoldRecord, InventoryError, LockOutcome, Refusal};
use crate::store::constraint::{Constraint, broken, is_lost_race};
use crate::store::open_payment::{self, Concern};
use crate::store::order::OrderRow;
use crate::store::payment_attempt::is_known_charge;
use crate::store::{StoreError, event_change, order};
use seatwire_proto::id::OrderId;
use seatwire_proto::server::{Action, EventState};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The lock on a hold lasts this much longer than the hold would: time to type a card number, to fetch a phone.
pub(super) const LOCK_BEYOND_HOLD_MS: u64 = 180_000;
/// Times a reservation is begun anew after a lost race or a reference that was in use.
const MAX_TURNS: usize = 4;
/// How long a purchase keeps trying to write what the provider said; then the reconciler asks the provider itself.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
const WRITE_RETRY: Duration = Duration::from_millis(250);

/// What the first half of a purchase came to.
pub(super) enum Reserved {
    /// The order stands and its seats are reserved.
    Order(Box<OrderRow>),
    /// Nothing was made.
    Refused(CheckoutRefusal),
}

/// What one transaction came to.
enum Written {
    Done,
    Refused(CheckoutRefusal),
    /// The inventory began another life since the hold was locked.
    OtherEpoch,
    /// The connection was lost at the commit: it may stand.
    Unknown,
}

impl Inner {
    /// From the hold to an order with reserved seats. Again with the same order id it goes on where it stopped.
    pub(super) async fn reserve(&self, request: &CheckoutRequest, id: OrderId) -> Result<Reserved, CheckoutError> {
        if let Some(row) = order::read(self.store.pool(), id).await? {
            return Ok(Reserved::Order(Box::new(row)));
        }
        let number = event_number_of(request.hold);
        let Some(event) = self.catalogue.event_by_number(number).await? else {
            return Ok(Reserved::Refused(CheckoutRefusal::HoldNotFound));
        };
        if matches!(event.state, EventState::Closed | EventState::Cancelled | EventState::Scheduled) {
            return Ok(Reserved::Refused(CheckoutRefusal::NotOnSale { on_sale_ms: event.on_sale_ms }));
        }
        // The lock's length depends on the hold's; and a wrong total is told without touching the hold.
        let open = self.inventory.open_hold(&event, request.identity).await?;
        let mut until_ms = self.inventory.now_ms() + LOCK_BEYOND_HOLD_MS;
        if let Some(hold) = open.filter(|hold| hold.id == request.hold) {
            if hold.locked_by.is_none() {
                until_ms = hold.expires_ms + LOCK_BEYOND_HOLD_MS;
                if hold.total_minor() != request.expect_total_minor {
                    let total_minor = hold.total_minor();
                    return Ok(Reserved::Refused(CheckoutRefusal::PriceChanged { total_minor }));
                }
            } else {
                until_ms = hold.expires_ms;
            }
        }
        let locked = self.inventory.lock(&event, request.identity, request.hold, id, until_ms).await?;
        let hold = match locked.outcome {
            LockOutcome::Locked(ref hold) => hold,
            LockOutcome::Refused(ref refusal) => return Ok(Reserved::Refused(of_inventory(refusal)?)),
        };
        self.crash(CrashPoint::Locked)?;
        let refusal = if hold.total_minor() == request.expect_total_minor {
            let mut row = self.new_row(request, id, &event, &locked, hold);
            match self.write_order(&mut row, &event).await {
                Ok(Written::Done) => {
                    self.crash(CrashPoint::Reserved)?;
                    return Ok(Reserved::Order(Box::new(row)));
                }
                Ok(Written::Refused(refusal)) => refusal,
                Ok(Written::OtherEpoch) => {
                    return Err(InventoryError::Unavailable("the event was rebuilt meanwhile".into()).into());
                }
                Ok(Written::Unknown) => return Err(CheckoutError::TimeoutUnknown),
                // The lock covers the wait: the same key goes on from here, and a claim nobody comes back to is found.
                Err(error) => return Err(error.into()),
            }
        } else {
            CheckoutRefusal::PriceChanged { total_minor: hold.total_minor() }
        };
        self.inventory.unlock(&event, request.identity, request.hold, id).await?;
        Ok(Reserved::Refused(refusal))
    }

    fn new_row(
        &self,
        request: &CheckoutRequest,
        id: OrderId,
        event: &EventFacts,
        locked: &Answer<LockOutcome>,
        hold: &HoldRecord,
    ) -> OrderRow {
        let now_ms = self.clock.now_ms();
        let mut row = OrderRow {
            id,
            event: event.id,
            identity: request.identity,
            hold: hold.id,
            epoch: locked.position.epoch,
            reference: ticket::draw_reference(),
            command_key: request.key.as_str().to_owned(),
            state: OrderState::Creating,
            lines: hold.lines.iter().map(|line| line.to_wire(event)).collect(),
            seats_n: hold.lines.iter().map(|line| line.quantity).sum(),
            total_minor: hold.total_minor(),
            captured_minor: 0,
            refunding_minor: 0,
            refunded_minor: 0,
            currency: event.currency,
            buyer_name: request.buyer.name.clone(),
            buyer_email: request.buyer.email.clone(),
            lang: if request.buyer.lang.as_deref() == Some("de") { "de" } else { "en" }.to_owned(),
            pay_secret: ticket::draw_secret(),
            provider: self.provider_name.clone(),
            intent: None,
            decline_reason: None,
            action: None,
            attempts_n: 0,
            state_since_ms: now_ms,
            lock_until_ms: hold.expires_ms,
            check_at_ms: None,
            checks_n: 0,
            unknown_since_ms: None,
            created_ms: now_ms,
        };
        self.enter(&mut row, OrderState::Creating, now_ms);
        row
    }

    async fn write_order(&self, row: &mut OrderRow, event: &EventFacts) -> Result<Written, StoreError> {
        let limits = limits(event);
        for _ in 0..MAX_TURNS {
            match self.write_order_once(row, &limits).await {
                Err(error) if is_lost_race(&error) => {}
                Err(error) => match broken(&error) {
                    Some(Constraint::ReferenceTaken) => row.reference = ticket::draw_reference(),
                    Some(Constraint::OrderExists) => return Ok(Written::Unknown),
                    Some(constraint) => {
                        // Redis let this through, so one of the two is wrong: Postgres decides, and we want to know.
                        tracing::error!(order = %row.id, ?constraint, "a held place could not be reserved");
                        return Ok(Written::Refused(of_constraint(constraint, row, &limits)));
                    }
                    None => return Err(error),
                },
                done => return done,
            }
        }
        Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed))
    }

    async fn write_order_once(&self, row: &OrderRow, limits: &Limits) -> Result<Written, StoreError> {
        let mut transaction = self.store.pool().begin().await?;
        // What this node has read of the event may be a moment old.
        let state = event_change::state(&mut *transaction, row.event).await?;
        if matches!(state, Some(EventState::Closed | EventState::Cancelled)) {
            transaction.rollback().await?;
            let event = self.catalogue.event(row.event).await?;
            let on_sale_ms = event.map_or(0, |event| event.on_sale_ms);
            return Ok(Written::Refused(CheckoutRefusal::NotOnSale { on_sale_ms }));
        }
        if !is_in_epoch(&mut transaction, row).await? {
            transaction.rollback().await?;
            return Ok(Written::OtherEpoch);
        }
        order::insert(&mut *transaction, row).await?;
        reserve(&mut transaction, row, limits).await?;
        match transaction.commit().await.map_err(StoreError::from) {
            Ok(()) => Ok(Written::Done),
            Err(StoreError::Unavailable(error)) => {
                tracing::warn!(order = %row.id, %error, "the commit's answer was lost");
                Ok(Written::Unknown)
            }
            Err(error) => Err(error),
        }
    }

    /// From a reserved order to the provider's word. Returns when the order is settled or must be left to the reconciler.
    pub(super) async fn pay_new(&self, row: OrderRow, method: &str) -> Result<(), CheckoutError> {
        if row.state != OrderState::Creating {
            return Ok(());
        }
        if row.total_minor == 0 {
            self.write(row.id, &[News::Plain(OrderEvent::NothingToPay)]).await?;
            return Ok(());
        }
        let intent = match self.ensure_intent(&row, &row.command_key).await {
            Ok(intent) => intent,
            Err(reason) => {
                self.write(row.id, &[News::IntentFailed(&reason)]).await?;
                return Ok(());
            }
        };
        self.crash(CrashPoint::IntentCreated)?;
        if self.is_event_cancelled(&row).await? {
            let news = [News::IntentCreated(&intent), News::Plain(OrderEvent::BuyerCancelled)];
            if let Stepped::Moved(row) = self.write(row.id, &news).await? {
                self.fence(&row).await?;
            }
            return Ok(());
        }
        let begun = self.write(row.id, &[News::IntentCreated(&intent), News::AttemptStarted(method)]).await?;
        if let Stepped::Moved(row) = begun {
            self.crash(CrashPoint::AttemptRecorded)?;
            self.confirm(*row, method).await?;
        }
        Ok(())
    }

    /// Another attempt at an order that was declined; `Err` says why not.
    pub(super) async fn begin_again(
        &self,
        row: &OrderRow,
        command_key: &str,
        method: &str,
    ) -> Result<Result<OrderRow, CheckoutRefusal>, CheckoutError> {
        if let Some(refusal) = pay_refusal(row) {
            return Ok(Err(refusal));
        }
        let mut news = Vec::with_capacity(2);
        let created;
        if row.intent.is_none() {
            match self.ensure_intent(row, command_key).await {
                Ok(intent) => {
                    created = intent;
                    self.set_intent(row.id, &created).await?;
                }
                // Still not to be reached: the order stays payable, the buyer sees the same decline.
                Err(_) => return Ok(Ok(row.clone())),
            }
        }
        // As late as can be: what begins behind this is in flight, and goes back with the other money of the event.
        if self.is_event_cancelled(row).await? {
            return Ok(Err(CheckoutRefusal::PayRefused));
        }
        news.push(News::AttemptStarted(method));
        Ok(match self.step(row.id, None, &news).await? {
            Stepped::Moved(row) => Ok(*row),
            Stepped::Stays(row) => Err(pay_refusal(&row).unwrap_or(CheckoutRefusal::PaymentOpen)),
        })
    }

    /// The provider's name for the order; `Err` is the reason the buyer is told. Each command of the buyer asks by a key
    /// of its own: the provider remembers a failure under its key, and no money can move before an intent is confirmed.
    async fn ensure_intent(&self, row: &OrderRow, command_key: &str) -> Result<String, String> {
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
        match self.provider.create_intent(&new).await {
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
    pub(super) async fn confirm(&self, row: OrderRow, method: &str) -> Result<(), CheckoutError> {
        let Some(intent) = &row.intent else { return Ok(()) };
        let key = attempt_key(&row);
        let return_url = format!("{}/orders/{}", self.public_url, row.id);
        let confirmation = Confirmation { intent, method, return_url: &return_url, key: &key };
        let answer = self.provider.confirm(&confirmation).await;
        self.crash(CrashPoint::Confirmed)?;
        let stepped = match answer {
            Ok(seen) => self.write_seen(&row, &seen).await?,
            Err(ProviderError::Moved(seen)) => self.write_seen(&row, &seen).await?,
            Err(ProviderError::Refused { reason, charge }) => {
                Some(self.write(row.id, &[News::Declined { reason: &reason, charge: charge.as_deref() }]).await?)
            }
            // Nothing was begun in all that time, so nothing can have been charged.
            Err(ProviderError::NotBegun(why) | ProviderError::Busy(why) | ProviderError::Unauthorized(why)) => {
                tracing::warn!(order = %row.id, %why, "the provider could not be asked");
                Some(self.write(row.id, &[News::Declined { reason: UNAVAILABLE, charge: None }]).await?)
            }
            Err(ProviderError::Unknown(why) | ProviderError::InFlight(why) | ProviderError::Remembered(why)) => {
                tracing::warn!(order = %row.id, %why, "it is not known whether the payment succeeded");
                Some(self.write(row.id, &[News::Plain(OrderEvent::AnswerLost)]).await?)
            }
        };
        if stepped.is_none() {
            self.write(row.id, &[News::Plain(OrderEvent::AnswerLost)]).await?;
        }
        self.check_nudge.notify_one();
        Ok(())
    }

    /// Writes what an intent says; `None` when it says nothing new.
    pub(super) async fn write_seen(&self, row: &OrderRow, seen: &Intent) -> Result<Option<Stepped>, StoreError> {
        if seen.amount_minor != row.total_minor || seen.currency != row.currency.as_str() {
            tracing::error!(order = %row.id, intent = seen.id, "the intent is about another amount; a person must look");
            open_payment::set_concern(self.store.pool(), row.id, Concern::AmountDiffers).await?;
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

    /// Whether nothing may be charged for the order any more.
    async fn is_event_cancelled(&self, row: &OrderRow) -> Result<bool, StoreError> {
        Ok(event_change::state(self.store.pool(), row.event).await? == Some(EventState::Cancelled))
    }

    async fn set_intent(&self, id: OrderId, intent: &str) -> Result<(), StoreError> {
        order::set_intent(self.store.pool(), id, intent).await
    }

    /// The bounds of an order's reservation, as its event has them now.
    pub(super) async fn limits_of(&self, row: &OrderRow) -> Result<Limits, StoreError> {
        let event = self.catalogue.event(row.event).await?;
        event.as_deref().map(limits).ok_or_else(|| StoreError::Malformed(format!("no event {}", row.event)))
    }
}

/// The reason a buyer is told when the provider could not be asked.
const UNAVAILABLE: &str = "provider_unavailable";

fn limits(event: &EventFacts) -> Limits {
    Limits {
        seats_per_identity: event.rules.seats_per_identity,
        capacities: event.areas.iter().map(|area| area.capacity).collect(),
    }
}

fn action_of(seen: &Intent) -> Option<Action> {
    match (&seen.action_url, &seen.client_secret) {
        (Some(url), _) => Some(Action::Redirect { url: url.clone() }),
        (None, Some(value)) => Some(Action::ClientSecret { value: value.clone() }),
        (None, None) => None,
    }
}

/// Why an order cannot be paid now; `None` when it can.
pub(super) fn pay_refusal(row: &OrderRow) -> Option<CheckoutRefusal> {
    use OrderState as S;
    match row.state {
        S::Payable if row.decline_reason.is_some() => {
            (row.attempts_n >= MAX_ATTEMPTS).then_some(CheckoutRefusal::PayRefused)
        }
        S::Paid | S::Fulfilled => Some(CheckoutRefusal::AlreadyPaid),
        state if state.is_open() => Some(CheckoutRefusal::PaymentOpen),
        _ => Some(CheckoutRefusal::PayRefused),
    }
}

fn of_constraint(constraint: Constraint, row: &OrderRow, limits: &Limits) -> CheckoutRefusal {
    match constraint {
        Constraint::AreaFull => CheckoutRefusal::AreaFull { remaining: 0 },
        Constraint::IdentityLimit => {
            CheckoutRefusal::LimitExceeded { limit: limits.seats_per_identity, used: limits.seats_per_identity }
        }
        Constraint::HoldHasOrder => CheckoutRefusal::HoldNotFound,
        _ => CheckoutRefusal::SeatTaken { seats: row.lines.iter().filter_map(|line| line.seat).collect() },
    }
}

fn of_inventory(refusal: &Refusal) -> Result<CheckoutRefusal, CheckoutError> {
    Ok(match refusal {
        Refusal::HoldNotFound => CheckoutRefusal::HoldNotFound,
        Refusal::HoldExpired => CheckoutRefusal::HoldExpired,
        Refusal::HoldLocked(order) => CheckoutRefusal::HoldLocked { order: *order },
        other => return Err(CheckoutError::Internal(format!("lock was refused: {other:?}"))),
    })
}
