//! What happens to a ticket after it was issued: printed, passed on to somebody else, admitted at the door once.

use super::pdf::{self, Sheet};
use super::{CODE_LEN, letters, seal};
use crate::checkout::{CheckoutError, CheckoutRefusal, Inner, owe};
use crate::store::order;
use crate::store::order::OrderRow;
use crate::store::ticket::{self, DoorView, Holder};
use seatwire_proto::id::{EventId, IdentityId, OrderId, TicketId};
use seatwire_proto::layout::Layout;
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::{Event, Order, Ticket, TicketState};

/// A ticket to be passed on.
#[derive(Debug, Clone)]
pub struct PassOn {
    /// By whom.
    pub identity: IdentityId,
    /// Of which order.
    pub order: OrderId,
    /// Which ticket.
    pub ticket: TicketId,
    /// Name of the person who gets it.
    pub name: String,
    /// Where it is sent.
    pub email: String,
}

/// What the door is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Let them in; also when the same scan is asked about again.
    Admitted(DoorView),
    /// Do not: it was used, passed on or refunded.
    Refused(DoorView),
    /// A ticket of ours, of another event.
    OtherEvent,
    /// In the form of a ticket, but not signed by us.
    Forged,
    /// Nothing we know.
    Unknown,
}

impl Inner {
    /// Admits a ticket, by its code or by what its QR code says. Of two doors that scan together one admits.
    pub(in crate::checkout) async fn admit(
        &self,
        event: EventId,
        presented: &str,
        door: &str,
        scan: &str,
    ) -> Result<Admission, CheckoutError> {
        let code = match seal::verify(&self.seal.public_key(), presented) {
            Ok(claims) if claims.event == event => claims.code,
            Ok(_) => return Ok(Admission::OtherEvent),
            Err(seal::SealError::Forged) => return Ok(Admission::Forged),
            Err(seal::SealError::Unreadable) => presented.trim().to_owned(),
        };
        let pool = self.store.pool();
        let is_ours = ticket::admit(pool, event, &code, door, scan, self.clock.now_ms()).await?;
        Ok(match ticket::at_the_door(pool, event, &code).await? {
            None => Admission::Unknown,
            Some(view)
                if is_ours || (view.used_scan.as_deref() == Some(scan) && view.used_door.as_deref() == Some(door)) =>
            {
                Admission::Admitted(view)
            }
            Some(view) => Admission::Refused(view),
        })
    }

    /// Passes a ticket on; the order as its buyer sees it then, without the new code.
    pub(in crate::checkout) async fn pass_on(
        &self,
        ask: &PassOn,
    ) -> Result<Result<Order, CheckoutRefusal>, CheckoutError> {
        let pool = self.store.pool();
        let Some(row) = order::read_own(pool, ask.identity, ask.order).await? else {
            return Ok(Err(CheckoutRefusal::OrderNotFound));
        };
        let now_ms = self.clock.now_ms();
        let holder = Holder { name: &ask.name, email: &ask.email };
        let mut transaction = crate::store::begin(pool).await?;
        let code = letters(CODE_LEN);
        let passed = ticket::pass_on(&mut transaction, row.event, row.id, ask.ticket, holder, &code, now_ms).await?;
        let Some(passed) = passed else {
            transaction.rollback().await.map_err(crate::store::StoreError::from)?;
            return Ok(Err(CheckoutRefusal::OrderNotFound));
        };
        owe::after_pass_on(&mut transaction, &row, ask.ticket, passed.id, now_ms).await?;
        transaction.commit().await.map_err(crate::store::StoreError::from)?;
        Ok(Ok(self.view(&row).await?))
    }

    /// Those of these tickets that admit, as a document to print.
    pub(in crate::checkout) async fn print(
        &self,
        row: &OrderRow,
        holder: &str,
        tickets: Vec<Ticket>,
    ) -> Result<Option<Vec<u8>>, CheckoutError> {
        let tickets: Vec<Ticket> = tickets.into_iter().filter(|ticket| ticket.state == TicketState::Valid).collect();
        if tickets.is_empty() {
            return Ok(None);
        }
        let Some(page) = self.catalogue.page(row.event).await? else { return Ok(None) };
        let stored = self.catalogue.layout(&page.facts.layout).await?;
        let (event, reference, buyer) = (page.body.clone(), row.reference.clone(), holder.to_owned());
        let sealed: Vec<(Ticket, String)> = tickets
            .into_iter()
            .map(|ticket| {
                let qr = self.seal.sign(row.event, &ticket);
                (ticket, qr)
            })
            .collect();
        // A stadium's layout takes a while to read: not on a thread that drives sockets.
        let drawn = tokio::task::spawn_blocking(move || {
            let layout = stored.and_then(|stored| Layout::from_json(&stored.json).ok());
            let sheets: Vec<Sheet> = sealed
                .into_iter()
                .map(|(ticket, qr)| Sheet {
                    title: event.summary.name.clone(),
                    lines: vec![
                        starts(&event),
                        format!("{}, {}", event.summary.venue.name, event.summary.venue.city),
                        String::new(),
                        place(layout.as_ref(), &event, ticket.seat, ticket.area),
                        String::new(),
                        buyer.clone(),
                        reference.clone(),
                    ],
                    code: ticket.code,
                    qr,
                })
                .collect();
            pdf::render(&sheets)
        });
        drawn.await.map(Some).map_err(|error| CheckoutError::Internal(error.to_string()))
    }
}

/// When it begins, by the venue's clock.
pub(in crate::checkout) fn starts(event: &Event) -> String {
    let Ok(moment) = jiff::Timestamp::from_millisecond(event.summary.starts_ms as i64) else { return String::new() };
    match jiff::tz::TimeZone::get(&event.summary.venue.time_zone) {
        Ok(zone) => moment.to_zoned_datetime(zone).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => moment.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    }
}

/// The place in words: section, row and seat, or the area.
pub(in crate::checkout) fn place(
    layout: Option<&Layout>,
    event: &Event,
    seat: Option<SeatIndex>,
    area: Option<AreaIndex>,
) -> String {
    if let Some(area) = area {
        return event.areas.get(area.position()).map_or_else(String::new, |area| area.name.clone());
    }
    let (Some(layout), Some(seat)) = (layout, seat) else { return String::new() };
    for section in &layout.sections {
        for row in &section.rows {
            let at = seat.0.wrapping_sub(row.first.0) as usize;
            if let Some(label) = row.seats.get(at) {
                return format!("{} \u{2013} {} \u{2013} {}", section.name, row.label, label);
            }
        }
    }
    String::new()
}
