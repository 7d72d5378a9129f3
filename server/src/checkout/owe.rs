//! What others are owed after a step of an order, to be written in its transaction: a mail to the buyer, a row of the organisers'
//! log. `notice` sends them.

use crate::store::event_log::LogKind;
use crate::store::mail::{self, MailKind};
use crate::store::order::OrderRow;
use crate::store::order_state::OrderState;
use crate::store::order_step::Owed;
use crate::store::outbox::Errand;
use crate::store::refund::RefundState;
use crate::store::ticket::DoorView;
use crate::store::{StoreError, event_log};
use seatwire_proto::id::{EventId, TicketId};
use seatwire_proto::server::Ticket;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Uuid;

/// What follows from an order that moved, beside the errand.
pub(super) fn after_step(before: &OrderRow, after: &OrderRow, errand: Option<Errand>) -> Owed {
    let owed = |kind, letter| Owed { errand, entry: Some((kind, facts(after))), letter };
    let enters = |state| after.state == state && before.state != state;
    if enters(OrderState::Fulfilled) {
        owed(LogKind::OrderPaid, Some((MailKind::OrderPaid, None)))
    } else if after.refunded_minor > before.refunded_minor {
        let is_whole = after.state == OrderState::Refunded;
        let kind = if is_whole { LogKind::OrderRefunded } else { LogKind::OrderPartiallyRefunded };
        owed(kind, Some((MailKind::OrderRefunded, Some(after.refunded_minor - before.refunded_minor))))
    } else if after.refunded_minor < before.refunded_minor {
        // Whom we wrote that it went back hears that it did not.
        let amount_minor = before.refunded_minor - after.refunded_minor;
        owed(LogKind::OrderRefundFailed, Some((MailKind::RefundReturned, Some(amount_minor))))
    } else if enters(OrderState::Refunded) {
        owed(LogKind::OrderRefunded, None)
    } else if enters(OrderState::Cancelled) {
        // The provider's word was waited for, on a payment or on the cancellation itself: its buyer hears how it ended, as one
        // who asked for it or as one who did not.
        let kind = if after.given_up_ms.is_some() { MailKind::OrderGivenUp } else { MailKind::OrderCancelled };
        owed(LogKind::OrderCancelled, before.unknown_since_ms.is_some().then_some((kind, None)))
    } else if enters(OrderState::RefundFailed) {
        owed(LogKind::OrderRefundFailed, None)
    } else if enters(OrderState::Disputed) {
        owed(LogKind::OrderDisputed, None)
    } else if enters(OrderState::Payable) && after.decline_reason.is_some() {
        owed(LogKind::OrderPaymentDeclined, None)
    } else if enters(OrderState::PaymentUnknown) {
        owed(LogKind::OrderPaymentUnknown, None)
    } else if enters(OrderState::ActionRequired) {
        owed(LogKind::OrderActionRequired, None)
    } else {
        Owed { errand, ..Owed::default() }
    }
}

/// Writes that money is to go back.
///
/// # Errors
/// When Postgres cannot answer.
pub(super) async fn after_refund_asked(
    transaction: &mut PgConnection,
    row: &OrderRow,
    refund: Uuid,
    amount_minor: i64,
    reason: &str,
    now_ms: u64,
) -> Result<(), StoreError> {
    let mut body = of_refund(row, refund, amount_minor);
    body["reason"] = reason.into();
    event_log::insert(transaction, row.event, LogKind::RefundCreated, &body, now_ms).await
}

/// Writes what became of a refund, once that is final.
///
/// # Errors
/// When Postgres cannot answer.
pub(super) async fn after_refund(
    transaction: &mut PgConnection,
    row: &OrderRow,
    refund: Uuid,
    amount_minor: i64,
    state: RefundState,
    failure: Option<&str>,
    now_ms: u64,
) -> Result<(), StoreError> {
    let mut body = of_refund(row, refund, amount_minor);
    let kind = match state {
        RefundState::Due | RefundState::Pending => return Ok(()),
        RefundState::Succeeded => LogKind::RefundSucceeded,
        RefundState::Failed => LogKind::RefundFailed,
    };
    if let Some(failure) = failure {
        body["failure"] = failure.into();
    }
    event_log::insert(transaction, row.event, kind, &body, now_ms).await
}

/// Writes that tickets admit nobody any more.
///
/// # Errors
/// When Postgres cannot answer.
pub(super) async fn after_void(
    transaction: &mut PgConnection,
    row: &OrderRow,
    tickets: &[Ticket],
    now_ms: u64,
) -> Result<(), StoreError> {
    let rows: Vec<_> = tickets.iter().map(|ticket| (LogKind::TicketVoided, of_ticket(row, ticket))).collect();
    event_log::insert_all(&mut *transaction, row.event, &rows, now_ms).await?;
    let ids: Vec<TicketId> = tickets.iter().map(|ticket| ticket.id).collect();
    // Whoever it was passed on to is not told by the order's page.
    mail::insert_void(transaction, row.event, &ids, now_ms).await
}

/// Writes that somebody came in.
///
/// # Errors
/// When Postgres cannot answer.
pub(super) async fn after_admission(
    transaction: &mut PgConnection,
    event: EventId,
    view: &DoorView,
    now_ms: u64,
) -> Result<(), StoreError> {
    let mut body = json!({"ticket": view.id, "order": view.order, "event": event, "door": view.used_door});
    if let Some(seat) = view.seat {
        body["seat"] = json!(seat);
    }
    if let Some(area) = view.area {
        body["area"] = json!(area);
    }
    event_log::insert(transaction, event, LogKind::TicketUsed, &body, now_ms).await
}

/// Writes what follows from a ticket that was passed on.
///
/// # Errors
/// When Postgres cannot answer.
pub(super) async fn after_pass_on(
    transaction: &mut PgConnection,
    row: &OrderRow,
    old: TicketId,
    new: TicketId,
    now_ms: u64,
) -> Result<(), StoreError> {
    let body = json!({"order": row.id, "event": row.event, "from": old, "ticket": new});
    event_log::insert(&mut *transaction, row.event, LogKind::TicketTransferred, &body, now_ms).await?;
    mail::insert(&mut *transaction, MailKind::TicketPassedOn, row.event, row.id, Some(new), now_ms).await
}

fn of_ticket(row: &OrderRow, ticket: &Ticket) -> Value {
    let mut body = json!({"ticket": ticket.id, "order": row.id, "event": row.event});
    if let Some(seat) = ticket.seat {
        body["seat"] = json!(seat);
    }
    if let Some(area) = ticket.area {
        body["area"] = json!(area);
    }
    body
}

fn of_refund(row: &OrderRow, refund: Uuid, amount_minor: i64) -> Value {
    json!({
        "refund": refund,
        "order": row.id,
        "event": row.event,
        "amount_minor": amount_minor,
        "currency": row.currency,
    })
}

/// An order without what belongs to its buyer alone.
pub(super) fn facts(row: &OrderRow) -> Value {
    json!({
        "order": row.id,
        "event": row.event,
        "reference": row.reference,
        "state": row.state.public(row.decline_reason.is_some()),
        "lines": row.lines,
        "total_minor": row.total_minor,
        "refunded_minor": row.refunded_minor,
        "currency": row.currency,
    })
}
