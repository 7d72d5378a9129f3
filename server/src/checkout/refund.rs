//! Money on its way back: all of an order, some of its tickets, or an amount. The refund is recorded, its tickets are void
//! and their seats free in one transaction; then the provider is asked, by a key that stands in the row. What comes back
//! from the provider by itself (a refund made on its pages) is noticed here as well.

pub(super) mod record;

use super::order::OrderState;
use super::payment::{NewRefund, ProviderError, RefundAnswer, RefundStatus};
use super::resolve::Looked;
use super::step::{News, Stepped};
use super::webhook::Applied;
use super::{CheckoutAnswer, CheckoutError, CheckoutRefusal, CrashPoint, Inner, OrderRequest};
use crate::store::order::OrderRow;
use crate::store::refund::{self, OpenRefund, RefundLine, RefundState};
use crate::store::{StoreError, open_payment, order};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use serde_json::Value;
use sha2::{Digest, Sha256};
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
    /// `None`: the server itself.
    pub(super) by: Option<RefundBy>,
    pub(super) what: RefundWhat,
    pub(super) reason: String,
}

/// The operator who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefundBy {
    pub(super) key: Uuid,
    pub(super) name: String,
    /// SHA-256 of the request.
    pub(super) fingerprint: [u8; 32],
}

/// What became of one refund.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RefundResult {
    open: OpenRefund,
    state: RefundState,
    provider_refund: Option<String>,
    failure: Option<String>,
}

/// A refund that had succeeded and came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reversal {
    provider_refund: String,
    failure: String,
    /// What the provider says is back with the buyer in all.
    back_minor: i64,
}

impl Inner {
    /// Gives money back; the answer is the order as it stands then, `refund_due`.
    pub(super) async fn refund(
        &self,
        id: OrderId,
        refund_id: Uuid,
        by: Option<RefundBy>,
        what: RefundWhat,
        reason: String,
    ) -> Result<Result<OrderRow, CheckoutRefusal>, CheckoutError> {
        let ask = RefundAsk { id: refund_id, by, what, reason };
        Ok(match self.step(id, None, &[News::RefundAsked(&ask)]).await? {
            Stepped::Moved(row) => {
                self.crash(CrashPoint::RefundRecorded)?;
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
            if let Some(made) = refund::made_as(pool, refund_id).await? {
                // The answer under the key is forgotten, or was never written; the refund itself still says what it was.
                let is_same = made.order == id && made.fingerprint.as_deref() == Some(&request.fingerprint[..]);
                return Ok(if is_same { Ok(row) } else { Err(CheckoutRefusal::KeyReused) });
            }
            let by = RefundBy { key: identity.uuid(), name: key_name, fingerprint: request.fingerprint };
            self.refund(id, refund_id, Some(by), what, reason).await
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

    /// Begins refunds of cancelled events, of one batch on one node at a time; how many were begun. Each round goes on
    /// behind the last, so that orders that cannot be refunded now do not stand in the way of all others.
    pub(super) async fn refund_cancelled(&self) -> Result<usize, CheckoutError> {
        let mut turn = crate::store::begin(self.store.pool()).await?;
        if !open_payment::take_turn_to_refund(&mut turn).await? {
            return Ok(0);
        }
        let after = *self.cancelled_cursor.lock();
        let due = open_payment::list_of_cancelled_events(&mut *turn, after, CANCELLED_BATCH).await?;
        *self.cancelled_cursor.lock() = (due.len() == CANCELLED_BATCH as usize).then(|| due.last().copied()).flatten();
        let mut begun_n = 0;
        for &id in &due {
            let reason = "the event was cancelled".to_owned();
            match self.refund(id, Uuid::now_v7(), None, RefundWhat::All, reason).await {
                Ok(Ok(_)) => begun_n += 1,
                Ok(Err(refusal)) => {
                    tracing::error!(order = %id, ?refusal, "an order of a cancelled event cannot be refunded");
                }
                Err(error @ CheckoutError::Store(StoreError::Unavailable(_))) => return Err(error),
                Err(error) => {
                    tracing::error!(order = %id, %error, "a refund of a cancelled event failed; it is tried again")
                }
            }
        }
        turn.rollback().await.map_err(StoreError::from)?;
        Ok(begun_n)
    }

    /// Takes the open refunds of an order one step further. Asking twice by the same key is asking once.
    pub(super) async fn look_refund(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        let open = refund::open_of_order(self.store.pool(), row.id).await?;
        let mut results = Vec::with_capacity(open.len());
        let mut is_unanswered = false;
        for open in open {
            match self.ask_refund(row, &open).await {
                Ok(answer) => {
                    self.crash(CrashPoint::RefundAnswered)?;
                    results.push(of_answer(open, answer));
                }
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
            Stepped::Moved(now) => {
                // What the provider told of other refunds meanwhile was put aside: it is asked for now.
                if has_failed || now.refunding_minor == 0 && now.refunded_minor < now.captured_minor {
                    self.see_given_back(&now).await?;
                }
                if now.state == row.state { Looked::Waiting } else { Looked::Moved }
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

    /// The charge that stands for an order, and what the provider says went back of it in all, whoever asked for it.
    async fn back_at_provider(&self, row: &OrderRow) -> Result<(Option<String>, i64), ProviderError> {
        let Some(intent) = &row.intent else { return Ok((None, 0)) };
        let charge = self.provider.intent(intent).await?.charge;
        let back_minor = match &charge {
            Some(charge) => self.provider.given_back_minor(charge).await?,
            None => 0,
        };
        Ok((charge, back_minor))
    }

    /// Notices what the provider says went back in all.
    async fn see_given_back(&self, row: &OrderRow) -> Result<(), CheckoutError> {
        match self.back_at_provider(row).await {
            Ok((_, back_minor)) => {
                self.step(row.id, None, &[News::RefundSeen(back_minor)]).await?;
            }
            Err(error) => tracing::warn!(order = %row.id, %error, "what went back is not known yet"),
        }
        Ok(())
    }

    /// The provider says something of money that goes back: how much of a charge did (more than we know of was given back
    /// on its own pages), or how a refund stands.
    pub(super) async fn see_refund(&self, row: &OrderRow, object: &Value) -> Result<Applied, CheckoutError> {
        if object["object"] == "charge" {
            let (Some(said), Some(said_minor)) = (object["id"].as_str(), object["amount_refunded"].as_i64()) else {
                return Ok(Applied::Done);
            };
            if said_minor > row.refunded_minor {
                // The charge itself decides, not what was said of it; and it is the one the order's own intent names, or
                // the refund of somebody else's would void these tickets.
                let (charge, back_minor) = match self.back_at_provider(row).await {
                    Ok(back) => back,
                    Err(ProviderError::Refused { .. }) => return Ok(Applied::Contradicted),
                    Err(error) => {
                        tracing::warn!(order = %row.id, %error, "how much went back is not known yet");
                        return Ok(Applied::NotYet);
                    }
                };
                if charge.as_deref() != Some(said) {
                    return Ok(Applied::Contradicted);
                }
                self.step(row.id, None, &[News::RefundSeen(back_minor)]).await?;
            }
            return Ok(Applied::Done);
        }
        if matches!(row.state, OrderState::RefundSubmitted | OrderState::RefundPending) {
            self.look_refund(row).await?;
        }
        match (object["id"].as_str(), object["status"].as_str()) {
            (Some(id), Some("failed" | "canceled")) => self.see_reversal(row, id).await,
            _ => Ok(Applied::Done),
        }
    }

    /// A refund is said to have failed: where it had succeeded before, the money is ours again and still owed.
    async fn see_reversal(&self, row: &OrderRow, id: &str) -> Result<Applied, CheckoutError> {
        let said = async {
            let answer = self.provider.refund_by_id(id).await?;
            let (_, back_minor) = self.back_at_provider(row).await?;
            Ok::<_, ProviderError>((answer, back_minor))
        };
        let (answer, back_minor) = match said.await {
            Ok(said) => said,
            Err(ProviderError::Refused { .. }) => return Ok(Applied::Contradicted),
            Err(error) => {
                tracing::warn!(order = %row.id, %error, "whether a refund came back is not known yet");
                return Ok(Applied::NotYet);
            }
        };
        if answer.status != RefundStatus::Failed {
            return Ok(Applied::Done);
        }
        let failure = answer.failure.unwrap_or_else(|| "unknown".to_owned());
        let reversal = Reversal { provider_refund: answer.id, failure, back_minor };
        Ok(match self.step(row.id, None, &[News::RefundReversed(&reversal)]).await? {
            // Another refund of the order is under way: its end comes first.
            Stepped::Stays(now) if now.refunding_minor > 0 => Applied::NotYet,
            Stepped::Moved(_) | Stepped::Stays(_) => Applied::Done,
        })
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
