//! One call of a script for an event: the packed head, the life it speaks to, and what to do when that life is gone.

use super::answer::{self, ScriptAnswer, Success};
use super::life::Current;
use super::script::{Failure, Reply, Verb, Word};
use super::{Answer, Caller, Inner, InventoryError, Refusal, rebuild};
use crate::catalogue::EventFacts;
use seatwire_proto::client::Position;
use seatwire_proto::id::{HoldId, IdentityId};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Times a call is begun anew because nothing can have happened: the life was gone, or Redis' clock had stepped.
const MAX_TURNS: usize = 4;

/// Arguments of most calls: head, body, the two ends of a run of seats, rules.
const USUAL_ARGS: usize = 5;

/// Flags of a call. The scripts know them by the same names.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: u8 = $bit;)*
        /// Every flag by its name.
        pub(super) const FLAGS: &[(&str, u8)] = &[$((stringify!($name), $bit)),*];
    };
}

flags! {
    /// The caller must be admitted.
    NEEDS_ADMISSION = 1;
    /// Some of the seats cannot be picked in their section.
    BREAKS_MODE = 2;
    /// Of a sweep: Redis' clock is right, time has passed.
    BELIEVE_CLOCK = 4;
    /// Of a sweep: the clock was moved.
    CORRECT_CLOCK = 8;
    /// The last argument is the rules.
    HAS_RULES = 16;
    /// Old facts are refused as stale, so that nobody holds at a price that is over.
    WANTS_FRESH = 32;
}

/// What every call says besides its body.
#[derive(Debug, Clone)]
pub(super) struct Head<'a> {
    pub(super) event: &'a Arc<EventFacts>,
    pub(super) identity: IdentityId,
    /// 8 bytes of key and 8 of fingerprint; zeros for a call without a key.
    pub(super) key: [u8; 8],
    pub(super) fingerprint: [u8; 8],
    pub(super) flags: u8,
    pub(super) new_hold: Option<HoldId>,
}

impl<'a> Head<'a> {
    /// Of a buyer's command.
    pub(super) fn of(caller: &'a Caller) -> Self {
        let mut key = [0; 8];
        if let Some(name) = &caller.key {
            let mut hash = Sha256::new();
            hash.update(caller.identity.uuid().as_bytes());
            hash.update(name.as_str().as_bytes());
            key.copy_from_slice(&hash.finalize()[..8]);
            // Zeros mean "no key".
            key[0] |= 1;
        }
        let mut fingerprint = [0; 8];
        fingerprint.copy_from_slice(&caller.fingerprint[..8]);
        Self { event: &caller.event, identity: caller.identity, key, fingerprint, flags: 0, new_hold: None }
    }

    /// Of one of our own calls.
    pub(super) fn without_key(event: &'a Arc<EventFacts>, identity: IdentityId) -> Self {
        Self { event, identity, key: [0; 8], fingerprint: [0; 8], flags: 0, new_hold: None }
    }

    /// Says that the last argument is the rules, and gives that argument.
    pub(super) fn with_rules(&mut self, rules: Vec<u8>) -> Vec<u8> {
        self.flags |= HAS_RULES;
        rules
    }

    fn encode(&self, deadline_ms: u64, epoch: u32, seq: u64) -> Vec<u8> {
        let event = self.event;
        let mut out = Vec::with_capacity(86);
        out.extend(deadline_ms.to_le_bytes());
        out.extend(epoch.to_le_bytes());
        out.extend(seq.to_le_bytes());
        out.extend(event.rank().to_le_bytes());
        out.push(event.state as u8);
        out.push(self.flags);
        out.extend(event.rules.seats_per_identity.to_le_bytes());
        out.extend(u32::try_from(event.rules.hold_ttl_ms).unwrap_or(u32::MAX).to_le_bytes());
        out.extend(self.identity.uuid().as_bytes());
        out.extend(self.key);
        out.extend(self.fingerprint);
        out.extend(self.new_hold.map_or([0; 16], |hold| *hold.uuid().as_bytes()));
        out
    }
}

/// Calls a script until it has run in the event's current life. Returns the epoch it ran in. What happens once in a life
/// is boxed, so that the future of a call stays small: one is made for every command.
pub(super) async fn call(
    inner: &Arc<Inner>,
    verb: Verb,
    head: &Head<'_>,
    body: &[u8],
) -> Result<(u32, Reply), InventoryError> {
    call_with(inner, verb, head, body, &[]).await
}

/// The same with further arguments behind the body.
pub(super) async fn call_with(
    inner: &Arc<Inner>,
    verb: Verb,
    head: &Head<'_>,
    body: &[u8],
    more: &[Vec<u8>],
) -> Result<(u32, Reply), InventoryError> {
    let life = inner.lives.of(head.event);
    for _ in 0..MAX_TURNS {
        let master = inner.scripts.of(head.event.id)?;
        let generation = master.generation();
        let Some(Current { epoch, seq, meta_key }) = life.current(generation) else {
            Box::pin(rebuild::open(inner, head.event, &life)).await.map_err(not_begun)?;
            continue;
        };
        let head_bytes = head.encode(master.deadline_ms(), epoch, seq);
        let mut args = SmallVec::<[&[u8]; USUAL_ARGS]>::from_slice(&[&head_bytes, body]);
        args.extend(more.iter().map(Vec::as_slice));
        match master.call(generation, verb, &[&meta_key], &args).await {
            Ok(reply) => match reply.word {
                Word::Lost | Word::Behind => {
                    tracing::warn!(event = %head.event.id, epoch, seq, word = ?reply.word, "this life is over");
                    life.end(epoch);
                }
                // Nothing was done, and the reply has taught us Redis' clock.
                Word::Late => {}
                Word::Stale => return Err(InventoryError::Stale),
                _ => {
                    let heard = Instant::now();
                    life.saw(epoch, reply.seq, heard);
                    life.clock.learn_at(heard, reply.event_ms);
                    if !matches!(verb, Verb::Expire | Verb::Changes | Verb::Records) {
                        life.may_have_holds.store(true, Ordering::Relaxed);
                    }
                    return Ok((epoch, reply));
                }
            },
            Err(Failure::NoScript) => {
                let seen = master.redis();
                let now = Box::pin(master.reload(seen.as_ref())).await.map_err(not_begun)?;
                if seen.is_some_and(|seen| seen != now) {
                    tracing::warn!("another Redis answers: its events will be looked at again");
                }
            }
            Err(Failure::Moved) => Box::pin(inner.scripts.moved()).await,
            Err(Failure::Error(error)) if verb.only_reads() => return Err(not_begun(error)),
            Err(Failure::Error(error)) => return Err(error),
        }
    }
    Err(InventoryError::Unavailable("the event's inventory is not open".into()))
}

/// Without an answer to something that changes nothing, nothing has happened: there is no key to ask again with.
fn not_begun(error: InventoryError) -> InventoryError {
    match error {
        InventoryError::TimeoutUnknown => InventoryError::Unavailable("no answer in time".into()),
        other => other,
    }
}

/// Calls a script that answers a caller, and reads the answer.
pub(super) async fn ask<T>(
    inner: &Arc<Inner>,
    verb: Verb,
    head: &Head<'_>,
    body: &[u8],
    read: impl FnOnce(Result<Success<'_>, Refusal>, &Reply) -> Result<T, InventoryError>,
) -> Result<Answer<T>, InventoryError> {
    ask_with(inner, verb, head, body, &[], read).await
}

/// The same with further arguments behind the body.
pub(super) async fn ask_with<T>(
    inner: &Arc<Inner>,
    verb: Verb,
    head: &Head<'_>,
    body: &[u8],
    more: &[Vec<u8>],
    read: impl FnOnce(Result<Success<'_>, Refusal>, &Reply) -> Result<T, InventoryError>,
) -> Result<Answer<T>, InventoryError> {
    let (epoch, reply) = call_with(inner, verb, head, body, more).await?;
    read_answer(inner, head, epoch, &reply, read)
}

/// Reads the answer to a caller out of a reply.
pub(super) fn read_answer<T>(
    inner: &Inner,
    head: &Head<'_>,
    epoch: u32,
    reply: &Reply,
    read: impl FnOnce(Result<Success<'_>, Refusal>, &Reply) -> Result<T, InventoryError>,
) -> Result<Answer<T>, InventoryError> {
    if reply.word == Word::KeyReused {
        let outcome = read(Err(Refusal::KeyReused), reply)?;
        let position = Position { epoch, seq: reply.seq };
        return Ok(Answer { outcome, position, is_replayed: false, server_ms: reply.event_ms });
    }
    let ScriptAnswer { position, server_ms, outcome } = answer::decode(head.identity, reply.bytes(0), reply.bytes(1))?;
    let is_replayed = reply.word == Word::Replayed;
    // A remembered answer speaks of then.
    if !is_replayed && let Ok(success) = &outcome {
        inner.told.note(head.event.id, head.identity, position, success.hold.as_ref());
    }
    Ok(Answer { outcome: read(outcome, reply)?, position, is_replayed, server_ms })
}
