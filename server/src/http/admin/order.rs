//! Orders and their money, for operators: what is not settled, one order's file, refunds, and asking the provider again.

use crate::checkout::{OrderRequest, RefundWhat};
use crate::error;
use crate::http::Front;
use crate::http::call::{Call, Id, Query, bad_field};
use crate::http::operator::{self, By, json};
use crate::http::refusal::Refusal;
use crate::http::reply::{Answer, cut};
use crate::organiser::Operator;
use crate::store::dispute::DisputeRow;
use crate::store::refund::{RefundLine, RefundRow};
use axum::extract::{Path, State};
use base64::Engine;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{IdentityId, OrderId};
use serde::Deserialize;
use serde_json::{Value, json as value};
use sha2::{Digest, Sha256};

/// Longest reason of a refund, in characters.
const MAX_REASON_CHARS: usize = 200;

/// What is to go back: exactly one of the three.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refund {
    #[serde(default)]
    all: bool,
    lines: Option<Vec<RefundLine>>,
    amount_minor: Option<i64>,
    reason: String,
}

impl Refund {
    fn what(&self) -> Option<RefundWhat> {
        match (self.all, &self.lines, self.amount_minor) {
            (true, None, None) => Some(RefundWhat::All),
            (false, Some(lines), None) => Some(RefundWhat::Lines(lines.clone())),
            (false, None, Some(amount_minor)) => Some(RefundWhat::Amount(amount_minor)),
            _ => None,
        }
    }
}

fn shown(refund: &RefundRow) -> Value {
    value!({
        "id": refund.id,
        "amount_minor": refund.amount_minor,
        "state": refund.state,
        "reason": refund.reason,
        "failure": refund.failure,
        "provider_refund": refund.provider_refund,
        "created_ms": refund.created_ms,
    })
}

fn shown_dispute(dispute: &DisputeRow) -> Value {
    value!({
        "id": dispute.id,
        "charge": dispute.charge,
        "amount_minor": dispute.amount_minor,
        "currency": dispute.currency,
        "reason": dispute.reason,
        "status": dispute.status,
        "is_withdrawn": dispute.is_withdrawn,
        "created_ms": dispute.created_ms,
    })
}

/// Signed words of the provider that nobody could read, the oldest first; the body as it came, base64.
pub(super) async fn list_unreadable(State(front): State<Front>, query: Query) -> Answer {
    let found = front.app.checkout.unreadable_events(query.limit()?).await;
    let items: Vec<Value> = found
        .map_err(|error| error::checkout(&error))?
        .iter()
        .map(|event| {
            value!({
                "id": hex::encode(&event.hash),
                "received_ms": event.received_ms,
                "body": base64::engine::general_purpose::STANDARD.encode(&event.body),
            })
        })
        .collect();
    Ok(json(&value!({"items": items})))
}

/// A person has looked at one of them.
pub(super) async fn put_away_unreadable(
    State(front): State<Front>,
    By(operator): By,
    Path(id): Path<String>,
) -> Answer {
    // What is no id names nothing that is there.
    let hash = hex::decode(&id).unwrap_or_default();
    let put_away = front.app.checkout.put_away_unreadable(operator, hash).await;
    let was_there = put_away.map_err(|error| error::checkout(&error))?;
    Ok(json(&value!({"put_away": was_there})))
}

/// Money that is not settled, the oldest order first; those with a `concern` wait for a person.
pub(super) async fn list_open(State(front): State<Front>, query: Query) -> Answer {
    let limit = query.limit()?;
    let after: Option<OrderId> = query.parse("cursor", "expected the next_cursor of an earlier answer")?;
    let found = front.app.checkout.open_payments(after, limit + 1).await;
    let mut items = found.map_err(|error| error::checkout(&error))?;
    let next_cursor = cut(&mut items, limit).map(|open| open.id);
    let items: Vec<Value> = items
        .iter()
        .map(|open| {
            value!({
                "order": open.id,
                "event": open.event,
                "reference": open.reference,
                "state": open.state,
                "since_ms": open.since_ms,
                "concern": open.concern,
                "next_look_ms": open.next_look_ms,
                "looks": open.looks_n,
                "intent": open.intent,
                "total_minor": open.total_minor,
                "captured_minor": open.captured_minor,
                "refunded_minor": open.refunded_minor,
                "currency": open.currency,
            })
        })
        .collect();
    let mut body = value!({"items": items, "is_provider_open": front.app.checkout.is_provider_open()});
    if let Some(cursor) = next_cursor {
        body["next_cursor"] = value!(cursor);
    }
    Ok(json(&body))
}

/// One order, its refunds, and where it stands in truth.
pub(super) async fn read(State(front): State<Front>, Id(id): Id<OrderId>) -> Answer {
    let file = front.app.checkout.file(id).await.map_err(|error| error::checkout(&error))?;
    let file = file.ok_or(ErrorCode::OrderNotFound)?;
    let refunds: Vec<Value> = file.refunds.iter().map(shown).collect();
    let state = file.state.as_str();
    let disputes: Vec<Value> = file.disputes.iter().map(shown_dispute).collect();
    Ok(json(&value!({
        "order": file.order,
        "inner_state": state,
        "intent": file.intent,
        "refunds": refunds,
        "disputes": disputes,
    })))
}

/// Gives money back, once for the key.
pub(super) async fn refund(State(front): State<Front>, By(operator): By, Id(id): Id<OrderId>, call: Call) -> Answer {
    let key = call.key()?;
    let fields = Value::Object(call.fields);
    let mut fingerprint = Sha256::new();
    fingerprint.update(b"refund\0");
    fingerprint.update(id.uuid().as_bytes());
    fingerprint.update(fields.to_string());
    let body: Refund = operator::fields(fields)?;
    if body.reason.chars().count() > MAX_REASON_CHARS || body.reason.trim().is_empty() {
        return Err(bad_field("/reason", &format!("expected 1 to {MAX_REASON_CHARS} characters")).into());
    }
    let what = body.what().ok_or_else(|| bad_field("", "expected exactly one of all, lines, amount_minor"))?;
    match &what {
        RefundWhat::Amount(amount_minor) if *amount_minor <= 0 => {
            return Err(bad_field("/amount_minor", "expected more than nothing").into());
        }
        RefundWhat::Lines(lines) if lines.is_empty() => {
            return Err(bad_field("/lines", "expected at least one").into());
        }
        _ => {}
    }
    let request =
        OrderRequest { identity: identity_of(&operator)?, key, fingerprint: fingerprint.finalize().into(), order: id };
    let answer = front
        .app
        .checkout
        .refund(request, operator.name, what, body.reason)
        .await
        .map_err(|error| error::checkout(&error))?;
    match answer.outcome {
        Ok(order) if answer.is_replayed => Ok(json(&value!({"order": order, "replayed": true}))),
        Ok(order) => Ok(json(&value!({"order": order}))),
        Err(refusal) => Err(Refusal::from(error::checkout_refusal(&refusal)).with_answer(None, answer.is_replayed)),
    }
}

/// Keys of operators have idempotency keys of their own, as identities have.
fn identity_of(operator: &Operator) -> Result<IdentityId, Refusal> {
    operator.key.map(IdentityId::from_uuid).ok_or_else(|| ErrorCode::Unauthorized.into())
}

/// Asks the provider about an order at once; `asked` is false where there is nothing to ask.
pub(super) async fn look(State(front): State<Front>, Id(id): Id<OrderId>) -> Answer {
    let is_due = front.app.checkout.look_now(id).await.map_err(|error| error::checkout(&error))?;
    if !is_due {
        let file = front.app.checkout.file(id).await.map_err(|error| error::checkout(&error))?;
        file.ok_or(ErrorCode::OrderNotFound)?;
    }
    Ok(json(&value!({"asked": is_due})))
}
