//! How far a session is with an event it looks at, and how often it was caught up with a snapshot.

use crate::seatmap::{LiveEvent, MapFrame, SnapshotEncoding};
use crate::slots::Slot;
use seatwire_proto::client::Position;
use std::sync::Arc;

/// Between two snapshots that catch up the same viewer.
const SNAPSHOT_EVERY_MS: u64 = 2_000;

/// One event this session looks at.
#[derive(Debug)]
pub(in crate::socket) struct Sub {
    pub(in crate::socket) live: Arc<LiveEvent>,
    pub(in crate::socket) slot: Slot,
    pub(super) epoch: u32,
    pub(super) encoding: SnapshotEncoding,
    /// Behind: the next frames come from the ring or as a snapshot, not from the fan-out.
    pub(super) is_stale: bool,
    /// It fell behind because its socket took too little, so the fewest bytes are best.
    pub(super) is_slow: bool,
    /// Its position is of no use: only a snapshot helps.
    pub(super) is_lost: bool,
    pub(super) seq: u64,
}

impl Sub {
    /// Stands at `from`, where epoch 0 means nowhere; caught up from there.
    pub(in crate::socket) const fn new(
        live: Arc<LiveEvent>,
        slot: Slot,
        from: Position,
        encoding: SnapshotEncoding,
    ) -> Self {
        let is_lost = from.epoch == 0;
        Self { live, slot, epoch: from.epoch, seq: from.seq, encoding, is_stale: true, is_slow: false, is_lost }
    }

    /// Goes back to `from`, where seq 0 asks for a snapshot; caught up from there.
    pub(in crate::socket) const fn rewind(&mut self, from: Position) {
        self.epoch = from.epoch;
        self.seq = from.seq;
        self.is_stale = true;
        self.is_lost = from.seq == 0;
    }

    /// Begins again, as the client subscribed again.
    pub(in crate::socket) const fn restart_at(&mut self, from: Position, encoding: SnapshotEncoding) {
        self.rewind(from);
        self.is_lost = from.epoch == 0;
        self.encoding = encoding;
    }

    pub(super) const fn position(&self) -> Option<Position> {
        if self.is_lost { None } else { Some(Position { epoch: self.epoch, seq: self.seq }) }
    }

    pub(super) const fn arrive(&mut self, frame: &MapFrame) {
        self.epoch = frame.epoch;
        self.seq = frame.seq_to;
        self.is_lost = false;
    }
}

/// How often a viewer was caught up with a snapshot.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    last_ms: u64,
    minute_began_ms: u64,
    pub(super) in_minute: u32,
}

impl Snapshots {
    /// Whether another snapshot may go out now; counts it.
    pub(super) fn allow(&mut self, now_ms: u64) -> bool {
        if self.last_ms != 0 && now_ms < self.last_ms + SNAPSHOT_EVERY_MS {
            return false;
        }
        if now_ms >= self.minute_began_ms + 60_000 {
            self.minute_began_ms = now_ms;
            self.in_minute = 0;
        }
        self.last_ms = now_ms.max(1);
        self.in_minute += 1;
        true
    }
}
