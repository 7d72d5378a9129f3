//! What a refund changes in the books, inside the transaction of its step: the row, the tickets, the seats, the sums of the
//! order, and where the order stands then. `step` comes in here; nobody outside is asked.

use super::super::order::{OrderEvent, OrderState, next};
use super::super::owe;
use super::super::places::give_up_use;
use super::{RefundAsk, RefundResult, RefundWhat, Reversal};
use crate::store::admin_log::{self, NewEntry};
use crate::store::order::OrderRow;
use crate::store::refund::{self, NewRefundRow, RefundLine, RefundState, Reversed};
use crate::store::{StoreError, area_stock, taken_seat, ticket};
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Uuid;

/// Records what is asked: the row, void tickets, free seats. `None`: it cannot go back so. Else whether places came free.
pub(in crate::checkout) async fn record_ask(
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
            fingerprint: ask.by.as_ref().map(|by| by.fingerprint),
        };
        refund::insert(&mut *transaction, &new, now_ms).await?;
        owe::after_refund_asked(transaction, row, ask.id, amount_minor, &ask.reason, now_ms).await?;
    }
    void(transaction, row, &lines, now_ms).await?;
    let (key, key_name) = ask.by.as_ref().map_or((None, "server"), |by| (Some(by.key), by.name.as_str()));
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

/// Makes tickets void and their places free: exactly those that were counted, or nothing at all. Whoever changes a ticket
/// holds the lock of its order.
async fn void(
    transaction: &mut PgConnection,
    row: &OrderRow,
    lines: &[RefundLine],
    now_ms: u64,
) -> Result<(), StoreError> {
    let mut quantity = 0;
    let mut tickets = Vec::new();
    let mut seats = Vec::new();
    for line in lines {
        let voided = ticket::void(&mut *transaction, row.event, row.id, line.line, line.quantity).await?;
        if voided.len() != line.quantity as usize {
            let (voided_n, asked_n) = (voided.len(), line.quantity);
            return Err(StoreError::Malformed(format!("order {}: {voided_n} of {asked_n} tickets void", row.id)));
        }
        tickets.extend(voided);
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
        give_up_use(&mut *transaction, row, quantity).await?;
    }
    owe::after_void(transaction, row, &tickets, now_ms).await
}

/// A charge whose seats could not be had goes back whole.
pub(in crate::checkout) async fn record_late(
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
        fingerprint: None,
    };
    refund::insert(&mut *transaction, &new, now_ms).await?;
    owe::after_refund_asked(transaction, row, new.id, amount_minor, new.reason, now_ms).await
}

/// Writes what became of refunds and says where the order stands then, and whether places came free.
pub(in crate::checkout) async fn record_answers(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    results: &[RefundResult],
    now_ms: u64,
) -> Result<(OrderState, bool), StoreError> {
    let mut has_failed = false;
    for result in results {
        let (id, provider_refund) = (result.open.id, result.provider_refund.as_deref());
        let failure = result.failure.as_deref();
        if !refund::set_state(&mut *transaction, id, result.state, provider_refund, failure, now_ms).await? {
            continue;
        }
        owe::after_refund(transaction, row, id, result.open.amount_minor, result.state, failure, now_ms).await?;
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
        whole_or_part(transaction, row).await?
    };
    let to = next(row.state, event).unwrap_or(row.state);
    Ok((to, void_if_refunded(transaction, row, to, now_ms).await?))
}

/// Where an order stands after a refund that moves no money: it is over only when nothing of it is left, neither money nor
/// a ticket that admits.
pub(in crate::checkout) async fn state_without_money(
    transaction: &mut PgConnection,
    row: &OrderRow,
) -> Result<OrderState, StoreError> {
    let is_over = row.captured_minor == row.refunded_minor
        && ticket::live_by_line(transaction, row.event, row.id).await?.is_empty();
    Ok(if is_over { OrderState::Refunded } else { row.state })
}

/// An order whose money went back whole admits nobody, whichever way the money went. True: places came free.
async fn void_if_refunded(
    transaction: &mut PgConnection,
    row: &OrderRow,
    to: OrderState,
    now_ms: u64,
) -> Result<bool, StoreError> {
    if to != OrderState::Refunded || row.state == OrderState::Refunded {
        return Ok(false);
    }
    void_rest(transaction, row, now_ms).await
}

/// Makes every ticket of an order void that still admits. True: places came free.
pub(in crate::checkout) async fn void_rest(
    transaction: &mut PgConnection,
    row: &OrderRow,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let live = ticket::live_by_line(&mut *transaction, row.event, row.id).await?;
    void(transaction, row, &live, now_ms).await?;
    Ok(!live.is_empty())
}

/// A refund that had succeeded came back, ours or one of the provider's pages. `None`: nothing of it is in the books, or
/// another refund is under way and has to end first.
pub(in crate::checkout) async fn record_reversed(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    reversal: &Reversal,
    now_ms: u64,
) -> Result<Option<OrderState>, StoreError> {
    let Some(to) = next(row.state, OrderEvent::RefundRejected) else { return Ok(None) };
    if row.refunding_minor > 0 {
        return Ok(None);
    }
    let ours = refund::reverse(&mut *transaction, row.id, &reversal.provider_refund, &reversal.failure, now_ms).await?;
    match ours {
        Reversed::Now { amount_minor } => row.refunded_minor -= amount_minor,
        Reversed::NotOurs if reversal.back_minor < row.refunded_minor => row.refunded_minor = reversal.back_minor,
        Reversed::NotOurs | Reversed::Before => return Ok(None),
    }
    tracing::error!(order = %row.id, refund = reversal.provider_refund, "a refund came back; a person must look");
    Ok(Some(to))
}

/// The provider gave back `back_minor` in all, whoever asked for it.
pub(in crate::checkout) async fn record_seen(
    transaction: &mut PgConnection,
    row: &mut OrderRow,
    back_minor: i64,
    now_ms: u64,
) -> Result<Option<(OrderState, bool)>, StoreError> {
    // What we asked for ourselves is answered for by its own row.
    if row.refunding_minor > 0 || back_minor <= row.refunded_minor || back_minor > row.captured_minor {
        return Ok(None);
    }
    row.refunded_minor = back_minor;
    let event = whole_or_part(transaction, row).await?;
    let to = match next(row.state, event) {
        Some(to) => to,
        // Some of what is owed went back, and the rest is still owed.
        None if event == OrderEvent::RefundRejected && row.state == OrderState::RefundFailed => row.state,
        None => return Ok(None),
    };
    tracing::warn!(order = %row.id, back_minor, "money went back on the provider's own pages");
    let is_freed = void_if_refunded(transaction, row, to, now_ms).await?;
    Ok(Some((to, is_freed)))
}

/// What money that went back makes of an order. While more of it is here than its tickets are worth, a refund that failed was
/// not made good: whatever else went back, somebody's money lies here for a ticket that is void.
async fn whole_or_part(transaction: &mut PgConnection, row: &OrderRow) -> Result<OrderEvent, StoreError> {
    if row.refunded_minor == row.captured_minor {
        return Ok(OrderEvent::RefundedInFull);
    }
    let worth_minor = ticket::worth_minor(transaction, row.event, row.id).await?;
    let is_owed = row.captured_minor - row.refunded_minor - row.refunding_minor > worth_minor;
    Ok(if is_owed { OrderEvent::RefundRejected } else { OrderEvent::RefundedInPart })
}
