//! The door: a scanner asks whether a ticket admits. It does so once.

use super::{Change, json};
use crate::checkout::Admission;
use crate::error;
use crate::http::call::bad_field;
use crate::http::reply::Answer;
use crate::store::ticket::DoorView;
use serde::Deserialize;
use serde_json::{Value, json as value};

/// Longest text of a scan: a QR code of ours has fewer than 200 characters.
const MAX_CHARS: usize = 512;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scan {
    /// What the reader read: the text of the QR code, or the code typed in.
    ticket: String,
    /// Which door.
    door: String,
    /// A name for this scan, new each time; the same one when the answer was lost.
    scan: String,
}

fn shown(view: &DoorView) -> Value {
    value!({
        "id": view.id,
        "state": view.state,
        "seat": view.seat,
        "area": view.area,
        "holder": view.holder,
        "used_ms": view.used_ms,
        "used_door": view.used_door,
    })
}

pub(super) async fn check_in(Change { front, event, body, .. }: Change<Scan>) -> Answer {
    let Scan { ticket, door, scan } = body;
    for (name, text) in [("ticket", &ticket), ("door", &door), ("scan", &scan)] {
        if text.is_empty() || text.chars().count() > MAX_CHARS {
            return Err(bad_field(&format!("/{name}"), "expected 1 to 512 characters").into());
        }
    }
    let admission = front.app.checkout.admit(event, ticket, door, scan).await;
    Ok(json(&match admission.map_err(|error| error::checkout(&error))? {
        Admission::Admitted(view) => value!({"admitted": true, "ticket": shown(&view)}),
        Admission::Refused(view) => value!({"admitted": false, "reason": view.state, "ticket": shown(&view)}),
        Admission::Unknown => value!({"admitted": false, "reason": "unknown"}),
    }))
}
