//! Reads a frame somebody else wrote: header, deflate, records; every rule of the format is checked
//! and nothing larger than the format allows is ever held. Comes from the network, leads to `view`.

use flate2::{Decompress, FlushDecompress, Status};
use roaring::RoaringBitmap;

use super::{
    FIRST_OPTIONAL_TAG, FrameError, FrameHeader, FrameKind, SeatEncoding, TAG_AREAS, TAG_AVAILABLE, TAG_BLOCKED,
    TAG_HELD, TAG_PACKED, TAG_SOLD,
};
use crate::leb128;
use crate::packed::PackedStates;
use crate::seat::{AreaIndex, SeatIndex, SeatState};

/// Deflate cannot shrink by more than this factor, so a header that promises more is a lie.
const MAX_DEFLATE_RATIO: usize = 1032;
/// Seats of one roaring container; a set over n seats has at most n / this, rounded up.
const SEATS_PER_CONTAINER: u32 = 1 << 16;

/// A decoded frame that has passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Its header.
    pub header: FrameHeader,
    /// The seats it names.
    pub seats: SeatRecords,
    /// The areas it names, with places remaining; each at most once.
    pub areas: Vec<(AreaIndex, u32)>,
}

/// The seats a frame names.
#[derive(Debug, Clone, PartialEq)]
pub enum SeatRecords {
    /// Disjoint sets by state number: available, held, sold, blocked.
    Sets([RoaringBitmap; 4]),
    /// All seats.
    Packed(PackedStates),
}

impl SeatRecords {
    /// Calls `visit` once for each seat named: by state, then by index; packed records in seat order.
    pub fn for_each(&self, mut visit: impl FnMut(SeatIndex, SeatState)) {
        match self {
            Self::Sets(sets) => {
                let states = [SeatState::Available, SeatState::Held, SeatState::Sold, SeatState::Blocked];
                for (state, set) in states.into_iter().zip(sets) {
                    for seat in set {
                        visit(SeatIndex(seat), state);
                    }
                }
            }
            Self::Packed(packed) => {
                for (seat, state) in (0..).zip(packed.iter()) {
                    visit(SeatIndex(seat), state);
                }
            }
        }
    }
}

/// Decodes one frame. For many frames keep a [`FrameDecoder`]: it reuses its buffers.
///
/// # Errors
/// A [`FrameError`] naming the first rule broken.
pub fn decode_frame(bytes: &[u8], seat_count: u32, area_count: u32) -> Result<Frame, FrameError> {
    FrameDecoder::new().decode(bytes, seat_count, area_count)
}

/// Decodes frames, reusing one inflater and one buffer (at most 4 MiB, the format's limit).
#[derive(Debug)]
pub struct FrameDecoder {
    inflater: Decompress,
    inflated: Vec<u8>,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameDecoder {
    /// A decoder with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self { inflater: Decompress::new(false), inflated: Vec::new() }
    }

    /// Decodes one frame of an event with so many seats and areas.
    ///
    /// # Errors
    /// A [`FrameError`] naming the first rule broken.
    pub fn decode(&mut self, bytes: &[u8], seat_count: u32, area_count: u32) -> Result<Frame, FrameError> {
        let header = FrameHeader::decode(bytes)?;
        let carried = &bytes[usize::from(header.header_bytes)..];
        let payload = if header.is_deflated {
            self.inflate(carried, header.payload_bytes as usize)?;
            &self.inflated[..header.payload_bytes as usize]
        } else {
            carried
        };
        let mut records = Records::new(header.encoding, seat_count, area_count);
        records.read(payload)?;
        records.finish(header)
    }

    /// Fills `self.inflated` with exactly `payload_bytes`, from a stream that ends where `carried` ends.
    fn inflate(&mut self, carried: &[u8], payload_bytes: usize) -> Result<(), FrameError> {
        if payload_bytes > carried.len().saturating_mul(MAX_DEFLATE_RATIO) {
            return Err(FrameError::PayloadLength);
        }
        // One byte more than promised: a stream that fills it is too long, and is stopped there.
        self.inflated.resize(payload_bytes + 1, 0);
        self.inflater.reset(false);
        let status = self
            .inflater
            .decompress(carried, &mut self.inflated, FlushDecompress::Finish)
            .map_err(|_| FrameError::Deflate)?;
        let ended = status == Status::StreamEnd && self.inflater.total_in() == carried.len() as u64;
        match self.inflater.total_out().cmp(&(payload_bytes as u64)) {
            std::cmp::Ordering::Equal if ended => Ok(()),
            std::cmp::Ordering::Greater => Err(FrameError::PayloadLength),
            std::cmp::Ordering::Less if ended => Err(FrameError::PayloadLength),
            _ => Err(FrameError::Deflate),
        }
    }
}

/// The records of one payload while they are read.
struct Records {
    encoding: SeatEncoding,
    seat_count: u32,
    area_count: u32,
    sets: [RoaringBitmap; 4],
    packed: Option<PackedStates>,
    areas: Vec<(AreaIndex, u32)>,
    seen_areas: Vec<bool>,
}

impl Records {
    fn new(encoding: SeatEncoding, seat_count: u32, area_count: u32) -> Self {
        Self {
            encoding,
            seat_count,
            area_count,
            sets: Default::default(),
            packed: None,
            areas: Vec::new(),
            seen_areas: Vec::new(),
        }
    }

    fn read(&mut self, mut payload: &[u8]) -> Result<(), FrameError> {
        while let Some((&tag, rest)) = payload.split_first() {
            payload = rest;
            let body_bytes = leb128::read(&mut payload).ok_or(FrameError::Leb128)?;
            let (body, rest) = payload.split_at_checked(body_bytes as usize).ok_or(FrameError::Truncated)?;
            payload = rest;
            let wanted = match tag {
                TAG_HELD | TAG_SOLD | TAG_BLOCKED | TAG_AVAILABLE => Some(SeatEncoding::Roaring),
                TAG_PACKED => Some(SeatEncoding::Packed2),
                _ => None,
            };
            if wanted.is_some_and(|wanted| wanted != self.encoding) {
                return Err(FrameError::MisplacedRecord(tag));
            }
            match tag {
                TAG_HELD => self.read_set(SeatState::Held, body)?,
                TAG_SOLD => self.read_set(SeatState::Sold, body)?,
                TAG_BLOCKED => self.read_set(SeatState::Blocked, body)?,
                TAG_AVAILABLE => self.read_set(SeatState::Available, body)?,
                TAG_AREAS => self.read_areas(body)?,
                TAG_PACKED => self.read_packed(body)?,
                FIRST_OPTIONAL_TAG.. => {}
                _ => return Err(FrameError::UnknownTag(tag)),
            }
        }
        Ok(())
    }

    fn read_set(&mut self, state: SeatState, body: &[u8]) -> Result<(), FrameError> {
        let set = read_roaring(body, self.seat_count)?;
        if self.sets.iter().any(|other| !other.is_disjoint(&set)) {
            return Err(FrameError::SeatTwice);
        }
        self.sets[state as usize] |= set;
        Ok(())
    }

    fn read_areas(&mut self, mut body: &[u8]) -> Result<(), FrameError> {
        if !body.is_empty() {
            self.seen_areas.resize(self.area_count as usize, false);
        }
        while !body.is_empty() {
            let area = AreaIndex(leb128::read(&mut body).ok_or(FrameError::Leb128)?);
            let remaining = leb128::read(&mut body).ok_or(FrameError::Leb128)?;
            let seen = self.seen_areas.get_mut(area.position()).ok_or(FrameError::AreaRange)?;
            if std::mem::replace(seen, true) {
                return Err(FrameError::AreaTwice);
            }
            self.areas.push((area, remaining));
        }
        Ok(())
    }

    fn read_packed(&mut self, body: &[u8]) -> Result<(), FrameError> {
        if self.packed.is_some() {
            return Err(FrameError::MisplacedRecord(TAG_PACKED));
        }
        self.packed = Some(PackedStates::from_bytes(body.to_vec(), self.seat_count).ok_or(FrameError::Packed)?);
        Ok(())
    }

    fn finish(self, header: FrameHeader) -> Result<Frame, FrameError> {
        if header.kind == FrameKind::Snapshot && self.areas.len() != self.area_count as usize {
            return Err(FrameError::AreaMissing);
        }
        let seats = match (header.encoding, self.packed) {
            (SeatEncoding::Packed2, Some(packed)) => SeatRecords::Packed(packed),
            (SeatEncoding::Packed2, None) => return Err(FrameError::MisplacedRecord(TAG_PACKED)),
            (SeatEncoding::None | SeatEncoding::Roaring, _) => SeatRecords::Sets(self.sets),
        };
        Ok(Frame { header, seats, areas: self.areas })
    }
}

/// Reads one roaring set in the portable format that fills `body` and stays below `seat_count`.
pub(crate) fn read_roaring(body: &[u8], seat_count: u32) -> Result<RoaringBitmap, FrameError> {
    if containers_promised(body).ok_or(FrameError::Roaring)? > seat_count.div_ceil(SEATS_PER_CONTAINER) {
        return Err(FrameError::SeatRange);
    }
    let mut rest = body;
    // The checked reader: it verifies order and cardinality, which the unchecked one leaves to luck.
    let set = RoaringBitmap::deserialize_from(&mut rest).map_err(|_| FrameError::Roaring)?;
    if !rest.is_empty() {
        return Err(FrameError::Roaring);
    }
    if set.max().is_some_and(|last| last >= seat_count) {
        return Err(FrameError::SeatRange);
    }
    Ok(set)
}

/// How many containers the cookie of a roaring set promises, before anything is reserved for them.
fn containers_promised(body: &[u8]) -> Option<u32> {
    const COOKIE_WITH_RUNS: u16 = 12347;
    let (cookie, rest) = body.split_first_chunk::<4>()?;
    let [low, high] = [[cookie[0], cookie[1]], [cookie[2], cookie[3]]].map(u16::from_le_bytes);
    if low == COOKIE_WITH_RUNS {
        return Some(u32::from(high) + 1);
    }
    rest.first_chunk::<4>().map(|count| u32::from_le_bytes(*count))
}
