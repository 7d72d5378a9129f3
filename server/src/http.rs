//! The street: everything that is asked over HTTP. Commands become the same messages as on a socket and are answered at
//! the counter (`command`); reads come from `catalogue` and `seatmap`, never from the booking Redis; pages of the buyer
//! app lie in the binary. `socket::accept` serves the public router; operators (`admin`) and doors (`door`) have listeners of
//! their own.

pub mod admin;
mod ask;
mod call;
pub mod door;
mod event;
mod headers;
mod health;
mod hold;
mod identity;
mod layout;
mod operator;
mod order;
mod payment_webhook;
mod rate_limit;
mod refusal;
mod reply;
mod seatmap;
mod static_files;
mod ticket;
mod waitlist;

use crate::app::App;
use crate::config::HttpConfig;
use axum::Router;
use axum::body::Body;
use axum::response::Redirect;
use axum::routing::{get, post};
use http::Request;
use std::sync::Arc;
use tower::{ServiceExt, service_fn};

/// Seconds' worth of requests that may come at once at the doors: a house that opens, or is back from a broken network.
const DOOR_BURST_S: u32 = 3;

/// What every route has at hand.
#[derive(Clone)]
struct Front {
    app: Arc<App>,
    bodies: Arc<event::Bodies>,
    readiness: Arc<health::Readiness>,
}

/// Everything on the public listener but the socket.
pub fn router(app: Arc<App>) -> Router {
    let config = app.config.clone();
    let front = Front { app, bodies: Arc::default(), readiness: Arc::default() };
    let api = Router::new()
        .route("/v1/identities", post(identity::create))
        .route("/v1/events", get(event::list))
        .route("/v1/events/{event}", get(event::read))
        .route("/v1/events/{event}/snapshot", get(seatmap::snapshot))
        .route("/v1/events/{event}/holds", post(hold::create))
        .route("/v1/events/{event}/waitlist", get(waitlist::read).post(waitlist::join).delete(waitlist::leave))
        .route("/v1/layouts/{hash}", get(layout::read))
        .route("/v1/holds/{hold}", get(hold::read))
        .route("/v1/holds/{hold}/extend", post(hold::extend))
        .route("/v1/holds/{hold}/release", post(hold::release))
        .route("/v1/events/{event}/unlock", post(hold::unlock))
        .route("/v1/holds/{hold}/checkout", post(order::checkout))
        .route("/v1/orders", get(order::list))
        .route("/v1/orders/{order}", get(order::read))
        .route("/v1/orders/{order}/pay", post(order::pay))
        .route("/v1/orders/{order}/cancel", post(order::cancel))
        .route("/v1/orders/{order}/tickets.pdf", get(ticket::print))
        .route("/v1/orders/{order}/tickets/{ticket}/transfer", post(ticket::transfer))
        .route("/v1/orders/{order}/tickets/{ticket}/wallet", get(ticket::wallet))
        .route("/v1/ticket-key", get(ticket::key))
        .fallback(refusal::no_route)
        .method_not_allowed_fallback(refusal::no_method)
        .with_state(front.clone());
    let api = rate_limit::limit(api, &config.http).layer(headers::cors(&config.socket.allowed_origins));
    // Outside of the limits: a provider tells everything from a handful of addresses, and its signature is the gate.
    let hooks = Router::new()
        .route("/v1/webhooks/payment", post(payment_webhook::receive))
        .method_not_allowed_fallback(refusal::no_method)
        .with_state(front.clone());
    let open = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(static_files::serve)
        .method_not_allowed_fallback(refusal::no_method)
        .with_state(front);
    // Chosen by hand: a route with a wildcard would leave its own parameter among those of the routes behind it.
    let chosen = service_fn(move |request: Request<Body>| {
        let router = match request.uri().path() {
            "/v1/webhooks/payment" => &hooks,
            path if path.starts_with("/v1/") => &api,
            _ => &open,
        };
        router.clone().oneshot(request)
    });
    headers::secured(Router::new().fallback_service(chosen))
}

/// Everything on the admin listener.
pub fn admin_router(app: Arc<App>) -> Router {
    let front = Front { app, bodies: Arc::default(), readiness: Arc::default() };
    let routes = admin::routes(&front)
        .route("/metrics", get(health::metrics))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(refusal::no_route)
        .method_not_allowed_fallback(refusal::no_method)
        .with_state(front);
    headers::secured(routes)
}

/// Everything on the doors' listener. The page lies beside the check-in it asks: one origin, so no other site is ever allowed
/// to call. An address has a limit here as well: keys cannot be tried in bulk.
pub fn door_router(app: Arc<App>) -> Router {
    let per_s = app.config.http.door_requests_per_s;
    let config = HttpConfig {
        requests_per_s: per_s,
        request_burst: per_s.saturating_mul(DOOR_BURST_S),
        ..app.config.http.clone()
    };
    let front = Front { app, bodies: Arc::default(), readiness: Arc::default() };
    let routes = operator::gated(&front, door::table())
        .route("/", get(async || Redirect::temporary("/scan/")))
        .route("/scan", get(async || Redirect::permanent("/scan/")))
        .route("/scan/", get(static_files::scanner))
        .route("/scan/{*rest}", get(static_files::scanner_part))
        .route("/v1/layouts/{hash}", get(layout::read))
        .fallback(refusal::no_route)
        .method_not_allowed_fallback(refusal::no_method)
        .with_state(front);
    headers::secured_with_camera(rate_limit::limit(routes, &config))
}
