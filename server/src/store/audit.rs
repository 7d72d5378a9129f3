//! What an audit asks the ledger of one event, as one moment: reserved and sold places, tickets, counts, the log of seats and
//! the journal. Nothing is written.

use super::hold_journal::{JournalAnswer, WrittenRecord};
use super::taken_seat::TakenSeat;
use super::{StoreError, area_stock, event_life, hold_journal, identity_use, taken_seat, waitlist};
use seatwire_proto::id::{EventId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::Line;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use std::collections::{HashMap, HashSet};

/// One event as Postgres has it.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Its epoch and the Redis it lives in; `None` when it was never opened.
    pub life: Option<(u32, String)>,
    /// Reserved and sold seats.
    pub taken: Vec<TakenSeat>,
    /// Reserved and sold places.
    pub areas: Vec<area_stock::AreaStock>,
    /// What counts against each identity's limit.
    pub uses: Vec<(IdentityId, u32)>,
    /// Orders that have seats or places.
    pub orders: Vec<event_life::LivingOrder>,
    /// Live tickets of seats, and whose order they are of; a seat with two is in it twice.
    pub seat_tickets: Vec<(SeatIndex, OrderId)>,
    /// Live tickets of each area.
    pub area_tickets: HashMap<AreaIndex, u32>,
    /// Places of orders that are not paid yet.
    pub area_reserved: HashMap<AreaIndex, u32>,
    /// Seats and places each identity has by rows and tickets.
    pub places: HashMap<IdentityId, u32>,
    /// The last entry of the log of each seat: its state and the order.
    pub log: HashMap<SeatIndex, (String, OrderId)>,
    /// Rows of the log.
    pub log_n: u64,
    /// How far the journal has come: epoch and whether it is whole; `None` when there is none.
    pub journal: Option<(u32, bool)>,
    /// The journal.
    pub records: Vec<WrittenRecord>,
    /// Remembered answers that the journal keeps beside the records.
    pub answers: Vec<JournalAnswer>,
    /// Orders with live tickets.
    pub ticket_orders: HashSet<OrderId>,
    /// What was given back of sold orders.
    pub freed: Vec<event_life::FreedPlaces>,
    /// Lines of orders that are not paid yet.
    pub order_lines: HashMap<OrderId, Vec<Line>>,
    /// Whether somebody waits for what becomes free.
    pub has_waiting: bool,
    /// Whether the shelf may keep for the waitlist.
    pub may_keep: bool,
}

/// Reads everything.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn read(pool: &PgPool, event: EventId) -> Result<Ledger, StoreError> {
    let mut transaction = crate::store::begin(pool).await?;
    sqlx::raw_sql("set transaction isolation level repeatable read read only").execute(&mut *transaction).await?;
    let mut ledger = Ledger {
        life: event_life::read(&mut *transaction, event).await?,
        taken: taken_seat::of_event(&mut *transaction, event).await?,
        areas: area_stock::of_event(&mut *transaction, event).await?,
        uses: identity_use::of_event(&mut *transaction, event).await?,
        orders: event_life::living_orders(&mut *transaction, event).await?,
        records: hold_journal::of_event(&mut *transaction, event).await?,
        answers: hold_journal::answers_of_event(&mut *transaction, event, 0).await?,
        has_waiting: waitlist::has_waiting(&mut *transaction, event).await?,
        may_keep: waitlist::may_keep(&mut *transaction, event).await?,
        ..Ledger::default()
    };
    tickets(&mut transaction, event, &mut ledger).await?;
    orders(&mut transaction, event, &mut ledger).await?;
    counts(&mut transaction, event, &mut ledger).await?;
    log(&mut transaction, event, &mut ledger).await?;
    let journal = sqlx::query!("select epoch, is_whole from journal_positions where event_id = $1", event.uuid())
        .fetch_optional(&mut *transaction)
        .await?;
    ledger.journal = journal.map(|row| (row.epoch.cast_unsigned(), row.is_whole));
    transaction.commit().await?;
    Ok(ledger)
}

async fn tickets(transaction: &mut PgConnection, event: EventId, ledger: &mut Ledger) -> Result<(), StoreError> {
    let rows = sqlx::query!(
        "select seat_index, area_index, order_id from tickets where event_id = $1 and state in ('valid', 'used')",
        event.uuid()
    )
    .fetch_all(transaction)
    .await?;
    for row in rows {
        ledger.ticket_orders.insert(OrderId::from_uuid(row.order_id));
        if let Some(seat) = row.seat_index {
            ledger.seat_tickets.push((SeatIndex(seat.cast_unsigned()), OrderId::from_uuid(row.order_id)));
        }
        if let Some(area) = row.area_index {
            *ledger.area_tickets.entry(AreaIndex(area.cast_unsigned())).or_default() += 1;
        }
    }
    Ok(())
}

async fn orders(transaction: &mut PgConnection, event: EventId, ledger: &mut Ledger) -> Result<(), StoreError> {
    ledger.freed = event_life::freed_places(&mut *transaction, event).await?;
    let rows = sqlx::query!(
        r#"select order_id, lines as "lines: Json<Vec<Line>>" from orders
           where event_id = $1 and state in ('creating', 'payable', 'confirming', 'action_required', 'processing',
                                             'payment_unknown', 'cancelling')"#,
        event.uuid()
    )
    .fetch_all(transaction)
    .await?;
    ledger.order_lines = rows.into_iter().map(|row| (OrderId::from_uuid(row.order_id), row.lines.0)).collect();
    Ok(())
}

async fn counts(transaction: &mut PgConnection, event: EventId, ledger: &mut Ledger) -> Result<(), StoreError> {
    let rows = sqlx::query!(
        r#"select identity_id as "identity_id!", sum(n)::bigint as "n!" from (
             select identity_id, count(*) as n from taken_seats where event_id = $1 group by identity_id
             union all
             select identity_id, count(*) from tickets
             where event_id = $1 and area_index is not null and state in ('valid', 'used') group by identity_id
             union all
             select identity_id, sum((line ->> 'quantity')::bigint) from orders, jsonb_array_elements(lines) as line
             where event_id = $1 and line ->> 'area' is not null
               and state in ('creating', 'payable', 'confirming', 'action_required', 'processing', 'payment_unknown',
                             'cancelling')
             group by identity_id) as places group by identity_id"#,
        event.uuid()
    )
    .fetch_all(&mut *transaction)
    .await?;
    ledger.places = rows.into_iter().map(|row| (IdentityId::from_uuid(row.identity_id), row.n.max(0) as u32)).collect();
    let rows = sqlx::query!(
        r#"select (line ->> 'area')::integer as "area!", sum((line ->> 'quantity')::bigint)::bigint as "n!"
           from orders, jsonb_array_elements(lines) as line
           where event_id = $1 and line ->> 'area' is not null
             and state in ('creating', 'payable', 'confirming', 'action_required', 'processing', 'payment_unknown',
                           'cancelling')
           group by 1"#,
        event.uuid()
    )
    .fetch_all(transaction)
    .await?;
    ledger.area_reserved =
        rows.into_iter().map(|row| (AreaIndex(row.area.cast_unsigned()), row.n.max(0) as u32)).collect();
    Ok(())
}

async fn log(transaction: &mut PgConnection, event: EventId, ledger: &mut Ledger) -> Result<(), StoreError> {
    let rows = sqlx::query!(
        "select distinct on (seat_index) seat_index, state, order_id from seat_log where event_id = $1
         order by seat_index, log_id desc",
        event.uuid()
    )
    .fetch_all(&mut *transaction)
    .await?;
    ledger.log = rows
        .into_iter()
        .map(|row| (SeatIndex(row.seat_index.cast_unsigned()), (row.state, OrderId::from_uuid(row.order_id))))
        .collect();
    let n = sqlx::query_scalar!(r#"select count(*) as "n!" from seat_log where event_id = $1"#, event.uuid());
    ledger.log_n = n.fetch_one(transaction).await?.max(0) as u64;
    Ok(())
}
