//! The words of mails, in the buyer's language. Plain text: it reaches everybody and hides nothing.

use crate::store::mail::MailKind;

/// What the words are about.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) event: &'a str,
    pub(super) starts: &'a str,
    pub(super) venue: &'a str,
    pub(super) reference: &'a str,
    pub(super) total: &'a str,
    pub(super) refunded: &'a str,
    pub(super) link: &'a str,
}

/// Subject and text.
pub(super) fn words(kind: MailKind, lang: &str, facts: &Facts<'_>) -> (String, String) {
    let Facts { name, event, starts, venue, reference, total, refunded, link } = facts;
    let (subject, body) = match (lang, kind) {
        ("de", MailKind::OrderPaid) => (
            format!("Ihre Tickets: {event}"),
            format!(
                "vielen Dank für Ihre Bestellung {reference} über {total}. Ihre Tickets liegen bei; Sie finden sie auch \
                 hier:\n\n{link}\n\n{event}\n{starts}\n{venue}"
            ),
        ),
        ("de", MailKind::OrderCancelled) => (
            format!("Ihre Bestellung {reference} wurde nicht bezahlt"),
            format!(
                "wir haben uns beim Zahlungsanbieter vergewissert: Für Ihre Bestellung {reference} ({event}) wurde nichts \
                 abgebucht. Die Plätze sind wieder frei.\n\n{link}"
            ),
        ),
        ("de", MailKind::OrderRefunded) => (
            format!("Rückerstattung zu Ihrer Bestellung {reference}"),
            format!(
                "zu Ihrer Bestellung {reference} ({event}) haben wir bisher {refunded} von {total} zurückerstattet. Bis das \
                 Geld bei Ihnen ist, können einige Tage vergehen.\n\n{link}"
            ),
        ),
        ("de", MailKind::TicketPassedOn) => (
            format!("Ein Ticket für Sie: {event}"),
            format!("jemand hat Ihnen ein Ticket überlassen. Es liegt bei.\n\n{event}\n{starts}\n{venue}"),
        ),
        (_, MailKind::OrderPaid) => (
            format!("Your tickets: {event}"),
            format!(
                "thank you for your order {reference} of {total}. Your tickets are attached; they are also \
                 here:\n\n{link}\n\n{event}\n{starts}\n{venue}"
            ),
        ),
        (_, MailKind::OrderCancelled) => (
            format!("Your order {reference} was not paid"),
            format!(
                "we made sure at the payment provider: nothing was charged for your order {reference} ({event}). The seats \
                 are free again.\n\n{link}"
            ),
        ),
        (_, MailKind::OrderRefunded) => (
            format!("Refund of your order {reference}"),
            format!(
                "of your order {reference} ({event}) {refunded} of {total} have gone back so far. It can take some days until \
                 the money arrives.\n\n{link}"
            ),
        ),
        (_, MailKind::TicketPassedOn) => (
            format!("A ticket for you: {event}"),
            format!("somebody has passed a ticket on to you. It is attached.\n\n{event}\n{starts}\n{venue}"),
        ),
    };
    let greeting = if lang == "de" { "Guten Tag" } else { "Dear" };
    (subject, format!("{greeting} {name},\n\n{body}\n"))
}

/// An amount for people, e.g. `47.50 EUR`; currencies without a smaller unit have no point.
pub(super) fn money(amount_minor: i64, currency: &str) -> String {
    if matches!(currency, "JPY" | "KRW" | "VND" | "CLP" | "ISK" | "XAF" | "XOF" | "UGX" | "PYG" | "RWF") {
        return format!("{amount_minor} {currency}");
    }
    format!("{}.{:02} {currency}", amount_minor / 100, amount_minor % 100)
}
