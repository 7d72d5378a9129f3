//! The steps that every checkout takes, for many orders in one statement: a statement costs Postgres more than its rows do,
//! and a commit more than both. Each takes those orders that stand exactly where their caller saw them, passes over all
//! others and says which it took; so whoever is left out is moved by itself, by `order_step` under its lock. Nothing here
//! waits for an order that somebody else has.

use super::StoreError;
use super::event_log::LogKind;
use super::mail::MailKind;
use super::order::OrderRow;
use super::outbox::Errand;
use super::payment_attempt::Attempt;
use super::ticket::NewTicket;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use serde_json::Value;
use sqlx::types::Uuid;
use sqlx::{PgConnection, PgExecutor};
use std::collections::{HashMap, HashSet};

/// An order to be entered with its seats reserved.
#[derive(Debug, Clone, PartialEq)]
pub struct NewOrder {
    /// The order.
    pub row: OrderRow,
    /// Its seats.
    pub seats: Vec<SeatIndex>,
    /// Its places of areas: how many, and how many places the area has by the caller's word, as
    /// [`super::area_stock::reserve`] takes it.
    pub areas: Vec<(AreaIndex, u32, u32)>,
    /// What its identity may have.
    pub seats_per_identity: u32,
    /// As the organisers' log has it.
    pub facts: Value,
}

/// One value of each, as a column.
fn column<T, V>(rows: &[T], of: impl Fn(&T) -> V) -> Vec<V> {
    rows.iter().map(of).collect()
}

fn json(value: &impl serde::Serialize) -> Result<Value, StoreError> {
    serde_json::to_value(value).map_err(|error| StoreError::Malformed(error.to_string()))
}

fn ids(taken: Vec<Uuid>) -> HashSet<OrderId> {
    taken.into_iter().map(OrderId::from_uuid).collect()
}

/// Enters orders whose event was not cancelled and whose epoch is the present one, with their seats and what their identities have;
/// which. Behind the lock of `epoch`, in a statement of its own.
///
/// # Errors
/// Any broken constraint, by whichever of them: then none of them was entered.
pub async fn insert(transaction: &mut PgConnection, orders: &[NewOrder]) -> Result<HashSet<OrderId>, StoreError> {
    let mut seats: Vec<(i32, Uuid)> = orders
        .iter()
        .flat_map(|order| order.seats.iter().map(|seat| (seat.0.cast_signed(), order.row.id.uuid())))
        .collect();
    // One order of seats for everybody, so that two runs cannot deadlock.
    seats.sort_unstable();
    let areas: Vec<(Uuid, (AreaIndex, u32, u32))> =
        orders.iter().flat_map(|order| order.areas.iter().map(|&area| (order.row.id.uuid(), area))).collect();
    let lines = orders.iter().map(|order| json(&order.row.lines)).collect::<Result<Vec<_>, _>>()?;
    let taken = sqlx::query_scalar!(
        "with given as (
             select g.* from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::integer[], $6::text[], $7::text[],
                 $8::jsonb[], $9::integer[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
                 $16::bigint[], $17::bigint[], $18::bigint[], $19::text[], $20::integer[], $21::jsonb[])
                 as g(order_id, event_id, identity_id, hold_id, epoch, reference, command_key, lines, seats_n, total_minor,
                 currency, buyer_name, buyer_email, pay_secret, provider, created_ms, lock_until_ms, check_at_ms, lang,
                 limit_n, facts)
             join event_epochs e on e.event_id = g.event_id and e.epoch = g.epoch
             join events v on v.id = g.event_id and v.state <> 'cancelled'),
         seats as (
             insert into taken_seats (event_id, seat_index, state, order_id, identity_id, epoch)
             select g.event_id, s.seat, 'reserved', g.order_id, g.identity_id, g.epoch
             from unnest($22::integer[], $23::uuid[]) as s(seat, order_id) join given g using (order_id)
             order by g.event_id, s.seat),
         standing as (
             insert into area_stock (event_id, area_index, capacity, reserved)
             select g.event_id, a.area, max(a.capacity), sum(a.quantity)
             from unnest($24::uuid[], $25::integer[], $26::integer[], $27::integer[])
                 as a(order_id, area, quantity, capacity) join given g using (order_id)
             group by g.event_id, a.area order by g.event_id, a.area
             on conflict (event_id, area_index) do update set reserved = area_stock.reserved + excluded.reserved),
         used as (
             insert into identity_use (event_id, identity_id, used, limit_n)
             select event_id, identity_id, seats_n, limit_n from given order by event_id, identity_id
             on conflict (event_id, identity_id) do update
             set used = identity_use.used + excluded.used, limit_n = excluded.limit_n),
         logged as (
             insert into event_log (event_id, kind, body, created_ms)
             select event_id, 'order.created', facts, created_ms from given)
         insert into orders (order_id, event_id, identity_id, hold_id, epoch, reference, command_key, state, lines,
             seats_n, total_minor, captured_minor, currency, buyer_name, buyer_email, pay_secret, provider,
             state_since_ms, lock_until_ms, check_at_ms, created_ms, lang)
         select order_id, event_id, identity_id, hold_id, epoch, reference, command_key, 'creating', lines,
             seats_n, total_minor, 0, currency, buyer_name, buyer_email, pay_secret, provider,
             created_ms, lock_until_ms, check_at_ms, created_ms, lang from given
         returning order_id",
        &column(orders, |order| order.row.id.uuid()),
        &column(orders, |order| order.row.event.uuid()),
        &column(orders, |order| order.row.identity.uuid()),
        &column(orders, |order| order.row.hold.uuid()),
        &column(orders, |order| order.row.epoch.cast_signed()),
        &column(orders, |order| order.row.reference.clone()),
        &column(orders, |order| order.row.command_key.clone()),
        &lines,
        &column(orders, |order| order.row.seats_n.cast_signed()),
        &column(orders, |order| order.row.total_minor),
        &column(orders, |order| order.row.currency.as_str().to_owned()),
        &column(orders, |order| order.row.buyer_name.clone()),
        &column(orders, |order| order.row.buyer_email.clone()),
        &column(orders, |order| order.row.pay_secret.clone()),
        &column(orders, |order| order.row.provider.clone()),
        &column(orders, |order| order.row.created_ms.cast_signed()),
        &column(orders, |order| order.row.lock_until_ms.cast_signed()),
        &column(orders, |order| order.row.check_at_ms.map(u64::cast_signed)) as &[Option<i64>],
        &column(orders, |order| order.row.lang.clone()),
        &column(orders, |order| order.seats_per_identity.cast_signed()),
        &column(orders, |order| order.facts.clone()),
        &column(&seats, |seat| seat.0),
        &column(&seats, |seat| seat.1),
        &column(&areas, |area| area.0),
        &column(&areas, |area| area.1.0.0.cast_signed()),
        &column(&areas, |area| area.1.1.cast_signed()),
        &column(&areas, |area| area.1.2.cast_signed())
    )
    .fetch_all(transaction)
    .await?;
    Ok(ids(taken))
}

/// An order that begins its first attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// As it was made.
    pub before: OrderRow,
    /// As it shall stand.
    pub after: OrderRow,
    /// What is tried.
    pub attempt: Attempt,
}

/// Records first attempts of orders that still stand as they were made, each with its order's move; which. Not those of
/// cancelled events.
///
/// # Errors
/// Any broken constraint, by whichever of them: then nothing was recorded.
pub async fn start_attempts(
    executor: impl PgExecutor<'_>,
    starts: &[Start],
    now_ms: u64,
) -> Result<HashSet<OrderId>, StoreError> {
    let taken = sqlx::query_scalar!(
        "with given as (
             select * from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::text[], $5::bigint[], $6::bigint[],
                 $7::bigint[], $8::uuid[], $9::text[], $10::text[], $11::text[], $12::bigint[])
                 as g(order_id, was_since_ms, was_checks_n, intent_id, state_since_ms, lock_until_ms, check_at_ms,
                 event_id, provider, idempotency_key, method, amount_minor)),
         free as (
             select o.order_id from orders o join given g using (order_id)
             where o.state = 'creating' and o.attempts_n = 0 and o.intent_id is null
                 and o.state_since_ms = g.was_since_ms and o.checks_n = g.was_checks_n
                 and not exists (select from events where id = o.event_id and state = 'cancelled')
             order by o.order_id for update of o skip locked),
         tried as (
             insert into payment_attempts
                 (order_id, attempt_n, event_id, provider, idempotency_key, method, amount_minor, state, created_ms)
             select order_id, 1, event_id, provider, idempotency_key, method, amount_minor, 'open', $13
             from given join free using (order_id))
         update orders o set state = 'confirming', intent_id = g.intent_id, decline_reason = null, action = null,
             attempts_n = 1, state_since_ms = g.state_since_ms, lock_until_ms = g.lock_until_ms,
             check_at_ms = g.check_at_ms, checks_n = 0, unknown_since_ms = null
         from given g join free using (order_id) where o.order_id = g.order_id
         returning o.order_id",
        &column(starts, |start| start.before.id.uuid()),
        &column(starts, |start| start.before.state_since_ms.cast_signed()),
        &column(starts, |start| start.before.checks_n.cast_signed()),
        &column(starts, |start| start.after.intent.clone()) as &[Option<String>],
        &column(starts, |start| start.after.state_since_ms.cast_signed()),
        &column(starts, |start| start.after.lock_until_ms.cast_signed()),
        &column(starts, |start| start.after.check_at_ms.map(u64::cast_signed)) as &[Option<i64>],
        &column(starts, |start| start.attempt.event.uuid()),
        &column(starts, |start| start.attempt.provider.clone()),
        &column(starts, |start| start.attempt.idempotency_key.clone()),
        &column(starts, |start| start.attempt.method.clone()),
        &column(starts, |start| start.attempt.amount_minor),
        now_ms.cast_signed()
    )
    .fetch_all(executor)
    .await?;
    Ok(ids(taken))
}

/// An order whose money is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Sold {
    /// As it stood while the provider was asked.
    pub before: OrderRow,
    /// As it shall stand.
    pub after: OrderRow,
    /// The provider's name for the charge.
    pub charge: Option<String>,
    /// To be issued.
    pub tickets: Vec<NewTicket>,
    /// What the organisers' log says, in this order.
    pub told: Vec<(LogKind, Value)>,
    /// The command that is answered with it, and the answer.
    pub answer: Option<(IdentityId, IdempotencyKey, Value)>,
}

/// Sells orders that still stand as they were when the provider was asked: attempt, seats, tickets, state, and what others
/// are owed, the answer under the command's key included. Which, and how many reserved seats each had: where that is not what
/// its lines say, the transaction must be rolled back.
///
/// # Errors
/// Any broken constraint, by whichever of them.
pub async fn sell(
    transaction: &mut PgConnection,
    sales: &[Sold],
    now_ms: u64,
) -> Result<HashMap<OrderId, u64>, StoreError> {
    let tickets: Vec<(Uuid, &NewTicket)> =
        sales.iter().flat_map(|sale| sale.tickets.iter().map(|ticket| (sale.before.id.uuid(), ticket))).collect();
    let told: Vec<(Uuid, &(LogKind, Value))> =
        sales.iter().flat_map(|sale| sale.told.iter().map(|row| (sale.before.id.uuid(), row))).collect();
    let answers: Vec<_> = sales
        .iter()
        .filter_map(|sale| sale.answer.as_ref().map(|(identity, key, answer)| (sale.before.id, identity, key, answer)))
        .collect();
    let rows = sqlx::query!(
        r#"with given as (
               select * from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[],
                   $7::text[])
                   as g(order_id, was_since_ms, was_checks_n, was_attempts_n, state_since_ms, captured_minor, charge_id)),
           free as (
               select o.order_id, o.event_id, o.identity_id from orders o join given g using (order_id)
               where o.state = 'confirming' and o.state_since_ms = g.was_since_ms and o.checks_n = g.was_checks_n
                   and o.attempts_n = g.was_attempts_n and o.total_minor = g.captured_minor
               order by o.order_id for update of o skip locked),
           ended as (
               update payment_attempts a
               set state = 'succeeded', decline_reason = null, charge_id = g.charge_id, final_ms = $8
               from given g join free using (order_id) where a.order_id = g.order_id and a.state = 'open'),
           issued as (
               insert into tickets (event_id, ticket_id, order_id, identity_id, line_n, seat_index, area_index, code,
                   state, created_ms)
               select f.event_id, t.id, f.order_id, f.identity_id, t.line, t.seat, t.area, t.code, 'valid', $8
               from unnest($9::uuid[], $10::uuid[], $11::integer[], $12::integer[], $13::integer[], $14::text[])
                   as t(order_id, id, line, seat, area, code) join free f using (order_id)),
           told as (
               insert into event_log (event_id, kind, body, created_ms)
               select f.event_id, t.kind, t.body, $8
               from unnest($15::uuid[], $16::text[], $17::jsonb[]) with ordinality as t(order_id, kind, body, n)
                   join free f using (order_id) order by t.n),
           shelf as (
               insert into outbox (event_id, order_id, kind, body, due_ms, created_ms)
               select event_id, order_id, $18, '{}', $8, $8 from free),
           mailed as (
               insert into mails (kind, event_id, order_id, due_ms, created_ms)
               select $19, event_id, order_id, $8, $8 from free),
           answered as (
               update order_commands c set answer = a.answer
               from unnest($20::uuid[], $21::uuid[], $22::text[], $23::jsonb[]) as a(order_id, identity_id, key, answer)
                   join free f on f.order_id = a.order_id
               where c.identity_id = a.identity_id and c.command_key = a.key and c.answer is null),
           sold as (
               update taken_seats s set state = 'sold' from free f
               where s.event_id = f.event_id and s.order_id = f.order_id and s.state = 'reserved'
               returning s.order_id),
           stood as (
               update area_stock s set reserved = s.reserved - a.n, sold = s.sold + a.n
               from (select f.event_id, t.area, count(*)::integer as n
                   from unnest($9::uuid[], $13::integer[]) as t(order_id, area) join free f using (order_id)
                   where t.area is not null group by f.event_id, t.area) a
               where s.event_id = a.event_id and s.area_index = a.area),
           moved as (
               update orders o set state = 'fulfilled', captured_minor = g.captured_minor, action = null,
                   state_since_ms = g.state_since_ms, check_at_ms = null, checks_n = 0, unknown_since_ms = null
               from given g join free using (order_id) where o.order_id = g.order_id
               returning o.order_id)
           select m.order_id, (select count(*) from sold s where s.order_id = m.order_id) as "seats_n!" from moved m"#,
        &column(sales, |sale| sale.before.id.uuid()),
        &column(sales, |sale| sale.before.state_since_ms.cast_signed()),
        &column(sales, |sale| sale.before.checks_n.cast_signed()),
        &column(sales, |sale| sale.before.attempts_n.cast_signed()),
        &column(sales, |sale| sale.after.state_since_ms.cast_signed()),
        &column(sales, |sale| sale.after.captured_minor),
        &column(sales, |sale| sale.charge.clone()) as &[Option<String>],
        now_ms.cast_signed(),
        &column(&tickets, |ticket| ticket.0),
        &column(&tickets, |ticket| ticket.1.id.uuid()),
        &column(&tickets, |ticket| ticket.1.line_n.cast_signed()),
        &column(&tickets, |ticket| ticket.1.seat.map(|seat| seat.0.cast_signed())) as &[Option<i32>],
        &column(&tickets, |ticket| ticket.1.area.map(|area| area.0.cast_signed())) as &[Option<i32>],
        &column(&tickets, |ticket| ticket.1.code.clone()),
        &column(&told, |row| row.0),
        &column(&told, |row| row.1.0.as_str().to_owned()),
        &column(&told, |row| row.1.1.clone()),
        Errand::Sell.as_str(),
        MailKind::OrderPaid.as_str(),
        &column(&answers, |answer| answer.0.uuid()),
        &column(&answers, |answer| answer.1.uuid()),
        &column(&answers, |answer| answer.2.as_str().to_owned()),
        &column(&answers, |answer| answer.3.clone())
    )
    .fetch_all(transaction)
    .await?;
    Ok(rows.into_iter().map(|row| (OrderId::from_uuid(row.order_id), row.seats_n.cast_unsigned())).collect())
}
