//! Orders over HTTP: checkout, pay, cancel and read, as on a socket. The status says how the payment stands: 201 paid,
//! 202 not settled yet, 402 declined.

use super::Front;
use super::ask::{Ask, look, ok};
use super::call::{Id, Query, Who};
use super::refusal::Refusal;
use super::reply::{Answer, answer, cut, private_json};
use crate::error;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use seatwire_proto::client::{Command, OrderRead};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{HoldId, OrderId};
use seatwire_proto::server::{Order, OrderState};

/// The status of an order that was just paid, or not.
fn payment_status(body: &str) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Peek {
        order: PeekOrder,
    }
    #[derive(serde::Deserialize)]
    struct PeekOrder {
        state: OrderState,
    }
    match serde_json::from_str::<Peek>(body).map(|peek| peek.order.state) {
        Ok(OrderState::PaymentPending | OrderState::ActionRequired | OrderState::PaymentUnknown) => {
            StatusCode::ACCEPTED
        }
        Ok(OrderState::PaymentDeclined) => StatusCode::PAYMENT_REQUIRED,
        Ok(OrderState::Paid) => StatusCode::CREATED,
        // Under a remembered key the order may have gone on meanwhile.
        _ => StatusCode::OK,
    }
}

pub(super) async fn checkout(ask: Ask<HoldId>) -> Answer {
    ask.run(Command::Checkout, payment_status).await
}

/// The header that carries the secret of an order's `pay_url`: it opens this one order, for reading and paying, on any
/// device.
const SECRET_HEADER: &str = "Seatwire-Pay-Secret";

/// Who asks about this order: the owner of the token, or whoever knows the order's secret and so stands for its owner.
pub(super) async fn who_of(front: &Front, who: Who, headers: &HeaderMap, order: OrderId) -> Result<Who, Refusal> {
    let Some(secret) = headers.get(SECRET_HEADER) else { return Ok(who) };
    let secret = secret.to_str().map_err(|_| ErrorCode::OrderNotFound)?.to_owned();
    let owner = front.app.checkout.owner_by_secret(order, secret).await.map_err(|error| error::checkout(&error))?;
    // The same answer as for an order that is not there.
    Ok(Who(Some(owner.ok_or(ErrorCode::OrderNotFound)?)))
}

pub(super) async fn pay(headers: HeaderMap, mut ask: Ask<OrderId>) -> Answer {
    ask.who = who_of(&ask.front, ask.who, &headers, ask.id).await?;
    ask.run(Command::Pay, payment_status).await
}

pub(super) async fn cancel(ask: Ask<OrderId>) -> Answer {
    ask.run(Command::Cancel, payment_status).await
}

/// Mine, newest first.
pub(super) async fn list(State(front): State<Front>, who: Who, query: Query) -> Answer {
    let limit = query.limit()?;
    let before: Option<OrderId> = query.parse("cursor", "expected the next_cursor of an earlier answer")?;
    let identity = who.identity()?;
    let found = front.app.checkout.orders(identity, before, limit + 1).await;
    let mut items = found.map_err(|error| error::checkout(&error))?;
    let next_cursor = cut(&mut items, limit).map(|order| order.id);
    let bytes = serde_json::to_vec(&Listed { items, next_cursor }).map_err(|error| error::internal(&error))?;
    Ok(private_json(StatusCode::OK, bytes))
}

#[derive(serde::Serialize)]
struct Listed {
    items: Vec<Order>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<OrderId>,
}

pub(super) async fn read(State(front): State<Front>, headers: HeaderMap, who: Who, Id(order): Id<OrderId>) -> Answer {
    let who = who_of(&front, who, &headers, order).await?;
    Ok(answer(look(&front, who, Command::Order(OrderRead { order })).await, ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_says_how_the_payment_stands() {
        for (state, status) in [
            ("paid", 201),
            ("payment_pending", 202),
            ("action_required", 202),
            ("payment_unknown", 202),
            ("payment_declined", 402),
            ("cancelled", 200),
        ] {
            assert_eq!(payment_status(&format!(r#"{{"order":{{"state":"{state}"}}}}"#)).as_u16(), status, "{state}");
        }
    }
}
