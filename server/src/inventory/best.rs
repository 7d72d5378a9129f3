//! Adding good seats to a basket: blocks chosen from the map in memory, the first free one taken by one script; and the
//! last resort, a look through whole sections inside the script. `command::hold_best` comes in and decides what to try.

use super::call::{self, Head};
use super::hold::{head, read_held};
use super::record::{Reader, encode_group};
use super::rule::{OrphanCheck, encode_orphans, number_of};
use super::script::{Reply, Verb};
use super::{Answer, Caller, HoldOutcome, Inner, InventoryError, rule};
use crate::catalogue::EventFacts;
use seatwire_proto::client::MAX_SEATS_PER_COMMAND;
use seatwire_proto::seat::{SeatIndex, SeatState};
use std::sync::Arc;

/// Most blocks of one call: enough that one of them is free after a collision, few enough that a call stays short.
pub const MAX_BLOCKS: usize = 16;
/// Most seats looked at in one scan, 64 KiB of the map: about a tenth of a millisecond of Redis.
pub const MAX_SCANNED: u32 = 16_384;
/// Number of the answer "no block was free"; `lua/take.lua` names it too.
pub(super) const MISSED: u8 = 36;

/// A block to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its seats; every block of a call has as many.
    pub seats: Vec<SeatIndex>,
    /// Whether they are side by side.
    pub is_together: bool,
    /// Single seats it may leave; empty without an orphan rule.
    pub orphans: Vec<OrphanCheck>,
}

/// What to say when there is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing that fits is left at all.
    SoldOut,
    /// Not so many, or not together.
    NotEnough {
        /// Seats in the longest block.
        most_together: u32,
    },
}

/// The map that blocks were chosen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// Its seq.
    pub seq: u64,
    /// Allocations of the caller that were taken into account.
    pub opened: u32,
}

/// Stretches of touching seats to look through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stretches {
    /// First seat and length, ascending, within [`MAX_SCANNED`] seats from first to last.
    pub stretches: Vec<(u32, u16)>,
    /// The run each of them lies in; a stretch beyond the end of this list is its own.
    pub runs: Vec<(u32, u16)>,
}

/// What came of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BestTry {
    /// Decided.
    Answered(Answer<HoldOutcome>),
    /// No block was free, or the map is not the one that was looked at.
    Missed {
        /// Where the map stands.
        seq: u64,
        /// Allocations the caller has unlocked and that are open.
        opened: u32,
        /// The longest stretch of free seats a scan has seen so far; 0 where none was made.
        most_together: u32,
    },
}

/// Price groups of a call, each once.
#[derive(Debug, Default)]
struct Groups(Vec<u8>);

impl Groups {
    fn of(&mut self, event: &EventFacts, seat: SeatIndex) -> Result<u8, InventoryError> {
        let (tier, _) = event.seat_tier(seat).ok_or_else(not_there)?;
        let at = self.0.iter().position(|known| *known == tier).unwrap_or_else(|| {
            self.0.push(tier);
            self.0.len() - 1
        });
        Ok(at as u8)
    }

    fn encode(&self, event: &EventFacts, out: &mut Vec<u8>) {
        for &tier in &self.0 {
            if let Some(price) = event.price_tiers.get(usize::from(tier)) {
                encode_group(out, tier, price.price_minor, price.fee_minor);
            }
        }
    }
}

fn not_there() -> InventoryError {
    InventoryError::Malformed("a hold of a seat that is not there".into())
}

const fn refusal(nothing: Option<Nothing>) -> (u8, u32) {
    match nothing {
        None => (0, 0),
        Some(Nothing::SoldOut) => (23, 0),
        Some(Nothing::NotEnough { most_together }) => (30, most_together),
    }
}

fn encode_block(
    out: &mut Vec<u8>,
    event: &EventFacts,
    groups: &mut Groups,
    block: &Block,
) -> Result<(), InventoryError> {
    let mut runs: Vec<(u32, u16)> = Vec::new();
    for seat in &block.seats {
        match runs.last_mut() {
            Some((first, len)) if *first + u32::from(*len) == seat.0 => *len += 1,
            _ => runs.push((seat.0, 1)),
        }
    }
    out.push(u8::from(block.is_together));
    out.extend((runs.len() as u16).to_le_bytes());
    out.extend((block.orphans.len() as u16).to_le_bytes());
    for &seat in &block.seats {
        out.extend(seat.0.to_le_bytes());
        out.push(groups.of(event, seat)?);
    }
    for seat in &block.seats {
        out.extend((seat.0 << 2 | SeatState::Held as u32).to_le_bytes());
    }
    for (first, len) in runs {
        out.extend(first.to_le_bytes());
        out.extend(len.to_le_bytes());
    }
    encode_orphans(out, &block.orphans);
    Ok(())
}

/// Tries the blocks in order; without blocks, says that there is nothing, if that is true of the map as it is now.
pub(super) async fn hold(
    inner: &Arc<Inner>,
    caller: &Caller,
    blocks: &[Block],
    looked: Looked,
    nothing: Option<Nothing>,
) -> Result<BestTry, InventoryError> {
    let event = &*caller.event;
    let size = blocks.first().map_or(0, |block| block.seats.len());
    if blocks.len() > MAX_BLOCKS
        || blocks.iter().any(|block| block.seats.len() != size || block.seats.is_empty())
        || size > MAX_SEATS_PER_COMMAND
    {
        return Err(InventoryError::Malformed("blocks of odd sizes".into()));
    }
    let (mut groups, mut tail) = (Groups::default(), Vec::new());
    for block in blocks {
        encode_block(&mut tail, event, &mut groups, block)?;
    }
    let (code, most) = refusal(nothing);
    let mut body = Vec::with_capacity(22 + groups.0.len() * 15 + tail.len());
    body.extend(looked.seq.to_le_bytes());
    body.extend(looked.opened.to_le_bytes());
    body.push(code);
    body.extend(most.to_le_bytes());
    body.extend([number_of(event.rules.orphans), groups.0.len() as u8, blocks.len() as u8]);
    body.extend((size as u16).to_le_bytes());
    groups.encode(event, &mut body);
    body.extend(tail);
    ask(inner, caller, Verb::HoldBest, &body).await
}

/// Looks through stretches of seats. `most_before`: these are the last ones, and before them the longest stretch seen was this.
pub(super) async fn scan(
    inner: &Arc<Inner>,
    caller: &Caller,
    wanted: u16,
    takes_any: bool,
    part: &Stretches,
    most_before: Option<u32>,
) -> Result<BestTry, InventoryError> {
    let event = &*caller.event;
    let (part, runs) = (&part.stretches, &part.runs);
    let first = part.first().map_or(0, |(first, _)| *first);
    let seats = part.last().map_or(0, |(last, len)| last + u32::from(*len)).saturating_sub(first);
    if seats > MAX_SCANNED || part.len() > usize::from(u16::MAX) {
        return Err(InventoryError::Malformed(format!("a scan of {seats} seats")));
    }
    let mut groups = Groups::default();
    let mut tiers = vec![0; seats as usize];
    for &(begin, len) in part {
        for seat in begin..begin + u32::from(len) {
            tiers[(seat - first) as usize] = groups.of(event, SeatIndex(seat))?;
        }
    }
    let mut body = Vec::with_capacity(20 + groups.0.len() * 15 + part.len() * 12 + tiers.len());
    body.extend(wanted.to_le_bytes());
    body.extend([u8::from(takes_any), number_of(event.rules.orphans), u8::from(most_before.is_some())]);
    body.extend(most_before.unwrap_or(0).to_le_bytes());
    body.push(groups.0.len() as u8);
    body.extend((part.len() as u16).to_le_bytes());
    body.extend(first.to_le_bytes());
    body.extend(seats.to_le_bytes());
    groups.encode(event, &mut body);
    for (at, stretch) in part.iter().enumerate() {
        for (begin, len) in [stretch, runs.get(at).unwrap_or(stretch)] {
            body.extend(begin.to_le_bytes());
            body.extend(len.to_le_bytes());
        }
    }
    body.extend(tiers);
    ask(inner, caller, Verb::HoldScan, &body).await
}

async fn ask(inner: &Arc<Inner>, caller: &Caller, verb: Verb, body: &[u8]) -> Result<BestTry, InventoryError> {
    let (new_hold, flags) = head(inner, caller);
    let open_allocations = inner.open_allocations(&caller.event);
    let rules = rule::encode(&caller.event, open_allocations, &rule::SeatRules::default());
    let mut head = Head { flags, new_hold: Some(new_hold), ..Head::of(caller) };
    let more = rules.map(|rules| head.with_rules(rules));
    let (epoch, reply) = call::call_with(inner, verb, &head, body, more.as_slice()).await?;
    inner.metrics.best_calls.inc();
    if let Some(missed) = missed(&reply)? {
        return Ok(missed);
    }
    call::read_answer(inner, &head, epoch, &reply, |outcome, _| read_held(outcome)).map(BestTry::Answered)
}

/// Whether the answer is that nothing was free; such an answer is never remembered.
fn missed(reply: &Reply) -> Result<Option<BestTry>, InventoryError> {
    let mut reader = Reader(reply.bytes(0));
    if reader.0.first() != Some(&MISSED) {
        return Ok(None);
    }
    // Code, epoch, seq, clock, length of the hold.
    reader.bytes(1 + 4 + 6 + 6 + 2)?;
    let opened = reader.u32()?;
    let most_together = if reader.0.is_empty() { 0 } else { reader.u32()? };
    Ok(Some(BestTry::Missed { seq: reply.seq, opened, most_together }))
}

const _: () = assert!(MAX_SEATS_PER_COMMAND <= u16::MAX as usize, "the number of seats is packed in two bytes");
