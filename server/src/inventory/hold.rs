//! Adding to a basket: seats by index, and places of an area. One script call decides and writes.

use super::answer::{self, Success};
use super::best::MISSED;
use super::call::{self, BREAKS_MODE, Head, NEEDS_ADMISSION, WANTS_FRESH, ask_with};
use super::key::compose_hold_id;
use super::record::{Reader, encode_group};
use super::rule::{self, SeatRules};
use super::script::Verb;
use super::{Answer, Caller, HoldOutcome, Inner, InventoryError, Refusal};
use seatwire_proto::client::MAX_SEATS_PER_COMMAND;
use seatwire_proto::id::HoldId;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use seatwire_proto::server::{PriceTier, SalesMode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The seats as `lua/hold.lua` wants them: its body, and the bounds of the runs; `None` for a seat the event does not have.
fn body(caller: &Caller, seats: &[SeatIndex]) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut groups: Vec<(u8, &PriceTier)> = Vec::new();
    let mut lines = Vec::with_capacity(seats.len() * 5);
    let mut words = Vec::with_capacity(seats.len() * 4);
    let mut runs: Vec<(u32, u16)> = Vec::new();
    for &seat in seats {
        let (tier, price) = caller.event.seat_tier(seat)?;
        let group = groups.iter().position(|(known, _)| *known == tier).unwrap_or_else(|| {
            groups.push((tier, price));
            groups.len() - 1
        });
        lines.extend(seat.0.to_le_bytes());
        lines.push(group as u8);
        words.extend((seat.0 << 2 | SeatState::Held as u32).to_le_bytes());
        match runs.last_mut() {
            Some((first, len)) if *first + u32::from(*len) == seat.0 => *len += 1,
            _ => runs.push((seat.0, 1)),
        }
    }
    let mut body = Vec::with_capacity(6 + groups.len() * 15 + lines.len() + words.len() + runs.len() * 2);
    body.extend([0, groups.len() as u8]);
    body.extend((seats.len() as u16).to_le_bytes());
    body.extend((runs.len() as u16).to_le_bytes());
    for (tier, price) in groups {
        encode_group(&mut body, tier, price.price_minor, price.fee_minor);
    }
    body.extend(lines);
    body.extend(words);
    let mut bounds = Vec::with_capacity(runs.len() * 2);
    for (first, len) in runs {
        body.extend(len.to_le_bytes());
        let first = u64::from(first) * 4;
        bounds.push(first.to_string().into_bytes());
        bounds.push((first + u64::from(len) * 4 - 1).to_string().into_bytes());
    }
    Some((body, bounds))
}

/// Calls of one `hold_area` while holds that are over must be ended before it is known what is left: with what one call ends,
/// two thousand holds. Beyond that the caller is told to ask again, and nothing is remembered.
const MAX_AREA_CALLS: u32 = 64;
/// Calls without a pause between them; whoever needs more waits for a list of holds whose time comes within 250 ms.
const AREA_CALLS_AT_ONCE: u32 = 32;
const AREA_PAUSE: Duration = Duration::from_millis(10);

/// The id of the hold, if a new one is opened, and the flags.
pub(super) fn head(inner: &Inner, caller: &Caller) -> (HoldId, u8) {
    let new_hold = compose_hold_id(inner.scripts.now_ms(), caller.event.number, rand::random());
    let admission = if caller.event.has_waiting_room { NEEDS_ADMISSION } else { 0 };
    let fresh = if inner.wants_fresh.load(Ordering::Relaxed) { WANTS_FRESH } else { 0 };
    (new_hold, admission | fresh)
}

pub(super) async fn hold(
    inner: &Arc<Inner>,
    caller: &Caller,
    seats: &[SeatIndex],
    rules: &SeatRules,
) -> Result<Answer<HoldOutcome>, InventoryError> {
    if seats.is_empty() || seats.len() > MAX_SEATS_PER_COMMAND {
        return Err(InventoryError::Malformed(format!("a hold of {} seats", seats.len())));
    }
    let (mut body, mut more) =
        body(caller, seats).ok_or_else(|| InventoryError::Malformed("a hold of a seat that is not there".into()))?;
    let (new_hold, mut flags) = head(inner, caller);
    let breaks_mode = |seat: &SeatIndex| {
        let section = caller.event.section_of(*seat);
        section.is_some_and(|(_, section)| section.sales_mode == SalesMode::BestAvailable)
            && !rules.picked.contains(seat.0)
    };
    for seat in seats.iter().filter(|seat| breaks_mode(seat)) {
        flags |= BREAKS_MODE;
        body.extend(seat.0.to_le_bytes());
    }
    let mut head = Head { flags, new_hold: Some(new_hold), ..Head::of(caller) };
    let open_allocations = inner.open_allocations(&caller.event);
    more.extend(rule::encode(&caller.event, open_allocations, rules).map(|rules| head.with_rules(rules)));
    ask_with(inner, Verb::Hold, &head, &body, &more, |outcome, _| read_held(outcome)).await
}

pub(super) async fn hold_area(
    inner: &Arc<Inner>,
    caller: &Caller,
    area: AreaIndex,
    quantity: u32,
) -> Result<Answer<HoldOutcome>, InventoryError> {
    let (tier, price) = caller
        .event
        .area_tier(area)
        .ok_or_else(|| InventoryError::Malformed("a hold of an area that is not there".into()))?;
    if quantity == 0 {
        return Err(InventoryError::Malformed("a hold of no places".into()));
    }
    let mut body = Vec::with_capacity(23);
    body.extend(area.0.to_le_bytes());
    body.extend(quantity.to_le_bytes());
    encode_group(&mut body, tier, price.price_minor, price.fee_minor);
    let (new_hold, flags) = head(inner, caller);
    let mut head = Head { flags, new_hold: Some(new_hold), ..Head::of(caller) };
    let open_allocations = inner.open_allocations(&caller.event);
    let more = match open_allocations {
        0 => Vec::new(),
        mask => vec![head.with_rules(mask.to_le_bytes().to_vec())],
    };
    for turn in 0..MAX_AREA_CALLS {
        let (epoch, reply) = call::call_with(inner, Verb::HoldArea, &head, &body, &more).await?;
        if reply.bytes(0).first() != Some(&MISSED) {
            return call::read_answer(inner, &head, epoch, &reply, |outcome, _| read_held(outcome));
        }
        if turn >= AREA_CALLS_AT_ONCE {
            tokio::time::sleep(AREA_PAUSE).await;
        }
    }
    Err(InventoryError::Overloaded("more holds of the area are over than can be ended now".into()))
}

/// What the verbs that add to a hold answer.
pub(super) fn read_held(outcome: Result<Success<'_>, Refusal>) -> Result<HoldOutcome, InventoryError> {
    match outcome {
        Ok(success) => {
            let mut extra = Reader(success.extra);
            let is_together = extra.uint(1)? == 1;
            let added = answer::seats(&mut extra)?.into_iter().map(|word| SeatIndex(word.0 >> 2)).collect();
            let hold = success.hold.ok_or_else(|| InventoryError::Malformed("held without a hold".into()))?;
            Ok(HoldOutcome::Held { hold, added, is_together })
        }
        Err(refusal) => Ok(HoldOutcome::Refused(refusal)),
    }
}
