//! An order as its buyer sees it.

use super::Inner;
use super::order::OrderState;
use crate::store::order::OrderRow;
use crate::store::{StoreError, ticket};
use seatwire_proto::server::{Decline, Order, OrderState as PublicState, Ticket, TicketState};
use sqlx::PgExecutor;

impl Inner {
    /// The order with its tickets.
    pub(super) async fn view(&self, row: &OrderRow) -> Result<Order, StoreError> {
        self.view_by(self.store.pool(), row).await
    }

    /// The same as a transaction sees it.
    pub(super) async fn view_by(&self, executor: impl PgExecutor<'_>, row: &OrderRow) -> Result<Order, StoreError> {
        let has_tickets = matches!(
            row.state,
            OrderState::Fulfilled
                | OrderState::RefundDue
                | OrderState::RefundSubmitted
                | OrderState::RefundPending
                | OrderState::RefundFailed
                | OrderState::PartiallyRefunded
                | OrderState::Refunded
                | OrderState::Disputed
        );
        let tickets =
            if has_tickets { ticket::of_order(executor, row.event, row.id, false).await? } else { Vec::new() };
        let mut tickets = tickets;
        for ticket in tickets.iter_mut().filter(|ticket| ticket.state == TicketState::Valid) {
            ticket.qr = Some(self.seal.sign(row.event, ticket));
        }
        Ok(self.draw(row, tickets))
    }

    fn draw(&self, row: &OrderRow, tickets: Vec<Ticket>) -> Order {
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
