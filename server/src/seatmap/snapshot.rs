//! Whole maps as bytes, built only when somebody needs one, at most once a tick and encoding, and shared by everyone
//! who joins in that tick: sockets and HTTP.

use super::batch;
use super::board::Board;
use super::hub::MapFrame;
use bytes::Bytes;
use seatwire_proto::client::Position;
use seatwire_proto::frame::{FrameKind, FrameMeta, SeatEncoding, Wrap, set_channel, websocket_header_bytes};
use seatwire_proto::seat::SeatState;

/// How seats are written in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotEncoding {
    /// Roaring sets; for everyone.
    Roaring,
    /// 2 bits a seat; for those who accept `packed2`.
    Packed2,
}

impl SnapshotEncoding {
    /// `"packed2"` in a list of accepted encodings.
    #[must_use]
    pub fn of(accepts: &[String]) -> Self {
        if accepts.iter().any(|name| name == "packed2") { Self::Packed2 } else { Self::Roaring }
    }
}

/// A snapshot as HTTP serves it: channel 0, the same bytes on every node for the same position.
#[derive(Debug, Clone)]
pub struct HttpSnapshot {
    /// Where it stands.
    pub position: Position,
    /// The frame, or the JSON.
    pub bytes: Bytes,
}

/// What is kept for the next who asks.
#[derive(Debug, Default)]
pub(super) struct SnapshotCache {
    frames: [Option<Cached>; 2],
    json: Option<HttpSnapshot>,
}

#[derive(Debug, Clone)]
struct Cached {
    position: Position,
    http: Bytes,
    socket: Bytes,
}

/// What a snapshot is made of, copied out of the board so that nothing waits for the encoder.
#[derive(Debug)]
pub(super) struct Copied {
    position: Position,
    changed_ms: u64,
    states: Vec<SeatState>,
    areas: Vec<u32>,
    digest: seatwire_proto::digest::Digest,
}

impl Copied {
    pub(super) fn of(board: &Board) -> Self {
        Self {
            position: board.position(),
            changed_ms: board.changed_ms(),
            states: board.states().to_vec(),
            areas: board.areas().to_vec(),
            digest: board.digest(),
        }
    }
}

/// Whether something at `position` may still be given to a viewer whose next frame begins behind `sent`.
fn is_current(position: Position, sent: Position) -> bool {
    position.epoch == sent.epoch && position.seq >= sent.seq
}

impl SnapshotCache {
    /// The frame for sockets.
    pub(super) fn socket(
        &mut self,
        encoding: SnapshotEncoding,
        channel: u32,
        now_ms: u64,
        sent: Position,
        copy: impl FnOnce() -> Copied,
    ) -> MapFrame {
        let cached = self.frame(encoding, channel, now_ms, sent, copy);
        MapFrame {
            channel,
            kind: FrameKind::Snapshot,
            epoch: cached.position.epoch,
            seq_from: 0,
            seq_to: cached.position.seq,
            bytes: cached.socket.clone(),
        }
    }

    /// The frame for HTTP.
    pub(super) fn http(
        &mut self,
        encoding: SnapshotEncoding,
        channel: u32,
        now_ms: u64,
        sent: Position,
        copy: impl FnOnce() -> Copied,
    ) -> HttpSnapshot {
        let cached = self.frame(encoding, channel, now_ms, sent, copy);
        HttpSnapshot { position: cached.position, bytes: cached.http.clone() }
    }

    /// `{epoch, seq, states, areas}`.
    pub(super) fn json(&mut self, sent: Position, copy: impl FnOnce() -> Copied) -> HttpSnapshot {
        if let Some(cached) = &self.json
            && is_current(cached.position, sent)
        {
            return cached.clone();
        }
        let copied = copy();
        let states: String = copied.states.iter().map(|state| char::from(b'0' + *state as u8)).collect();
        let body = serde_json::json!({
            "epoch": copied.position.epoch,
            "seq": copied.position.seq,
            "states": states,
            "areas": copied.areas,
        });
        let snapshot = HttpSnapshot { position: copied.position, bytes: body.to_string().into() };
        self.json.insert(snapshot).clone()
    }

    /// Bytes of the last socket snapshot in this encoding, to weigh it against the ring; `None` before the first.
    pub(super) fn last_bytes(&self, encoding: SnapshotEncoding) -> Option<usize> {
        self.frames[encoding as usize].as_ref().map(|cached| cached.socket.len())
    }

    fn frame(
        &mut self,
        encoding: SnapshotEncoding,
        channel: u32,
        now_ms: u64,
        sent: Position,
        copy: impl FnOnce() -> Copied,
    ) -> &Cached {
        let slot = &mut self.frames[encoding as usize];
        match slot {
            Some(cached) if is_current(cached.position, sent) => {}
            _ => *slot = Some(build(encoding, channel, now_ms, &copy())),
        }
        slot.as_ref().expect("filled just above")
    }
}

fn build(encoding: SnapshotEncoding, channel: u32, now_ms: u64, copied: &Copied) -> Cached {
    let seats = match encoding {
        SnapshotEncoding::Roaring => SeatEncoding::Roaring,
        SnapshotEncoding::Packed2 => SeatEncoding::Packed2,
    };
    let meta = FrameMeta {
        channel: 0,
        epoch: copied.position.epoch,
        seq_from: 0,
        seq_to: copied.position.seq,
        digest: copied.digest,
        // Not now but the last change: so the bytes of one position are the same on every node.
        server_ms: copied.changed_ms,
        is_coalesced: false,
    };
    let http = batch::encode(|encoder, out| {
        encoder.snapshot(out, &meta, &copied.states, &copied.areas, seats, Wrap::Bare);
    });
    Cached { position: copied.position, socket: for_socket(&http, channel, now_ms), http }
}

/// The same frame behind a WebSocket header, with the node's channel and the present time; nothing is deflated twice.
fn for_socket(http: &[u8], channel: u32, now_ms: u64) -> Bytes {
    const SERVER_MS_AT: usize = 40;
    let mut bytes = Vec::with_capacity(http.len() + websocket_header_bytes(http.len()));
    bytes.push(0x82);
    match websocket_header_bytes(http.len()) {
        2 => bytes.push(http.len() as u8),
        4 => {
            bytes.push(126);
            bytes.extend_from_slice(&(http.len() as u16).to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend_from_slice(&(http.len() as u64).to_be_bytes());
        }
    }
    let frame_at = bytes.len();
    bytes.extend_from_slice(http);
    let frame = &mut bytes[frame_at..];
    set_channel(frame, channel);
    frame[SERVER_MS_AT..SERVER_MS_AT + 8].copy_from_slice(&now_ms.to_le_bytes());
    bytes.into()
}
