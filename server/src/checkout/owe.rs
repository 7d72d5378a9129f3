//! What others are owed after a step of an order, written in its transaction: a mail to the buyer, a row of the organisers'
//! log. `notice` sends them.

use crate::store::mail::{self, MailKind};
use crate::store::order::OrderRow;
use crate::store::order_state::OrderState;
use crate::store::{StoreError, event_log};
use seatwire_proto::id::TicketId;
use serde_json::{Value, json};
use sqlx::PgConnection;

/// Writes what follows from an order that moved.
///
/// # Errors
/// When Postgres cannot answer.
pub(super) async fn after_step(
    transaction: &mut PgConnection,
    before: &OrderRow,
    after: &OrderRow,
    now_ms: u64,
) -> Result<(), StoreError> {
    let (kind, letter) = if after.state == OrderState::Fulfilled && before.state != OrderState::Fulfilled {
        ("order.paid", Some(MailKind::OrderPaid))
    } else if after.refunded_minor > before.refunded_minor {
        let is_whole = after.state == OrderState::Refunded;
        (if is_whole { "order.refunded" } else { "order.partially_refunded" }, Some(MailKind::OrderRefunded))
    } else if after.state == OrderState::Refunded && before.state != OrderState::Refunded {
        ("order.refunded", None)
    } else if after.state == OrderState::Cancelled && before.state != OrderState::Cancelled {
        // Who gave it up knows; who was left in the dark is written to.
        ("order.cancelled", before.unknown_since_ms.is_some().then_some(MailKind::OrderCancelled))
    } else if after.state == OrderState::RefundFailed && before.state != OrderState::RefundFailed {
        ("order.refund_failed", None)
    } else {
        return Ok(());
    };
    event_log::insert(&mut *transaction, after.event, kind, &facts(after), now_ms).await?;
    if let Some(letter) = letter {
        mail::insert(&mut *transaction, letter, after.event, after.id, None, now_ms).await?;
    }
    Ok(())
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
