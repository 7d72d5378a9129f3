//! A viewer of one event's map: what each frame means to somebody who stands at (epoch, seq).
//! `Cursor` is the bare state machine (a few bytes, reads headers only); `View` is a cursor with the
//! map itself. The load generator uses both; the TypeScript client is checked against them.

use crate::client::Position;
use crate::digest::Digest;
use crate::frame::{Frame, FrameDecoder, FrameError, FrameHeader, FrameKind, SeatRecords};
use crate::packed::PackedStates;
use crate::seat::{AreaIndex, SeatIndex, SeatState};

/// Before the first snapshot.
const NOWHERE: Position = Position { epoch: 0, seq: 0 };

/// Why a frame changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// From a life of the inventory that is over.
    LowerEpoch,
    /// Everything in it is known already.
    Old,
    /// A later version or kind.
    Unknown,
    /// A resync would be due, but one is outstanding.
    ResyncOutstanding,
}

/// Why a viewer must ask to start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResyncReason {
    /// A delta or beacon of an epoch whose snapshot has not come.
    HigherEpoch,
    /// A delta that begins after what is known.
    Gap,
    /// A beacon ahead of what is known.
    Behind,
    /// The digest differs.
    Digest,
    /// The frame is invalid.
    Invalid(FrameError),
}

/// What became of a frame. Digests are not compared while a resync is outstanding: its answer settles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The map changed to the frame's seq; its digest was right or could not be checked.
    Applied,
    /// A beacon for just where we are; its digest was right or could not be checked.
    InStep,
    /// Nothing happened.
    Dropped(DropReason),
    /// Send a resync from here (seq 0: only a snapshot will do), then call `resync_answered`.
    /// After a wrong digest the frame itself has been applied.
    Resync {
        /// The epoch and seq to send.
        from: Position,
        /// What went wrong.
        reason: ResyncReason,
    },
}

/// What a header asks for, before the payload is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Apply,
    InStep,
    Settled(Outcome),
}

/// Where a viewer stands, without the map: enough to follow frames whose content somebody else checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    position: Position,
    is_resync_outstanding: bool,
    /// Digest of the state at `position`, unknown until a frame with a digest brought us there.
    digest: Option<Digest>,
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new()
    }
}

impl Cursor {
    /// A cursor before the first snapshot.
    #[must_use]
    pub const fn new() -> Self {
        Self::at(NOWHERE)
    }

    /// A cursor that stands somewhere already: `subscribe` answered recovered, or live.
    #[must_use]
    pub const fn at(position: Position) -> Self {
        Self { position, is_resync_outstanding: false, digest: None }
    }

    /// Epoch and seq applied last.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Whether a resync was asked for and not yet answered.
    #[must_use]
    pub const fn is_resync_outstanding(&self) -> bool {
        self.is_resync_outstanding
    }

    /// The reply to the resync has come (or the socket it was sent on is gone): the next frames
    /// close the hole, and a new resync may be asked for.
    pub const fn resync_answered(&mut self) {
        self.is_resync_outstanding = false;
    }

    /// Follows a frame by its header alone: moves as if its content were good, and compares a
    /// beacon's digest with that of the frame that brought us here.
    pub fn follow(&mut self, header: &FrameHeader) -> Outcome {
        match self.judge(header) {
            Verdict::Settled(outcome) => outcome,
            Verdict::Apply => {
                self.arrive(header);
                self.digest = header.has_digest.then_some(Digest(header.digest));
                Outcome::Applied
            }
            Verdict::InStep => match self.digest {
                Some(digest) => self.compare(header, digest, Outcome::InStep),
                None => Outcome::InStep,
            },
        }
    }

    fn judge(&mut self, header: &FrameHeader) -> Verdict {
        let mine = self.position;
        let dropped = |reason| Verdict::Settled(Outcome::Dropped(reason));
        if header.epoch < mine.epoch {
            return dropped(DropReason::LowerEpoch);
        }
        let is_higher_epoch = header.epoch > mine.epoch;
        match header.kind {
            FrameKind::Snapshot if is_higher_epoch || header.seq_to >= mine.seq => Verdict::Apply,
            FrameKind::Snapshot => dropped(DropReason::Old),
            FrameKind::Delta | FrameKind::Beacon if is_higher_epoch => {
                Verdict::Settled(self.ask(mine, ResyncReason::HigherEpoch))
            }
            FrameKind::Delta if header.seq_to <= mine.seq => dropped(DropReason::Old),
            FrameKind::Delta if header.seq_from <= mine.seq.saturating_add(1) => Verdict::Apply,
            FrameKind::Delta => Verdict::Settled(self.ask(mine, ResyncReason::Gap)),
            FrameKind::Beacon => match header.seq_to.cmp(&mine.seq) {
                std::cmp::Ordering::Greater => Verdict::Settled(self.ask(mine, ResyncReason::Behind)),
                std::cmp::Ordering::Equal => Verdict::InStep,
                std::cmp::Ordering::Less => dropped(DropReason::Old),
            },
        }
    }

    fn arrive(&mut self, header: &FrameHeader) {
        self.position = Position { epoch: header.epoch, seq: header.seq_to };
    }

    fn compare(&mut self, header: &FrameHeader, mine: Digest, good: Outcome) -> Outcome {
        if header.has_digest && header.digest != mine.0 && !self.is_resync_outstanding {
            return self.ask_for_snapshot(ResyncReason::Digest);
        }
        good
    }

    fn ask_for_snapshot(&mut self, reason: ResyncReason) -> Outcome {
        self.ask(Position { seq: 0, ..self.position }, reason)
    }

    /// At most one resync is outstanding a channel: a second one waits for the next bad frame.
    fn ask(&mut self, from: Position, reason: ResyncReason) -> Outcome {
        if std::mem::replace(&mut self.is_resync_outstanding, true) {
            return Outcome::Dropped(DropReason::ResyncOutstanding);
        }
        Outcome::Resync { from, reason }
    }
}

/// A viewer with the map: 2 bits a seat, 4 bytes an area.
#[derive(Debug, Clone)]
pub struct View {
    cursor: Cursor,
    states: PackedStates,
    areas: Vec<u32>,
    digest: Digest,
    /// False between a live subscription and the first snapshot: the digest means nothing then.
    is_whole: bool,
}

impl View {
    /// A view before the first snapshot.
    #[must_use]
    pub fn new(seat_count: u32, area_count: u32) -> Self {
        Self::standing_at(NOWHERE, seat_count, area_count)
    }

    /// A view subscribed with `live`: it starts at the reply's position, knows no states (all are
    /// taken for available) and cannot check digests before it gets a snapshot.
    #[must_use]
    pub fn live(position: Position, seat_count: u32, area_count: u32) -> Self {
        Self::standing_at(position, seat_count, area_count)
    }

    fn standing_at(position: Position, seat_count: u32, area_count: u32) -> Self {
        Self {
            cursor: Cursor::at(position),
            states: PackedStates::new(seat_count),
            areas: vec![0; area_count as usize],
            digest: Digest::default(),
            is_whole: false,
        }
    }

    /// Epoch and seq applied last; (0, 0) before the first snapshot.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.cursor.position
    }

    /// States by seat index.
    #[must_use]
    pub const fn states(&self) -> &PackedStates {
        &self.states
    }

    /// Places remaining by area index.
    #[must_use]
    pub fn areas(&self) -> &[u32] {
        &self.areas
    }

    /// The digest kept while applying; `None` while it cannot be known (before a first snapshot).
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.is_whole.then_some(self.digest)
    }

    /// As [`Cursor::resync_answered`].
    pub const fn resync_answered(&mut self) {
        self.cursor.resync_answered();
    }

    /// Seats were appended to the layout (`layout.change`); they are available until a frame names them.
    pub fn grow(&mut self, seat_count: u32) {
        self.states.grow(seat_count);
    }

    /// Takes one frame off the wire. The payload is read only when the header says that it matters.
    pub fn take(&mut self, bytes: &[u8], decoder: &mut FrameDecoder) -> Outcome {
        let header = match FrameHeader::decode(bytes) {
            Ok(header) => header,
            Err(error) => return self.refuse(error),
        };
        match self.cursor.judge(&header) {
            Verdict::Settled(outcome) => outcome,
            Verdict::InStep => self.check(&header, Outcome::InStep),
            Verdict::Apply => match decoder.decode(bytes, self.states.seat_count(), self.area_count()) {
                Ok(frame) => self.apply(&frame),
                Err(error) => self.refuse(error),
            },
        }
    }

    /// Takes a frame that is decoded already, for this number of seats and areas: for many views of
    /// one event that share the decoding.
    pub fn take_frame(&mut self, frame: &Frame) -> Outcome {
        match self.cursor.judge(&frame.header) {
            Verdict::Settled(outcome) => outcome,
            Verdict::InStep => self.check(&frame.header, Outcome::InStep),
            Verdict::Apply => self.apply(frame),
        }
    }

    fn area_count(&self) -> u32 {
        u32::try_from(self.areas.len()).expect("made from a u32")
    }

    fn refuse(&mut self, error: FrameError) -> Outcome {
        if error.is_unknown() {
            return Outcome::Dropped(DropReason::Unknown);
        }
        self.cursor.ask_for_snapshot(ResyncReason::Invalid(error))
    }

    fn apply(&mut self, frame: &Frame) -> Outcome {
        if frame.header.kind == FrameKind::Snapshot {
            self.replace(frame);
        } else {
            self.change(frame);
        }
        self.cursor.arrive(&frame.header);
        self.check(&frame.header, Outcome::Applied)
    }

    fn check(&mut self, header: &FrameHeader, good: Outcome) -> Outcome {
        if self.is_whole { self.cursor.compare(header, self.digest, good) } else { good }
    }

    fn replace(&mut self, frame: &Frame) {
        match &frame.seats {
            SeatRecords::Packed(packed) => self.states.clone_from(packed),
            SeatRecords::Sets(_) => {
                self.states.clear();
                frame.seats.for_each(|seat, state| {
                    self.states.set(seat, state);
                });
            }
        }
        self.digest = Digest::default();
        for (seat, state) in self.states.iter_taken() {
            self.digest.change_seat(seat, SeatState::Available, state);
        }
        for (area, remaining) in &frame.areas {
            if let Some(slot) = self.areas.get_mut(area.position()) {
                *slot = *remaining;
            }
        }
        for (area, remaining) in (0..).zip(&self.areas) {
            self.digest.toggle_area(AreaIndex(area), *remaining);
        }
        self.is_whole = true;
    }

    fn change(&mut self, frame: &Frame) {
        let Self { states, digest, .. } = self;
        frame.seats.for_each(|seat: SeatIndex, state| {
            let old = states.set(seat, state);
            digest.change_seat(seat, old, state);
        });
        for (area, remaining) in &frame.areas {
            if let Some(slot) = self.areas.get_mut(area.position()) {
                let old = std::mem::replace(slot, *remaining);
                self.digest.change_area(*area, old, *remaining);
            }
        }
    }
}
