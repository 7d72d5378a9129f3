//! What a mail about an order needs: whom it goes to, the facts in it, the tickets as a document.

use super::{CheckoutError, Inner};
use crate::store::mail::MailKind;
use crate::store::{order, ticket};
use seatwire_proto::id::{EventId, OrderId, TicketId};
use seatwire_proto::money::Currency;
use seatwire_proto::server::{EventState, TicketState};

/// The facts of a mail.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Whom it greets.
    pub name: String,
    /// Where it goes.
    pub email: String,
    /// `en` or `de`.
    pub lang: String,
    /// Of which event.
    pub event: EventId,
    /// When that begins, by the venue's clock.
    pub starts: String,
    /// The order's name for people.
    pub reference: String,
    /// What it cost.
    pub total_minor: i64,
    /// What went back.
    pub refunded_minor: i64,
    /// Of both.
    pub currency: Currency,
    /// Opens the order's page.
    pub pay_secret: String,
    /// The tickets to print that admit; `None`: none does, or it is not about tickets.
    pub tickets_pdf: Option<Vec<u8>>,
}

impl Inner {
    pub(super) async fn letter(
        &self,
        id: OrderId,
        ticket: Option<TicketId>,
        kind: MailKind,
    ) -> Result<Option<Letter>, CheckoutError> {
        let pool = self.store.pool();
        let Some(row) = order::read(pool, id).await? else { return Ok(None) };
        let Some(page) = self.catalogue.page(row.event).await? else { return Ok(None) };
        let (mut name, mut email) = (row.buyer_name.clone(), row.buyer_email.clone());
        let mut tickets = match (kind, ticket) {
            (MailKind::TicketPassedOn | MailKind::TicketVoid, Some(ticket)) => {
                let Some((passed, holder)) = ticket::passed_on(pool, row.event, ticket).await? else { return Ok(None) };
                let told_of = match kind {
                    MailKind::TicketVoid => TicketState::Void,
                    _ => TicketState::Valid,
                };
                if passed.state != told_of {
                    return Ok(None);
                }
                (name, email) = holder;
                vec![passed]
            }
            (MailKind::TicketPassedOn | MailKind::TicketVoid, None) => return Ok(None),
            (MailKind::OrderPaid, _) => ticket::of_order(pool, row.event, row.id, false).await?,
            _ => Vec::new(),
        };
        if page.body.summary.state == EventState::Cancelled {
            // They stand until their refund is begun, and admit nobody meanwhile.
            tickets.clear();
        }
        let tickets_pdf = self.print(&row, &name, tickets).await?;
        Ok(Some(Letter {
            name,
            email,
            starts: super::ticket::starts(&page.body, &row.lang),
            lang: row.lang,
            event: row.event,
            reference: row.reference,
            total_minor: row.total_minor,
            refunded_minor: row.refunded_minor,
            currency: row.currency,
            pay_secret: row.pay_secret,
            tickets_pdf,
        }))
    }
}
