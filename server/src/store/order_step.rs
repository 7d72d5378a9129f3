//! What one step of an order writes, in one statement where several rows belong together: the way to Postgres and back is
//! most of what a statement costs, and a checkout goes it while buyers wait. Either all of a statement stands or nothing.

use super::event_log::LogKind;
use super::mail::MailKind;
use super::order::OrderRow;
use super::order_state::OrderState;
use super::outbox::Errand;
use super::ticket::NewTicket;
use super::{StoreError, instrument_use};
use seatwire_proto::seat::SeatIndex;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::{Json, Uuid};

/// Enters a new order with its seats reserved and what its identity and its card have by it. `facts`: the order as the
/// organisers' log has it. `seats` in any order;
/// places of areas are reserved apart.
///
/// # Errors
/// A broken `OrderExists`, `HoldHasOrder`, `ReferenceTaken`, `SeatTaken`, `IdentityLimit` or `InstrumentLimit`.
pub async fn insert(
    transaction: &mut PgConnection,
    order: &OrderRow,
    seats: &[SeatIndex],
    facts: &Value,
    seats_per_identity: u32,
    seats_per_instrument: Option<u32>,
) -> Result<(), StoreError> {
    let mut seats: Vec<i32> = seats.iter().map(|seat| seat.0.cast_signed()).collect();
    // One order of seats for everybody, so that two orders cannot deadlock.
    seats.sort_unstable();
    sqlx::query!(
        "with seats as (
             insert into taken_seats (event_id, seat_index, state, order_id, identity_id, epoch)
             select $2, seat, 'reserved', $1, $3, $5 from unnest($23::integer[]) with ordinality as s(seat, n)
             order by n),
         used as (
             insert into identity_use (event_id, identity_id, used, limit_n) values ($2, $3, $10, $24)
             on conflict (event_id, identity_id) do update
             set used = identity_use.used + excluded.used, limit_n = excluded.limit_n),
         logged as (
             insert into event_log (event_id, kind, body, created_ms) values ($2, 'order.created', $26, $21))
         insert into orders (order_id, event_id, identity_id, hold_id, epoch, reference, command_key, state, lines,
             seats_n, total_minor, captured_minor, currency, buyer_name, buyer_email, pay_secret, provider,
             state_since_ms, lock_until_ms, check_at_ms, created_ms, lang, instrument)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
             $25)",
        order.id.uuid(),
        order.event.uuid(),
        order.identity.uuid(),
        order.hold.uuid(),
        order.epoch.cast_signed(),
        order.reference,
        order.command_key,
        order.state.as_str(),
        Json(&order.lines) as _,
        order.seats_n.cast_signed(),
        order.total_minor,
        order.captured_minor,
        order.currency.as_str(),
        order.buyer_name,
        order.buyer_email,
        order.pay_secret,
        order.provider,
        order.state_since_ms.cast_signed(),
        order.lock_until_ms.cast_signed(),
        order.check_at_ms.map(u64::cast_signed),
        order.created_ms.cast_signed(),
        order.lang,
        &seats,
        seats_per_identity.cast_signed(),
        order.instrument,
        Json(facts) as _
    )
    .execute(&mut *transaction)
    .await?;
    if let (Some(instrument), Some(limit)) = (&order.instrument, seats_per_instrument) {
        instrument_use::add(transaction, order.event, instrument, order.seats_n, limit).await?;
    }
    Ok(())
}

/// What an order becomes when the money is there.
#[derive(Debug, Clone, Copy)]
pub struct Sale<'a> {
    /// The provider's name for the charge.
    pub charge: Option<&'a str>,
    /// To be issued.
    pub tickets: &'a [NewTicket],
}

/// Ends the open attempt as succeeded, sells the reserved seats, issues the tickets; how many seats were sold.
///
/// # Errors
/// A broken `SeatTaken` when a seat has a ticket already.
pub async fn sell(
    transaction: &mut PgConnection,
    order: &OrderRow,
    sale: Sale<'_>,
    now_ms: u64,
) -> Result<u64, StoreError> {
    let tickets = sale.tickets;
    let ids: Vec<Uuid> = tickets.iter().map(|ticket| ticket.id.uuid()).collect();
    let lines: Vec<i32> = tickets.iter().map(|ticket| ticket.line_n.cast_signed()).collect();
    let seats: Vec<Option<i32>> = tickets.iter().map(|t| t.seat.map(|seat| seat.0.cast_signed())).collect();
    let areas: Vec<Option<i32>> = tickets.iter().map(|t| t.area.map(|area| area.0.cast_signed())).collect();
    let codes: Vec<String> = tickets.iter().map(|ticket| ticket.code.clone()).collect();
    let told: Vec<Value> = tickets.iter().map(|ticket| told(order, ticket)).collect();
    let sold = sqlx::query_scalar!(
        r#"with ended as (
               update payment_attempts set state = 'succeeded', decline_reason = null, charge_id = $10, final_ms = $4
               where order_id = $2 and state = 'open'),
           issued as (
               insert into tickets (event_id, ticket_id, order_id, identity_id, line_n, seat_index, area_index, code,
                   state, created_ms)
               select $1, id, $2, $3, line, seat, area, code, 'valid', $4
               from unnest($5::uuid[], $6::integer[], $7::integer[], $8::integer[], $9::text[])
                   as t(id, line, seat, area, code)),
           told as (
               insert into event_log (event_id, kind, body, created_ms)
               select $1, 'ticket.issued', body, $4 from unnest($11::jsonb[]) as t(body)),
           sold as (
               update taken_seats set state = 'sold' where event_id = $1 and order_id = $2 and state = 'reserved'
               returning 1)
           select count(*) as "n!" from sold"#,
        order.event.uuid(),
        order.id.uuid(),
        order.identity.uuid(),
        now_ms.cast_signed(),
        &ids,
        &lines,
        &seats as &[Option<i32>],
        &areas as &[Option<i32>],
        &codes,
        sale.charge,
        &told
    )
    .fetch_one(transaction)
    .await?;
    Ok(sold.cast_unsigned())
}

/// A ticket as the organisers' log has it: without its code.
#[must_use]
pub fn told(order: &OrderRow, ticket: &NewTicket) -> Value {
    let mut body = json!({"ticket": ticket.id, "order": order.id, "event": order.event});
    if let Some(seat) = ticket.seat {
        body["seat"] = json!(seat);
    }
    if let Some(area) = ticket.area {
        body["area"] = json!(area);
    }
    body
}

/// What others are owed after a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owed {
    /// The shelf and the buyer's sockets.
    pub errand: Option<Errand>,
    /// The organisers' log: what, and its facts.
    pub entry: Option<(LogKind, Value)>,
    /// The buyer: what about, and the amount that moved.
    pub letter: Option<(MailKind, Option<i64>)>,
}

/// Writes what a step changed, if the order still stands where the step began, and what others are owed for it. False: it
/// has moved, and the transaction must be rolled back.
///
/// # Errors
/// A broken `OverRefund` when more would go back than was taken.
pub async fn save(
    transaction: &mut PgConnection,
    order: &OrderRow,
    from: OrderState,
    owed: &Owed,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let (kind, facts) =
        owed.entry.as_ref().map_or((None, None), |(kind, facts)| (Some(kind.as_str()), Some(Json(facts))));
    let done = sqlx::query!(
        "with told as (
             insert into outbox (event_id, order_id, kind, body, due_ms, created_ms)
             select $18, $1, $19, '{}', $20, $20 where $19::text is not null),
         logged as (
             insert into event_log (event_id, kind, body, created_ms)
             select $18, $21, $22, $20 where $21::text is not null),
         mailed as (
             insert into mails (kind, event_id, order_id, amount_minor, due_ms, created_ms)
             select $23, $18, $1, $24, $20, $20 where $23::text is not null)
         update orders set state = $3, captured_minor = $4, refunding_minor = $5, refunded_minor = $6, intent_id = $7,
             decline_reason = $8, action = $9, attempts_n = $10, state_since_ms = $11, lock_until_ms = $12,
             check_at_ms = $13, checks_n = $14, unknown_since_ms = $15, epoch = $16, instrument = $17, given_up_ms = $25
         where order_id = $1 and state = $2",
        order.id.uuid(),
        from.as_str(),
        order.state.as_str(),
        order.captured_minor,
        order.refunding_minor,
        order.refunded_minor,
        order.intent,
        order.decline_reason,
        order.action.as_ref().map(Json) as _,
        order.attempts_n.cast_signed(),
        order.state_since_ms.cast_signed(),
        order.lock_until_ms.cast_signed(),
        order.check_at_ms.map(u64::cast_signed),
        order.checks_n.cast_signed(),
        order.unknown_since_ms.map(u64::cast_signed),
        order.epoch.cast_signed(),
        order.instrument,
        order.event.uuid(),
        owed.errand.map(Errand::as_str),
        now_ms.cast_signed(),
        kind,
        facts as _,
        owed.letter.map(|letter| letter.0.as_str()),
        owed.letter.and_then(|letter| letter.1),
        order.given_up_ms.map(u64::cast_signed)
    )
    .execute(transaction)
    .await?;
    Ok(done.rows_affected() == 1)
}
