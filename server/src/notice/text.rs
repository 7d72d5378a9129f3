//! The words of mails, in the buyer's language: said once, then set as plain text for everybody and as HTML (`page`) for
//! readers that show it.

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

/// A mail in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) lang: &'static str,
    pub(super) subject: String,
    pub(super) greeting: String,
    pub(super) paragraphs: Vec<String>,
    /// Label and value of what the mail is about.
    pub(super) facts: Vec<(&'static str, String)>,
    /// What its button says, and where it leads.
    pub(super) link: Option<(&'static str, String)>,
    pub(super) footer: &'static str,
}

/// The words of a mail.
pub(super) fn words(kind: MailKind, lang: &str, facts: &Facts<'_>) -> Words {
    let Facts { name, event, starts, venue, reference, total, refunded, link } = facts;
    let is_german = lang == "de";
    let (subject, paragraph) = match (is_german, kind) {
        (true, MailKind::OrderPaid) => (
            format!("Ihre Tickets: {event}"),
            format!(
                "vielen Dank für Ihre Bestellung über {total}. Ihre Tickets liegen als PDF bei; Sie finden sie auch auf der \
                 Seite Ihrer Bestellung. Am Eingang genügt der QR-Code auf dem Telefon oder auf Papier."
            ),
        ),
        (true, MailKind::OrderCancelled) => (
            format!("Ihre Bestellung {reference} wurde nicht bezahlt"),
            "wir haben uns beim Zahlungsanbieter vergewissert: Für diese Bestellung wurde nichts abgebucht. Die Plätze sind \
             wieder frei."
                .to_owned(),
        ),
        (true, MailKind::OrderRefunded) => (
            format!("Rückerstattung zu Ihrer Bestellung {reference}"),
            format!(
                "zu dieser Bestellung haben wir bisher {refunded} von {total} zurückerstattet. Bis das Geld bei Ihnen ist, \
                 können einige Tage vergehen."
            ),
        ),
        (true, MailKind::TicketPassedOn) => (
            format!("Ein Ticket für Sie: {event}"),
            "jemand hat Ihnen ein Ticket überlassen. Es liegt als PDF bei und gilt nur mit diesem Code; der frühere lässt \
             niemanden mehr ein."
                .to_owned(),
        ),
        (false, MailKind::OrderPaid) => (
            format!("Your tickets: {event}"),
            format!(
                "thank you for your order of {total}. Your tickets are attached as a PDF; they are also on the page of your \
                 order. At the door the QR code is enough, on a phone or on paper."
            ),
        ),
        (false, MailKind::OrderCancelled) => (
            format!("Your order {reference} was not paid"),
            "we made sure at the payment provider: nothing was charged for this order. The seats are free again.".to_owned(),
        ),
        (false, MailKind::OrderRefunded) => (
            format!("Refund of your order {reference}"),
            format!(
                "of this order {refunded} of {total} have gone back so far. It can take some days until the money arrives."
            ),
        ),
        (false, MailKind::TicketPassedOn) => (
            format!("A ticket for you: {event}"),
            "somebody has passed a ticket on to you. It is attached as a PDF and is valid with this code only; the one before \
             admits nobody any more."
                .to_owned(),
        ),
    };
    let label = |german, english| if is_german { german } else { english };
    let mut told = vec![
        (label("Veranstaltung", "Event"), (*event).to_owned()),
        (label("Beginn", "Starts"), (*starts).to_owned()),
        (label("Ort", "Venue"), (*venue).to_owned()),
    ];
    // The order is its buyer's, not that of whom a ticket was passed on to.
    let is_buyers = kind != MailKind::TicketPassedOn;
    if is_buyers {
        told.push((label("Bestellung", "Order"), (*reference).to_owned()));
    }
    Words {
        lang: label("de", "en"),
        subject,
        greeting: format!("{} {name},", label("Guten Tag", "Dear")),
        paragraphs: vec![paragraph],
        facts: told,
        link: is_buyers.then(|| (label("Zur Bestellung", "Open the order"), (*link).to_owned())),
        footer: label(
            "Diese Nachricht wurde automatisch versandt, weil Tickets mit dieser Adresse bestellt oder weitergegeben wurden.",
            "This message was sent automatically because tickets were ordered with this address or passed on to it.",
        ),
    }
}

/// As plain text.
pub(super) fn plain(words: &Words) -> String {
    let mut text = format!("{}\n\n", words.greeting);
    for paragraph in &words.paragraphs {
        text.push_str(paragraph);
        text.push_str("\n\n");
    }
    for (label, value) in &words.facts {
        text.push_str(&format!("{label}: {value}\n"));
    }
    if let Some((label, link)) = &words.link {
        text.push_str(&format!("\n{label}:\n{link}\n"));
    }
    text.push_str(&format!("\n-- \n{}\n", words.footer));
    text
}

/// An amount for people: `47.50 EUR`, in German `47,50 EUR`; currencies without a smaller unit have no point.
pub(super) fn money(amount_minor: i64, currency: &str, lang: &str) -> String {
    if matches!(currency, "JPY" | "KRW" | "VND" | "CLP" | "ISK" | "XAF" | "XOF" | "UGX" | "PYG" | "RWF") {
        return format!("{amount_minor} {currency}");
    }
    let point = if lang == "de" { ',' } else { '.' };
    format!("{}{point}{:02} {currency}", amount_minor / 100, amount_minor % 100)
}
