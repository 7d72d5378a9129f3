//! Changing a basket that is there: extend, release, lock and unlock for a checkout, and looking at it.

use super::call::{Head, ask, ask_with, call};
use super::record::decode_hold;
use super::rule::ReleaseRules;
use super::script::Verb;
use super::{Answer, Caller, ChangeOutcome, HoldRecord, Inner, Inventory, InventoryError, LockOutcome, ReleaseWhat};
use crate::catalogue::EventFacts;
use seatwire_proto::client::{MAX_SEATS_PER_COMMAND, Position};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use std::sync::Arc;

/// What one extension adds.
const EXTENSION_MS: u32 = 120_000;

impl Inventory {
    /// Adds 120 s to a hold, once.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn extend(&self, caller: Caller, hold: HoldId) -> Result<Answer<ChangeOutcome>, InventoryError> {
        extend(&self.0, &caller, hold).await
    }

    /// Gives back a hold or parts of it. A refusal `NotInHold` is not remembered.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn release(
        &self,
        caller: Caller,
        hold: HoldId,
        what: ReleaseWhat,
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        release(&self.0, &caller, hold, &what, &ReleaseRules::default()).await
    }

    /// The same under the rules that follow from the plan for the seats that leave, when others stay.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn release_by_rules(
        &self,
        caller: Caller,
        hold: HoldId,
        what: ReleaseWhat,
        rules: &ReleaseRules,
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        release(&self.0, &caller, hold, &what, rules).await
    }

    /// The identity's open hold.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn open_hold(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
    ) -> Result<Option<HoldRecord>, InventoryError> {
        Ok(self.open_hold_at(event, identity).await?.1)
    }

    /// The same, and where the event stands at that moment.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn open_hold_at(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
    ) -> Result<(Position, Option<HoldRecord>), InventoryError> {
        open_hold(&self.0, event, identity).await
    }

    /// What is behind a hold's id: open, over, or nothing of this identity's.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn find_hold(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        hold: HoldId,
    ) -> Result<FoundHold, InventoryError> {
        find_hold(&self.0, event, identity, hold).await
    }

    /// Keeps a hold for a checkout until `until_ms` by the event's time ([`Inventory::event_ms`]); a locked hold does not end by
    /// itself, whoever locked it must sell, free or unlock it. Again for the same order: the later end counts. The
    /// answer's epoch is the one the checkout's fence must find.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn lock(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        hold: HoldId,
        order: OrderId,
        until_ms: u64,
    ) -> Result<Answer<LockOutcome>, InventoryError> {
        lock(&self.0, event, identity, hold, order, until_ms).await
    }

    /// The checkout was refused before anything was reserved: the hold goes on with the time it has left.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn unlock(
        &self,
        event: &Arc<EventFacts>,
        identity: IdentityId,
        hold: HoldId,
        order: OrderId,
    ) -> Result<Answer<ChangeOutcome>, InventoryError> {
        unlock(&self.0, event, identity, hold, order).await
    }
}

async fn change(
    inner: &Arc<Inner>,
    verb: Verb,
    head: &Head<'_>,
    body: &[u8],
) -> Result<Answer<ChangeOutcome>, InventoryError> {
    change_with(inner, verb, head, body, &[]).await
}

async fn change_with(
    inner: &Arc<Inner>,
    verb: Verb,
    head: &Head<'_>,
    body: &[u8],
    more: &[Vec<u8>],
) -> Result<Answer<ChangeOutcome>, InventoryError> {
    ask_with(inner, verb, head, body, more, |outcome, _| {
        Ok(match outcome {
            Ok(success) => ChangeOutcome::Done(success.hold),
            Err(refusal) => ChangeOutcome::Refused(refusal),
        })
    })
    .await
}

async fn extend(inner: &Arc<Inner>, caller: &Caller, hold: HoldId) -> Result<Answer<ChangeOutcome>, InventoryError> {
    let mut body = hold.uuid().as_bytes().to_vec();
    body.extend(EXTENSION_MS.to_le_bytes());
    change(inner, Verb::Extend, &Head::of(caller), &body).await
}

async fn release(
    inner: &Arc<Inner>,
    caller: &Caller,
    hold: HoldId,
    what: &ReleaseWhat,
    rules: &ReleaseRules,
) -> Result<Answer<ChangeOutcome>, InventoryError> {
    let mut body = hold.uuid().as_bytes().to_vec();
    match what {
        ReleaseWhat::All => body.push(1),
        ReleaseWhat::Parts { seats, areas } => {
            if seats.len() + areas.len() > MAX_SEATS_PER_COMMAND {
                return Err(InventoryError::Malformed(format!("a release of {} seats", seats.len())));
            }
            body.push(0);
            body.extend((seats.len() as u16).to_le_bytes());
            for seat in seats {
                body.extend(seat.0.to_le_bytes());
            }
            for area in areas {
                body.extend(area.area.0.to_le_bytes());
                body.extend(area.quantity.to_le_bytes());
            }
        }
    }
    let mut head = Head::of(caller);
    let more: Vec<_> = rules.encode(&caller.event).map(|rules| head.with_rules(rules)).into_iter().collect();
    change_with(inner, Verb::Release, &head, &body, &more).await
}

async fn lock(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    identity: IdentityId,
    hold: HoldId,
    order: OrderId,
    until_ms: u64,
) -> Result<Answer<LockOutcome>, InventoryError> {
    let mut body = hold.uuid().as_bytes().to_vec();
    body.extend(order.uuid().as_bytes());
    body.extend(until_ms.to_le_bytes());
    ask(inner, Verb::Lock, &Head::without_key(event, identity), &body, |outcome, _| match outcome {
        Ok(success) => success
            .hold
            .map(LockOutcome::Locked)
            .ok_or_else(|| InventoryError::Malformed("locked without a hold".into())),
        Err(refusal) => Ok(LockOutcome::Refused(refusal)),
    })
    .await
}

async fn unlock(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    identity: IdentityId,
    hold: HoldId,
    order: OrderId,
) -> Result<Answer<ChangeOutcome>, InventoryError> {
    let mut body = hold.uuid().as_bytes().to_vec();
    body.extend(order.uuid().as_bytes());
    change(inner, Verb::Unlock, &Head::without_key(event, identity), &body).await
}

/// What is behind a hold's id for one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundHold {
    /// It is open.
    Open(HoldRecord),
    /// It ended within the last ten minutes.
    Ended,
    /// Never the identity's, given back, sold, or long over.
    Unknown,
}

async fn open_hold(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    identity: IdentityId,
) -> Result<(Position, Option<HoldRecord>), InventoryError> {
    let (epoch, reply) = call(inner, Verb::HoldRead, &Head::without_key(event, identity), &[]).await?;
    Ok((Position { epoch, seq: reply.seq }, decode_hold(identity, reply.bytes(1))?))
}

async fn find_hold(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    identity: IdentityId,
    id: HoldId,
) -> Result<FoundHold, InventoryError> {
    let head = Head::without_key(event, identity);
    let (_, reply) = call(inner, Verb::HoldRead, &head, id.uuid().as_bytes()).await?;
    Ok(match decode_hold(identity, reply.bytes(1))? {
        Some(hold) if hold.id == id => FoundHold::Open(hold),
        _ if reply.int(2) == 1 => FoundHold::Ended,
        _ => FoundHold::Unknown,
    })
}
