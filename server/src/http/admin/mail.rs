//! Mails that did not arrive: listed for a person, and sent again when they say so.

use crate::error;
use crate::http::Front;
use crate::http::call::{Query, bad_field};
use crate::http::operator::{By, json};
use crate::http::reply::Answer;
use axum::extract::{Path, State};
use serde_json::{Value, json as value};

pub(super) async fn list_open(State(front): State<Front>, query: Query) -> Answer {
    let limit = query.limit()?;
    let before = query.before()?;
    let rows = front.app.notices.open_mails(before, limit).await.map_err(|error| error::store(&error))?;
    let items: Vec<Value> = rows
        .iter()
        .map(|row| {
            value!({
                "id": row.id,
                "about": row.kind,
                "order": row.order,
                "tries": row.tries_n,
                "failure": row.failure,
                "next_try_ms": row.next_try_ms,
                "created_ms": row.created_ms,
            })
        })
        .collect();
    let mut body = value!({"items": items});
    if let Some(last) = rows.last().filter(|_| rows.len() == limit as usize) {
        body["next_cursor"] = last.id.to_string().into();
    }
    Ok(json(&body))
}

pub(super) async fn retry(State(front): State<Front>, By(by): By, Path(id): Path<String>) -> Answer {
    let is_there = match id.parse() {
        Ok(id) => front.app.notices.retry_mail(&by, id).await.map_err(|error| error::store(&error))?,
        Err(_) => false,
    };
    if is_there {
        return Ok(json(&value!({})));
    }
    Err(bad_field("/mail", "there is no such mail that was not sent").into())
}
