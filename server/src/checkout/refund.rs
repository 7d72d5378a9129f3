//! Money on its way back: all of an order, some of its tickets, or an amount. The refund is recorded, its tickets are void
//! and their seats free in one transaction; then the provider is asked, by a key that stands in the row. What comes back
//! from the provider by itself (a refund made on its pages) is noticed here as well.

use super::order::{OrderEvent, OrderState, next};
use super::payment::{NewRefund, ProviderError, RefundAnswer, RefundStatus};
use super::resolve::Looked;
use super::step::{News, Stepped};
use super::{CheckoutAnswer, CheckoutError, CheckoutRefusal, Inner, OrderRequest};
use crate::store::admin_log::{self, NewEntry};
use crate::store::order::OrderRow;
use crate::store::refund::{self, NewRefundRow, OpenRefund, RefundLine, RefundState};
use crate::store::{StoreError, area_stock, identity_use, open_payment, order, taken_seat, ticket};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use sqlx::types::Uuid;

/// Orders of cancelled events refunded in one round, one round a second: below the 25 calls a second that a provider
/// allows on one endpoint, with room for everything else.
const CANCELLED_BATCH: u32 = 15;

/// What is to go back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundWhat {
    /// Everything that is left, tickets and money.
    All,
    /// These tickets and their price.
    Lines(Vec<RefundLine>),
    /// Money only.
    Amount(i64),
}

/// A refund asked for: what, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefundAsk {
    pub(super) id: Uuid,
    /// The operator's key and its name; `None`: the server itself.
    pub(super) by: Option<(Uuid, String)>,
    pub(super) what: RefundWhat,
    pub(super) reason: String,
}

/// What became of one refund.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RefundResult {
    open: OpenRefund,
    state: RefundState,
    provider_refund: Option<String>,
    failure: Option<String>,
}

impl Inner {
    /// Gives money back; the answer is the order as it stands then, `refund_due`.
    pub(super) async fn refund(
        &self,
        id: OrderId,
        refund_id: Uuid,
        by: Option<(Uuid, String)>,
        what: RefundWhat,
        reason: String,
    ) -> Result<Result<OrderRow, CheckoutRefusal>, CheckoutError> {
        let ask = RefundAsk { id: refund_id, by, what, reason };
        Ok(match self.step(id, None, &[News::RefundAsked(&ask)]).await? {
            Stepped::Moved(row) => {
                self.check_nudge.notify_one();
                Ok(*row)
            }
            Stepped::Stays(_) => Err(CheckoutRefusal::RefundRefused),
        })
    }

    /// Refunds an order once for the operator's key: the refund's id follows from it, so that a run that died after its
    /// commit is not made twice.
    pub(super) async fn refund_by_key(
        &self,
        request: OrderRequest,
        key_name: String,
        what: RefundWhat,
        reason: String,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        let id = match self.claim_for(&request).await? {
            Ok(id) => id,
            Err(answer) => return Ok(*answer),
        };
        let (identity, key) = (request.identity, &request.key);
        let refund_id = id_of_key(identity, key);
        let made = async {
            let pool = self.store.pool();
            let Some(row) = order::read(pool, id).await? else { return Ok(Err(CheckoutRefusal::OrderNotFound)) };
            if refund::exists(pool, refund_id).await? {
                return Ok(Ok(row));
            }
            self.refund(id, refund_id, Some((identity.uuid(), key_name)), what, reason).await
        };
        match made.await {
            Ok(Ok(row)) => {
                let view = self.view(&row).await.map_err(|_| CheckoutError::TimeoutUnknown)?;
                Ok(self.answer(identity, key, Ok(view)).await)
            }
            Ok(Err(refusal)) => Ok(self.answer(identity, key, Err(refusal)).await),
            Err(error) => {
                self.give_up_claim(identity, key).await;
                Err(error)
            }
        }
    }

    /// Begins refunds of cancelled events.
    pub(super) async fn refund_cancelled(&self) -> Result<usize, CheckoutError> {
        let due = open_payment::list_of_cancelled_events(self.store.pool(), CANCELLED_BATCH).await?;
        for &id in &due {
            let reason = "the event was cancelled".to_owned();
            if let Err(refusal) = self.refund(id, Uuid::now_v7(), None, RefundWhat::All, reason).await? {
                tracing::error!(order = %id, ?refusal, "an order of a cancelled event cannot be refunded");
            }
        }
        Ok(due.len())
    }

    /// Takes the open refunds of an order one step further. Asking twice by the same key is asking once.
    pub(super) async fn look_refund(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        let open = refund::open_of_order(self.store.pool(), row.id).await?;
        let mut results = Vec::with_capacity(open.len());
        let mut is_unanswered = false;
        for open in open {
            match self.ask_refund(row, &open).await {
                Ok(answer) => results.push(of_answer(open, answer)),
                Err(ProviderError::Refused { reason, .. }) => {
                    tracing::error!(order = %row.id, reason, "a refund was refused; a person must look");
                    let failure = Some(reason);
                    results.push(RefundResult { open, state: RefundState::Failed, provider_refund: None, failure });
                }
                Err(error) => {
                    tracing::warn!(order = %row.id, %error, "a refund waits for the provider");
                    is_unanswered = true;
                }
            }
        }
        if results.is_empty() {
            return Ok(if is_unanswered { Looked::Unanswered } else { Looked::Nothing });
        }
        let has_failed = results.iter().any(|result| result.state == RefundState::Failed);
        Ok(match self.step(row.id, None, &[News::RefundAnswered(&results)]).await? {
            Stepped::Moved(row) => {
                if has_failed {
                    self.see_given_back(&row).await?;
                }
                Looked::Moved
            }
            Stepped::Stays(_) => Looked::Waiting,
        })
    }

    async fn ask_refund(&self, row: &OrderRow, open: &OpenRefund) -> Result<RefundAnswer, ProviderError> {
        if let Some(id) = &open.provider_refund {
            return self.provider.refund_by_id(id).await;
        }
        let Some(intent) = &row.intent else { return Err(ProviderError::Unknown("no intent".into())) };
        let (pool, name) = (self.store.pool(), open.id.to_string());
        let unwritten = |error: StoreError| ProviderError::Unknown(error.to_string());
        // Asked before, and the answer was lost: it may stand at the provider's already.
        if open.tries_n > 0
            && let Some(found) = self.provider.refund_by_name(intent, &name).await?
        {
            return Ok(found);
        }
        refund::begin_try(pool, open.id).await.map_err(unwritten)?;
        let new = NewRefund { intent, amount_minor: open.amount_minor, name: &name, key: &open.idempotency_key };
        match self.provider.refund(&new).await {
            Err(ProviderError::Remembered(why)) => {
                // The first call by this key is over. Only now does the list say for certain what it did.
                if let Some(found) = self.provider.refund_by_name(intent, &name).await? {
                    return Ok(found);
                }
                refund::change_key(pool, open).await.map_err(unwritten)?;
                Err(ProviderError::Remembered(why))
            }
            answer => answer,
        }
    }

    /// What the provider says went back in all, after it refused to give back more.
    async fn see_given_back(&self, row: &OrderRow) -> Result<(), CheckoutError> {
        let Some(intent) = &row.intent else { return Ok(()) };
        let back = async {
            match self.provider.intent(intent).await?.charge {
                Some(charge) => self.provider.given_back_minor(&charge).await,
                None => Ok(0),
            }
        };
        match back.await {
            Ok(back_minor) => {
                self.step(row.id, None, &[News::RefundSeen(back_minor)]).await?;
            }
            Err(error) => tracing::warn!(order = %row.id, %error, "what went back is not known yet"),
        }
        Ok(())
    }

    /// The provider says how much of a charge went back: more than we know of was given back on its own pages.
    pub(super) async fn see_refund(&self, row: &OrderRow, object: &Value) -> Result<(), CheckoutError> {
        if object["object"] == "charge"
            && let Some(back_minor) = object["amount_refunded"].as_i64()
        {
            self.step(row.id, None, &[News::RefundSeen(back_minor)]).await?;
        } else if matches!(row.state, OrderState::RefundSubmitted | OrderState::RefundPending) {
            self.look_refund(row).await?;
        }
        Ok(())
    }
}

/// The refund an operator's key stands for.
fn id_of_key(identity: IdentityId, key: &IdempotencyKey) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(identity.uuid().as_bytes());
    hash.update(key.as_str());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    Uuid::from_bytes(bytes)
}

fn of_answer(open: OpenRefund, answer: RefundAnswer) -> RefundResult {
    let state = match answer.status {
        RefundStatus::Pending => RefundState::Pending,
        RefundStatus::Succeeded => RefundState::Succeeded,
        RefundStatus::Failed => RefundState::Failed,
    };
    RefundResult { open, state, provider_refund: Some(answer.id), failure: answer.failure }
}

/// Records what is asked: the row, void tickets, free seats. `None`: it cannot go back so. Else whether places came free.
pub(super) async fn record_ask(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    ask: &RefundAsk,
    now_ms: u64,
) -> Result<Option<bool>, StoreError> {
    let left_minor = row.captured_minor - row.refunded_minor - row.refunding_minor;
    let live = ticket::live_by_line(&mut *transaction, row.event, row.id).await?;
    let lines: Vec<RefundLine> = match &ask.what {
        RefundWhat::All => live.clone(),
        RefundWhat::Lines(lines) => {
            let fits = |asked: &RefundLine| {
                asked.quantity > 0 && live.iter().any(|live| live.line == asked.line && live.quantity >= asked.quantity)
            };
            let once = lines.iter().enumerate().all(|(at, a)| lines[..at].iter().all(|b| b.line != a.line));
            if lines.is_empty() || !once || !lines.iter().all(fits) {
                return Ok(None);
            }
            lines.clone()
        }
        RefundWhat::Amount(_) => Vec::new(),
    };
    let amount_minor = match &ask.what {
        RefundWhat::All => left_minor,
        RefundWhat::Lines(lines) => {
            let price = |line: &RefundLine| {
                let bought = &row.lines[line.line as usize];
                (bought.price_minor + bought.fee_minor) * i64::from(line.quantity)
            };
            // What was given back as money before is not given back again with the ticket.
            lines.iter().map(price).sum::<i64>().min(left_minor)
        }
        RefundWhat::Amount(amount_minor) => {
            if !(1..=left_minor).contains(amount_minor) {
                return Ok(None);
            }
            *amount_minor
        }
    };
    if amount_minor == 0 && lines.is_empty() {
        return Ok(None);
    }
    if amount_minor > 0 {
        row.refunding_minor += amount_minor;
        let new = NewRefundRow {
            id: ask.id,
            order: row.id,
            event: row.event,
            provider: &row.provider,
            amount_minor,
            reason: &ask.reason,
            lines: (!lines.is_empty()).then_some(&lines[..]),
        };
        refund::insert(&mut *transaction, &new, now_ms).await?;
    }
    void(transaction, row, &lines).await?;
    let (key, key_name) = ask.by.as_ref().map_or((None, "server"), |(key, name)| (Some(*key), name.as_str()));
    let detail = json!({
        "order": row.id,
        "amount_minor": amount_minor,
        "lines": lines,
        "reason": ask.reason,
    });
    let entry = NewEntry { key, key_name, action: "order.refund", event: Some(row.event), detail };
    admin_log::insert(&mut *transaction, &entry, now_ms).await?;
    Ok(Some(!lines.is_empty()))
}

/// Makes tickets void and their places free.
async fn void(transaction: &mut PgConnection, row: &OrderRow, lines: &[RefundLine]) -> Result<(), StoreError> {
    let mut quantity = 0;
    let mut seats = Vec::new();
    for line in lines {
        ticket::void(&mut *transaction, row.event, row.id, line.line, line.quantity).await?;
        quantity += line.quantity;
        seats.extend(row.lines[line.line as usize].seat);
    }
    if !seats.is_empty() {
        taken_seat::free(&mut *transaction, row.event, row.id, &seats).await?;
    }
    let mut areas: Vec<_> =
        lines.iter().filter_map(|line| Some((row.lines[line.line as usize].area?, line.quantity))).collect();
    areas.sort_unstable();
    for (area, quantity) in areas {
        area_stock::free(&mut *transaction, row.event, area, quantity, true).await?;
    }
    if quantity > 0 {
        identity_use::subtract(transaction, row.event, row.identity, quantity).await?;
    }
    Ok(())
}

/// A charge whose seats could not be had goes back whole.
pub(super) async fn record_late(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    now_ms: u64,
) -> Result<(), StoreError> {
    let amount_minor = row.captured_minor - row.refunded_minor - row.refunding_minor;
    row.refunding_minor += amount_minor;
    let new = NewRefundRow {
        id: Uuid::now_v7(),
        order: row.id,
        event: row.event,
        provider: &row.provider,
        amount_minor,
        reason: "charged after the seats were given back",
        lines: None,
    };
    refund::insert(transaction, &new, now_ms).await
}

/// Writes what became of refunds and says where the order stands then.
pub(super) async fn record_answers(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    results: &[RefundResult],
    now_ms: u64,
) -> Result<OrderState, StoreError> {
    let mut has_failed = false;
    for result in results {
        let (id, provider_refund) = (result.open.id, result.provider_refund.as_deref());
        let failure = result.failure.as_deref();
        if !refund::set_state(&mut *transaction, id, result.state, provider_refund, failure, now_ms).await? {
            continue;
        }
        match result.state {
            RefundState::Succeeded => {
                row.refunding_minor -= result.open.amount_minor;
                row.refunded_minor += result.open.amount_minor;
            }
            RefundState::Failed => {
                row.refunding_minor -= result.open.amount_minor;
                has_failed = true;
            }
            RefundState::Due | RefundState::Pending => {}
        }
    }
    let event = if row.refunding_minor > 0 {
        OrderEvent::RefundDelayed
    } else if has_failed {
        OrderEvent::RefundRejected
    } else {
        whole_or_part(row)
    };
    Ok(next(row.state, event).unwrap_or(row.state))
}

/// The provider gave back `back_minor` in all, whoever asked for it.
pub(super) async fn record_seen(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    back_minor: i64,
) -> Result<Option<(OrderState, bool)>, StoreError> {
    // What we asked for ourselves is answered for by its own row.
    if row.refunding_minor > 0 || back_minor <= row.refunded_minor || back_minor > row.captured_minor {
        return Ok(None);
    }
    row.refunded_minor = back_minor;
    let Some(to) = next(row.state, whole_or_part(row)) else { return Ok(None) };
    tracing::warn!(order = %row.id, back_minor, "money went back on the provider's own pages");
    let mut is_freed = false;
    if to == OrderState::Refunded {
        let live = ticket::live_by_line(&mut *transaction, row.event, row.id).await?;
        is_freed = !live.is_empty();
        void(transaction, row, &live).await?;
    }
    Ok(Some((to, is_freed)))
}

const fn whole_or_part(row: &OrderRow) -> OrderEvent {
    if row.refunded_minor == row.captured_minor { OrderEvent::RefundedInFull } else { OrderEvent::RefundedInPart }
}
