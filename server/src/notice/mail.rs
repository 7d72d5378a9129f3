//! Mails that are due: taken, composed with their tickets, brought on their way; again after a failure; given up, and left to a
//! person, when nobody lives at the address or no server took it for two days.

use super::post::PostError;
use super::text::{Facts, money, plain, words};
use super::{Notices, page};
use crate::checkout::Letter;
use crate::organiser::Operator;
use crate::shutdown::Shutdown;
use crate::store::StoreError;
use crate::store::mail::{self, MailRow, OpenMail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lettre::Message;
use lettre::address::AddressError;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Mails of one round, all under way at once: as many connections as SMTP servers take from one client.
const BATCH: u32 = 5;
/// A mail taken by a node that dies is taken again after this: longer than a server may take, since no mail of a round waits
/// for another.
const TAKEN_MS: u64 = 60_000;
/// How long mails under way may take when the node stops. One that is broken off may arrive twice, as one message.
const LAST_MAILS: Duration = Duration::from_secs(3);
/// First wait after a failure; doubles. Greylisting servers want at least a minute or two.
const FIRST_RETRY_MS: u64 = 30_000;
/// Longest such wait.
const MAX_RETRY_MS: u64 = 3_600_000;
/// Tries of a mail: two days.
const MAX_TRIES: u32 = 56;

/// What came of a mail that was due.
enum Brought {
    /// Sent, put off or given up, and written down.
    Settled,
    /// The node stops while the mail is on its way.
    BrokenOff,
}

impl Notices {
    /// Sends what is due; how many. A node that stops gives back what is not on its way within a few seconds.
    /// `job/send_mails` calls it.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn send_mails(&self, shutdown: &Shutdown) -> anyhow::Result<usize> {
        let (pool, now_ms) = (self.store.pool(), self.clock.now_ms());
        let due = mail::take(pool, now_ms, now_ms + TAKEN_MS, BATCH).await?;
        let late_ms = due.iter().filter(|row| row.tries_n == 1).map(|row| now_ms.saturating_sub(row.created_ms)).max();
        self.mails_late_ms.store(late_ms.unwrap_or(0), Ordering::Relaxed);
        // Each to its end, also when Postgres has no ear for another's.
        let mut brought: FuturesUnordered<_> =
            due.iter().map(|row| async { (row.id, self.bring(row, shutdown).await) }).collect();
        let (mut open, mut all) = (Vec::new(), Ok(()));
        while let Some((id, done)) = brought.next().await {
            match done {
                Ok(Brought::Settled) => {}
                Ok(Brought::BrokenOff) => open.push(id),
                Err(error) => all = all.and(Err(error)),
            }
        }
        drop(brought);
        if !open.is_empty() {
            // The next start, or another node, sends them at once.
            mail::give_back(pool, &open, self.clock.now_ms()).await?;
        }
        all?;
        Ok(due.len())
    }

    /// How long a mail of the last round had waited for its first try.
    #[must_use]
    pub fn mails_late(&self) -> Duration {
        Duration::from_millis(self.mails_late_ms.load(Ordering::Relaxed))
    }

    /// Sends one and writes down what came of it. Only its way out is broken off when the node stops, never a question to
    /// Postgres.
    async fn bring(&self, row: &MailRow, shutdown: &Shutdown) -> Result<Brought, StoreError> {
        let pool = self.store.pool();
        let sent = match self.write(row).await {
            Ok(Some(mail)) => {
                let name = format!("{:08}-{}", row.id, row.order);
                tokio::select! {
                    biased;
                    sent = self.post.send(&name, mail) => sent,
                    () = shutdown.stopping_for(LAST_MAILS) => return Ok(Brought::BrokenOff),
                }
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let Err(error) = sent else {
            mail::set_sent(pool, row.id, self.clock.now_ms()).await?;
            return Ok(Brought::Settled);
        };
        let (now_ms, text) = (self.clock.now_ms(), error.to_string());
        if matches!(error, PostError::Refused(_)) || row.tries_n >= MAX_TRIES {
            tracing::error!(order = %row.order, tries = row.tries_n, error = text, "a mail is given up");
            mail::give_up(pool, row.id, &text, now_ms).await?;
        } else {
            let wait_ms = (FIRST_RETRY_MS << row.tries_n.min(10)).min(MAX_RETRY_MS);
            tracing::warn!(order = %row.order, tries = row.tries_n, error = text, "a mail waits");
            mail::put_off(pool, row.id, &text, now_ms + wait_ms).await?;
        }
        Ok(Brought::Settled)
    }

    /// Mails that were given up or failed so far, newest first, behind `before`.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn open_mails(&self, before: Option<i64>, limit: u32) -> Result<Vec<OpenMail>, StoreError> {
        mail::list_open(self.store.pool(), before, limit).await
    }

    /// Tries a mail again at once. False: there is none of this id that was not sent.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn retry_mail(&self, by: &Operator, id: i64) -> Result<bool, StoreError> {
        let now_ms = self.clock.now_ms();
        let mut transaction = crate::store::begin(self.store.pool()).await?;
        let Some((event, order)) = mail::retry(&mut *transaction, id, now_ms).await? else { return Ok(false) };
        let detail = serde_json::json!({"mail": id, "order": order});
        by.note(&mut *transaction, "mail.retry", Some(event), detail, now_ms).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// The mail; `None` when there is no longer anybody to write to.
    async fn write(&self, row: &MailRow) -> Result<Option<Message>, PostError> {
        let later = |error: &dyn std::fmt::Display| PostError::Later(error.to_string());
        let letter = self.checkout.letter(row.order, row.ticket, row.kind).await;
        let Some(letter) = letter.map_err(|error| later(&error))? else { return Ok(None) };
        let page = self.catalogue.page(letter.event).await.map_err(|error| later(&error))?;
        let page = page.ok_or_else(|| later(&"the event is not there"))?;
        let event = &page.body.summary;
        let venue = format!("{}, {}", event.venue.name, event.venue.city);
        self.compose(row, &letter, &event.name, &venue).map(Some)
    }

    fn compose(&self, row: &MailRow, letter: &Letter, event: &str, venue: &str) -> Result<Message, PostError> {
        let never = |error: &dyn std::fmt::Display| PostError::Refused(error.to_string());
        let currency = letter.currency.as_str();
        let Letter { name, email, lang, reference, total_minor, refunded_minor, tickets_pdf, .. } = letter;
        let facts = Facts {
            name,
            event,
            starts: &letter.starts,
            venue,
            reference,
            total: &money(*total_minor, currency, lang),
            amount: &money(row.amount_minor.unwrap_or(*refunded_minor), currency, lang),
            has_tickets: tickets_pdf.is_some(),
            link: &format!("{}/pay/{}#{}", self.public_url, row.order, letter.pay_secret),
        };
        let words = words(row.kind, lang, &facts);
        let to = email.parse().map_err(|error: AddressError| never(&format!("the address: {error}")))?;
        let from: Mailbox =
            self.config.mail_from.parse().map_err(|error: AddressError| never(&format!("our address: {error}")))?;
        let builder = Message::builder()
            // The same mail sent twice, because its server was not heard, is one mail for those who look at this.
            .message_id(Some(format!("<{}.{}@{}>", row.order, row.id, from.email.domain())))
            .from(from)
            .to(Mailbox::new(Some(name.clone()), to))
            .subject(&words.subject)
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        let text = MultiPart::alternative()
            .singlepart(SinglePart::plain(plain(&words)))
            .singlepart(SinglePart::html(page::html(&words)));
        let mail = match tickets_pdf {
            Some(pdf) => {
                let kind = "application/pdf".parse().map_err(|_| never(&"the type of a PDF"))?;
                let attached = Attachment::new("tickets.pdf".into()).body(pdf.clone(), kind);
                builder.multipart(MultiPart::mixed().multipart(text).singlepart(attached))
            }
            None => builder.multipart(text),
        };
        mail.map_err(|error| never(&error))
    }
}
