//! Tickets: one row a seat or place, written in the transaction that sells. A partial unique index keeps a seat to one
//! ticket that admits, independently of `taken_seats`.

use super::StoreError;
use super::refund::RefundLine;
use seatwire_proto::id::{EventId, OrderId, TicketId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::{Ticket, TicketState};
use sqlx::{PgConnection, PgExecutor};
use std::collections::HashMap;

/// A ticket to be issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTicket {
    /// Its id.
    pub id: TicketId,
    /// Position of its line in the order.
    pub line_n: u32,
    /// The seat, or...
    pub seat: Option<SeatIndex>,
    /// ...the area.
    pub area: Option<AreaIndex>,
    /// The unguessable code.
    pub code: String,
}

/// Tickets of an order, in the order of its lines. `with_passed_on`: also those that somebody else holds now, whose codes
/// the buyer must not see.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_order(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    with_passed_on: bool,
) -> Result<Vec<Ticket>, StoreError> {
    Ok(of_orders(executor, &[(event, order)], with_passed_on).await?.remove(&order).unwrap_or_default())
}

/// The same of several orders.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_orders(
    executor: impl PgExecutor<'_>,
    orders: &[(EventId, OrderId)],
    with_passed_on: bool,
) -> Result<HashMap<OrderId, Vec<Ticket>>, StoreError> {
    let rows = sqlx::query!(
        r#"select t.order_id, ticket_id, code, seat_index, area_index, state
           from unnest($1::uuid[], $2::uuid[]) as o(event_id, order_id) join tickets t using (event_id, order_id)
           where $3 or holder_email is null order by line_n, ticket_id"#,
        &orders.iter().map(|order| order.0.uuid()).collect::<Vec<_>>(),
        &orders.iter().map(|order| order.1.uuid()).collect::<Vec<_>>(),
        with_passed_on
    )
    .fetch_all(executor)
    .await?;
    let mut tickets: HashMap<OrderId, Vec<Ticket>> = HashMap::new();
    for row in rows {
        tickets.entry(OrderId::from_uuid(row.order_id)).or_default().push(Ticket {
            id: TicketId::from_uuid(row.ticket_id),
            code: row.code,
            seat: row.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
            area: row.area_index.map(|area| AreaIndex(area.cast_unsigned())),
            state: parse_state(&row.state)?,
            qr: None,
        });
    }
    Ok(tickets)
}

fn parse_state(text: &str) -> Result<TicketState, StoreError> {
    Ok(match text {
        "valid" => TicketState::Valid,
        "used" => TicketState::Used,
        "transferred" => TicketState::Transferred,
        "void" => TicketState::Void,
        other => return Err(StoreError::Malformed(format!("ticket state {other}"))),
    })
}

/// A person a ticket is passed on to.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    /// Name on the ticket.
    pub name: &'a str,
    /// Where it is sent.
    pub email: &'a str,
}

/// Passes a ticket of this order on: the old one no longer admits, a new one with another code does. `None`: there is no
/// valid ticket of this id that the order's buyer still has.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn pass_on(
    transaction: &mut PgConnection,
    event: EventId,
    order: OrderId,
    ticket: TicketId,
    holder: Holder<'_>,
    code: &str,
    now_ms: u64,
) -> Result<Option<Ticket>, StoreError> {
    let old = sqlx::query!(
        "update tickets set state = 'transferred' where event_id = $1 and ticket_id = $2 and order_id = $3
             and state = 'valid' and holder_email is null
         returning identity_id, line_n, seat_index, area_index",
        event.uuid(),
        ticket.uuid(),
        order.uuid()
    )
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(old) = old else { return Ok(None) };
    let id = TicketId::generate();
    sqlx::query!(
        "insert into tickets (event_id, ticket_id, order_id, identity_id, line_n, seat_index, area_index, code, state,
             created_ms, holder_name, holder_email, from_ticket_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, 'valid', $9, $10, $11, $12)",
        event.uuid(),
        id.uuid(),
        order.uuid(),
        old.identity_id,
        old.line_n,
        old.seat_index,
        old.area_index,
        code,
        now_ms.cast_signed(),
        holder.name,
        holder.email,
        ticket.uuid()
    )
    .execute(&mut *transaction)
    .await?;
    Ok(Some(Ticket {
        id,
        code: code.to_owned(),
        seat: old.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
        area: old.area_index.map(|area| AreaIndex(area.cast_unsigned())),
        state: TicketState::Valid,
        qr: None,
    }))
}

/// A ticket that was passed on, as it stands, with name and address of who has it now; `None`: it was not.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn passed_on(
    executor: impl PgExecutor<'_>,
    event: EventId,
    ticket: TicketId,
) -> Result<Option<(Ticket, (String, String))>, StoreError> {
    let row = sqlx::query!(
        r#"select ticket_id, code, seat_index, area_index, state, holder_name as "name!", holder_email as "email!"
           from tickets where event_id = $1 and ticket_id = $2 and holder_email is not null"#,
        event.uuid(),
        ticket.uuid()
    )
    .fetch_optional(executor)
    .await?;
    row.map(|row| {
        let ticket = Ticket {
            id: TicketId::from_uuid(row.ticket_id),
            code: row.code,
            seat: row.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
            area: row.area_index.map(|area| AreaIndex(area.cast_unsigned())),
            state: parse_state(&row.state)?,
            qr: None,
        };
        Ok((ticket, (row.name, row.email)))
    })
    .transpose()
}

/// What the door is told of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorView {
    /// Which ticket.
    pub id: TicketId,
    /// Of which order.
    pub order: OrderId,
    /// How it stands now.
    pub state: TicketState,
    /// The seat, or...
    pub seat: Option<SeatIndex>,
    /// ...the area.
    pub area: Option<AreaIndex>,
    /// Who has it.
    pub holder: String,
    /// When it was used.
    pub used_ms: Option<u64>,
    /// At which door.
    pub used_door: Option<String>,
    /// By which scan.
    pub used_scan: Option<String>,
}

/// Uses a ticket up if it admits. True: it was this call that did.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn admit(
    executor: impl PgExecutor<'_>,
    event: EventId,
    code: &str,
    door: &str,
    scan: &str,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update tickets set state = 'used', used_ms = $3, used_door = $4, used_scan = $5
         where event_id = $1 and code = $2 and state = 'valid'",
        event.uuid(),
        code,
        now_ms.cast_signed(),
        door,
        scan
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A ticket by its code.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn at_the_door(
    executor: impl PgExecutor<'_>,
    event: EventId,
    code: &str,
) -> Result<Option<DoorView>, StoreError> {
    let row = sqlx::query!(
        r#"select ticket_id, order_id, t.state, seat_index, area_index, coalesce(holder_name, buyer_name) as "holder!", used_ms,
             used_door, used_scan
         from tickets t join orders using (order_id) where t.event_id = $1 and code = $2"#,
        event.uuid(),
        code
    )
    .fetch_optional(executor)
    .await?;
    row.map(|row| {
        Ok(DoorView {
            id: TicketId::from_uuid(row.ticket_id),
            order: OrderId::from_uuid(row.order_id),
            state: parse_state(&row.state)?,
            seat: row.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
            area: row.area_index.map(|area| AreaIndex(area.cast_unsigned())),
            holder: row.holder,
            used_ms: row.used_ms.map(i64::cast_unsigned),
            used_door: row.used_door,
            used_scan: row.used_scan,
        })
    })
    .transpose()
}

/// Whether a code is that of a ticket of another event.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn is_of_other_event(executor: impl PgExecutor<'_>, event: EventId, code: &str) -> Result<bool, StoreError> {
    let found = sqlx::query_scalar!(
        r#"select exists (select from tickets where code = $1 and event_id <> $2) as "is_there!""#,
        code,
        event.uuid()
    );
    Ok(found.fetch_one(executor).await?)
}

/// Tickets of an order that still admit, counted by line.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn live_by_line(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
) -> Result<Vec<RefundLine>, StoreError> {
    let rows = sqlx::query!(
        r#"select line_n, count(*) as "quantity!" from tickets
           where event_id = $1 and order_id = $2 and state = 'valid' group by line_n order by line_n"#,
        event.uuid(),
        order.uuid()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| RefundLine { line: row.line_n.cast_unsigned(), quantity: row.quantity as u32 })
        .collect())
}

/// What an order's tickets cost that admit, or admitted, somebody, in minor units.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn worth_minor(executor: impl PgExecutor<'_>, event: EventId, order: OrderId) -> Result<i64, StoreError> {
    let worth = sqlx::query_scalar!(
        r#"select coalesce(sum((o.lines->k.line_n->>'price_minor')::bigint + (o.lines->k.line_n->>'fee_minor')::bigint), 0)::bigint
               as "worth!"
           from tickets k join orders o on o.order_id = k.order_id and o.event_id = k.event_id
           where k.event_id = $1 and k.order_id = $2 and k.state in ('valid', 'used')"#,
        event.uuid(),
        order.uuid()
    );
    Ok(worth.fetch_one(executor).await?)
}

/// Makes some tickets of a line void; which.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn void(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    line: u32,
    quantity: u32,
) -> Result<Vec<Ticket>, StoreError> {
    let rows = sqlx::query!(
        "update tickets set state = 'void' where event_id = $1 and ticket_id in (
             select ticket_id from tickets where event_id = $1 and order_id = $2 and line_n = $3 and state = 'valid'
             order by ticket_id limit $4)
         returning ticket_id, code, seat_index, area_index",
        event.uuid(),
        order.uuid(),
        line.cast_signed(),
        i64::from(quantity)
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Ticket {
            id: TicketId::from_uuid(row.ticket_id),
            code: row.code,
            seat: row.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
            area: row.area_index.map(|area| AreaIndex(area.cast_unsigned())),
            state: TicketState::Void,
            qr: None,
        })
        .collect())
}
