//! Writes frames: one payload, deflated when that is smaller, behind its header and, for sockets, a
//! WebSocket header, contiguous, so that one buffer serves every viewer. `snapshot` and `delta` fill
//! the payload; the server's map is the caller. No allocation once the buffers have grown.

use flate2::{Compress, Compression, FlushCompress, Status};
use roaring::RoaringBitmap;

use super::runs::deflate_runs;
use super::{
    FrameHeader, FrameKind, HEADER_BYTES, MAX_PAYLOAD_BYTES, SeatEncoding, TAG_AREAS, TAG_AVAILABLE, TAG_BLOCKED,
    TAG_HELD, TAG_SOLD,
};
use crate::digest::Digest;
use crate::leb128;
use crate::seat::{AreaIndex, SeatState};

/// Below this deflate never wins: its own tables cost about as much.
const MIN_DEFLATE_INPUT_BYTES: usize = 48;
/// Level of the general deflater, which competes for roaring payloads only: 9 takes half as long
/// again and was never smaller by more than 1 % (`benches/size`).
const DEFLATE_LEVEL: u32 = 6;
/// FIN and opcode 2 (binary), unmasked: what a server sends.
const WEBSOCKET_FIN_BINARY: u8 = 0x82;

/// What stands in a frame's header besides what its content decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameMeta {
    /// The node's number for the event; 0 over HTTP.
    pub channel: u32,
    /// Life of the inventory, from 1.
    pub epoch: u32,
    /// First change contained; ignored for snapshots (0) and beacons (`seq_to`).
    pub seq_from: u64,
    /// Last change contained.
    pub seq_to: u64,
    /// Digest of the whole state after the frame.
    pub digest: Digest,
    /// Now, epoch milliseconds.
    pub server_ms: u64,
    /// Whether several changes were merged.
    pub is_coalesced: bool,
}

/// What goes before a frame in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Nothing: HTTP bodies, tests.
    Bare,
    /// A WebSocket server header (FIN, binary, unmasked): the bytes go to sockets as they are.
    WebSocket,
}

/// Encodes frames, reusing its buffers and one deflater (about 300 KB; keep one a thread or event).
#[derive(Debug)]
pub struct FrameEncoder {
    pub(crate) payload: Vec<u8>,
    pub(crate) sorted: [Vec<u32>; 4],
    deflater: Compress,
    deflated: Vec<u8>,
    patterns: Vec<u8>,
}

impl Default for FrameEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameEncoder {
    /// An encoder with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            payload: Vec::new(),
            sorted: Default::default(),
            deflater: Compress::new(Compression::new(DEFLATE_LEVEL), false),
            deflated: Vec::new(),
            patterns: Vec::new(),
        }
    }

    /// Appends one record holding a roaring set, in the smallest container kinds; nothing if it is empty.
    pub(crate) fn push_set(&mut self, state: SeatState, set: &mut RoaringBitmap) {
        if set.is_empty() {
            return;
        }
        set.optimize();
        let tag = match state {
            SeatState::Available => TAG_AVAILABLE,
            SeatState::Held => TAG_HELD,
            SeatState::Sold => TAG_SOLD,
            SeatState::Blocked => TAG_BLOCKED,
        };
        self.payload.push(tag);
        leb128::write(&mut self.payload, u32::try_from(set.serialized_size()).expect("a set over u32 indices"));
        set.serialize_into(&mut self.payload).expect("a Vec takes every byte");
    }

    /// Appends the record of areas; nothing if there are none.
    pub(crate) fn push_areas(&mut self, areas: impl Iterator<Item = (AreaIndex, u32)> + Clone) {
        let mut body_bytes = 0;
        for (area, remaining) in areas.clone() {
            body_bytes += leb128::len(area.0) + leb128::len(remaining);
        }
        if body_bytes == 0 {
            return;
        }
        self.payload.push(TAG_AREAS);
        leb128::write(&mut self.payload, body_bytes);
        for (area, remaining) in areas {
            leb128::write(&mut self.payload, area.0);
            leb128::write(&mut self.payload, remaining);
        }
    }

    /// Appends the frame around `self.payload` to `out`.
    pub(crate) fn finish(
        &mut self,
        out: &mut Vec<u8>,
        kind: FrameKind,
        encoding: SeatEncoding,
        meta: &FrameMeta,
        wrap: Wrap,
    ) {
        let payload_bytes = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        debug_assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "layouts are limited so that this cannot be");
        let is_deflated = self.deflate(encoding);
        let header = FrameHeader { is_deflated, payload_bytes, ..header(kind, encoding, meta) };
        let carried = if is_deflated { &self.deflated } else { &self.payload };
        write_frame(out, &header, carried, wrap);
    }

    /// Deflates the payload into `self.deflated`; false when the plain payload is at least as small.
    fn deflate(&mut self, encoding: SeatEncoding) -> bool {
        if self.payload.len() < MIN_DEFLATE_INPUT_BYTES {
            return false;
        }
        deflate_runs(&self.payload, &mut self.deflated);
        let limit_bytes = self.deflated.len().min(self.payload.len());
        let is_smaller = self.deflated.len() < self.payload.len();
        // Packed states have no patterns worth a search; roaring sets may.
        if encoding == SeatEncoding::Packed2 || !self.deflate_patterns(limit_bytes) {
            return is_smaller;
        }
        std::mem::swap(&mut self.deflated, &mut self.patterns);
        true
    }

    /// Deflates the payload into `self.patterns` if that takes fewer than `limit_bytes`.
    fn deflate_patterns(&mut self, limit_bytes: usize) -> bool {
        self.deflater.reset();
        // No room for a stream that would not be used.
        self.patterns.resize(limit_bytes - 1, 0);
        match self.deflater.compress(&self.payload, &mut self.patterns, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => {
                self.patterns.truncate(usize::try_from(self.deflater.total_out()).expect("fits its buffer"));
                true
            }
            Ok(Status::Ok | Status::BufError) | Err(_) => false,
        }
    }
}

/// Appends a beacon to `out`: where the server stands, without content.
pub fn encode_beacon(out: &mut Vec<u8>, meta: &FrameMeta, wrap: Wrap) {
    write_frame(out, &header(FrameKind::Beacon, SeatEncoding::None, meta), &[], wrap);
}

/// Rewrites the channel of a bare frame: the same snapshot serves HTTP (0) and sockets.
/// A slice that is no frame is left alone.
pub fn set_channel(frame: &mut [u8], channel: u32) {
    if let Some(field) = frame.get_mut(8..12) {
        field.copy_from_slice(&channel.to_le_bytes());
    }
}

/// Bytes of the WebSocket header before a frame of so many bytes: 2, 4 or 10.
#[must_use]
pub const fn websocket_header_bytes(frame_bytes: usize) -> usize {
    match frame_bytes {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    }
}

fn header(kind: FrameKind, encoding: SeatEncoding, meta: &FrameMeta) -> FrameHeader {
    FrameHeader {
        kind,
        is_deflated: false,
        is_coalesced: meta.is_coalesced,
        has_digest: true,
        encoding,
        header_bytes: HEADER_BYTES as u16,
        channel: meta.channel,
        epoch: meta.epoch,
        seq_from: match kind {
            FrameKind::Snapshot => 0,
            FrameKind::Delta => meta.seq_from,
            FrameKind::Beacon => meta.seq_to,
        },
        seq_to: meta.seq_to,
        digest: meta.digest.0,
        payload_bytes: 0,
        server_ms: meta.server_ms,
    }
}

fn write_frame(out: &mut Vec<u8>, header: &FrameHeader, carried: &[u8], wrap: Wrap) {
    let frame_bytes = HEADER_BYTES + carried.len();
    out.reserve(frame_bytes + websocket_header_bytes(frame_bytes));
    if wrap == Wrap::WebSocket {
        out.push(WEBSOCKET_FIN_BINARY);
        match websocket_header_bytes(frame_bytes) {
            2 => out.push(frame_bytes as u8),
            4 => {
                out.push(126);
                out.extend_from_slice(&(frame_bytes as u16).to_be_bytes());
            }
            _ => {
                out.push(127);
                out.extend_from_slice(&(frame_bytes as u64).to_be_bytes());
            }
        }
    }
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(carried);
}
