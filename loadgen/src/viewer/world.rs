//! What the watchers of one worker share, and when each of them joins. Made by `worker`, read and filled by every watcher.

use crate::clock::RunClock;
use crate::delivery::Deliveries;
use crate::pace;
use crate::socket::Target;
use crate::tally::Tally;
use parking_lot::Mutex;
use rand::RngExt;
use seatwire_proto::frame::FrameDecoder;
use seatwire_proto::id::EventId;
use std::sync::atomic::AtomicU32;

/// Where a watcher stands, for the comparison at the end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    pub(crate) epoch: u32,
    pub(crate) seq: u64,
    /// Of its own map if it keeps one, else what the last frame said.
    pub(crate) digest: u32,
    pub(crate) is_live: bool,
}

/// What the watchers of one worker share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: RunClock,
    pub(crate) target: Target,
    pub(crate) run: u32,
    pub(crate) event: EventId,
    pub(crate) accepts_packed2: bool,
    pub(crate) tally: Mutex<Tally>,
    pub(crate) deliveries: Mutex<Deliveries>,
    pub(crate) frames: Mutex<FrameDecoder>,
    pub(crate) standings: Mutex<Vec<Standing>>,
    /// Raised to make every watcher ask for a snapshot at its next frame.
    pub(crate) resync_round: AtomicU32,
    /// Watchers that have had their first snapshot.
    pub(crate) ready: AtomicU32,
    /// Watchers that ended for good.
    pub(crate) gone: AtomicU32,
    /// The first reason a socket could not be opened, to be told.
    pub(crate) first_failure: Mutex<Option<String>>,
}

/// When each watcher of a worker joins: evenly, beginning at a random point of the first interval so that workers mix.
pub(crate) fn join_times(start_us: u64, viewers: u32, connects_per_s: f64, seed: u64, worker: u32) -> Vec<u64> {
    let interval_us = 1e6 / connects_per_s;
    let shift: f64 = pace::chance(seed, "joins", u64::from(worker)).random();
    (0..viewers).map(|no| start_us + ((f64::from(no) + shift) * interval_us) as u64).collect()
}
