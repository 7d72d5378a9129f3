//! The last frames of an event, so that a viewer who was away for seconds is caught up with what it missed instead of
//! the whole map. A ring without holes: what falls out falls out at the old end. `batch` fills it, viewers' transports read.

use super::hub::MapFrame;
use seatwire_proto::client::Position;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long frames are kept; the protocol promises 15 s.
const KEEP: Duration = Duration::from_secs(30);
/// Most bytes of one event's ring. 20 frames a second for 30 s reach it only above 7 KB a frame; then the oldest fall
/// out early and their viewers get the snapshot, which is smaller by then.
const MAX_BYTES: usize = 4 << 20;

/// Deltas in order, each beginning where the one before ended.
#[derive(Debug, Default)]
pub struct History {
    frames: VecDeque<(Instant, MapFrame)>,
    bytes: usize,
}

impl History {
    /// Appends the frame just cut.
    pub fn push(&mut self, frame: MapFrame, now: Instant) {
        self.bytes += frame.bytes.len();
        self.frames.push_back((now, frame));
        self.trim(now);
    }

    /// Lets go of what is too old or too much.
    pub fn trim(&mut self, now: Instant) {
        while let Some((cut_at, frame)) = self.frames.front()
            && (self.bytes > MAX_BYTES || now.duration_since(*cut_at) > KEEP)
        {
            self.bytes -= frame.bytes.len();
            self.frames.pop_front();
        }
        if self.frames.is_empty() {
            self.frames.shrink_to(8);
        }
    }

    /// Forgets everything: the epoch is new.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The frame a viewer at `position` needs next, and the bytes from there to the end; `None` when the ring does not
    /// reach back so far.
    #[must_use]
    pub fn next_after(&self, position: Position) -> Option<&MapFrame> {
        let index = self.index_after(position)?;
        self.frames.get(index).map(|(_, frame)| frame)
    }

    /// Bytes a viewer at `position` would be sent from the ring.
    #[must_use]
    pub fn bytes_after(&self, position: Position) -> Option<usize> {
        let index = self.index_after(position)?;
        Some(self.frames.range(index..).map(|(_, frame)| frame.bytes.len()).sum())
    }

    fn index_after(&self, position: Position) -> Option<usize> {
        let index = self.frames.partition_point(|(_, frame)| frame.seq_to <= position.seq);
        let (_, frame) = self.frames.get(index)?;
        (frame.epoch == position.epoch && frame.seq_from <= position.seq + 1).then_some(index)
    }
}
