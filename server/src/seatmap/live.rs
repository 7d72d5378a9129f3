//! One event that somebody looks at: its board, the frames it sent, its viewers. `feed` brings changes in from any
//! thread; `actor` ticks; transports ask what a viewer needs next. Locks are short, never nested but in the order
//! snapshots, core, and never held while bytes are written.

use super::batch;
use super::board::{Applied, Board, Dirty};
use super::grow::Growth;
use super::history::History;
use super::hub::{Delivery, Hub, MapFrame};
use super::in_flight::InFlight;
use super::snapshot::{Copied, HttpSnapshot, SnapshotCache, SnapshotEncoding};
use crate::catalogue::EventFacts;
use crate::clock::Clock;
use crate::inventory::FeedMessage;
use crate::slots::Slot;
use parking_lot::Mutex;
use seatwire_proto::client::Position;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::SeatState;
use seatwire_proto::server::SubscribeReply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};

/// Buyers choosing best seats at once on this node. More would look at the same map and name what is gone when their turn
/// at Redis comes; fewer would leave Redis idle between two of them.
const MAX_CHOOSING: usize = 32;

/// An event that changed within this time is hot: beacons and looks at the store come often.
pub(super) const HOT_FOR: Duration = Duration::from_secs(60);

/// An event that is live on this node.
#[derive(Debug)]
pub struct LiveEvent {
    pub(super) facts: Mutex<Arc<EventFacts>>,
    id: EventId,
    channel: u32,
    clock: Clock,
    pub(super) core: Mutex<Core>,
    pub(super) snapshots: Mutex<SnapshotCache>,
    pub(super) hub: Hub,
    /// Seats about to go to buyers of this node; never locked together with the others.
    pub(super) in_flight: Mutex<InFlight>,
    /// Held by the one buyer who looks again while everything is about to go; the others queue for it.
    pub(crate) waiting: tokio::sync::Mutex<()>,
    /// Buyers of this node who are choosing: the rest queue, so that each looks at a map that knows what the others got.
    pub(crate) choosing: Semaphore,
    begun: Instant,
    /// Wakes the actor.
    pub(super) nudge: Notify,
    is_outdated: AtomicBool,
    /// Wakes whoever follows changes of facts; one a node.
    outdated: Arc<Notify>,
    pub(super) growth: Growth,
}

#[derive(Debug)]
pub(super) struct Core {
    pub(super) board: Board,
    pub(super) dirty: Dirty,
    pub(super) history: History,
    /// Where the last frame ended: what every live viewer knows.
    pub(super) sent: Position,
    pub(super) last_frame: Instant,
    pub(super) last_change: Instant,
    /// The latest position anybody told us of; above the board's = something is missing.
    pub(super) rumoured: Position,
    /// The store must be asked: a gap, a lost connection, a beat.
    pub(super) is_suspect: bool,
    /// Viewers must be given the snapshot of a new life before anything else.
    pub(super) is_restarted: bool,
}

/// What a viewer at some position needs next.
#[derive(Debug)]
pub enum Next {
    /// Nothing: it knows what every live viewer knows.
    UpToDate,
    /// This, and then ask again.
    Frame(MapFrame),
}

/// Counts for an event's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Where they stand.
    pub position: Position,
    /// Seats available, by section index.
    pub available: Vec<u32>,
    /// Places left, by area index.
    pub remaining: Vec<u32>,
}

fn ordered(position: Position) -> (u32, u64) {
    (position.epoch, position.seq)
}

fn latest(one: Position, other: Position) -> Position {
    if ordered(one) >= ordered(other) { one } else { other }
}

impl LiveEvent {
    pub(super) fn new(facts: Arc<EventFacts>, channel: u32, clock: Clock, board: Board, outdated: Arc<Notify>) -> Self {
        let now = Instant::now();
        Self {
            id: facts.id,
            facts: Mutex::new(facts),
            channel,
            clock,
            core: Mutex::new(Core {
                sent: board.position(),
                rumoured: board.position(),
                board,
                dirty: Dirty::default(),
                history: History::default(),
                last_frame: now,
                last_change: now.checked_sub(HOT_FOR).unwrap_or(now),
                is_suspect: false,
                is_restarted: false,
            }),
            snapshots: Mutex::default(),
            hub: Hub::default(),
            in_flight: Mutex::default(),
            waiting: tokio::sync::Mutex::default(),
            choosing: Semaphore::new(MAX_CHOOSING),
            begun: now,
            nudge: Notify::new(),
            is_outdated: AtomicBool::new(false),
            outdated,
            growth: Growth::default(),
        }
    }

    /// Which event.
    #[must_use]
    pub const fn id(&self) -> EventId {
        self.id
    }

    /// Its number in the frames of this node: never 0, never reused.
    #[must_use]
    pub const fn channel(&self) -> u32 {
        self.channel
    }

    /// What is on sale, as last read.
    #[must_use]
    pub fn facts(&self) -> Arc<EventFacts> {
        self.facts.lock().clone()
    }

    /// The facts must be read anew: whoever follows changes is woken.
    pub fn facts_are_old(&self) {
        self.is_outdated.store(true, Ordering::Release);
        self.outdated.notify_one();
    }

    /// Whether the facts must be read anew; asking takes the mark away.
    pub fn take_outdated(&self) -> bool {
        self.is_outdated.swap(false, Ordering::AcqRel)
    }

    /// Where the board stands.
    #[must_use]
    pub fn position(&self) -> Position {
        self.core.lock().board.position()
    }

    /// How many look.
    #[must_use]
    pub fn viewer_count(&self) -> usize {
        self.hub.viewer_count()
    }

    /// The answer to a subscription at this moment.
    #[must_use]
    pub fn subscribe_reply(&self, is_recovered: bool) -> SubscribeReply {
        let layout = self.facts.lock().layout.clone();
        let core = self.core.lock();
        let Position { epoch, seq } = core.board.position();
        SubscribeReply {
            channel: self.channel,
            event: self.id,
            layout,
            seat_count: core.board.states().len() as u32,
            area_count: core.board.areas().len() as u32,
            epoch,
            seq,
            recovered: is_recovered,
        }
    }

    /// Removes a viewer.
    pub fn leave(&self, slot: Slot) {
        self.hub.leave(slot);
    }

    /// Whether deltas from `from` to now can be given, without a snapshot.
    #[must_use]
    pub fn can_recover(&self, from: Position) -> bool {
        let core = self.core.lock();
        from.seq > 0
            && from.epoch == core.sent.epoch
            && (from.seq >= core.sent.seq || core.history.next_after(from).is_some())
    }

    /// What a viewer at `from` (`None`: it knows nothing) needs next. `prefers_small` (a slow viewer) takes the snapshot where it is smaller than the
    /// deltas; others get deltas wherever there are any.
    #[must_use]
    pub fn next_after(&self, from: Option<Position>, encoding: SnapshotEncoding, prefers_small: bool) -> Next {
        let snapshot_bytes = if prefers_small { self.snapshots.lock().last_bytes(encoding) } else { None };
        if let Some(from) = from {
            let core = self.core.lock();
            if from.epoch == core.sent.epoch {
                if from.seq >= core.sent.seq {
                    return Next::UpToDate;
                }
                if let Some(frame) = core.history.next_after(from) {
                    let is_large = snapshot_bytes
                        .is_some_and(|limit| core.history.bytes_after(from).is_some_and(|bytes| bytes > limit));
                    if !is_large {
                        return Next::Frame(frame.clone());
                    }
                }
            }
        }
        Next::Frame(self.snapshot(encoding))
    }

    /// The whole map for a socket.
    #[must_use]
    pub fn snapshot(&self, encoding: SnapshotEncoding) -> MapFrame {
        let mut snapshots = self.snapshots.lock();
        let sent = self.core.lock().sent;
        snapshots.socket(encoding, self.channel, self.clock.now_ms(), sent, || Copied::of(&self.core.lock().board))
    }

    /// The whole map for HTTP.
    #[must_use]
    pub fn http_snapshot(&self, encoding: SnapshotEncoding) -> HttpSnapshot {
        let mut snapshots = self.snapshots.lock();
        let sent = self.core.lock().sent;
        snapshots.http(encoding, self.channel, self.clock.now_ms(), sent, || Copied::of(&self.core.lock().board))
    }

    /// The whole map as `{epoch, seq, states, areas}`.
    #[must_use]
    pub fn json_snapshot(&self) -> HttpSnapshot {
        let mut snapshots = self.snapshots.lock();
        let sent = self.core.lock().sent;
        snapshots.json(sent, || Copied::of(&self.core.lock().board))
    }

    /// Seats and places left.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let core = self.core.lock();
        Counts {
            position: core.board.position(),
            available: core.board.available().to_vec(),
            remaining: core.board.areas().to_vec(),
        }
    }

    /// Looks at the states by seat index; keep it short, the feed waits.
    pub fn with_states<T>(&self, look: impl FnOnce(&[SeatState]) -> T) -> T {
        look(self.core.lock().board.states())
    }

    /// The same, and where the map stands.
    pub(super) fn with_map<T>(&self, look: impl FnOnce(Position, &[SeatState]) -> T) -> T {
        let core = self.core.lock();
        look(core.board.position(), core.board.states())
    }

    /// Milliseconds since the event became live here: the clock of marks.
    pub(super) fn uptime_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Takes a change from the feed.
    pub(super) fn take(&self, change: &FeedMessage) -> Applied {
        let was_clean;
        let applied = {
            let mut core = self.core.lock();
            let core = &mut *core;
            was_clean = core.board.position() == core.sent;
            let told = Position { epoch: change.epoch, seq: change.seq };
            core.rumoured = latest(core.rumoured, told);
            let applied = if core.board.knows(change) {
                core.board.apply(change, &mut core.dirty)
            } else {
                // A seat of a plan that grew: the facts come first.
                self.facts_are_old();
                Applied::Gap
            };
            match applied {
                Applied::Changed => core.last_change = Instant::now(),
                Applied::Gap => core.is_suspect = true,
                Applied::Old => {}
            }
            applied
        };
        // With a change waiting already, the actor knows when the next tick is due.
        if applied == Applied::Gap || (applied == Applied::Changed && was_clean) {
            self.nudge.notify_one();
        }
        applied
    }

    /// Takes a push to everyone who looks.
    pub(super) async fn notify_all(&self, text: &bytes::Bytes) {
        self.hub
            .each(|viewer| {
                viewer.notice(text);
                Delivery::Sent
            })
            .await;
    }

    /// Something may have been lost: ask the store.
    pub(super) fn suspect(&self) {
        self.core.lock().is_suspect = true;
        self.nudge.notify_one();
    }

    /// Takes a whole map read from the store.
    pub(super) fn replace(&self, board: Board) {
        let mut core = self.core.lock();
        let core = &mut *core;
        core.is_suspect = false;
        // The store has spoken; whoever told of more was wrong, or will be found by the next beat.
        core.rumoured = latest(board.position(), core.board.position());
        if ordered(board.position()) <= ordered(core.board.position()) {
            return;
        }
        core.last_change = Instant::now();
        if !core.board.advance_to(&board, &mut core.dirty) {
            core.board = board;
            core.dirty.clear();
            core.history.clear();
            core.sent = core.board.position();
            core.is_restarted = true;
        }
    }

    /// Whether the board is behind what was rumoured, or nobody knows.
    pub(super) fn is_behind(&self) -> bool {
        let core = self.core.lock();
        core.is_suspect || ordered(core.board.position()) < ordered(core.rumoured)
    }

    /// Cuts the frame of this tick, keeps it in the ring, and says since when its oldest change waited.
    pub(super) fn cut(&self) -> Option<(MapFrame, Option<u64>)> {
        let mut core = self.core.lock();
        let core = &mut *core;
        let since_ms = core.dirty.since_ms;
        let frame = batch::cut(&core.board, &mut core.dirty, core.sent, self.channel, self.clock.now_ms())?;
        let now = Instant::now();
        core.sent = core.board.position();
        core.last_frame = now;
        core.history.push(frame.clone(), now);
        Some((frame, since_ms))
    }

    /// Proof of position; counts as a frame.
    pub(super) fn beacon(&self) -> MapFrame {
        let mut core = self.core.lock();
        let now = Instant::now();
        core.last_frame = now;
        core.history.trim(now);
        batch::beacon(&core.board, self.channel, self.clock.now_ms())
    }
}
