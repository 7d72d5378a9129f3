//! What organisers' own systems are told of a change, written in its transaction beside the log of who did it. `notice` sends it.

use crate::store::event_log::LogKind;
use seatwire_proto::id::EventId;
use seatwire_proto::server::EventState;
use serde_json::{Value, json};

/// What follows from an action of the log, with its detail. Who did it stays inside.
pub(super) fn told(action: &str, event: EventId, detail: &Value) -> Vec<(LogKind, Value)> {
    let with = |name: &str| {
        let mut body = json!({"event": event});
        body[name] = detail.clone();
        body
    };
    match action {
        "event.state" => {
            let mut body = detail.clone();
            body["event"] = json!(event);
            let mut rows = vec![(LogKind::EventStateChanged, body.clone())];
            if detail["to"] == json!(EventState::Cancelled) && detail["from"] != detail["to"] {
                rows.push((LogKind::EventCancelled, json!({"event": event, "reason": detail["reason"]})));
            }
            rows
        }
        "event.settings" => vec![(LogKind::EventChanged, with("changed"))],
        "event.prices" => vec![(LogKind::EventPricesChanged, with("price_tiers"))],
        "seats.block" | "seats.unblock" | "seats.append" => vec![(LogKind::EventSeatsChanged, with("changed"))],
        _ => Vec::new(),
    }
}
