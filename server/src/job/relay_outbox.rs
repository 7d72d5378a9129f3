//! Tells the shelf and the buyers what the till decided: rows of the outbox, oldest first within an order, deleted once
//! they are delivered. Nudged right after each commit, so that the map and the buyer know within milliseconds; Redis down
//! means that rows wait.

use super::Round;
use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::{Place, Revoked};
use crate::store::order::OrderRow;
use crate::store::outbox::{Errand, OutboxRow};
use crate::store::{order, outbox, ticket};
use seatwire_proto::id::OrderId;
use seatwire_proto::server::{Order, Push, TicketState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Rows of one round; a full round is followed by the next at once. Bounds how long their locks are held.
const BATCH: u32 = 64;
/// A short round waits a little for the next rows: each round is a transaction and a commit, whatever it carries.
const GATHER_BELOW: usize = 16;
/// How long: nothing beside the rest of a checkout.
const GATHER: Duration = Duration::from_millis(3);
/// Longest delivery, a rebuild of the event included: a round must end well before Postgres ends its transaction.
const DELIVER_WITHIN: Duration = Duration::from_secs(4);
/// Wait after a failed delivery; doubles with each try.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Longest such wait: how late the map may be after Redis is back.
const MAX_RETRY: Duration = Duration::from_secs(2);

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    let mut transaction = crate::store::begin(app.store.pool()).await?;
    let rows = outbox::take(&mut transaction, app.clock.now_ms(), BATCH).await?;
    // Where one of them cannot be read, each is read by itself, so that it stands in nobody else's way.
    let mut orders = orders_of(app, &rows).await.unwrap_or_default();
    let deliveries = rows.iter().map(|row| (row, orders.remove(&row.order))).map(|(row, order)| async move {
        let delivered = tokio::time::timeout(DELIVER_WITHIN, deliver(app, row, order)).await;
        let delivered = delivered.unwrap_or_else(|_| Err(anyhow::anyhow!("not told in time")));
        if let Err(error) = &delivered {
            tracing::warn!(order = %row.order, errand = ?row.errand, error = %format!("{error:#}"), "told later");
        }
        (row, delivered.is_ok())
    });
    let told = futures_util::future::join_all(deliveries).await;
    let done: Vec<i64> = told.iter().filter(|(_, is_told)| *is_told).map(|(row, _)| row.id).collect();
    outbox::delete(&mut *transaction, &done).await?;
    for (row, _) in told.iter().filter(|(_, is_told)| !is_told) {
        let wait = FIRST_RETRY.saturating_mul(1 << row.tries_n.min(8)).min(MAX_RETRY);
        outbox::put_off(&mut *transaction, &[row.id], app.clock.now_ms() + wait.as_millis() as u64).await?;
    }
    transaction.commit().await?;
    if !done.is_empty() && done.len() < GATHER_BELOW {
        tokio::time::sleep(GATHER).await;
    }
    // Also after a short round: a later row of the same order may have become the oldest.
    Ok(Round { is_full: !done.is_empty() })
}

/// The orders of a round as they stand and as their buyers see them, in one read each; a round has one row of an order.
async fn orders_of(app: &App, rows: &[OutboxRow]) -> anyhow::Result<HashMap<OrderId, (OrderRow, Order)>> {
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<OrderId> = rows.iter().map(|row| row.order).collect();
    let orders = order::list(app.store.pool(), &ids).await?;
    let views = app.checkout.views(&orders).await?;
    Ok(orders.into_iter().zip(views).map(|(order, view)| (order.id, (order, view))).collect())
}

async fn deliver(app: &App, row: &OutboxRow, order: Option<(OrderRow, Order)>) -> anyhow::Result<()> {
    let (order, view) = match order {
        Some(known) => known,
        None => {
            let Some(order) = order::read(app.store.pool(), row.order).await? else { return Ok(()) };
            let view = app.checkout.view(&order).await?;
            (order, view)
        }
    };
    let event = app.catalogue.event(row.event).await?;
    if let Some(event) = &event {
        match row.errand {
            Errand::Sell => sell(app, event, &order).await?,
            Errand::Free => free(app, event, &order).await?,
            Errand::Update => {}
        }
    }
    // An earlier update of the same order, told late, says nothing about the shelf.
    if row.errand != Errand::Update {
        app.checkout.shelf_knows(order.id);
    }
    app.sender.order_to_identity(order.identity, row.id.cast_unsigned(), view);
    Ok(())
}

async fn sell(app: &App, event: &Arc<EventFacts>, order: &OrderRow) -> anyhow::Result<()> {
    let sold = app.inventory.sell(event, order.id, order.identity, &places(order)).await?.outcome;
    let server_ms = app.inventory.event_ms(event.id);
    let hold = sold.hold.as_ref().map(|hold| hold.to_wire(event, server_ms));
    app.sender.to_identity(order.identity, &Push::HoldUpdate { id: order.hold, hold });
    for Revoked { was, now } in sold.revoked {
        // What was taken, and then what is left: also when that is nothing.
        let revoked = Push::HoldRevoked { hold: was.to_wire(event, server_ms), reason: "sold".to_owned() };
        app.sender.to_identity(was.identity, &revoked);
        let hold = now.map(|hold| hold.to_wire(event, server_ms));
        app.sender.to_identity(was.identity, &Push::HoldUpdate { id: was.id, hold });
    }
    Ok(())
}

async fn free(app: &App, event: &Arc<EventFacts>, order: &OrderRow) -> anyhow::Result<()> {
    app.inventory.free(event, order.id, order.identity, &freed(app, order).await?).await?;
    app.sender.to_identity(order.identity, &Push::HoldUpdate { id: order.hold, hold: None });
    Ok(())
}

/// What is free of an order now: the places of its void tickets, or all of one that never had tickets.
async fn freed(app: &App, order: &OrderRow) -> anyhow::Result<Vec<(Place, u32)>> {
    let tickets = ticket::of_order(app.store.pool(), order.event, order.id, true).await?;
    if tickets.is_empty() {
        return Ok(places(order));
    }
    let void = tickets.iter().filter(|ticket| ticket.state == TicketState::Void);
    Ok(void
        .filter_map(|ticket| ticket.seat.map(Place::Seat).or(ticket.area.map(Place::Area)))
        .map(|p| (p, 1))
        .collect())
}

fn places(order: &OrderRow) -> Vec<(Place, u32)> {
    let of_line = |line: &seatwire_proto::server::Line| match (line.seat, line.area) {
        (Some(seat), _) => Some((Place::Seat(seat), 1)),
        (None, Some(area)) => Some((Place::Area(area), line.quantity)),
        (None, None) => None,
    };
    order.lines.iter().filter_map(of_line).collect()
}
