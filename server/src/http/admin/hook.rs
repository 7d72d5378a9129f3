//! Webhooks of organisers, and the log they are sent from, which may be read as well: from a cursor, in order, without holes.

use super::{body, json};
use crate::error;
use crate::http::Front;
use crate::http::call::{Call, Query, bad_field};
use crate::http::refusal::Refusal;
use crate::http::reply::Answer;
use crate::notice::{HookError, NewHook};
use crate::store::event_log::LogCursor;
use axum::body::Body;
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;
use serde::Deserialize;
use serde_json::{Value, json as value};
use uuid::Uuid;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    url: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    /// Empty: from the beginning.
    after: Option<String>,
}

fn hook_id(text: &str) -> Result<Uuid, Refusal> {
    text.parse().map_err(|_| no_hook())
}

fn no_hook() -> Refusal {
    let object = ErrorObject::new(ErrorCode::UnknownOp, "there is no such webhook");
    Refusal::from(object).with_status(StatusCode::NOT_FOUND)
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

pub(super) async fn add(State(front): State<Front>, call: Call) -> Answer {
    let Add { url } = body(call)?;
    match front.app.notices.add_hook(&url).await {
        Ok(new) => Ok(shown(&new)),
        Err(HookError::Refused(why)) => Err(bad_field("/url", why).into()),
        Err(HookError::Store(error)) => Err(error::store(&error).into()),
    }
}

pub(super) async fn list(State(front): State<Front>) -> Answer {
    let hooks = front.app.notices.hooks().await.map_err(|error| error::store(&error))?;
    let items: Vec<Value> = hooks
        .into_iter()
        .map(|hook| {
            value!({
                "id": hook.id,
                "url": hook.url,
                "created_ms": hook.created_ms,
                "disabled_ms": hook.disabled.as_ref().map(|(ms, _)| ms),
                "disabled_reason": hook.disabled.as_ref().map(|(_, why)| why),
            })
        })
        .collect();
    Ok(json(&value!({"items": items})))
}

pub(super) async fn remove(State(front): State<Front>, Path(id): Path<String>) -> Answer {
    let removed = front.app.notices.remove_hook(hook_id(&id)?).await.map_err(|error| error::store(&error))?;
    if removed { Ok(json(&value!({}))) } else { Err(no_hook()) }
}

pub(super) async fn rotate(State(front): State<Front>, Path(id): Path<String>) -> Answer {
    let rotated = front.app.notices.rotate_hook(hook_id(&id)?).await.map_err(|error| error::store(&error))?;
    rotated.map(|new| shown(&new)).ok_or_else(no_hook)
}

pub(super) async fn replay(State(front): State<Front>, Path(id): Path<String>, call: Call) -> Answer {
    let id = hook_id(&id)?;
    let Replay { after } = body(call)?;
    let after = cursor(after.as_deref())?;
    let n = front.app.notices.replay_hook(id, after).await.map_err(|error| error::store(&error))?;
    Ok(json(&value!({"queued": n})))
}

pub(super) async fn log(State(front): State<Front>, query: Query) -> Answer {
    let after = cursor(query.text("cursor"))?;
    let rows = front.app.notices.log(after, query.limit()?).await.map_err(|error| error::store(&error))?;
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
