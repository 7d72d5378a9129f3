//! Mails owed to people, written with their cause. A node takes due ones for a while; what it does not send meanwhile is
//! taken again.

use super::StoreError;
use seatwire_proto::id::{EventId, OrderId, TicketId};
use sqlx::PgExecutor;

/// What a mail is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// Tickets are here.
    OrderPaid,
    /// It will not be paid; nothing was charged.
    OrderCancelled,
    /// Its buyer cancelled it; nothing was charged.
    OrderGivenUp,
    /// Money went back.
    OrderRefunded,
    /// Money that went back did not stay there.
    RefundReturned,
    /// Somebody passes a ticket on.
    TicketPassedOn,
    /// A ticket that was passed on admits nobody any more.
    TicketVoid,
}

impl MailKind {
    /// Every kind.
    pub const ALL: &'static [MailKind] = &[
        Self::OrderPaid,
        Self::OrderCancelled,
        Self::OrderGivenUp,
        Self::OrderRefunded,
        Self::RefundReturned,
        Self::TicketPassedOn,
        Self::TicketVoid,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::OrderPaid => "order_paid",
            Self::OrderCancelled => "order_cancelled",
            Self::OrderGivenUp => "order_given_up",
            Self::OrderRefunded => "order_refunded",
            Self::RefundReturned => "refund_returned",
            Self::TicketPassedOn => "ticket_passed_on",
            Self::TicketVoid => "ticket_void",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// Whether it goes to whom a ticket was passed on to. All others go to the order's buyer.
    #[must_use]
    pub const fn is_for_holder(self) -> bool {
        matches!(self, Self::TicketPassedOn | Self::TicketVoid)
    }
}

/// A mail to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailRow {
    /// Its number.
    pub id: i64,
    /// What about.
    pub kind: MailKind,
    /// Which order.
    pub order: OrderId,
    /// The ticket that was passed on.
    pub ticket: Option<TicketId>,
    /// The amount its cause moved; `None`: it is about none, or a version that did not write it owed it.
    pub amount_minor: Option<i64>,
    /// Tries so far, this one included.
    pub tries_n: u32,
    /// When it was owed.
    pub created_ms: u64,
}

/// Owes a mail.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    kind: MailKind,
    event: EventId,
    order: OrderId,
    ticket: Option<TicketId>,
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into mails (kind, event_id, order_id, ticket_id, due_ms, created_ms) values ($1, $2, $3, $4, $5, $5)",
        kind.as_str(),
        event.uuid(),
        order.uuid(),
        ticket.map(TicketId::uuid),
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Owes a mail to each holder of those of these tickets that were passed on.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn insert_void(
    executor: impl PgExecutor<'_>,
    event: EventId,
    tickets: &[TicketId],
    now_ms: u64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into mails (kind, event_id, order_id, ticket_id, due_ms, created_ms)
         select $1, event_id, order_id, ticket_id, $4, $4 from tickets
         where event_id = $2 and ticket_id = any($3) and holder_email is not null",
        MailKind::TicketVoid.as_str(),
        event.uuid(),
        &tickets.iter().map(|ticket| ticket.uuid()).collect::<Vec<_>>(),
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Takes due mails until `until_ms`, oldest first; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take(
    executor: impl PgExecutor<'_>,
    now_ms: u64,
    until_ms: u64,
    limit: u32,
) -> Result<Vec<MailRow>, StoreError> {
    let rows = sqlx::query!(
        "update mails set due_ms = $2, tries_n = tries_n + 1 where mail_id in (
             select mail_id from mails where sent_ms is null and given_up_ms is null and due_ms <= $1
             order by due_ms limit $3 for update skip locked)
         returning mail_id, kind, order_id, ticket_id, amount_minor, tries_n, created_ms",
        now_ms.cast_signed(),
        until_ms.cast_signed(),
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(MailRow {
                id: row.mail_id,
                kind: MailKind::parse(&row.kind)
                    .ok_or_else(|| StoreError::Malformed(format!("mail kind {}", row.kind)))?,
                order: OrderId::from_uuid(row.order_id),
                ticket: row.ticket_id.map(TicketId::from_uuid),
                amount_minor: row.amount_minor,
                tries_n: row.tries_n.cast_unsigned(),
                created_ms: row.created_ms.cast_unsigned(),
            })
        })
        .collect()
}

/// Sent.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn set_sent(executor: impl PgExecutor<'_>, id: i64, now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!("update mails set sent_ms = $2, failure = null where mail_id = $1", id, now_ms.cast_signed())
        .execute(executor)
        .await?;
    Ok(())
}

/// Not sent; again at `due_ms`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn put_off(executor: impl PgExecutor<'_>, id: i64, failure: &str, due_ms: u64) -> Result<(), StoreError> {
    sqlx::query!("update mails set due_ms = $3, failure = $2 where mail_id = $1", id, failure, due_ms.cast_signed())
        .execute(executor)
        .await?;
    Ok(())
}

/// Gives back mails that were taken and not brought on their way: due at once, and the try does not count.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn give_back(executor: impl PgExecutor<'_>, ids: &[i64], now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "update mails set due_ms = $2, tries_n = greatest(tries_n - 1, 0) where mail_id = any($1) and sent_ms is null",
        ids,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Not sent, and not tried again by itself.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn give_up(executor: impl PgExecutor<'_>, id: i64, failure: &str, now_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "update mails set given_up_ms = $3, failure = $2 where mail_id = $1 and sent_ms is null",
        id,
        failure,
        now_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Tries a mail again that was not sent: of which event and order it is. `None`: there is none.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn retry(
    executor: impl PgExecutor<'_>,
    id: i64,
    now_ms: u64,
) -> Result<Option<(EventId, OrderId)>, StoreError> {
    let found = sqlx::query!(
        "update mails set given_up_ms = null, tries_n = 0, due_ms = $2 where mail_id = $1 and sent_ms is null
         returning event_id, order_id",
        id,
        now_ms.cast_signed()
    )
    .fetch_optional(executor)
    .await?;
    Ok(found.map(|row| (EventId::from_uuid(row.event_id), OrderId::from_uuid(row.order_id))))
}

/// Mails that were given up and not sent since.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn count_given_up(executor: impl PgExecutor<'_>) -> Result<u64, StoreError> {
    let n =
        sqlx::query_scalar!(r#"select count(*) as "n!" from mails where given_up_ms is not null and sent_ms is null"#)
            .fetch_one(executor)
            .await?;
    Ok(n.cast_unsigned())
}

/// Forgets mails that were sent or given up before `before_ms`; at most `limit` of each. How many.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn forget(executor: impl PgExecutor<'_>, before_ms: u64, limit: u32) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "delete from mails where mail_id in (
             (select mail_id from mails where sent_ms < $1 order by sent_ms limit $2)
             union all
             (select mail_id from mails where given_up_ms < $1 and sent_ms is null order by given_up_ms limit $2))",
        before_ms.cast_signed(),
        i64::from(limit)
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}

/// A mail that did not arrive so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMail {
    /// Its number.
    pub id: i64,
    /// What about.
    pub kind: String,
    /// Which order.
    pub order: OrderId,
    /// Tries so far.
    pub tries_n: u32,
    /// Why the last one failed.
    pub failure: String,
    /// When the next one is due; `None`: it was given up.
    pub next_try_ms: Option<u64>,
    /// When it was owed.
    pub created_ms: u64,
}

/// Mails that failed and did not arrive since, given up or not, newest first, behind `before`; at most `limit`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn list_open(
    executor: impl PgExecutor<'_>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<OpenMail>, StoreError> {
    let rows = sqlx::query!(
        r#"select mail_id, kind, order_id, tries_n, failure as "failure!", due_ms, given_up_ms, created_ms from mails
           where sent_ms is null and failure is not null and ($1::bigint is null or mail_id < $1)
           order by mail_id desc limit $2"#,
        before,
        i64::from(limit)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| OpenMail {
            id: row.mail_id,
            kind: row.kind,
            order: OrderId::from_uuid(row.order_id),
            tries_n: row.tries_n.cast_unsigned(),
            failure: row.failure,
            next_try_ms: row.given_up_ms.is_none().then_some(row.due_ms.cast_unsigned()),
            created_ms: row.created_ms.cast_unsigned(),
        })
        .collect())
}
