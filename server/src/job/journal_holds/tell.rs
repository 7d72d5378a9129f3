//! What organisers' own systems are told of holds, where that is switched on: the journal's record of an identity beside the
//! one before it. What came and went between two rounds of the journal was never there; what a copy finds gone ends unsaid.

use crate::inventory::{HoldRecord, Inventory, Place};
use crate::store::event_log::LogKind;
use crate::store::hold_journal::{JournalRecord, WrittenRecord};
use seatwire_proto::id::{EventId, IdentityId};
use serde_json::{Value, json};
use std::collections::HashMap;

/// What is to be told of these records, given those they replace, event by event. Of one that cannot be read nothing is
/// told: the journal goes on.
pub(super) fn changes(
    before: &[(EventId, WrittenRecord)],
    records: &[JournalRecord],
) -> HashMap<EventId, Vec<(LogKind, Value)>> {
    let before: HashMap<(EventId, IdentityId), &[u8]> =
        before.iter().map(|(event, row)| ((*event, row.identity), &row.record[..])).collect();
    let hold = |identity, bytes: Option<&[u8]>| match bytes {
        Some(bytes) => Inventory::any_journalled_hold(identity, bytes),
        None => Ok(None),
    };
    let mut told: HashMap<EventId, Vec<(LogKind, Value)>> = HashMap::new();
    for record in records {
        let old = hold(record.identity, before.get(&(record.event, record.identity)).copied());
        let new = hold(record.identity, record.record.as_deref());
        let (old, new) = match (old, new) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!(event = %record.event, identity = %record.identity, %error, "a hold is not told of");
                continue;
            }
        };
        told.entry(record.event).or_default().extend(change(record.event, old.as_ref(), new.as_ref()));
    }
    told
}

fn change(event: EventId, old: Option<&HoldRecord>, new: Option<&HoldRecord>) -> Vec<(LogKind, Value)> {
    let ended = |hold: &HoldRecord| {
        let mut body = json!({"hold": hold.id, "event": event});
        if let Some(order) = hold.locked_by {
            body["order"] = json!(order);
        }
        (LogKind::HoldEnded, body)
    };
    match (old, new) {
        (None, None) => Vec::new(),
        (Some(old), None) => vec![ended(old)],
        (None, Some(new)) => vec![(LogKind::HoldCreated, shown(event, new))],
        (Some(old), Some(new)) if old.id != new.id => {
            vec![ended(old), (LogKind::HoldCreated, shown(event, new))]
        }
        (Some(old), Some(new)) if old != new => vec![(LogKind::HoldChanged, shown(event, new))],
        (Some(_), Some(_)) => Vec::new(),
    }
}

fn shown(event: EventId, hold: &HoldRecord) -> Value {
    let seat = |place: &Place| match place {
        Place::Seat(seat) => Some(*seat),
        Place::Area(_) => None,
    };
    let seats: Vec<_> = hold.lines.iter().filter_map(|line| seat(&line.place)).collect();
    let areas: Vec<_> = hold
        .lines
        .iter()
        .filter_map(|line| match line.place {
            Place::Area(area) => Some(json!({"area": area, "quantity": line.quantity})),
            Place::Seat(_) => None,
        })
        .collect();
    let mut body = json!({
        "hold": hold.id,
        "event": event,
        "seats": seats,
        "areas": areas,
        "expires_ms": hold.expires_ms,
        "offer": hold.is_offer,
    });
    if let Some(order) = hold.locked_by {
        body["order"] = json!(order);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::id::{HoldId, OrderId};

    fn hold() -> HoldRecord {
        HoldRecord {
            id: HoldId::from_uuid(uuid::Uuid::now_v7()),
            identity: IdentityId::generate(),
            expires_ms: 1_000,
            is_extended: false,
            locked_by: None,
            is_offer: false,
            lines: Vec::new(),
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_stops_nothing() {
        let (event, broken, sound) = (EventId::generate(), IdentityId::generate(), IdentityId::generate());
        let gone = |identity| JournalRecord { event, identity, seq: 1, has_hold: false, record: None };
        let old = WrittenRecord { identity: broken, record: vec![0xff; 3] };
        let told = changes(&[(event, old)], &[gone(broken), gone(sound)]);
        assert_eq!(told[&event], [], "nothing of the broken one, and the others go on");
    }

    #[test]
    fn a_record_beside_the_one_before_says_what_happened() {
        let event = EventId::generate();
        let (old, other) = (hold(), hold());
        let locked = HoldRecord { locked_by: Some(OrderId::generate()), ..old.clone() };
        let kinds = |old: Option<&HoldRecord>, new: Option<&HoldRecord>| {
            change(event, old, new).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
        };
        use LogKind::{HoldChanged, HoldCreated, HoldEnded};
        assert_eq!(kinds(None, None), []);
        assert_eq!(kinds(None, Some(&old)), [HoldCreated]);
        assert_eq!(kinds(Some(&old), Some(&old)), []);
        assert_eq!(kinds(Some(&old), Some(&locked)), [HoldChanged]);
        assert_eq!(kinds(Some(&old), Some(&other)), [HoldEnded, HoldCreated]);
        assert_eq!(kinds(Some(&locked), None), [HoldEnded]);
        assert_eq!(change(event, Some(&locked), None)[0].1["order"], json!(locked.locked_by));
    }
}
