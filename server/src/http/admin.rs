//! The organiser's API, on the admin listener only: bearer keys with scopes, one scope a route (`operator`), the same error
//! object as outside. Every change is written with who made it, by the room that makes it.

mod event;
mod hook;
mod mail;
mod order;
mod seat;

use super::Front;
use super::call::MaxBody;
use super::operator::{self, Route};
use crate::organiser::Scope;
use axum::routing::{delete, get, patch, post, put};
use axum::{Extension, Router};

/// Most bytes of an appended section: 10,000 seats, each with a label, a position and a mark, have room in it.
const MAX_SECTION_BYTES: usize = 2 << 20;

/// Method, address and scope of every route, for whoever must know them all.
#[must_use]
pub fn listed() -> Vec<(Scope, &'static str, &'static str)> {
    table().into_iter().map(|(scope, method, path, _)| (scope, method, path)).collect()
}

/// Every route, with the scope it asks for.
fn table() -> Vec<Route> {
    let append = post(seat::append).layer(Extension(MaxBody(MAX_SECTION_BYTES)));
    vec![
        (Scope::Read, "GET", "/v1/admin/events", get(event::list)),
        (Scope::Read, "GET", "/v1/admin/events/{event}", get(event::read)),
        (Scope::Events, "PATCH", "/v1/admin/events/{event}", patch(event::change)),
        (Scope::Read, "GET", "/v1/admin/events/{event}/log", get(event::log)),
        (Scope::Events, "PUT", "/v1/admin/events/{event}/state", put(event::set_state)),
        (Scope::Events, "PUT", "/v1/admin/events/{event}/prices", put(event::set_prices)),
        (Scope::Read, "GET", "/v1/admin/log", get(hook::log)),
        // A key of `read` sees where to, not the whole address. Where to is for those who may see every order.
        (Scope::Read, "GET", "/v1/admin/webhooks", get(hook::list)),
        (Scope::Orders, "POST", "/v1/admin/webhooks", post(hook::add)),
        (Scope::Orders, "DELETE", "/v1/admin/webhooks/{webhook}", delete(hook::remove)),
        (Scope::Orders, "PATCH", "/v1/admin/webhooks/{webhook}", patch(hook::change)),
        (Scope::Read, "GET", "/v1/admin/webhooks/{webhook}/deliveries", get(hook::deliveries)),
        (Scope::Orders, "POST", "/v1/admin/webhooks/{webhook}/rotate", post(hook::rotate)),
        (Scope::Orders, "POST", "/v1/admin/webhooks/{webhook}/replay", post(hook::replay)),
        (Scope::Orders, "GET", "/v1/admin/mails/open", get(mail::list_open)),
        (Scope::Orders, "POST", "/v1/admin/mails/{mail}/retry", post(mail::retry)),
        (Scope::Read, "GET", "/v1/admin/payments/open", get(order::list_open)),
        (Scope::Orders, "GET", "/v1/admin/payments/unreadable", get(order::list_unreadable)),
        (Scope::Orders, "DELETE", "/v1/admin/payments/unreadable/{id}", delete(order::put_away_unreadable)),
        (Scope::Orders, "GET", "/v1/admin/orders/{order}", get(order::read)),
        (Scope::Orders, "POST", "/v1/admin/orders/{order}/refunds", post(order::refund)),
        (Scope::Orders, "POST", "/v1/admin/orders/{order}/look", post(order::look)),
        (Scope::Inventory, "POST", "/v1/admin/events/{event}/block", post(seat::block)),
        (Scope::Inventory, "POST", "/v1/admin/events/{event}/unblock", post(seat::unblock)),
        (Scope::Inventory, "POST", "/v1/admin/events/{event}/sections", append),
        (Scope::Inventory, "PUT", "/v1/admin/events/{event}/areas", put(seat::set_capacity)),
    ]
}

/// The routes, each behind its scope.
pub(super) fn routes(front: &Front) -> Router<Front> {
    operator::gated(front, table())
}
