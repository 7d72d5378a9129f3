//! Checkout, pay and cancel as commands under a key: claim it, do the work in a task of its own, answer when the order is
//! settled or when the buyer has waited long enough, and remember the answer.

use super::order::OrderState;
use super::purchase::Reserved;
use super::step::{News, Stepped};
use super::{CheckoutAnswer, CheckoutError, CheckoutRefusal, CheckoutRequest, CrashPoint, Inner, OrderRequest};
use crate::store::order::OrderRow;
use crate::store::order_command::{Claim, NewClaim};
use crate::store::{order as orders, order_command};
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::server::Order;
use serde::Deserialize;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

/// An answer waits this long for the shelf to learn of it, so that a buyer who was answered `paid` is not told that the
/// hold is still locked. Redis down: the answer does not wait longer, the relay tells later.
const SHELF_PATIENCE: Duration = Duration::from_secs(1);

/// What a purchase came to.
pub(super) struct Ended {
    /// The order as it stands.
    pub(super) row: OrderRow,
    /// The answer, where it is remembered under its key already.
    pub(super) answer: Option<Box<Order>>,
}

impl From<OrderRow> for Ended {
    fn from(row: OrderRow) -> Self {
        Self { row, answer: None }
    }
}

/// A key that is ours to run.
struct Claimed {
    /// About which order.
    order: OrderId,
    /// Nobody ran it before: there is no such order yet.
    is_first: bool,
}

impl Inner {
    pub(super) async fn checkout(self: Arc<Self>, request: CheckoutRequest) -> Result<CheckoutAnswer, CheckoutError> {
        let claim = NewClaim {
            identity: request.identity,
            key: request.key.clone(),
            fingerprint: request.fingerprint,
            order: OrderId::generate(),
            hold: Some(request.hold),
            run: Uuid::now_v7(),
            node: self.node,
        };
        let Claimed { order: id, is_first } = match self.claim(claim).await? {
            Ok(claimed) => claimed,
            Err(answer) => return Ok(*answer),
        };
        self.crash(CrashPoint::Claimed)?;
        let (row, turn) = match self.reserve(&request, id, is_first).await {
            Ok(Reserved::Order(row, turn)) => (*row, turn),
            Ok(Reserved::Refused(refusal)) => {
                return Ok(self.answer(request.identity, &request.key, Err(refusal)).await);
            }
            Err(CheckoutError::Interrupted(point)) => return Err(CheckoutError::Interrupted(point)),
            Err(error) => {
                self.give_up_claim(request.identity, &request.key).await;
                return Err(error);
            }
        };
        let method = request.method.clone();
        let inner = self.clone();
        let under = (request.identity, request.key.clone());
        let saga = async move { inner.pay_new(row, &method, under, turn).await };
        self.answer_when_settled(saga, request.identity, &request.key, id).await
    }

    pub(super) async fn pay(
        self: Arc<Self>,
        request: OrderRequest,
        method: String,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        let id = match self.claim_for(&request).await? {
            Ok(id) => id,
            Err(answer) => return Ok(*answer),
        };
        let (identity, key) = (request.identity, &request.key);
        let begun = async {
            let Some(row) = orders::read_own(self.store.pool(), identity, id).await? else {
                return Ok(Err(CheckoutRefusal::OrderNotFound));
            };
            self.begin_again(&row, key.as_str(), &method).await
        };
        let (row, turn) = match begun.await {
            Ok(Ok(begun)) => begun,
            Ok(Err(refusal)) => return Ok(self.answer(identity, key, Err(refusal)).await),
            Err(error) => {
                self.give_up_claim(identity, key).await;
                return Err(error);
            }
        };
        let (inner, under) = (self.clone(), (identity, key.clone()));
        let saga = async move {
            inner.crash(CrashPoint::AttemptRecorded)?;
            if row.state != OrderState::Confirming {
                return Ok(None);
            }
            inner.confirm(row, &method, under, Some(&turn)).await
        };
        self.answer_when_settled(saga, identity, key, id).await
    }

    pub(super) async fn cancel(self: Arc<Self>, request: OrderRequest) -> Result<CheckoutAnswer, CheckoutError> {
        let id = match self.claim_for(&request).await? {
            Ok(id) => id,
            Err(answer) => return Ok(*answer),
        };
        let (identity, key) = (request.identity, &request.key);
        let begun = async {
            if orders::read_own(self.store.pool(), identity, id).await?.is_none() {
                return Ok(Err(CheckoutRefusal::OrderNotFound));
            }
            let stepped = self.step(id, None, &[News::GivenUp]).await?;
            Ok::<_, CheckoutError>(match stepped {
                Stepped::Moved(row) => Ok(*row),
                Stepped::Stays(row) if matches!(row.state, OrderState::Cancelled | OrderState::Cancelling) => Ok(*row),
                Stepped::Stays(_) => Err(CheckoutRefusal::CancelRefused),
            })
        };
        let row = match begun.await {
            Ok(Ok(row)) => row,
            Ok(Err(refusal)) => return Ok(self.answer(identity, key, Err(refusal)).await),
            Err(error) => {
                self.give_up_claim(identity, key).await;
                return Err(error);
            }
        };
        let inner = self.clone();
        let saga = async move {
            if row.state == OrderState::Cancelling { inner.fence(&row).await.map(|_| None) } else { Ok(None) }
        };
        self.answer_when_settled(saga, identity, key, id).await
    }

    pub(super) async fn claim_for(
        &self,
        request: &OrderRequest,
    ) -> Result<Result<OrderId, Box<CheckoutAnswer>>, CheckoutError> {
        let claim = NewClaim {
            identity: request.identity,
            key: request.key.clone(),
            fingerprint: request.fingerprint,
            order: request.order,
            hold: None,
            run: Uuid::now_v7(),
            node: self.node,
        };
        Ok(self.claim(claim).await?.map(|claimed| claimed.order))
    }

    /// Claims a key: the order to work on, or the answer that stands already.
    async fn claim(&self, claim: NewClaim) -> Result<Result<Claimed, Box<CheckoutAnswer>>, CheckoutError> {
        let refused = |refusal| Err(Box::new(CheckoutAnswer { outcome: Err(refusal), is_replayed: false }));
        Ok(match self.claim_key(claim).await? {
            Claim::Ours { order, is_first } => Ok(Claimed { order, is_first }),
            Claim::Running => refused(CheckoutRefusal::KeyInUse),
            Claim::Reused => refused(CheckoutRefusal::KeyReused),
            Claim::Answered(answer) => {
                Err(Box::new(CheckoutAnswer { outcome: read_answer(answer)?, is_replayed: true }))
            }
        })
    }

    /// Waits for the purchase, but not for ever; answers with the order as it stands then.
    async fn answer_when_settled(
        &self,
        saga: impl Future<Output = Result<Option<Ended>, CheckoutError>> + Send + 'static,
        identity: IdentityId,
        key: &IdempotencyKey,
        id: OrderId,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        let told = self.waiting.entry(id).or_default().clone();
        let ended = tokio::time::timeout(self.config.answer_within, tokio::spawn(saga)).await;
        let answer = self.answer_after(ended, &told, identity, key, id).await;
        self.waiting.remove(&id);
        answer
    }

    async fn answer_after(
        &self,
        ended: Result<
            Result<Result<Option<Ended>, CheckoutError>, tokio::task::JoinError>,
            tokio::time::error::Elapsed,
        >,
        told: &Notify,
        identity: IdentityId,
        key: &IdempotencyKey,
        id: OrderId,
    ) -> Result<CheckoutAnswer, CheckoutError> {
        let mut known = None;
        match ended {
            // The purchase goes on by itself.
            Err(_) => {}
            Ok(Ok(Ok(ended))) => known = ended,
            Ok(Ok(Err(CheckoutError::Interrupted(point)))) => return Err(CheckoutError::Interrupted(point)),
            Ok(Ok(Err(error))) => tracing::error!(order = %id, %error, "a purchase is left to the reconciler"),
            Ok(Err(error)) => return Err(CheckoutError::Internal(error.to_string())),
        }
        // The order stands: from here on "no order was made" would be a lie.
        let Ended { row, answer } = match known {
            Some(ended) => ended,
            None => match orders::read_own(self.store.pool(), identity, id).await {
                Ok(Some(row)) => Ended { row, answer: None },
                _ => return Err(CheckoutError::TimeoutUnknown),
            },
        };
        if matches!(row.state, OrderState::Fulfilled | OrderState::Cancelled) {
            // Late is not wrong: the relay has the row.
            let _ = tokio::time::timeout(SHELF_PATIENCE, told.notified()).await;
        }
        if let Some(order) = answer {
            return Ok(CheckoutAnswer { outcome: Ok(*order), is_replayed: false });
        }
        let view = self.view(&row).await.map_err(|_| CheckoutError::TimeoutUnknown)?;
        Ok(self.answer(identity, key, Ok(view)).await)
    }

    /// Remembers an answer under its key and gives it.
    pub(super) async fn answer(
        &self,
        identity: IdentityId,
        key: &IdempotencyKey,
        outcome: Result<Order, CheckoutRefusal>,
    ) -> CheckoutAnswer {
        let stored = match &outcome {
            Ok(order) => serde_json::json!({ "order": order }),
            Err(refusal) => serde_json::json!(refusal),
        };
        let pool = self.store.pool();
        let first = async {
            if order_command::finish(pool, identity, key, &stored).await? {
                return Ok(None);
            }
            order_command::answer(pool, identity, key).await
        };
        match first.await {
            Ok(None) => {}
            // The order was paid, and answered, while this one was being made.
            Ok(Some(first)) => match read_answer(first) {
                Ok(outcome) => return CheckoutAnswer { outcome, is_replayed: false },
                Err(error) => tracing::error!(%error, "a remembered answer cannot be read"),
            },
            Err(error) => tracing::warn!(%error, "an answer could not be remembered; the key will run again"),
        }
        CheckoutAnswer { outcome, is_replayed: false }
    }

    /// The same key may run again at once.
    pub(super) async fn give_up_claim(&self, identity: IdentityId, key: &IdempotencyKey) {
        if let Err(error) = order_command::give_up(self.store.pool(), identity, key).await {
            tracing::warn!(%error, "a claim could not be given up; it ends by itself");
        }
    }
}

fn read_answer(answer: serde_json::Value) -> Result<Result<Order, CheckoutRefusal>, CheckoutError> {
    #[derive(Deserialize)]
    struct Stored {
        order: Order,
    }
    let malformed = |error: serde_json::Error| CheckoutError::Internal(format!("a remembered answer: {error}"));
    if answer.get("order").is_some_and(|order| order.is_object()) {
        return Ok(Ok(serde_json::from_value::<Stored>(answer).map_err(malformed)?.order));
    }
    Ok(Err(serde_json::from_value(answer).map_err(malformed)?))
}
