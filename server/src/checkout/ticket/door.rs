//! What happens to a ticket after it was issued: printed, passed on to somebody else, admitted at the door once.

use super::pdf::{self, Sheet};
use super::place::{PrintWords, place};
use super::wallet::{self, Pass};
use super::{CODE_LEN, letters, seal, typed};
use crate::checkout::{CheckoutAnswer, CheckoutError, CheckoutRefusal, Inner, OrderRequest, owe};
use crate::store::order;
use crate::store::order::OrderRow;
use crate::store::ticket::{self, DoorView, Holder};
use crate::store::{StoreError, order_command};
use seatwire_proto::id::{EventId, TicketId};
use seatwire_proto::server::{Event, Order, Ticket, TicketState};

/// A ticket to be passed on.
#[derive(Debug, Clone)]
pub struct PassOn {
    /// By whom, of which order, under which key.
    pub request: OrderRequest,
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
            Err(seal::SealError::Unreadable) => typed(presented),
        };
        let now_ms = self.clock.now_ms();
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        let Some(known) = ticket::at_the_door(&mut *transaction, event, &code).await? else {
            let is_ours = ticket::is_of_other_event(&mut *transaction, event, &code).await?;
            transaction.rollback().await.map_err(StoreError::from)?;
            return Ok(if is_ours { Admission::OtherEvent } else { Admission::Unknown });
        };
        // A refund counts the tickets that admit and then makes them void: none may be used in between.
        order::lock(&mut transaction, known.order).await?;
        let is_ours = ticket::admit(&mut *transaction, event, &code, door, scan, now_ms).await?;
        let view = ticket::at_the_door(&mut *transaction, event, &code).await?;
        if let Some(view) = view.as_ref().filter(|_| is_ours) {
            owe::after_admission(&mut transaction, event, view, now_ms).await?;
        }
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(match view {
            None => Admission::Unknown,
            Some(view)
                if is_ours || (view.used_scan.as_deref() == Some(scan) && view.used_door.as_deref() == Some(door)) =>
            {
                Admission::Admitted(view)
            }
            Some(view) => Admission::Refused(view),
        })
    }

    /// Passes a ticket on; the order as its buyer sees it then, without the new code. The key is answered in the same
    /// transaction: whoever repeats it gets this answer, and no second person a ticket.
    pub(in crate::checkout) async fn pass_on(&self, ask: &PassOn) -> Result<CheckoutAnswer, CheckoutError> {
        let (identity, key) = (ask.request.identity, &ask.request.key);
        if let Err(answer) = self.claim_for(&ask.request).await? {
            return Ok(*answer);
        }
        match self.pass_on_claimed(ask).await {
            Ok(Ok(order)) => Ok(CheckoutAnswer { outcome: Ok(order), is_replayed: false }),
            Ok(Err(refusal)) => Ok(self.answer(identity, key, Err(refusal)).await),
            Err(error) => {
                self.give_up_claim(identity, key).await;
                Err(error)
            }
        }
    }

    async fn pass_on_claimed(&self, ask: &PassOn) -> Result<Result<Order, CheckoutRefusal>, CheckoutError> {
        let (identity, id) = (ask.request.identity, ask.request.order);
        let pool = self.store.pool();
        let now_ms = self.clock.now_ms();
        let holder = Holder { name: &ask.name, email: &ask.email };
        let mut transaction = crate::store::begin(pool).await?;
        // A refund of the order sees the ticket before it was passed on or after, never between.
        let row = order::lock(&mut transaction, id).await?.filter(|row| row.identity == identity);
        let Some(row) = row else { return Ok(Err(CheckoutRefusal::OrderNotFound)) };
        let code = letters(CODE_LEN);
        let passed = ticket::pass_on(&mut transaction, row.event, row.id, ask.ticket, holder, &code, now_ms).await?;
        let Some(passed) = passed else {
            let own = ticket::of_order(&mut *transaction, row.event, row.id, false).await?;
            transaction.rollback().await.map_err(StoreError::from)?;
            let known = own.into_iter().find(|known| known.id == ask.ticket);
            return Ok(Err(known
                .map_or(CheckoutRefusal::OrderNotFound, |known| CheckoutRefusal::TicketOver { state: known.state })));
        };
        owe::after_pass_on(&mut transaction, &row, ask.ticket, passed.id, now_ms).await?;
        let view = self.view_by(&mut *transaction, &row).await?;
        let answer = serde_json::json!({"order": view});
        order_command::finish(&mut *transaction, identity, &ask.request.key, &answer).await?;
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(Ok(view))
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
        let (words, lang) = (PrintWords::of(&row.lang), row.lang.clone());
        let sealed: Vec<(Ticket, String)> = tickets
            .into_iter()
            .map(|ticket| {
                let qr = self.seal.sign(row.event, &ticket);
                (ticket, qr)
            })
            .collect();
        // Squares and text of many tickets take milliseconds: not on a thread that drives sockets.
        let drawn = tokio::task::spawn_blocking(move || {
            let names = stored.as_deref().map(|stored| &stored.names);
            let sheets: Vec<Sheet> = sealed
                .into_iter()
                .map(|(ticket, qr)| Sheet {
                    title: event.summary.name.clone(),
                    lines: vec![
                        starts(&event, &lang),
                        format!("{}, {}", event.summary.venue.name, event.summary.venue.city),
                    ],
                    place: place(names, &event, &words, ticket.seat, ticket.area),
                    facts: vec![(words.holder.into(), buyer.clone()), (words.order.into(), reference.clone())],
                    hint: words.hint.into(),
                    code: ticket.code,
                    qr,
                })
                .collect();
            pdf::render(&sheets)
        });
        drawn.await.map(Some).map_err(|error| CheckoutError::Internal(error.to_string()))
    }
}

impl Inner {
    /// A ticket of this order that admits, as the fields that phones' wallets ask for; `None`: there is none such.
    pub(in crate::checkout) async fn wallet(
        &self,
        row: &OrderRow,
        ticket: TicketId,
    ) -> Result<Option<serde_json::Value>, CheckoutError> {
        let tickets = ticket::of_order(self.store.pool(), row.event, row.id, false).await?;
        let found = tickets.into_iter().find(|known| known.id == ticket && known.state == TicketState::Valid);
        let (Some(ticket), Some(page)) = (found, self.catalogue.page(row.event).await?) else { return Ok(None) };
        let stored = self.catalogue.layout(&page.facts.layout).await?;
        let words = PrintWords::of(&row.lang);
        let names = stored.as_deref().map(|stored| &stored.names);
        Ok(Some(wallet::fields(&Pass {
            event: &page.body,
            ticket: &ticket,
            place: &place(names, &page.body, &words, ticket.seat, ticket.area),
            holder: &row.buyer_name,
            reference: &row.reference,
            lang: &row.lang,
            qr: &self.seal.sign(row.event, &ticket),
        })))
    }
}

/// When it begins, by the venue's clock, as people write it: `Friday 4 December 2026, 20:00`.
pub(in crate::checkout) fn starts(event: &Event, lang: &str) -> String {
    const DAYS: [[&str; 7]; 2] = [
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
        ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
    ];
    const MONTHS: [[&str; 12]; 2] = [
        [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ],
        [
            "Januar",
            "Februar",
            "März",
            "April",
            "Mai",
            "Juni",
            "Juli",
            "August",
            "September",
            "Oktober",
            "November",
            "Dezember",
        ],
    ];
    let Ok(moment) = jiff::Timestamp::from_millisecond(event.summary.starts_ms.cast_signed()) else {
        return String::new();
    };
    let (zone, is_utc) = match jiff::tz::TimeZone::get(&event.summary.venue.time_zone) {
        Ok(zone) => (zone, ""),
        Err(_) => (jiff::tz::TimeZone::UTC, " UTC"),
    };
    let at = moment.to_zoned_datetime(zone);
    let language = usize::from(lang == "de");
    let day = DAYS[language][at.weekday().to_monday_zero_offset() as usize];
    let month = MONTHS[language][at.month() as usize - 1];
    let (number, year, hour, minute) = (at.day(), at.year(), at.hour(), at.minute());
    if lang == "de" {
        return format!("{day}, {number}. {month} {year}, {hour:02}:{minute:02} Uhr{is_utc}");
    }
    format!("{day} {number} {month} {year}, {hour:02}:{minute:02}{is_utc}")
}
