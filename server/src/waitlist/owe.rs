//! What organisers' own systems are told of a list, written in the transaction of its cause. `notice` sends it.

use super::WaitlistError;
use crate::store::event_log::{self, LogKind};
use seatwire_proto::id::{EventId, HoldId, IdentityId};
use serde_json::{Value, json};
use sqlx::PgConnection;

fn of_place(event: EventId, identity: IdentityId) -> Value {
    json!({"event": event, "identity": identity})
}

/// Somebody waits.
pub(super) async fn joined(
    transaction: &mut PgConnection,
    event: EventId,
    identity: IdentityId,
    quantity: u32,
    price_tiers: &[String],
    now_ms: u64,
) -> Result<(), WaitlistError> {
    let mut body = of_place(event, identity);
    body["quantity"] = quantity.into();
    body["price_tiers"] = json!(price_tiers);
    Ok(event_log::insert(transaction, event, LogKind::WaitlistJoined, &body, now_ms).await?)
}

/// Places ended without an offer, for this reason: `left`, `limit` or `event_over`.
pub(super) async fn left(
    transaction: &mut PgConnection,
    event: EventId,
    identities: &[IdentityId],
    reason: &str,
    now_ms: u64,
) -> Result<(), WaitlistError> {
    let of = |identity: &IdentityId| {
        let mut body = of_place(event, *identity);
        body["reason"] = reason.into();
        (LogKind::WaitlistLeft, body)
    };
    let rows: Vec<_> = identities.iter().map(of).collect();
    Ok(event_log::insert_all(transaction, event, &rows, now_ms).await?)
}

/// A place has an offer, or that came to its end.
pub(super) async fn offer(
    transaction: &mut PgConnection,
    kind: LogKind,
    event: EventId,
    identity: IdentityId,
    hold: HoldId,
    now_ms: u64,
) -> Result<(), WaitlistError> {
    let mut body = of_place(event, identity);
    body["hold"] = json!(hold);
    Ok(event_log::insert(transaction, event, kind, &body, now_ms).await?)
}
