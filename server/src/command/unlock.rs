//! `unlock`: a presale code opens an allocation for the identity. Guessing is slowed down: after some wrong codes an
//! identity is not listened to for a minute.

use super::{Answered, Asked, check_bounds, find_event};
use crate::app::App;
use crate::catalogue::{EventFacts, code_hash};
use crate::error;
use crate::inventory::UnlockOutcome;
use base64::Engine as _;
use dashmap::DashMap;
use seatwire_proto::client::{Command, Unlock};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::IdentityId;
use seatwire_proto::server::{ErrorObject, UnlockReply, UnlockedAllocation};
use std::sync::Arc;

/// Wrong codes an identity may send within a window: enough for typing errors.
const MAX_WRONG: u32 = 5;
/// The window.
const WINDOW_MS: u64 = 60_000;
/// Identities remembered; above it the oldest windows are forgotten, and when none is over nobody guesses.
const MAX_REMEMBERED: usize = 100_000;

/// Wrong codes of identities on this node.
#[derive(Debug, Default)]
pub struct Guesses(DashMap<IdentityId, (u64, u32)>);

impl Guesses {
    /// When the identity may try again; `None` = now.
    fn wait_ms(&self, identity: IdentityId, now_ms: u64) -> Option<u64> {
        match self.0.get(&identity) {
            Some(known) => {
                let left_ms = (known.0 + WINDOW_MS).saturating_sub(now_ms);
                (known.1 >= MAX_WRONG && left_ms > 0).then_some(left_ms)
            }
            None => {
                if self.0.len() >= MAX_REMEMBERED {
                    self.0.retain(|_, known| known.0 + WINDOW_MS > now_ms);
                }
                (self.0.len() >= MAX_REMEMBERED).then_some(WINDOW_MS)
            }
        }
    }

    fn note_wrong(&self, identity: IdentityId, now_ms: u64) {
        let mut known = self.0.entry(identity).or_insert((now_ms, 0));
        if known.0 + WINDOW_MS <= now_ms {
            *known = (now_ms, 0);
        }
        known.1 += 1;
    }
}

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Unlock) -> Result<Answered, ErrorObject> {
    let event = find_event(app, body.event).await?;
    check_bounds(command)?;
    let caller = asked.caller(Arc::clone(&event))?;
    let identity = caller.identity;
    let now_ms = app.inventory.now_ms();
    if let Some(wait_ms) = app.guesses.wait_ms(identity, now_ms) {
        return Err(error::refuse(ErrorCode::RateLimited).with_retry_after_ms(wait_ms));
    }
    let hash = code_hash(event.id, &body.code);
    let allocation = event.allocations.iter().find(|allocation| allocation.code_hash == hash);
    let allocation = allocation.filter(|allocation| allocation.is_open_at(now_ms));
    if allocation.is_none() {
        app.guesses.note_wrong(identity, now_ms);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_five_wrong_codes_an_identity_waits_for_the_window_to_end() {
        let guesses = Guesses::default();
        let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
        for n in 0..MAX_WRONG {
            assert_eq!(guesses.wait_ms(ann, 1_000), None, "{n}");
            guesses.note_wrong(ann, 1_000);
        }
        assert_eq!(guesses.wait_ms(ann, 11_000), Some(50_000));
        assert_eq!(guesses.wait_ms(bob, 11_000), None);
        assert_eq!(guesses.wait_ms(ann, 61_000), None);
        guesses.note_wrong(ann, 61_000);
        assert_eq!(guesses.wait_ms(ann, 61_000), None);
    }
}
