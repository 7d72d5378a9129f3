//! The simulator's HTTP: who may call, which key was seen, which operation runs. Every call runs in a task of its own, so
//! that a caller who hangs up does not undo what the provider began. `bank` does the work.

use super::Sim;
use super::bank::{KeyCheck, NewIntent, Verdict};
use super::fault::{Mishap, Outage};
use super::form::Form;
use super::list::Page;
use super::method::{Behaviour, NOT_APPROVED, behaviour};
use super::object::Settlement;
use super::page;
use super::reply::Reply;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, LOCATION};
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Largest body taken; the real API's forms are far smaller.
const MAX_BODY_BYTES: usize = 256 * 1024;
/// Longest idempotency key the real API takes.
const MAX_KEY_LEN: usize = 255;

/// One call, read whole.
struct Call {
    method: Method,
    path: String,
    form: Form,
    key: Option<String>,
    /// Of method, path and body: a key stands for one call only.
    fingerprint: String,
    base_url: String,
}

/// What the caller gets.
enum Outcome {
    Reply(Reply),
    /// Nothing; the answer is kept for the key where there is one.
    Silence(Option<Reply>),
}

/// All routes.
pub(super) fn router(sim: Arc<Sim>) -> Router {
    Router::new().fallback(serve).with_state(sim)
}

async fn serve(State(sim): State<Arc<Sim>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "too large");
    };
    let path = head.uri.path().to_owned();
    let query = Form::parse(head.uri.query().unwrap_or_default().as_bytes());
    if let Some(rest) = path.strip_prefix("/action/") {
        return action(&sim, &head.method, rest, &query).await;
    }
    if let Some(rest) = path.strip_prefix("/_sim/") {
        return sim_call(&sim, &head.method, rest, &Form::parse(&body));
    }
    if !is_authorized(&head.headers) {
        let reply =
            Reply::error(401, "invalid_request_error", None, "Invalid API Key provided: sk_test_.. is expected");
        return respond(&reply, false);
    }
    let key = head.headers.get("idempotency-key").and_then(|value| value.to_str().ok()).map(str::to_owned);
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_LEN) {
        return respond(
            &Reply::error(400, "invalid_request_error", None, "Idempotency-Key: 1 to 255 characters"),
            false,
        );
    }
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let mut hash = Sha256::new();
    hash.update(head.method.as_str());
    hash.update([0]);
    hash.update(&path);
    hash.update([0]);
    hash.update(&body);
    let call = Call {
        form: if head.method == Method::GET { query } else { Form::parse(&body) },
        method: head.method,
        path,
        key,
        fingerprint: hex::encode(&hash.finalize()[..16]),
        base_url: sim.public_url.clone().unwrap_or_else(|| format!("http://{host}")),
    };
    match tokio::spawn(handle(sim, call)).await {
        Ok(response) => response,
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the simulator failed"),
    }
}

async fn handle(sim: Arc<Sim>, call: Call) -> Response {
    let faults = sim.faults.now();
    if !faults.delay.is_zero() {
        tokio::time::sleep(faults.delay).await;
    }
    match faults.outage {
        Outage::None | Outage::Garbage => {}
        Outage::Fail => return respond(&api_error(), false),
        Outage::Hang => {
            tokio::time::sleep(sim.hang).await;
            return text(StatusCode::GATEWAY_TIMEOUT, "");
        }
    }
    if faults.busy_percent > 0 && rand::random_range(0..100) < faults.busy_percent {
        return respond(&busy(), false);
    }
    let response = if call.method == Method::POST {
        post(&sim, &call, faults.draw()).await
    } else {
        let reply = get(&sim, &call);
        respond(&reply, false)
    };
    if faults.outage == Outage::Garbage { text(StatusCode::OK, "<html>gateway") } else { response }
}

async fn post(sim: &Arc<Sim>, call: &Call, mishap: Mishap) -> Response {
    if let Some(key) = &call.key {
        match sim.bank.claim_key(key, &call.fingerprint) {
            KeyCheck::Fresh => {}
            KeyCheck::Replay(status, body) => return respond(&Reply { status, body, is_stored: true }, true),
            KeyCheck::InUse => {
                let text = "There is currently another in-progress request using this Idempotency-Key.";
                return respond(
                    &Reply::error(409, "invalid_request_error", Some("idempotency_key_in_use"), text),
                    false,
                );
            }
            KeyCheck::Mismatch => {
                let text =
                    "Keys for idempotent requests can only be used with the same parameters they were first used with.";
                return respond(&Reply::error(400, "idempotency_error", None, text), false);
            }
        }
    }
    let outcome = match mishap {
        Mishap::None => run(sim, call).await,
        Mishap::FailBefore => Outcome::Reply(api_error()),
        Mishap::FailAfter => match run(sim, call).await {
            // What is not kept was not done either.
            Outcome::Reply(reply) if !reply.is_stored => Outcome::Reply(reply),
            _ => Outcome::Reply(api_error()),
        },
        Mishap::Silent => match run(sim, call).await {
            Outcome::Reply(reply) => Outcome::Silence(Some(reply)),
            silence @ Outcome::Silence(_) => silence,
        },
    };
    let kept = match &outcome {
        Outcome::Reply(reply) => Some(reply),
        Outcome::Silence(reply) => reply.as_ref(),
    };
    if let Some(key) = &call.key {
        match kept {
            Some(reply) if reply.is_stored => sim.bank.finish_key(key, reply),
            _ => sim.bank.forget_key(key),
        }
    }
    // Only what is in the ledger is answered.
    if !sim.bank.settled().await {
        return respond(&api_error(), false);
    }
    match outcome {
        Outcome::Reply(reply) => respond(&reply, false),
        Outcome::Silence(_) => {
            tokio::time::sleep(sim.hang).await;
            text(StatusCode::GATEWAY_TIMEOUT, "")
        }
    }
}

async fn run(sim: &Arc<Sim>, call: &Call) -> Outcome {
    let path: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    match path.as_slice() {
        ["v1", "payment_intents"] => create(sim, call).await,
        ["v1", "payment_intents", id, "confirm"] => confirm(sim, call, id).await,
        ["v1", "payment_intents", id, "cancel"] => {
            Outcome::Reply(sim.bank.cancel(id, call.form.get("cancellation_reason").map(str::to_owned)))
        }
        ["v1", "refunds"] => Outcome::Reply(refund(sim, &call.form)),
        _ => Outcome::Reply(unknown(call).not_stored()),
    }
}

fn get(sim: &Arc<Sim>, call: &Call) -> Reply {
    let path: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    let page = Page::of(&call.form);
    match path.as_slice() {
        ["v1", "payment_intents"] => sim.bank.intents(&page),
        ["v1", "payment_intents", id] => sim.bank.intent(id, &call.form.list("expand")),
        ["v1", "charges", id] => sim.bank.charge_by_id(id),
        ["v1", "disputes", id] => sim.bank.dispute_by_id(id),
        ["v1", "refunds"] => sim.bank.refunds(&page, call.form.get("payment_intent")),
        ["v1", "refunds", id] => sim.bank.refund_by_id(id),
        ["v1", "events"] => {
            let mut kinds = call.form.list("types");
            kinds.extend(call.form.get("type").map(str::to_owned));
            sim.bank.events(&page, &kinds)
        }
        ["v1", "payment_methods", id] => payment_method(id),
        _ => unknown(call),
    }
}

async fn create(sim: &Arc<Sim>, call: &Call) -> Outcome {
    let form = &call.form;
    let method = form.get("payment_method").map(str::to_owned);
    if let Some(method) = &method
        && behaviour(method).is_none()
    {
        return Outcome::Reply(no_such_method(method));
    }
    let Some(amount_minor) = form.get("amount").and_then(|text| text.parse().ok()) else {
        return Outcome::Reply(missing("amount"));
    };
    let Some(currency) = form.get("currency") else { return Outcome::Reply(missing("currency")) };
    let reply = sim.bank.create(NewIntent {
        amount_minor,
        currency: currency.to_owned(),
        metadata: form.map("metadata"),
        description: form.get("description").map(str::to_owned),
        method,
    });
    match reply.body["id"].as_str() {
        Some(id) if form.is_true("confirm") => Box::pin(confirm(sim, call, id)).await,
        _ => Outcome::Reply(reply),
    }
}

async fn confirm(sim: &Arc<Sim>, call: &Call, id: &str) -> Outcome {
    if let Err(reply) = sim.bank.may_confirm(id) {
        return Outcome::Reply(reply);
    }
    let method = call.form.get("payment_method").map(str::to_owned).or_else(|| sim.bank.method_of(id));
    let Some(method) = method else {
        let text = "You cannot confirm this PaymentIntent because it's missing a payment method.";
        return Outcome::Reply(Reply::error(
            400,
            "invalid_request_error",
            Some("payment_intent_unexpected_state"),
            text,
        ));
    };
    let Some(behaviour) = behaviour(&method) else { return Outcome::Reply(no_such_method(&method)) };
    let finish = |verdict| {
        let return_url = call.form.get("return_url").map(str::to_owned);
        let action_url = |intent: &super::object::Intent| page::url(&call.base_url, intent);
        sim.bank.confirm(id, &method, verdict, return_url, action_url, &call.form.list("expand"))
    };
    match behaviour {
        Behaviour::Succeed
        | Behaviour::Dispute
        | Behaviour::Hidden { .. }
        | Behaviour::NoFingerprint
        | Behaviour::RefundFails
        | Behaviour::RefundPends { .. } => Outcome::Reply(finish(Verdict::Charge)),
        Behaviour::Decline(words) => Outcome::Reply(finish(Verdict::Decline(words))),
        Behaviour::NeedAction => Outcome::Reply(finish(Verdict::Action)),
        Behaviour::Delay { delay_ms } => {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            Outcome::Reply(finish(Verdict::Charge))
        }
        Behaviour::Hang { is_charged: true } => Outcome::Silence(Some(finish(Verdict::Charge))),
        Behaviour::Hang { is_charged: false } => Outcome::Silence(None),
        Behaviour::Fail { is_charged } => {
            if is_charged {
                finish(Verdict::Charge);
            }
            Outcome::Reply(api_error())
        }
        Behaviour::FailDeclined => {
            finish(Verdict::Refuse(NOT_APPROVED));
            Outcome::Reply(api_error())
        }
        Behaviour::BusyOnce => {
            if sim.bank.is_busy_now(id) {
                Outcome::Reply(busy())
            } else {
                Outcome::Reply(finish(Verdict::Charge))
            }
        }
        Behaviour::Process { after_ms, is_charged } => {
            let at_ms = sim.clock.now_ms() + after_ms;
            Outcome::Reply(finish(Verdict::Process(Settlement { at_ms, is_charged })))
        }
    }
}

fn refund(sim: &Arc<Sim>, form: &Form) -> Reply {
    let Some(intent) = form.get("payment_intent") else { return missing("payment_intent") };
    let amount_minor = match form.get("amount").map(str::parse::<i64>) {
        None => None,
        Some(Ok(amount_minor)) => Some(amount_minor),
        Some(Err(_)) => return missing("amount"),
    };
    sim.bank.refund(intent, amount_minor, form.get("reason").map(str::to_owned), form.map("metadata"))
}

async fn action(sim: &Arc<Sim>, method: &Method, rest: &str, query: &Form) -> Response {
    let (id, choice) = rest.split_once('/').map_or((rest, None), |(id, choice)| (id, Some(choice)));
    let reply = sim.bank.intent(id, &[]);
    let secret = reply.body["client_secret"].as_str().unwrap_or_default();
    let key = query.get("key").unwrap_or_default();
    if reply.status != 200 || key != page::key(secret) {
        return text(StatusCode::NOT_FOUND, "no such payment");
    }
    match (method, choice) {
        (&Method::GET, None) => {
            let amount_minor = reply.body["amount"].as_i64().unwrap_or_default();
            let currency = reply.body["currency"].as_str().unwrap_or_default();
            let is_open = reply.body["status"] == "requires_action";
            let mut response = text(StatusCode::OK, &page::html(id, key, amount_minor, currency, is_open));
            response.headers_mut().insert(CONTENT_TYPE, "text/html; charset=utf-8".parse().expect("a literal"));
            response
        }
        (&Method::POST, Some(choice @ ("approve" | "fail"))) => {
            let back = sim.bank.act(id, choice == "approve");
            sim.bank.settled().await;
            match back {
                Ok(Some(url)) => match url.parse() {
                    Ok(url) => {
                        let mut response = text(StatusCode::SEE_OTHER, "");
                        response.headers_mut().insert(LOCATION, url);
                        response
                    }
                    Err(_) => text(StatusCode::OK, "Done. You may close this page."),
                },
                Ok(None) => text(StatusCode::OK, "Done. You may close this page."),
                Err(reply) => respond(&reply, false),
            }
        }
        _ => text(StatusCode::NOT_FOUND, "not found"),
    }
}

fn sim_call(sim: &Arc<Sim>, method: &Method, rest: &str, form: &Form) -> Response {
    let path: Vec<&str> = rest.split('/').collect();
    match (method, path.as_slice()) {
        (&Method::POST, ["disputes"]) => {
            let Some(intent) = form.get("payment_intent") else { return respond(&missing("payment_intent"), false) };
            let amount_minor = form.get("amount").and_then(|text| text.parse().ok());
            respond(&sim.bank.dispute(intent, amount_minor, form.get("reason").unwrap_or("general")), false)
        }
        (&Method::POST, ["disputes", id]) => {
            let Some(status) = form.get("status") else { return respond(&missing("status"), false) };
            respond(&sim.bank.move_dispute(id, status), false)
        }
        (&Method::POST, ["refunds", id, "fail"]) => respond(&sim.bank.fail_refund(id), false),
        (&Method::GET, ["ledger"]) => respond(&Reply::ok(sim.bank.ledger()), false),
        (&Method::POST, ["webhooks"]) => respond(&Reply::ok(sim.bank.webhooks.set(form)), false),
        (&Method::POST, ["faults"]) => respond(&Reply::ok(sim.faults.set(form)), false),
        _ => text(StatusCode::NOT_FOUND, "not found"),
    }
}

fn payment_method(id: &str) -> Reply {
    let fingerprint = match behaviour(id) {
        None => return no_such_method(id),
        Some(Behaviour::Hidden { status }) => {
            let kind = if status < 500 { "invalid_request_error" } else { "api_error" };
            return Reply::error(status, kind, None, "This PaymentMethod is not shown.");
        }
        Some(Behaviour::NoFingerprint) => None,
        Some(_) => Some(super::object::fingerprint(id)),
    };
    Reply::ok(serde_json::json!({
        "id": id,
        "object": "payment_method",
        "type": "card",
        "card": {"brand": "visa", "last4": "4242", "fingerprint": fingerprint},
        "livemode": false,
        "metadata": {},
    }))
}

fn is_authorized(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return false };
    if let Some(token) = value.strip_prefix("Bearer ") {
        return token.starts_with("sk_test_");
    }
    let Some(basic) = value.strip_prefix("Basic ") else { return false };
    base64::engine::general_purpose::STANDARD.decode(basic).is_ok_and(|user| user.starts_with(b"sk_test_"))
}

fn missing(param: &str) -> Reply {
    Reply::error(400, "invalid_request_error", Some("parameter_missing"), &format!("Missing required param: {param}."))
        .with("param", param.into())
        .not_stored()
}

fn no_such_method(method: &str) -> Reply {
    Reply::error(400, "invalid_request_error", Some("resource_missing"), &format!("No such PaymentMethod: '{method}'"))
        .with("param", "payment_method".into())
        .not_stored()
}

fn unknown(call: &Call) -> Reply {
    let text = format!("Unrecognized request URL ({}: {}).", call.method, call.path);
    Reply::error(404, "invalid_request_error", None, &text)
}

fn busy() -> Reply {
    Reply::error(429, "invalid_request_error", Some("rate_limit"), "Too many requests; slow down.").not_stored()
}

fn api_error() -> Reply {
    Reply::error(500, "api_error", None, "An error occurred on our end.")
}

fn respond(reply: &Reply, is_replayed: bool) -> Response {
    let mut response = Response::new(Body::from(reply.body.to_string()));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, "application/json".parse().expect("a literal"));
    let request_id = format!("req_{}", uuid::Uuid::now_v7().simple());
    headers.insert("request-id", request_id.parse().expect("hex digits"));
    if is_replayed {
        headers.insert("idempotent-replayed", "true".parse().expect("a literal"));
    }
    response
}

fn text(status: StatusCode, body: &str) -> Response {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = status;
    response
}
