//! Webhooks of organisers, and the log they are sent from, which may be read as well: from a cursor, in order, without holes.

use crate::error;
use crate::http::Front;
use crate::http::call::{Call, Query, bad_field};
use crate::http::operator::{By, body, json};
use crate::http::refusal::Refusal;
use crate::http::reply::Answer;
use crate::notice::{HookError, NewHook, server_of};
use crate::organiser::Scope;
use crate::store::event_log::LogCursor;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json as value};
use uuid::Uuid;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    url: String,
    /// Types, or what stands before their dot; without it everything but holds.
    types: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    /// Null: everything but holds.
    #[serde(default, deserialize_with = "some")]
    types: Option<Option<Vec<String>>>,
    /// True: what was disabled is sent again.
    enabled: Option<bool>,
}

/// Tells a null from a field that is not there.
fn some<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<Vec<String>>>, D::Error> {
    Option::deserialize(value).map(Some)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    /// Empty: from the beginning.
    after: Option<String>,
    /// Only this one, e.g. `msg_12`.
    message: Option<String>,
}

fn hook_id(text: &str) -> Result<Uuid, Refusal> {
    text.parse().map_err(|_| no_hook())
}

fn no_hook() -> Refusal {
    bad_field("/webhook", "there is no such webhook").into()
}

fn shown(new: &NewHook) -> Response<Body> {
    json(&value!({"id": new.id, "secret": new.secret}))
}

fn cursor(text: Option<&str>) -> Result<LogCursor, Refusal> {
    match text {
        None => Ok(LogCursor::default()),
        Some(text) => text.parse().map_err(|()| bad_field("/cursor", "expected a cursor of an earlier answer").into()),
    }
}

/// A cursor behind which everything is still there; the beginning always is one, of what is kept. Another has lost rows, and
/// is told where to begin again.
async fn kept(front: &Front, after: LogCursor) -> Result<LogCursor, Refusal> {
    let floor = front.app.notices.log_floor().await.map_err(|error| error::store(&error))?;
    match floor {
        Some(floor) if after != LogCursor::default() && after < floor.cursor => {
            let text = format!(
                "what stood behind this cursor is forgotten up to {} ms; begin again from oldest_cursor",
                floor.created_ms
            );
            let object = ErrorObject::new(ErrorCode::BadField, text).with_data(value!({
                "path": "/cursor",
                "oldest_cursor": floor.cursor.to_string(),
                "forgotten_until_ms": floor.created_ms,
            }));
            Err(Refusal::from(object).with_status(StatusCode::GONE))
        }
        _ => Ok(after),
    }
}

pub(super) async fn add(State(front): State<Front>, By(by): By, call: Call) -> Answer {
    let Add { url, types } = body(call)?;
    Ok(shown(&front.app.notices.add_hook(&by, &url, types.as_deref()).await.map_err(refused)?))
}

fn refused(error: HookError) -> Refusal {
    match error {
        HookError::Refused(why) => bad_field("/url", why).into(),
        HookError::NoSuchType(_) => bad_field("/types", &error.to_string()).into(),
        HookError::Store(error) => error::store(&error).into(),
    }
}

/// What it wants, and whether it is sent to.
pub(super) async fn change(State(front): State<Front>, By(by): By, Path(id): Path<String>, call: Call) -> Answer {
    let id = hook_id(&id)?;
    let Patch { types, enabled } = body(call)?;
    if enabled == Some(false) {
        return Err(bad_field("/enabled", "expected true; to end it, delete it").into());
    }
    let mut is_there = true;
    if let Some(types) = types {
        is_there = front.app.notices.set_hook_types(&by, id, types.as_deref()).await.map_err(refused)?;
    }
    if enabled.is_some() {
        is_there &= front.app.notices.enable_hook(&by, id).await.map_err(|error| error::store(&error))?;
    }
    if is_there { Ok(json(&value!({}))) } else { Err(no_hook()) }
}

/// What is on its way there and what arrived, newest first.
pub(super) async fn deliveries(State(front): State<Front>, Path(id): Path<String>, query: Query) -> Answer {
    let id = hook_id(&id)?;
    let limit = query.limit()?;
    let before = query.before()?;
    let only_open = query.parse::<bool>("open", "expected true or false")?.unwrap_or(false);
    let found = front.app.notices.deliveries(id, before, only_open, limit).await;
    let rows = found.map_err(|error| error::store(&error))?;
    let items: Vec<Value> = rows
        .iter()
        .map(|row| {
            value!({
                "message": format!("msg_{}", row.log_id),
                "type": row.kind,
                "tries": row.tries_n,
                "failure": row.failure,
                "next_try_ms": row.sent_ms.is_none().then_some(row.due_ms),
                "sent_ms": row.sent_ms,
            })
        })
        .collect();
    let mut body = value!({"items": items});
    if let Some(last) = rows.last().filter(|_| rows.len() == limit as usize) {
        body["next_cursor"] = last.log_id.to_string().into();
    }
    Ok(json(&body))
}

/// Addresses often carry a secret of their own: whoever may not change them sees the server alone.
pub(super) async fn list(State(front): State<Front>, By(by): By) -> Answer {
    let is_whole = by.may(Scope::Orders);
    let hooks = front.app.notices.hooks().await.map_err(|error| error::store(&error))?;
    let items: Vec<Value> = hooks
        .into_iter()
        .map(|hook| {
            value!({
                "id": hook.id,
                "url": if is_whole { hook.url } else { server_of(&hook.url) },
                "types": hook.types,
                "created_ms": hook.created_ms,
                "failing_since_ms": hook.failing_since_ms,
                "failures": hook.failures_n,
                "missed_until_ms": hook.missed_until_ms,
                "disabled_ms": hook.disabled.as_ref().map(|(ms, _)| ms),
                "disabled_reason": hook.disabled.as_ref().map(|(_, why)| why),
            })
        })
        .collect();
    Ok(json(&value!({"items": items})))
}

pub(super) async fn remove(State(front): State<Front>, By(by): By, Path(id): Path<String>) -> Answer {
    let removed = front.app.notices.remove_hook(&by, hook_id(&id)?).await.map_err(|error| error::store(&error))?;
    if removed { Ok(json(&value!({}))) } else { Err(no_hook()) }
}

pub(super) async fn rotate(State(front): State<Front>, By(by): By, Path(id): Path<String>) -> Answer {
    let rotated = front.app.notices.rotate_hook(&by, hook_id(&id)?).await.map_err(|error| error::store(&error))?;
    rotated.map(|new| shown(&new)).ok_or_else(no_hook)
}

pub(super) async fn replay(State(front): State<Front>, By(by): By, Path(id): Path<String>, call: Call) -> Answer {
    let id = hook_id(&id)?;
    let Replay { after, message } = body(call)?;
    if let Some(message) = message {
        let log_id = message.strip_prefix("msg_").and_then(|n| n.parse().ok());
        let log_id = log_id.ok_or_else(|| bad_field("/message", "expected the name of a message, such as msg_12"))?;
        let replayed = front.app.notices.replay_hook_one(&by, id, log_id).await;
        let is_there = replayed.map_err(|error| error::store(&error))?;
        let never = || bad_field("/message", "it was never on its way there").into();
        return if is_there { Ok(json(&value!({"queued": 1}))) } else { Err(never()) };
    }
    let after = kept(&front, cursor(after.as_deref())?).await?;
    let notices = &front.app.notices;
    let n = notices.replay_hook(&by, id, after).await.map_err(|error| error::store(&error))?;
    // One that has nothing to hear again is not one that is not there.
    if n == 0 && notices.hooks().await.map_err(|error| error::store(&error))?.iter().all(|hook| hook.id != id) {
        return Err(no_hook());
    }
    Ok(json(&value!({"queued": n})))
}

pub(super) async fn log(State(front): State<Front>, query: Query) -> Answer {
    let after = cursor(query.text("cursor"))?;
    let rows = front.app.notices.log(after, query.limit()?).await.map_err(|error| error::store(&error))?;
    // Behind the read: what was forgotten meanwhile is said too.
    let after = kept(&front, after).await?;
    let next = rows.last().map_or(after, |row| row.cursor);
    let items: Vec<Value> = rows
        .iter()
        .map(|row| {
            value!({
                "cursor": row.cursor.to_string(),
                "type": row.kind,
                "event": row.event,
                "at_ms": row.created_ms,
                "data": row.body,
            })
        })
        .collect();
    // Always there: whoever read everything comes back with it.
    Ok(json(&value!({"items": items, "next_cursor": next.to_string()})))
}
