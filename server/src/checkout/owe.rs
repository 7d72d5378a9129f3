//! What others are owed after a step of an order, to be written in its transaction: a mail to the buyer, a row of the organisers'
//! log. `notice` sends them.

use crate::store::mail::{self, MailKind};
use crate::store::order::OrderRow;
use crate::store::order_state::OrderState;
use crate::store::order_step::Owed;
use crate::store::outbox::Errand;
use crate::store::{StoreError, event_log};
use seatwire_proto::id::TicketId;
use serde_json::{Value, json};
use sqlx::PgConnection;

/// What follows from an order that moved, beside the errand.
pub(super) fn after_step(before: &OrderRow, after: &OrderRow, errand: Option<Errand>) -> Owed {
    let owed = |kind, letter| Owed { errand, entry: Some((kind, facts(after))), letter };
    let enters = |state| after.state == state && before.state != state;
    if enters(OrderState::Fulfilled) {
        owed("order.paid", Some(MailKind::OrderPaid))
    } else if after.refunded_minor > before.refunded_minor {
        let is_whole = after.state == OrderState::Refunded;
        owed(if is_whole { "order.refunded" } else { "order.partially_refunded" }, Some(MailKind::OrderRefunded))
    } else if enters(OrderState::Refunded) {
        owed("order.refunded", None)
    } else if enters(OrderState::Cancelled) {
        // Who gave it up knows; who was left in the dark is written to.
        owed("order.cancelled", before.unknown_since_ms.is_some().then_some(MailKind::OrderCancelled))
    } else if enters(OrderState::RefundFailed) {
        owed("order.refund_failed", None)
    } else if enters(OrderState::Disputed) {
        owed("order.disputed", None)
    } else {
        Owed { errand, ..Owed::default() }
    }
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
    let body = json!({"order": row.id, "from": old, "ticket": new});
    event_log::insert(&mut *transaction, row.event, "ticket.transferred", &body, now_ms).await?;
    mail::insert(&mut *transaction, MailKind::TicketPassedOn, row.event, row.id, Some(new), now_ms).await
}

/// An order without what belongs to its buyer alone.
fn facts(row: &OrderRow) -> Value {
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
