//! Tickets of an order, to print and to pass on, and the key that doors verify them with.

use super::Front;
use super::call::{self, Call, Id, Who, bad_field};
use super::order::who_of;
use super::refusal::Refusal;
use super::reply::{Answer, private_json};
use crate::checkout::{OrderRequest, PassOn};
use crate::error;
use crate::notice::is_address;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use seatwire_proto::client::parse_body;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{OrderId, TicketId};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Longest name and address of the person a ticket is passed on to.
const MAX_NAME_CHARS: usize = 200;

#[derive(Debug, Deserialize)]
struct Transfer {
    to: To,
}

#[derive(Debug, Deserialize)]
struct To {
    name: String,
    email: String,
}

/// The public key, as `seatwire ticket verify` takes it.
pub(super) async fn key(State(front): State<Front>) -> Response<Body> {
    let body = json!({"algorithm": "ed25519", "public_key": front.app.checkout.ticket_key()});
    private_json(StatusCode::OK, body.to_string().into_bytes())
}

/// The tickets that admit, one a page.
pub(super) async fn print(State(front): State<Front>, headers: HeaderMap, who: Who, Id(id): Id<OrderId>) -> Answer {
    let identity = who_of(&front, who, &headers, id).await?.identity()?;
    let printed = front.app.checkout.print_tickets(identity, id).await.map_err(|error| error::checkout(&error))?;
    let mut response = Response::new(Body::from(printed.ok_or(ErrorCode::OrderNotFound)?));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/pdf"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"tickets.pdf\""));
    Ok(response)
}

/// A ticket as the fields that phones' wallets ask for.
pub(super) async fn wallet(
    State(front): State<Front>,
    Path((order, ticket)): Path<(String, String)>,
    headers: HeaderMap,
    who: Who,
) -> Answer {
    let order: OrderId = call::id(&order, ErrorCode::OrderNotFound)?;
    let ticket: TicketId = call::id(&ticket, ErrorCode::OrderNotFound)?;
    let identity = who_of(&front, who, &headers, order).await?.identity()?;
    let fields = front.app.checkout.wallet(identity, order, ticket).await.map_err(|error| error::checkout(&error))?;
    let fields = fields.ok_or(ErrorCode::OrderNotFound)?;
    Ok(private_json(StatusCode::OK, fields.to_string().into_bytes()))
}

/// Passes a ticket on to somebody else. Once: the old ticket is `transferred` then, and asking again by another key finds no
/// valid one; by the same key it is told what was done.
pub(super) async fn transfer(
    State(front): State<Front>,
    Path((order, ticket)): Path<(String, String)>,
    who: Who,
    call: Call,
) -> Answer {
    let order: OrderId = call::id(&order, ErrorCode::OrderNotFound)?;
    let ticket: TicketId = call::id(&ticket, ErrorCode::OrderNotFound)?;
    let key = call.key()?;
    let Transfer { to } =
        parse_body(Value::Object(call.fields)).map_err(|field| bad_field(&field.path, &field.message))?;
    let fits = |text: &str| {
        !text.trim().is_empty() && text.chars().count() <= MAX_NAME_CHARS && !text.chars().any(char::is_control)
    };
    if !fits(&to.name) {
        return Err(bad_field("/to/name", "expected 1 to 200 characters").into());
    }
    if !fits(&to.email) || !is_address(&to.email) {
        return Err(bad_field("/to/email", "expected an address").into());
    }
    let said = json!(["transfer", order, ticket, to.name, to.email]).to_string();
    let request =
        OrderRequest { identity: who.identity()?, key, fingerprint: Sha256::digest(said.as_bytes()).into(), order };
    let ask = PassOn { request, ticket, name: to.name, email: to.email };
    let answer = front.app.checkout.pass_on(ask).await.map_err(|error| error::checkout(&error))?;
    match answer.outcome {
        Ok(order) => {
            let mut body = json!({"order": order});
            if answer.is_replayed {
                body["replayed"] = true.into();
            }
            Ok(private_json(StatusCode::OK, body.to_string().into_bytes()))
        }
        Err(refusal) => Err(Refusal::from(error::checkout_refusal(&refusal)).with_answer(None, answer.is_replayed)),
    }
}
