//! Who looks at an event, and how the same bytes reach all of them. Viewers live in numbered slots, so that a fan-out can
//! go on in chunks while others come and leave; each round starts elsewhere, so that nobody is always last.
//! `batch` comes in with a frame; transports (`socket`) are the viewers.

use crate::slots::{Slot, Slots};
use bytes::Bytes;
use seatwire_proto::frame::FrameKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Viewers served before other tasks of the thread get their turn: about 1.5 ms at 5 us a write.
const CHUNK: usize = 256;
/// Slots the starting point moves on each round: prime, so that it visits every region.
const START_STRIDE: usize = 7919;

/// One frame of an event, WebSocket header included, as every viewer gets it.
#[derive(Debug, Clone)]
pub struct MapFrame {
    /// The node's number for the event.
    pub channel: u32,
    /// What it is.
    pub kind: FrameKind,
    /// Life of the inventory.
    pub epoch: u32,
    /// First change contained.
    pub seq_from: u64,
    /// Last change contained.
    pub seq_to: u64,
    /// What goes on the socket.
    pub bytes: Bytes,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Written, whole or in part; the transport finishes it.
    Sent,
    /// Not written: known already, or the viewer is behind and its transport will catch it up.
    Skipped,
}

/// Somebody who looks at events. Called from the fan-out, so it neither blocks nor waits.
pub trait Viewer: Send + Sync {
    /// Takes a frame of an event.
    fn deliver(&self, frame: &MapFrame) -> Delivery;

    /// The event began a new life: its snapshot comes before anything else.
    fn restart(&self, channel: u32);

    /// Takes a push to all who look at the event, framed.
    fn notice(&self, text: &Bytes);
}

/// The viewers of one event.
#[derive(Default)]
pub struct Hub {
    viewers: Slots<Arc<dyn Viewer>>,
    rounds: AtomicUsize,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("viewer_count", &self.viewer_count()).finish_non_exhaustive()
    }
}

/// What a round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Frames written.
    pub sent: u64,
}

impl Hub {
    /// Adds a viewer; `None` when the event is being put away and must be looked up again.
    pub fn join(&self, viewer: Arc<dyn Viewer>) -> Option<Slot> {
        self.viewers.join(viewer)
    }

    /// Removes a viewer.
    pub fn leave(&self, slot: Slot) {
        self.viewers.leave(slot);
    }

    /// How many look.
    #[must_use]
    pub fn viewer_count(&self) -> usize {
        self.viewers.count()
    }

    /// Takes no more viewers; `false` when somebody still looks.
    pub(super) fn close_if_empty(&self) -> bool {
        self.viewers.close_if_empty()
    }

    /// Visits every viewer, in chunks, yielding between them. No lock is held while a viewer is served.
    pub async fn each(&self, mut visit: impl FnMut(&dyn Viewer) -> Delivery + Send) -> Round {
        let mut round = Round::default();
        let place_count = self.viewers.place_count();
        if place_count == 0 {
            return round;
        }
        let mut chunk: Vec<Arc<dyn Viewer>> = Vec::with_capacity(CHUNK.min(place_count));
        let start = self.rounds.fetch_add(START_STRIDE, Ordering::Relaxed) % place_count;
        for range in [start..place_count, 0..start] {
            let mut at = range.start;
            while at < range.end {
                let end = (at + CHUNK).min(range.end);
                self.viewers.copy(at..end, &mut chunk);
                at = end;
                for viewer in chunk.drain(..) {
                    if visit(&*viewer) == Delivery::Sent {
                        round.sent += 1;
                    }
                }
                if place_count > CHUNK {
                    tokio::task::yield_now().await;
                }
            }
        }
        round
    }
}
