//! `unlock`: a presale code opens an allocation for the identity. Guessing is slowed down by the shelf, for all nodes: after
//! some wrong codes an identity is not listened to for a minute or two.

use super::{Answered, Asked, check_bounds, find_event};
use crate::app::App;
use crate::catalogue::{EventFacts, code_hash};
use crate::error;
use crate::inventory::UnlockOutcome;
use base64::Engine as _;
use seatwire_proto::client::{Command, Unlock};
use seatwire_proto::server::{ErrorObject, UnlockReply, UnlockedAllocation};
use std::sync::Arc;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Unlock) -> Result<Answered, ErrorObject> {
    let event = find_event(app, body.event).await?;
    check_bounds(command)?;
    let caller = asked.caller(Arc::clone(&event))?;
    let now_ms = app.inventory.event_ms(event.id);
    let hash = code_hash(event.id, &body.code);
    let allocation = event.allocations.iter().find(|allocation| allocation.code_hash == hash);
    let allocation = allocation.filter(|allocation| allocation.is_open_at(now_ms));
    let answer =
        app.inventory.unlock_allocation(&caller, allocation).await.map_err(|error| error::inventory(&error))?;
    let result = match &answer.outcome {
        UnlockOutcome::Unlocked { slot } => reply(&event, *slot),
        UnlockOutcome::Refused(refusal) => Err(error::refusal(refusal, &event, Vec::new())),
    };
    Ok(Answered::of(&answer, result))
}

fn reply(event: &EventFacts, slot: u8) -> Result<UnlockReply, ErrorObject> {
    let found = event.allocations.iter().find(|allocation| allocation.slot == slot);
    let allocation = found.ok_or_else(|| error::internal(&"an allocation that this node does not know"))?;
    let mut seats = Vec::with_capacity(allocation.seats.serialized_size());
    allocation.seats.serialize_into(&mut seats).map_err(|error| error::internal(&error))?;
    Ok(UnlockReply {
        allocation: UnlockedAllocation {
            id: allocation.id,
            name: allocation.name.clone(),
            until_ms: allocation.until_ms,
        },
        seats: base64::engine::general_purpose::STANDARD.encode(seats),
    })
}
