//! Mails that are due: taken, composed with their tickets, brought on their way; again after a failure, and left to a person
//! after many.

use super::Notices;
use super::text::{Facts, money, words};
use crate::checkout::Letter;
use crate::store::mail::{self, MailKind, MailRow};
use anyhow::Context;
use lettre::Message;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};

/// Mails of one round.
const BATCH: u32 = 20;
/// A mail taken by a node that dies is taken again after this: longer than a server may take.
const TAKEN_MS: u64 = 60_000;
/// First wait after a failure; doubles.
const FIRST_RETRY_MS: u64 = 30_000;
/// Longest such wait.
const MAX_RETRY_MS: u64 = 3_600_000;
/// Tries of a mail: two days.
const MAX_TRIES: u32 = 56;

impl Notices {
    /// Sends what is due; how many. `job/send_mails` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn send_mails(&self) -> anyhow::Result<usize> {
        let (pool, now_ms) = (self.store.pool(), self.clock.now_ms());
        let due = mail::take(pool, now_ms, now_ms + TAKEN_MS, MAX_TRIES, BATCH).await?;
        for row in &due {
            match self.send(row).await {
                Ok(()) => mail::set_sent(pool, row.id, self.clock.now_ms()).await?,
                Err(error) => {
                    let wait_ms = (FIRST_RETRY_MS << row.tries_n.min(10)).min(MAX_RETRY_MS);
                    tracing::warn!(order = %row.order, tries = row.tries_n, error = %format!("{error:#}"), "a mail waits");
                    mail::put_off(pool, row.id, &format!("{error:#}"), self.clock.now_ms() + wait_ms).await?;
                }
            }
        }
        Ok(due.len())
    }

    async fn send(&self, row: &MailRow) -> anyhow::Result<()> {
        let letter = self.checkout.letter(row.order, row.ticket, row.kind == MailKind::OrderPaid).await?;
        let Some(letter) = letter else { return Ok(()) };
        let page = self.catalogue.page(letter.event).await?.context("the event is not there")?;
        let event = &page.body.summary;
        let currency = letter.currency.as_str();
        let Letter { name, email, lang, reference, total_minor, refunded_minor, tickets_pdf, .. } = &letter;
        let facts = Facts {
            name,
            event: &event.name,
            starts: &letter.starts,
            venue: &format!("{}, {}", event.venue.name, event.venue.city),
            reference,
            total: &money(*total_minor, currency),
            refunded: &money(*refunded_minor, currency),
            link: &format!("{}/pay/{}#{}", self.public_url, row.order, letter.pay_secret),
        };
        let (subject, text) = words(row.kind, lang, &facts);
        let to = Mailbox::new(Some(name.clone()), email.parse().context("the buyer's address")?);
        let builder = Message::builder()
            .from(self.config.mail_from.parse().context("SEATWIRE_MAIL_FROM")?)
            .to(to)
            .subject(subject)
            // The same mail sent twice is one mail for those who look at this.
            .message_id(Some(format!("<{}.{}@seatwire>", row.order, row.id)));
        let text = SinglePart::plain(text);
        let mail = match tickets_pdf {
            Some(pdf) => {
                let attached = Attachment::new("tickets.pdf".into()).body(pdf.clone(), "application/pdf".parse()?);
                builder.multipart(MultiPart::mixed().singlepart(text).singlepart(attached))?
            }
            None => builder.singlepart(text)?,
        };
        self.post.send(&format!("{:08}-{}", row.id, row.order), mail).await
    }
}
