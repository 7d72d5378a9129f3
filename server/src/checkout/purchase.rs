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

use super::keyed::Ended;
use super::order::{MAX_ATTEMPTS, OrderEvent, OrderState};
use super::payment::ProviderError;
use super::payment::stripe::Turn;
use super::places::{Limits, behind_fence, reserve_areas, seats};
use super::step::{News, Stepped, Try};
use super::{CheckoutError, CheckoutRefusal, CheckoutRequest, CrashPoint, Inner, owe, ticket};
use crate::catalogue::EventFacts;
use crate::inventory::key::event_number_of;
use crate::inventory::{Answer, HoldRecord, InventoryError, LockOutcome, Refusal};
use crate::store::constraint::{Constraint, broken, is_lost_race};
use crate::store::order::OrderRow;
use crate::store::{StoreError, event_change, instrument_use, order, order_step};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::server::{EventState, Push};

/// The lock on a hold lasts this much longer than the hold would: time to type a card number, to fetch a phone.
pub(super) const LOCK_BEYOND_HOLD_MS: u64 = 180_000;
/// Times a reservation is begun anew after a lost race or a reference that was in use.
const MAX_TURNS: usize = 4;
/// What the first half of a purchase came to.
pub(super) enum Reserved {
    /// The order stands and its seats are reserved; the turn to ask the provider for its money, where one was needed.
    Order(Box<OrderRow>, Option<Turn>),
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
    pub(super) async fn reserve(
        &self,
        request: &CheckoutRequest,
        id: OrderId,
        is_first: bool,
    ) -> Result<Reserved, CheckoutError> {
        if !is_first && let Some(row) = order::read(self.store.pool(), id).await? {
            return Ok(Reserved::Order(Box::new(row), None));
        }
        let number = event_number_of(request.hold);
        let Some(event) = self.catalogue.event_by_number(number).await? else {
            return Ok(Reserved::Refused(CheckoutRefusal::HoldNotFound));
        };
        // Whoever holds seats when selling pauses or ends may pay for them; nobody should for what will not take place.
        if event.state == EventState::Cancelled {
            return Ok(Reserved::Refused(CheckoutRefusal::NotOnSale { on_sale_ms: event.on_sale_ms }));
        }
        // The lock's length depends on the hold's; and a wrong total is told without touching the hold.
        let open = self.inventory.open_hold(&event, request.identity).await?;
        let mut until_ms = self.inventory.event_ms(event.id) + LOCK_BEYOND_HOLD_MS;
        let open = open.filter(|hold| hold.id == request.hold);
        let is_open = open.is_some();
        if let Some(hold) = open {
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
        // Before anything is locked or made: the same key goes on once the provider answers again. Who has no such hold is
        // refused by the lock, and takes no buyer's turn away.
        let is_asked = is_open && request.expect_total_minor > 0;
        if is_asked {
            self.may_begin()?;
        }
        let instrument = match event.seats_per_instrument {
            Some(_) if request.expect_total_minor > 0 => match self.instrument_of(&request.method).await? {
                Ok(instrument) => Some(instrument),
                Err(refusal) => return Ok(Reserved::Refused(refusal)),
            },
            _ => None,
        };
        // Behind the refusals above, so that nobody uses up turns with them; a refusal below gives it back.
        let turn = if is_asked { Some(self.turn()?) } else { None };
        let locked = self.inventory.lock(&event, request.identity, request.hold, id, until_ms).await?;
        let hold = match locked.outcome {
            LockOutcome::Locked(ref hold) => hold,
            LockOutcome::Refused(ref refusal) => return Ok(Reserved::Refused(of_inventory(refusal)?)),
        };
        self.crash(CrashPoint::Locked)?;
        let refusal = if hold.total_minor() == request.expect_total_minor {
            let mut row = self.new_row(request, id, &event, &locked, hold);
            row.instrument = instrument;
            match self.write_order(&mut row, &event).await {
                Ok(Written::Done) => {
                    self.crash(CrashPoint::Reserved)?;
                    // The basket is locked now: other pages of the buyer must not offer to change it.
                    let hold = Some(hold.to_wire(&event, locked.server_ms));
                    let push = Push::HoldUpdate { id: request.hold, hold };
                    self.sender.to_identity_at(request.identity, Some(locked.position), &push);
                    return Ok(Reserved::Order(Box::new(row), turn));
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
            instrument: None,
            action: None,
            attempts_n: 0,
            state_since_ms: now_ms,
            lock_until_ms: hold.expires_ms,
            check_at_ms: None,
            checks_n: 0,
            unknown_since_ms: None,
            given_up_ms: None,
            created_ms: now_ms,
        };
        self.enter(&mut row, OrderState::Creating, now_ms);
        row
    }

    async fn write_order(&self, row: &mut OrderRow, event: &EventFacts) -> Result<Written, StoreError> {
        let limits = limits(event);
        if self.insert_order(row, &limits).await {
            return Ok(Written::Done);
        }
        for _ in 0..MAX_TURNS {
            match self.write_order_once(row, &limits).await {
                Err(error) if is_lost_race(&error) => {}
                Err(error) => match broken(&error) {
                    Some(Constraint::ReferenceTaken) => row.reference = ticket::draw_reference(),
                    Some(Constraint::OrderExists) => return Ok(Written::Unknown),
                    Some(Constraint::InstrumentLimit) => {
                        return Ok(Written::Refused(self.card_is_full(row, row.instrument.as_deref(), &limits).await?));
                    }
                    // Nothing of a place: no answer to a buyer.
                    None
                    | Some(
                        Constraint::AttemptExists
                        | Constraint::IntentTaken
                        | Constraint::RefundExists
                        | Constraint::TicketExists,
                    ) => return Err(error),
                    Some(constraint) => {
                        // Redis let this through, so one of the two is wrong: Postgres decides, and we want to know.
                        tracing::error!(order = %row.id, ?constraint, "a held place could not be reserved");
                        return Ok(Written::Refused(of_constraint(constraint, row, &limits)));
                    }
                },
                done => return done,
            }
        }
        Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed))
    }

    async fn write_order_once(&self, row: &OrderRow, limits: &Limits) -> Result<Written, StoreError> {
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        // What this node has read of the event may be a moment old.
        let selling = behind_fence(&mut transaction, row).await?;
        if selling.state == Some(EventState::Cancelled) {
            transaction.rollback().await?;
            let event = self.catalogue.event(row.event).await?;
            let on_sale_ms = event.map_or(0, |event| event.on_sale_ms);
            return Ok(Written::Refused(CheckoutRefusal::NotOnSale { on_sale_ms }));
        }
        if selling.epoch != Some(row.epoch) {
            transaction.rollback().await?;
            return Ok(Written::OtherEpoch);
        }
        let (identity, instrument) = (limits.seats_per_identity, limits.seats_per_instrument);
        order_step::insert(&mut transaction, row, &seats(row), &owe::facts(row), identity, instrument).await?;
        reserve_areas(&mut transaction, row, limits).await?;
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
    /// The order as it stands then, where that is known.
    /// `under`: the command that is answered with it.
    pub(super) async fn pay_new(
        &self,
        row: OrderRow,
        method: &str,
        under: (IdentityId, IdempotencyKey),
        turn: Option<Turn>,
    ) -> Result<Option<Ended>, CheckoutError> {
        if row.state != OrderState::Creating {
            return Ok(None);
        }
        if row.total_minor == 0 {
            return Ok(Some(self.write(row.id, &[News::Plain(OrderEvent::NothingToPay)]).await?.into_row().into()));
        }
        let intent = match self.ensure_intent(&row, &row.command_key, turn.as_ref()).await {
            Ok(intent) => intent,
            Err(reason) => {
                return Ok(Some(self.write(row.id, &[News::IntentFailed(&reason)]).await?.into_row().into()));
            }
        };
        self.crash(CrashPoint::IntentCreated)?;
        let begins = Try { method, instrument: row.instrument.as_deref() };
        let begun = match self.start_attempt(&row, &intent, begins).await {
            Some(row) => Some(row),
            None => match self.write(row.id, &[News::IntentCreated(&intent), News::AttemptStarted(begins)]).await? {
                Stepped::Moved(row) => Some(*row),
                Stepped::Stays(_) => None,
            },
        };
        if let Some(row) = begun {
            self.crash(CrashPoint::AttemptRecorded)?;
            return self.confirm(row, method, under, turn.as_ref()).await;
        }
        // Somebody else has moved the order, or its event is cancelled: then nothing may be charged for it any more.
        if self.is_event_cancelled(&row).await? {
            let news = [News::IntentCreated(&intent), News::Plain(OrderEvent::BuyerCancelled)];
            if let Stepped::Moved(row) = self.write(row.id, &news).await? {
                self.fence(&row).await?;
            }
        }
        Ok(None)
    }

    /// Another attempt at an order that was declined, and the turn to ask for its money; `Err` says why not.
    pub(super) async fn begin_again(
        &self,
        row: &OrderRow,
        command_key: &str,
        method: &str,
    ) -> Result<Result<(OrderRow, Turn), CheckoutRefusal>, CheckoutError> {
        if let Some(refusal) = pay_refusal(row) {
            return Ok(Err(refusal));
        }
        self.may_begin()?;
        let limits = self.limits_of(row).await?;
        let instrument = match limits.seats_per_instrument {
            Some(_) => match self.instrument_of(method).await? {
                Ok(instrument) => Some(instrument),
                Err(refusal) => return Ok(Err(refusal)),
            },
            None => None,
        };
        let turn = self.turn()?;
        if row.intent.is_none() {
            match self.ensure_intent(row, command_key, Some(&turn)).await {
                Ok(intent) => self.set_intent(row.id, &intent).await?,
                // Still not to be reached: the order stays payable, the buyer sees the same decline.
                Err(_) => return Ok(Ok((row.clone(), turn))),
            }
        }
        // What begins behind this is in flight, and goes back with the other money of a cancelled event.
        let begins = Try { method, instrument: instrument.as_deref() };
        Ok(match self.step(row.id, None, &[News::AttemptStarted(begins)]).await {
            Ok(Stepped::Moved(row)) => Ok((*row, turn)),
            Ok(Stepped::Stays(row)) if self.is_event_cancelled(&row).await? => Err(CheckoutRefusal::PayRefused),
            Ok(Stepped::Stays(row)) => Err(pay_refusal(&row).unwrap_or(CheckoutRefusal::PaymentOpen)),
            Err(error) if broken(&error) == Some(Constraint::InstrumentLimit) => {
                Err(self.card_is_full(row, instrument.as_deref(), &limits).await?)
            }
            Err(error) => return Err(error.into()),
        })
    }

    /// Nothing is begun that would only wait for a provider which is not there, or has no time for those who wait already.
    fn may_begin(&self) -> Result<(), CheckoutError> {
        if !self.provider.has_turn() {
            return Err(CheckoutError::ProviderAway);
        }
        if self.provider.is_jammed() {
            return Err(CheckoutError::ProviderBusy);
        }
        Ok(())
    }

    /// Nothing is begun that needs a provider which is not there, but by the one buyer whose turn it is to find out.
    fn turn(&self) -> Result<Turn, CheckoutError> {
        self.provider.take_turn().ok_or(CheckoutError::ProviderAway)
    }

    /// The card behind a payment method, by the provider's fingerprint. One that has none, or that the provider does not
    /// show, cannot be counted, so an event that limits cards does not take it.
    async fn instrument_of(&self, method: &str) -> Result<Result<String, CheckoutRefusal>, CheckoutError> {
        match self.provider.fingerprint(method).await {
            Ok(Some(fingerprint)) => Ok(Ok(fingerprint)),
            Ok(None) | Err(ProviderError::Refused { .. }) => Ok(Err(CheckoutRefusal::MethodNotCounted)),
            Err(error) => {
                tracing::warn!(%error, "the card behind a payment method is not known");
                Err(CheckoutError::ProviderAway)
            }
        }
    }

    async fn card_is_full(
        &self,
        row: &OrderRow,
        instrument: Option<&str>,
        limits: &Limits,
    ) -> Result<CheckoutRefusal, StoreError> {
        let used = instrument_use::used(self.store.pool(), row.event, instrument.unwrap_or_default()).await?;
        Ok(CheckoutRefusal::CardLimitExceeded { limit: limits.seats_per_instrument.unwrap_or_default(), used })
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

fn limits(event: &EventFacts) -> Limits {
    Limits {
        seats_per_identity: event.rules.seats_per_identity,
        seats_per_instrument: event.seats_per_instrument,
        capacities: event.areas.iter().map(|area| area.capacity).collect(),
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
