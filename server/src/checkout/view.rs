//! An order as its buyer sees it.

use super::Inner;
use super::order::OrderState;
use crate::store::order::OrderRow;
use crate::store::{StoreError, ticket};
use seatwire_proto::server::{Decline, Order, OrderState as PublicState, Ticket, TicketState};
use sqlx::PgExecutor;
use std::collections::HashMap;

impl Inner {
    /// The order with its tickets.
    pub(super) async fn view(&self, row: &OrderRow) -> Result<Order, StoreError> {
        self.view_by(self.store.pool(), row).await
    }

    /// The same as a transaction sees it.
    pub(super) async fn view_by(&self, executor: impl PgExecutor<'_>, row: &OrderRow) -> Result<Order, StoreError> {
        let tickets =
            if has_tickets(row) { ticket::of_order(executor, row.event, row.id, false).await? } else { Vec::new() };
        Ok(self.draw(row, tickets))
    }

    /// Several orders with their tickets.
    pub(super) async fn views(&self, rows: &[OrderRow]) -> Result<Vec<Order>, StoreError> {
        let with: Vec<_> = rows.iter().filter(|row| has_tickets(row)).map(|row| (row.event, row.id)).collect();
        let mut tickets =
            if with.is_empty() { HashMap::new() } else { ticket::of_orders(self.store.pool(), &with, false).await? };
        Ok(rows.iter().map(|row| self.draw(row, tickets.remove(&row.id).unwrap_or_default())).collect())
    }

    /// The order with these tickets, in the order of its lines.
    pub(super) fn draw(&self, row: &OrderRow, mut tickets: Vec<Ticket>) -> Order {
        for ticket in tickets.iter_mut().filter(|ticket| ticket.state == TicketState::Valid) {
            ticket.qr = Some(self.seal.sign(row.event, ticket));
        }
        let state = row.state.public(row.decline_reason.is_some());
        Order {
            id: row.id,
            reference: row.reference.clone(),
            event: row.event,
            state,
            lines: row.lines.clone(),
            total_minor: row.total_minor,
            refunded_minor: row.refunded_minor,
            currency: row.currency,
            tickets: (!tickets.is_empty()).then_some(tickets),
            action: if state == PublicState::ActionRequired { row.action.clone() } else { None },
            decline: match &row.decline_reason {
                Some(reason) if state == PublicState::PaymentDeclined => Some(Decline { reason: reason.clone() }),
                _ => None,
            },
            pay_url: format!("{}/pay/{}#{}", self.public_url, row.id, row.pay_secret),
            created_ms: row.created_ms,
        }
    }
}

/// Whether tickets of it may have been issued.
const fn has_tickets(row: &OrderRow) -> bool {
    matches!(
        row.state,
        OrderState::Fulfilled
            | OrderState::RefundDue
            | OrderState::RefundSubmitted
            | OrderState::RefundPending
            | OrderState::RefundFailed
            | OrderState::PartiallyRefunded
            | OrderState::Refunded
            | OrderState::Disputed
    )
}
