//! Cuts frames: merges what changed since the last one, encodes once, WebSocket header included. Decides how long a tick
//! is: a change on a quiet event goes out at once, a storm is coalesced so that writing never takes more than its share.

use super::board::{Board, Dirty};
use super::hub::{MapFrame, Round};
use seatwire_proto::client::Position;
use seatwire_proto::frame::{FrameEncoder, FrameKind, FrameMeta, Wrap, encode_beacon};
use seatwire_proto::seat::AreaIndex;
use std::cell::RefCell;
use std::time::Duration;

/// Share of one core that the fan-out of one event may take; the rest answers commands.
const FANOUT_SHARE: f64 = 0.5;
/// Assumed before anything was measured, seconds a delivery.
const FIRST_DELIVERY_S: f64 = 6e-6;
/// Weight of a new measurement.
const SMOOTHING: f64 = 0.2;
/// Changes a second of one event that nobody can follow by eye any more: above it ticks grow, as its buyers' commands need the
/// cores more than its viewers need every step.
const STORM_PER_S: f64 = 2_000.0;
/// How far a storm alone lengthens a tick, so that a viewer stays within a quarter of a second of the truth.
const STORM_TICK: Duration = Duration::from_millis(250);
/// Rounds below this say nothing about the cost of one delivery.
const MIN_MEASURED: u64 = 32;

struct Scratch {
    encoder: FrameEncoder,
    out: Vec<u8>,
    areas: Vec<(AreaIndex, u32)>,
}

thread_local! {
    /// One deflater a thread (300 KB), not one an event.
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { encoder: FrameEncoder::new(), out: Vec::new(), areas: Vec::new() });
}

/// Runs `encode` on the thread's encoder and returns what it wrote as shared bytes of exactly that size.
pub(super) fn encode(write: impl FnOnce(&mut FrameEncoder, &mut Vec<u8>)) -> bytes::Bytes {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.out.clear();
        write(&mut scratch.encoder, &mut scratch.out);
        bytes::Bytes::copy_from_slice(&scratch.out)
    })
}

/// The delta from `sent` (exclusive) to where the board stands; clears `dirty`. `None` when nothing changed.
pub(super) fn cut(board: &Board, dirty: &mut Dirty, sent: Position, channel: u32, now_ms: u64) -> Option<MapFrame> {
    let position = board.position();
    if position.epoch != sent.epoch || position.seq <= sent.seq {
        return None;
    }
    let meta = FrameMeta {
        channel,
        epoch: position.epoch,
        seq_from: sent.seq + 1,
        seq_to: position.seq,
        digest: board.digest(),
        server_ms: now_ms,
        is_coalesced: dirty.change_count > 1,
    };
    let bytes = SCRATCH.with_borrow_mut(|scratch| {
        scratch.out.clear();
        scratch.areas.clear();
        let remaining = |area: &AreaIndex| board.areas().get(area.position()).map(|remaining| (*area, *remaining));
        scratch.areas.extend(dirty.areas.iter().filter_map(remaining));
        let Scratch { encoder, out, areas } = scratch;
        encoder.delta(out, &meta, board.states(), &dirty.seats, areas, Wrap::WebSocket);
        bytes::Bytes::copy_from_slice(out)
    });
    dirty.clear();
    Some(MapFrame {
        channel,
        kind: FrameKind::Delta,
        epoch: position.epoch,
        seq_from: meta.seq_from,
        seq_to: position.seq,
        bytes,
    })
}

/// Where the server stands.
pub(super) fn beacon(board: &Board, channel: u32, now_ms: u64) -> MapFrame {
    let Position { epoch, seq } = board.position();
    let meta = FrameMeta {
        channel,
        epoch,
        seq_from: seq,
        seq_to: seq,
        digest: board.digest(),
        server_ms: now_ms,
        is_coalesced: false,
    };
    let bytes = encode(|_, out| encode_beacon(out, &meta, Wrap::WebSocket));
    MapFrame { channel, kind: FrameKind::Beacon, epoch, seq_from: seq, seq_to: seq, bytes }
}

/// How long a tick must be.
#[derive(Debug)]
pub(super) struct Pace {
    min: Duration,
    max: Duration,
    delivery_s: f64,
}

impl Pace {
    pub(super) const fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, delivery_s: FIRST_DELIVERY_S }
    }

    /// Learns from a round.
    pub(super) fn measured(&mut self, round: Round, took: Duration) {
        if round.sent >= MIN_MEASURED {
            let measured = took.as_secs_f64() / round.sent as f64;
            self.delivery_s += SMOOTHING * (measured - self.delivery_s);
        }
    }

    /// Viewers times the cost of one, spread so that the fan-out stays within its share; longer in a storm of changes.
    pub(super) fn tick(&self, viewer_count: usize, changes_per_s: f64) -> Duration {
        let needed = viewer_count as f64 * self.delivery_s / FANOUT_SHARE;
        let calm = Duration::from_secs_f64(needed.min(60.0)).clamp(self.min, self.max);
        let stormy = self.min.mul_f64((changes_per_s / STORM_PER_S).clamp(1.0, 60.0)).min(STORM_TICK);
        calm.max(stormy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_with_viewers_and_in_a_storm_of_changes_but_not_without_end() {
        let ms = Duration::from_millis;
        let pace = Pace::new(ms(50), ms(500));
        assert_eq!(pace.tick(500, 0.0), ms(50));
        assert_eq!(pace.tick(500, STORM_PER_S), ms(50));
        assert_eq!(pace.tick(500, 2.0 * STORM_PER_S), ms(100));
        assert_eq!(pace.tick(500, 100.0 * STORM_PER_S), STORM_TICK);
        assert_eq!(pace.tick(30_000, 100.0 * STORM_PER_S), ms(360));
        assert_eq!(pace.tick(1_000_000, 0.0), ms(500));
    }
}
