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
        let mut out = vec![VERSION, self.state, u8::from(self.has_kept_back)];
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

/// The hold in these bytes; `None` for none.
pub(super) fn decode_hold(identity: IdentityId, bytes: &[u8]) -> Result<Option<HoldRecord>, InventoryError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader(bytes);
    let flags = reader.uint(1)? as u8;
    let id = HoldId::from_uuid(reader.uuid()?);
    let mut expires_ms = reader.uint(6)?;
    let (groups_n, seats_n, areas_n) = (reader.uint(1)?, reader.uint(2)?, reader.uint(1)?);
    let mut locked_by = None;
    if flags & LOCKED != 0 {
        locked_by = Some(OrderId::from_uuid(reader.uuid()?));
        expires_ms = reader.uint(6)?;
    }
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
    Ok(Some(HoldRecord {
        id,
        identity,
        expires_ms,
        is_extended: flags & EXTENDED != 0,
        locked_by,
        is_offer: flags & OFFER != 0,
        lines,
    }))
}

/// A price as a hold keeps it.
pub(super) fn encode_group(out: &mut Vec<u8>, price_tier: u8, price_minor: i64, fee_minor: i64) {
    out.push(price_tier);
    out.extend(&price_minor.to_le_bytes()[..7]);
    out.extend(&fee_minor.to_le_bytes()[..7]);
}
