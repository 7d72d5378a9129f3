//! The words of mails, in the buyer's language: said once, then set as plain text for everybody and as HTML (`page`) for
//! readers that show it.

use crate::store::mail::MailKind;
use seatwire_proto::money::digits;

/// What the words are about.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) event: &'a str,
    pub(super) starts: &'a str,
    pub(super) venue: &'a str,
    pub(super) reference: &'a str,
    pub(super) total: &'a str,
    /// What its cause moved.
    pub(super) amount: &'a str,
    /// Whether tickets that admit are attached.
    pub(super) has_tickets: bool,
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
    let Facts { name, event, starts, venue, reference, total, amount, has_tickets, link } = facts;
    let is_german = lang == "de";
    let (subject, paragraph) = match (is_german, kind) {
        (true, MailKind::OrderPaid) if !has_tickets => (
            format!("Ihre Bestellung {reference} ist bezahlt"),
            format!(
                "Ihre Bestellung über {total} wurde bezahlt. Inzwischen können Sie kein Ticket daraus mehr nutzen: Sie wurden \
                 erstattet, weitergegeben oder eingelöst, oder die Veranstaltung wurde abgesagt. Wie es um die Bestellung \
                 steht, sagt ihre Seite."
            ),
        ),
        (true, MailKind::OrderPaid) => (
            format!("Ihre Tickets: {event}"),
            format!(
                "vielen Dank für Ihre Bestellung über {total}. Ihre Tickets liegen als PDF bei; Sie finden sie auch auf der \
                 Seite Ihrer Bestellung. Am Eingang genügt der QR-Code auf dem Telefon oder auf Papier."
            ),
        ),
        (true, MailKind::OrderCancelled) => (
            format!("Ihre Bestellung {reference} wurde nicht bezahlt"),
            "wir haben uns beim Zahlungsanbieter vergewissert: Für diese Bestellung wurde nichts abgebucht. Ihre Plätze \
             wurden zurückgegeben."
                .to_owned(),
        ),
        (true, MailKind::OrderGivenUp) => (
            format!("Ihre Bestellung {reference} ist storniert"),
            "wie gewünscht ist Ihre Bestellung storniert. Es wurde nichts abgebucht, und ihre Plätze wurden zurückgegeben."
                .to_owned(),
        ),
        (true, MailKind::OrderRefunded) => (
            format!("Rückerstattung zu Ihrer Bestellung {reference}"),
            format!(
                "von Ihrer Bestellung über {total} haben wir {amount} zurückerstattet. Bis das Geld bei Ihnen ist, können \
                 einige Tage vergehen."
            ),
        ),
        (true, MailKind::RefundReturned) => (
            format!("Rückerstattung zu Ihrer Bestellung {reference} kam zurück"),
            format!(
                "eine Rückerstattung von {amount} zu dieser Bestellung kam zu uns zurück und ist nicht bei Ihnen geblieben, auch \
                 wenn wir sie Ihnen schon gemeldet hatten. Wir schulden Ihnen das Geld weiterhin und kümmern uns darum."
            ),
        ),
        (true, MailKind::TicketPassedOn) => (
            format!("Ein Ticket für Sie: {event}"),
            "jemand hat Ihnen ein Ticket überlassen. Es liegt als PDF bei und gilt nur mit diesem Code; der frühere lässt \
             niemanden mehr ein."
                .to_owned(),
        ),
        (true, MailKind::TicketVoid) => (
            format!("Ihr Ticket gilt nicht mehr: {event}"),
            "das Ticket, das Ihnen überlassen wurde, lässt niemanden mehr ein: Die Bestellung, zu der es gehört, wurde \
             rückabgewickelt. Fragen Sie die Person, von der Sie es haben."
                .to_owned(),
        ),
        (false, MailKind::OrderPaid) if !has_tickets => (
            format!("Your order {reference} is paid"),
            format!(
                "your order of {total} was paid. Meanwhile none of its tickets can be used by you any more: they were \
                 refunded, passed on or used, or the event was cancelled. The page of your order says how it stands."
            ),
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
            "we made sure at the payment provider: nothing was charged for this order. Its seats were given back.".to_owned(),
        ),
        (false, MailKind::OrderGivenUp) => (
            format!("Your order {reference} is cancelled"),
            "your order is cancelled, as you asked. Nothing was charged for it, and its seats were given back.".to_owned(),
        ),
        (false, MailKind::OrderRefunded) => (
            format!("Refund of your order {reference}"),
            format!(
                "of your order of {total} we have given back {amount}. It can take some days until the money arrives."
            ),
        ),
        (false, MailKind::RefundReturned) => (
            format!("A refund of your order {reference} came back"),
            format!(
                "a refund of {amount} of this order came back to us and did not stay with you, even if we had told you that it \
                 was made. We still owe you this money and are looking into it."
            ),
        ),
        (false, MailKind::TicketPassedOn) => (
            format!("A ticket for you: {event}"),
            "somebody has passed a ticket on to you. It is attached as a PDF and is valid with this code only; the one before \
             admits nobody any more."
                .to_owned(),
        ),
        (false, MailKind::TicketVoid) => (
            format!("Your ticket is no longer valid: {event}"),
            "the ticket that was passed on to you admits nobody any more: the order it belongs to was reversed. Ask the \
             person you have it from."
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
    let is_buyers = !kind.is_for_holder();
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

/// An amount for people: `47.50 EUR`, in German `47,50 EUR`; as many digits behind the point as its currency has.
pub(super) fn money(amount_minor: i64, currency: &str, lang: &str) -> String {
    let digits = digits(currency);
    if digits == 0 {
        return format!("{amount_minor} {currency}");
    }
    let (point, unit) = (if lang == "de" { ',' } else { '.' }, 10_i64.pow(digits));
    format!("{}{point}{:0width$} {currency}", amount_minor / unit, amount_minor % unit, width = digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: MailKind, lang: &str, has_tickets: bool) -> String {
        let facts = Facts {
            name: "Ada",
            event: "Night",
            starts: "2026-12-01 20:00",
            venue: "Hall, Berlin",
            reference: "ABCD2345",
            total: "95.00 EUR",
            amount: "5.00 EUR",
            has_tickets,
            link: "https://example.org/pay/x#y",
        };
        let words = words(kind, lang, &facts);
        format!("{}\n{}", words.subject, plain(&words))
    }

    #[test]
    fn amounts_have_the_digits_of_their_currency() {
        for (amount_minor, currency, wanted) in [
            (4705, "EUR", "47.05 EUR"),
            (1234, "KWD", "1.234 KWD"),
            (5, "BHD", "0.005 BHD"),
            (1200, "ISK", "1200 ISK"),
            (1200, "JPY", "1200 JPY"),
        ] {
            assert_eq!(money(amount_minor, currency, "en"), wanted);
            assert_eq!(money(amount_minor, currency, "de"), wanted.replace('.', ","));
        }
    }

    #[test]
    fn tickets_are_called_attached_only_where_they_are() {
        for lang in ["en", "de"] {
            let (with, without) = (told(MailKind::OrderPaid, lang, true), told(MailKind::OrderPaid, lang, false));
            assert!(with.contains("PDF"), "{with}");
            for untrue in ["PDF", "Your tickets", "Ihre Tickets"] {
                assert!(!without.contains(untrue), "{without}");
            }
        }
    }

    #[test]
    fn money_is_told_by_its_own_amount_and_a_cancellation_by_who_asked_for_it() {
        for (lang, asked, made_sure) in [("en", "as you asked", "made sure"), ("de", "wie gewünscht", "vergewissert")]
        {
            for kind in [MailKind::OrderRefunded, MailKind::RefundReturned] {
                assert!(told(kind, lang, false).contains("5.00 EUR"), "{kind:?}");
            }
            let (given_up, cancelled) =
                (told(MailKind::OrderGivenUp, lang, false), told(MailKind::OrderCancelled, lang, false));
            assert!(given_up.contains(asked) && !given_up.contains(made_sure), "{given_up}");
            assert!(cancelled.contains(made_sure) && !cancelled.contains(asked), "{cancelled}");
        }
    }
}
