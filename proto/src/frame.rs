//! Map frames: the 48-byte header, what may stand in it, and why a frame is refused.
//! `snapshot` and `delta` fill frames from states (`FrameEncoder`), `decode` reads foreign ones, and
//! `view` decides what a frame means to a viewer. The layout of the bytes is fixed by proto/README.

mod decode;
mod encode;
mod runs;

pub use decode::{Frame, FrameDecoder, SeatRecords, decode_frame};
pub use encode::{FrameEncoder, FrameMeta, Wrap, encode_beacon, set_channel, websocket_header_bytes};

/// Bytes of the header we write; a longer one may come, its surplus is skipped.
pub const HEADER_BYTES: usize = 48;
/// Most bytes a payload may have after inflating: bounds what a foreign frame can make us hold.
/// A frame that says more is refused; ours reach it only far beyond `layout::MAX_SEATS`.
pub const MAX_PAYLOAD_BYTES: u32 = 4 << 20;
/// The only frame version.
pub const FRAME_VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"SW";
const FLAG_DEFLATE: u8 = 1;
const FLAG_COALESCED: u8 = 2;
const FLAG_DIGEST: u8 = 8;

/// Tags below this must be known; others are skipped.
const FIRST_OPTIONAL_TAG: u8 = 0x80;
const TAG_HELD: u8 = 1;
const TAG_SOLD: u8 = 2;
const TAG_BLOCKED: u8 = 3;
const TAG_AVAILABLE: u8 = 4;
const TAG_AREAS: u8 = 5;
pub(crate) const TAG_PACKED: u8 = 6;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// The whole map.
    Snapshot = 1,
    /// What changed, as it is now.
    Delta = 2,
    /// Where the server stands.
    Beacon = 3,
}

/// How seats are written in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SeatEncoding {
    /// No seat records.
    None = 0,
    /// Roaring sets by state.
    Roaring = 1,
    /// 2 bits a seat; snapshots only, for those who accept `packed2`.
    Packed2 = 2,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it is.
    pub kind: FrameKind,
    /// Whether the payload is deflated.
    pub is_deflated: bool,
    /// Whether several changes were merged into it.
    pub is_coalesced: bool,
    /// Whether `digest` may be compared.
    pub has_digest: bool,
    /// How seats are written.
    pub encoding: SeatEncoding,
    /// Bytes before the payload, at least 48.
    pub header_bytes: u16,
    /// The node's number for the event; 0 over HTTP.
    pub channel: u32,
    /// Life of the inventory, from 1.
    pub epoch: u32,
    /// First change contained; 0 in a snapshot.
    pub seq_from: u64,
    /// Last change contained.
    pub seq_to: u64,
    /// Digest of the whole state after applying.
    pub digest: u32,
    /// Bytes of the payload after inflating.
    pub payload_bytes: u32,
    /// The server's clock when it was encoded, epoch milliseconds.
    pub server_ms: u64,
}

/// Why a frame is not taken. All but `UnknownVersion` and `UnknownKind` make it invalid, which a
/// viewer answers with a resync from seq 0; those two come from a newer server and are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FrameError {
    /// A later frame version: drop.
    #[error("frame version {0} is not known")]
    UnknownVersion(u8),
    /// A later kind: drop.
    #[error("frame kind {0} is not known")]
    UnknownKind(u8),
    /// Shorter than its header or its records say.
    #[error("frame is cut short")]
    Truncated,
    /// Does not begin with `SW`.
    #[error("not a map frame")]
    Magic,
    /// Header length below 48.
    #[error("header length below 48")]
    HeaderLength,
    /// No such encoding, or not in this kind of frame.
    #[error("seat encoding {0} is not allowed here")]
    Encoding(u8),
    /// Epoch 0, or a range of changes that this kind cannot have.
    #[error("impossible epoch or range of changes")]
    Position,
    /// The payload is not as long as the header says.
    #[error("payload length differs from the header")]
    PayloadLength,
    /// More than 4 MiB after inflating.
    #[error("payload above the limit")]
    TooLarge,
    /// Not a deflate stream that ends where the frame ends.
    #[error("damaged deflate stream")]
    Deflate,
    /// A number that is cut short, above 32 bits or longer than needed.
    #[error("damaged LEB128 number")]
    Leb128,
    /// A tag below 0x80 that version 1 does not have.
    #[error("record tag {0} is not known")]
    UnknownTag(u8),
    /// A record the encoding of the header does not allow, or record 6 absent or twice.
    #[error("record tag {0} does not fit the encoding")]
    MisplacedRecord(u8),
    /// Not a roaring set in the portable format.
    #[error("damaged roaring set")]
    Roaring,
    /// A seat index not below seat_count.
    #[error("seat index out of range")]
    SeatRange,
    /// A seat in two sets.
    #[error("a seat stands in two sets")]
    SeatTwice,
    /// An area index not below area_count.
    #[error("area index out of range")]
    AreaRange,
    /// An area named twice.
    #[error("an area is named twice")]
    AreaTwice,
    /// A snapshot that does not name every area.
    #[error("a snapshot must name every area")]
    AreaMissing,
    /// Record 6 of another length than seat_count needs, or with spare bits set.
    #[error("packed states have a wrong length or spare bits")]
    Packed,
}

impl FrameError {
    /// Whether the frame comes from a later version and is simply dropped.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::UnknownVersion(_) | Self::UnknownKind(_))
    }
}

impl FrameHeader {
    /// Reads the header at the front of a frame and checks what can be checked without the payload.
    ///
    /// # Errors
    /// A [`FrameError`]; later versions and kinds are recognised before anything else is read.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        Self::decode_front(bytes, bytes.len())
    }

    /// As [`FrameHeader::decode`], of a frame of `frame_bytes` of which only the front was kept.
    ///
    /// # Errors
    /// As there.
    pub fn decode_front(bytes: &[u8], frame_bytes: usize) -> Result<Self, FrameError> {
        let (&[s, w, version, kind], _) = bytes.split_first_chunk::<4>().ok_or(FrameError::Truncated)?;
        if [s, w] != MAGIC {
            return Err(FrameError::Magic);
        }
        if version != FRAME_VERSION {
            return Err(FrameError::UnknownVersion(version));
        }
        let kind = match kind {
            1 => FrameKind::Snapshot,
            2 => FrameKind::Delta,
            3 => FrameKind::Beacon,
            other => return Err(FrameError::UnknownKind(other)),
        };
        let head: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(FrameError::Truncated)?;
        let flags = head[4];
        let encoding = match (head[5], kind) {
            (0, _) => SeatEncoding::None,
            (1, FrameKind::Snapshot | FrameKind::Delta) => SeatEncoding::Roaring,
            (2, FrameKind::Snapshot) => SeatEncoding::Packed2,
            (other, _) => return Err(FrameError::Encoding(other)),
        };
        let header = Self {
            kind,
            is_deflated: flags & FLAG_DEFLATE != 0,
            is_coalesced: flags & FLAG_COALESCED != 0,
            has_digest: flags & FLAG_DIGEST != 0,
            encoding,
            header_bytes: u16::from_le_bytes([head[6], head[7]]),
            channel: u32_at(head, 8),
            epoch: u32_at(head, 12),
            seq_from: u64_at(head, 16),
            seq_to: u64_at(head, 24),
            digest: u32_at(head, 32),
            payload_bytes: u32_at(head, 36),
            server_ms: u64_at(head, 40),
        };
        header.check(frame_bytes)?;
        Ok(header)
    }

    fn check(&self, frame_bytes: usize) -> Result<(), FrameError> {
        if usize::from(self.header_bytes) < HEADER_BYTES {
            return Err(FrameError::HeaderLength);
        }
        if frame_bytes < usize::from(self.header_bytes) {
            return Err(FrameError::Truncated);
        }
        let range_fits = match self.kind {
            FrameKind::Snapshot => self.seq_from == 0,
            FrameKind::Delta => self.seq_from <= self.seq_to,
            FrameKind::Beacon => self.seq_from == self.seq_to,
        };
        if self.epoch == 0 || !range_fits {
            return Err(FrameError::Position);
        }
        if self.payload_bytes > MAX_PAYLOAD_BYTES {
            return Err(FrameError::TooLarge);
        }
        let carried_bytes = frame_bytes - usize::from(self.header_bytes);
        let is_plain = !self.is_deflated;
        if is_plain && carried_bytes < self.payload_bytes as usize {
            return Err(FrameError::Truncated);
        }
        if is_plain && carried_bytes != self.payload_bytes as usize {
            return Err(FrameError::PayloadLength);
        }
        if self.kind == FrameKind::Beacon && carried_bytes != 0 {
            return Err(FrameError::PayloadLength);
        }
        Ok(())
    }

    /// The 48 bytes. `header_bytes` is written as 48 whatever the field says.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut head = [0; HEADER_BYTES];
        head[..2].copy_from_slice(&MAGIC);
        head[2] = FRAME_VERSION;
        head[3] = self.kind as u8;
        head[4] = if self.is_deflated { FLAG_DEFLATE } else { 0 }
            | if self.is_coalesced { FLAG_COALESCED } else { 0 }
            | if self.has_digest { FLAG_DIGEST } else { 0 };
        head[5] = self.encoding as u8;
        head[6..8].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
        head[8..12].copy_from_slice(&self.channel.to_le_bytes());
        head[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        head[16..24].copy_from_slice(&self.seq_from.to_le_bytes());
        head[24..32].copy_from_slice(&self.seq_to.to_le_bytes());
        head[32..36].copy_from_slice(&self.digest.to_le_bytes());
        head[36..40].copy_from_slice(&self.payload_bytes.to_le_bytes());
        head[40..48].copy_from_slice(&self.server_ms.to_le_bytes());
        head
    }
}

fn u32_at(head: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&head[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(bytes)
}
