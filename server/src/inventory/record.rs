//! The bytes Redis keeps of an event, as the scripts write them (`lua/` is the other side): the meta, a hold,
//! an identity's record. Only a rebuild writes them from here.

use super::{HoldLine, HoldRecord, InventoryError, Place};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use uuid::Uuid;

/// Version of the layout of every record.
const VERSION: u8 = 1;
const EXTENDED: u8 = 1;
const LOCKED: u8 = 2;
const OFFER: u8 = 4;
/// Owner word of a seat that is kept back.
pub(super) const BLOCKED: u32 = 1;
/// Owner word of a seat that is kept for the waitlist: nobody's yet, and shown as held.
pub(super) const KEPT: u32 = 2;
/// Kinds of owner words; the low 30 bits are the number of the identity.
pub(super) const HELD_BY: u32 = 0x4000_0000;
pub(super) const SOLD_TO: u32 = 0x8000_0000;
pub(super) const RESERVED_BY: u32 = 0xC000_0000;
/// Bytes of one entry of the table of numbers.
pub(super) const SLOT_BYTES: usize = 24;

/// Reads packed little-endian fields one after the other.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, n: usize) -> Result<&'a [u8], InventoryError> {
        let (head, tail) =
            self.0.split_at_checked(n).ok_or_else(|| InventoryError::Malformed("a record is cut short".into()))?;
        self.0 = tail;
        Ok(head)
    }

    /// An unsigned number of `n` bytes, at most 8.
    pub(super) fn uint(&mut self, n: usize) -> Result<u64, InventoryError> {
        let mut word = [0; 8];
        word[..n].copy_from_slice(self.bytes(n)?);
        Ok(u64::from_le_bytes(word))
    }

    pub(super) fn u32(&mut self) -> Result<u32, InventoryError> {
        Ok(self.uint(4)? as u32)
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, InventoryError> {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(self.bytes(16)?);
        Ok(Uuid::from_bytes(bytes))
    }
}

/// What everyone may know of a seat with this owner word.
pub(super) const fn public_state(owner: u32) -> SeatState {
    match owner {
        0 => SeatState::Available,
        BLOCKED => SeatState::Blocked,
        SOLD_TO..RESERVED_BY => SeatState::Sold,
        _ => SeatState::Held,
    }
}

/// The head of the meta. What follows it in Redis (time, cursors) is set when the life is opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meta {
    pub(super) state: u8,
    pub(super) has_kept_back: bool,
    /// Whether what becomes free is kept for the waitlist.
    pub(super) keeps: bool,
    pub(super) epoch: u32,
    pub(super) revision: u64,
    pub(super) limit: u32,
    pub(super) ttl_ms: u32,
    pub(super) open_holds: u32,
    pub(super) next_number: u32,
    pub(super) available: u32,
}

impl Meta {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.state, u8::from(self.has_kept_back) + 2 * u8::from(self.keeps)];
        out.extend(self.epoch.to_le_bytes());
        out.extend(self.revision.to_le_bytes());
        out.extend(self.limit.to_le_bytes());
        out.extend(self.ttl_ms.to_le_bytes());
        // Seq, high-water mark of the clock, its correction.
        out.extend([0; 24]);
        out.extend(self.open_holds.to_le_bytes());
        out.extend(self.next_number.to_le_bytes());
        out.extend(self.available.to_le_bytes());
        out
    }
}

/// A hold as Redis keeps it: unlike a [`HoldRecord`] it knows both its own end and that of its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredHold {
    pub(super) flags: u8,
    pub(super) id: HoldId,
    /// When it ends unless it is locked.
    pub(super) expires_ms: u64,
    /// The order whose checkout has begun, and when the lock ends.
    pub(super) lock: Option<(OrderId, u64)>,
    pub(super) lines: Vec<HoldLine>,
}

impl StoredHold {
    /// The hold in these bytes; `None` for none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>, InventoryError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader(bytes);
        let flags = reader.uint(1)? as u8;
        let id = HoldId::from_uuid(reader.uuid()?);
        let expires_ms = reader.uint(6)?;
        let (groups_n, seats_n, areas_n) = (reader.uint(1)?, reader.uint(2)?, reader.uint(1)?);
        let lock = match flags & LOCKED {
            0 => None,
            _ => Some((OrderId::from_uuid(reader.uuid()?), reader.uint(6)?)),
        };
        let mut groups = Vec::with_capacity(groups_n as usize);
        for _ in 0..groups_n {
            groups.push((reader.uint(1)? as u8, reader.uint(7)? as i64, reader.uint(7)? as i64));
        }
        let mut lines = Vec::with_capacity((seats_n + areas_n) as usize);
        let mut line = |place, group: u64, quantity| {
            let &(price_tier, price_minor, fee_minor) =
                groups.get(group as usize).ok_or_else(|| InventoryError::Malformed("a line without a price".into()))?;
            lines.push(HoldLine { place, quantity, price_tier, price_minor, fee_minor });
            Ok::<_, InventoryError>(())
        };
        for _ in 0..seats_n {
            let seat = SeatIndex(reader.u32()?);
            line(Place::Seat(seat), reader.uint(1)?, 1)?;
        }
        for _ in 0..areas_n {
            let area = AreaIndex(reader.u32()?);
            let group = reader.uint(1)?;
            line(Place::Area(area), group, reader.u32()?)?;
        }
        Ok(Some(Self { flags: flags & !LOCKED, id, expires_ms, lock, lines }))
    }

    /// Its bytes; lines of one price share a group, as the scripts write them.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut groups: Vec<(u8, i64, i64)> = Vec::new();
        let (mut seats, mut areas) = (Vec::new(), Vec::new());
        let mut seats_n: u16 = 0;
        let mut areas_n: u8 = 0;
        for line in &self.lines {
            let price = (line.price_tier, line.price_minor, line.fee_minor);
            let group = groups.iter().position(|known| *known == price).unwrap_or_else(|| {
                groups.push(price);
                groups.len() - 1
            }) as u8;
            match line.place {
                Place::Seat(seat) => {
                    seats.extend(seat.0.to_le_bytes());
                    seats.push(group);
                    seats_n += 1;
                }
                Place::Area(area) => {
                    areas.extend(area.0.to_le_bytes());
                    areas.push(group);
                    areas.extend(line.quantity.to_le_bytes());
                    areas_n += 1;
                }
            }
        }
        let mut out = vec![self.flags | if self.lock.is_some() { LOCKED } else { 0 }];
        out.extend(self.id.uuid().as_bytes());
        out.extend(&self.expires_ms.to_le_bytes()[..6]);
        out.push(groups.len() as u8);
        out.extend(seats_n.to_le_bytes());
        out.push(areas_n);
        if let Some((order, until_ms)) = self.lock {
            out.extend(order.uuid().as_bytes());
            out.extend(&until_ms.to_le_bytes()[..6]);
        }
        for (price_tier, price_minor, fee_minor) in groups {
            encode_group(&mut out, price_tier, price_minor, fee_minor);
        }
        out.extend(seats);
        out.extend(areas);
        out
    }

    /// The hold as other rooms see it.
    pub(super) fn into_record(self, identity: IdentityId) -> HoldRecord {
        HoldRecord {
            id: self.id,
            identity,
            expires_ms: self.lock.map_or(self.expires_ms, |(_, until_ms)| until_ms),
            is_extended: self.flags & EXTENDED != 0,
            locked_by: self.lock.map(|(order, _)| order),
            is_offer: self.flags & OFFER != 0,
            lines: self.lines,
        }
    }
}

/// The hold in these bytes as other rooms see it; `None` for none.
pub(super) fn decode_hold(identity: IdentityId, bytes: &[u8]) -> Result<Option<HoldRecord>, InventoryError> {
    Ok(StoredHold::decode(bytes)?.map(|hold| hold.into_record(identity)))
}

/// A price as a hold keeps it.
pub(super) fn encode_group(out: &mut Vec<u8>, price_tier: u8, price_minor: i64, fee_minor: i64) {
    out.push(price_tier);
    out.extend(&price_minor.to_le_bytes()[..7]);
    out.extend(&fee_minor.to_le_bytes()[..7]);
}

/// What Redis knows of an identity in one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IdentityRecord {
    pub(super) number: u32,
    pub(super) bought: u32,
    pub(super) admitted_ms: u64,
    pub(super) unlocked: u32,
    /// Minute at which it is looked at to be forgotten.
    pub(super) listed: u32,
    /// Whether older answers lie in shared buckets.
    pub(super) has_spilled: bool,
    /// Holds that ended: id, when (6 bytes), each.
    pub(super) ended: Vec<u8>,
    pub(super) hold: Vec<u8>,
    /// How many, then each: key 8, fingerprint 8, second 4, length 2, answer.
    pub(super) answers: Vec<u8>,
}

const ENDING_BYTES: usize = 22;
/// Of an answer before its length and bytes.
const ANSWER_NAME_BYTES: usize = 20;
/// Of an answer before the length of its hold.
const ANSWER_HEAD_BYTES: usize = 17;

impl IdentityRecord {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, InventoryError> {
        let mut reader = Reader(bytes);
        let (number, bought) = (reader.u32()?, reader.u32()?);
        let (admitted_ms, unlocked, listed) = (reader.uint(6)?, reader.u32()?, reader.u32()?);
        let (has_spilled, ended_n, hold_len) = (reader.uint(1)? == 1, reader.uint(1)?, reader.uint(2)?);
        let ended = reader.bytes(ended_n as usize * ENDING_BYTES)?.to_vec();
        let hold = reader.bytes(hold_len as usize)?.to_vec();
        Ok(Self { number, bought, admitted_ms, unlocked, listed, has_spilled, ended, hold, answers: reader.0.to_vec() })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(27 + self.ended.len() + self.hold.len() + self.answers.len());
        out.extend(self.number.to_le_bytes());
        out.extend(self.bought.to_le_bytes());
        out.extend(&self.admitted_ms.to_le_bytes()[..6]);
        out.extend(self.unlocked.to_le_bytes());
        out.extend(self.listed.to_le_bytes());
        out.push(u8::from(self.has_spilled));
        out.push((self.ended.len() / ENDING_BYTES) as u8);
        out.extend((self.hold.len() as u16).to_le_bytes());
        out.extend(&self.ended);
        out.extend(&self.hold);
        if self.answers.is_empty() {
            out.push(0)
        } else {
            out.extend(&self.answers)
        }
        out
    }

    /// Whether a rebuild could not make it again from the orders alone.
    pub(super) fn is_worth_keeping(&self) -> bool {
        !self.hold.is_empty()
            || !self.ended.is_empty()
            || self.answers.first().is_some_and(|&n| n > 0)
            || self.admitted_ms > 0
            || self.unlocked > 0
            || self.has_spilled
    }

    /// Answers that said "with the current hold" say which one they meant.
    pub(super) fn settle_answers(&mut self) -> Result<(), InventoryError> {
        let mut reader = Reader(&self.answers);
        let Ok(count) = reader.uint(1) else { return Ok(()) };
        let mut out = vec![count as u8];
        for _ in 0..count {
            out.extend(reader.bytes(ANSWER_NAME_BYTES)?);
            let len = reader.uint(2)? as usize;
            let mut answer = reader.bytes(len)?.to_vec();
            if answer.get(ANSWER_HEAD_BYTES..ANSWER_HEAD_BYTES + 2) == Some(&[0xff, 0xff]) {
                let hold = (self.hold.len() as u16).to_le_bytes();
                let meant = hold.iter().chain(&self.hold).copied();
                answer.splice(ANSWER_HEAD_BYTES..ANSWER_HEAD_BYTES + 2, meant);
            }
            out.extend((answer.len() as u16).to_le_bytes());
            out.extend(answer);
        }
        self.answers = out;
        Ok(())
    }

    /// Notes that a hold ended; of more than four the oldest is forgotten.
    pub(super) fn note_ending(&mut self, hold: HoldId, at_ms: u64) {
        if self.ended.len() >= 4 * ENDING_BYTES {
            self.ended.drain(..self.ended.len() - 3 * ENDING_BYTES);
        }
        self.ended.extend(hold.uuid().as_bytes());
        self.ended.extend(&at_ms.to_le_bytes()[..6]);
    }
}
