//! Tickets: one row a seat or place, written in the transaction that sells. A partial unique index keeps a seat to one
//! ticket that admits, independently of `taken_seats`.

use super::StoreError;
use super::refund::RefundLine;
use seatwire_proto::id::{EventId, IdentityId, OrderId, TicketId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::{Ticket, TicketState};
use sqlx::PgExecutor;
use sqlx::types::Uuid;

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

/// Issues the tickets of an order.
///
/// # Errors
/// A broken `SeatTaken` when a seat has a ticket already.
pub async fn insert(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    identity: IdentityId,
    tickets: &[NewTicket],
    now_ms: u64,
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = tickets.iter().map(|ticket| ticket.id.uuid()).collect();
    let lines: Vec<i32> = tickets.iter().map(|ticket| ticket.line_n.cast_signed()).collect();
    let seats: Vec<Option<i32>> = tickets.iter().map(|t| t.seat.map(|seat| seat.0.cast_signed())).collect();
    let areas: Vec<Option<i32>> = tickets.iter().map(|t| t.area.map(|area| area.0.cast_signed())).collect();
    let codes: Vec<String> = tickets.iter().map(|ticket| ticket.code.clone()).collect();
    sqlx::query!(
        "insert into tickets (event_id, ticket_id, order_id, identity_id, line_n, seat_index, area_index, code, state,
             created_ms)
         select $1, id, $2, $3, line, seat, area, code, 'valid', $4
         from unnest($5::uuid[], $6::integer[], $7::integer[], $8::integer[], $9::text[])
             as t(id, line, seat, area, code)",
        event.uuid(),
        order.uuid(),
        identity.uuid(),
        now_ms.cast_signed(),
        &ids,
        &lines,
        &seats as &[Option<i32>],
        &areas as &[Option<i32>],
        &codes
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Tickets of an order, in the order of its lines.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_order(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
) -> Result<Vec<Ticket>, StoreError> {
    let rows = sqlx::query!(
        "select ticket_id, code, seat_index, area_index, state from tickets
         where event_id = $1 and order_id = $2 order by line_n, ticket_id",
        event.uuid(),
        order.uuid()
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Ticket {
                id: TicketId::from_uuid(row.ticket_id),
                code: row.code,
                seat: row.seat_index.map(|seat| SeatIndex(seat.cast_unsigned())),
                area: row.area_index.map(|area| AreaIndex(area.cast_unsigned())),
                state: match row.state.as_str() {
                    "valid" => TicketState::Valid,
                    "used" => TicketState::Used,
                    "transferred" => TicketState::Transferred,
                    "void" => TicketState::Void,
                    other => return Err(StoreError::Malformed(format!("ticket state {other}"))),
                },
            })
        })
        .collect()
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

/// Makes some tickets of a line void.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn void(
    executor: impl PgExecutor<'_>,
    event: EventId,
    order: OrderId,
    line: u32,
    quantity: u32,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update tickets set state = 'void' where event_id = $1 and ticket_id in (
             select ticket_id from tickets where event_id = $1 and order_id = $2 and line_n = $3 and state = 'valid'
             order by ticket_id limit $4)",
        event.uuid(),
        order.uuid(),
        line.cast_signed(),
        i64::from(quantity)
    )
    .execute(executor)
    .await?;
    Ok(())
}
