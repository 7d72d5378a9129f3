//! One event in memory: the state of every seat, places left in every area, digest and counts, all kept while changes
//! are applied. Pure: no I/O, no clock. `feed` brings changes, `batch` and `snapshot` read.

use crate::catalogue::EventFacts;
use crate::inventory::{FeedMessage, MapState};
use seatwire_proto::client::Position;
use seatwire_proto::digest::Digest;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The board moved on.
    Changed,
    /// Known already, or of a life that is over.
    Old,
    /// Not the next one: something was lost, or the epoch is new.
    Gap,
}

/// What changed since the last frame was cut.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Seats, repeats included.
    pub seats: Vec<SeatIndex>,
    /// Areas, each once.
    pub areas: Vec<AreaIndex>,
    /// When the oldest of the changes was committed, the store's clock.
    pub since_ms: Option<u64>,
    /// Changes merged.
    pub change_count: u32,
}

impl Dirty {
    pub(super) fn clear(&mut self) {
        self.seats.clear();
        self.areas.clear();
        self.since_ms = None;
        self.change_count = 0;
    }
}

/// The map of one event.
#[derive(Debug, Clone)]
pub struct Board {
    position: Position,
    changed_ms: u64,
    states: Vec<SeatState>,
    areas: Vec<u32>,
    digest: Digest,
    /// One past the last seat of each section, in layout order.
    section_ends: Vec<u32>,
    available: Vec<u32>,
}

/// Seat states that are not states: the store and we disagree about the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the map has a seat in state {0}")]
pub struct UnknownState(u8);

impl Board {
    /// A board of a whole map whose last change was committed at `changed_ms`. Seats the layout has but the map does not
    /// are available.
    ///
    /// # Errors
    /// A state above 3.
    pub fn new(facts: &EventFacts, map: &MapState, changed_ms: u64) -> Result<Self, UnknownState> {
        let mut states = Vec::with_capacity(map.states.len());
        for state in &map.states {
            states.push(SeatState::from_u8(*state).ok_or(UnknownState(*state))?);
        }
        states.resize((facts.seat_count() as usize).max(states.len()), SeatState::Available);
        let section_ends: Vec<u32> = facts.sections.iter().map(|section| section.end.0).collect();
        let mut board = Self {
            position: Position { epoch: map.epoch, seq: map.seq },
            changed_ms,
            digest: Digest::of(&states, &map.areas),
            states,
            areas: map.areas.clone(),
            available: vec![0; section_ends.len()],
            section_ends,
        };
        for (seat, state) in (0..).zip(&board.states) {
            if *state == SeatState::Available
                && let Some(section) = section_of(&board.section_ends, SeatIndex(seat))
            {
                board.available[section] += 1;
            }
        }
        Ok(board)
    }

    /// Applies the next change and notes what it touched.
    pub fn apply(&mut self, change: &FeedMessage, dirty: &mut Dirty) -> Applied {
        if change.epoch < self.position.epoch
            || (change.epoch == self.position.epoch && change.seq <= self.position.seq)
        {
            return Applied::Old;
        }
        if change.epoch > self.position.epoch || change.seq != self.position.seq + 1 {
            return Applied::Gap;
        }
        for (seat, state) in &change.seats {
            self.set_seat(*seat, *state, dirty);
        }
        for (area, remaining) in &change.areas {
            self.set_area(*area, *remaining, dirty);
        }
        self.position.seq = change.seq;
        self.changed_ms = change.server_ms;
        dirty.since_ms.get_or_insert(change.server_ms);
        dirty.change_count += 1;
        // A map nobody cuts frames from must not collect repeats for ever.
        if dirty.seats.len() > 2 * self.states.len() {
            dirty.seats.sort_unstable();
            dirty.seats.dedup();
        }
        Applied::Changed
    }

    /// Takes a plan that grew: the new seats are available until the store says otherwise, which changes no digest.
    pub(super) fn grow(&mut self, facts: &EventFacts) {
        self.section_ends = facts.sections.iter().map(|section| section.end.0).collect();
        self.available.resize(self.section_ends.len(), 0);
        let first_new = self.states.len() as u32;
        for seat in first_new..facts.seat_count() {
            if let Some(section) = section_of(&self.section_ends, SeatIndex(seat)) {
                self.available[section] += 1;
            }
        }
        self.states.resize(self.states.len().max(facts.seat_count() as usize), SeatState::Available);
    }

    /// Whether a change names only seats and areas of this board.
    #[must_use]
    pub fn knows(&self, change: &FeedMessage) -> bool {
        change.seats.iter().all(|(seat, _)| seat.position() < self.states.len())
            && change.areas.iter().all(|(area, _)| area.position() < self.areas.len())
    }

    /// Moves on to a later whole map of the same epoch by its differences, so that viewers get a delta.
    /// `false` when that cannot be: another epoch, another shape, or an older map.
    pub fn advance_to(&mut self, next: &Self, dirty: &mut Dirty) -> bool {
        let fits = next.position.epoch == self.position.epoch
            && next.position.seq >= self.position.seq
            && next.states.len() == self.states.len()
            && next.areas.len() == self.areas.len();
        if !fits {
            return false;
        }
        for (seat, (old, new)) in (0..).zip(self.states.iter().zip(&next.states)) {
            if old != new {
                dirty.seats.push(SeatIndex(seat));
            }
        }
        for (area, (old, new)) in (0..).map(AreaIndex).zip(self.areas.iter().zip(&next.areas)) {
            if old != new && !dirty.areas.contains(&area) {
                dirty.areas.push(area);
            }
        }
        dirty.since_ms.get_or_insert(next.changed_ms);
        dirty.change_count += u32::try_from(next.position.seq - self.position.seq).unwrap_or(u32::MAX);
        self.clone_from(next);
        true
    }

    fn set_seat(&mut self, seat: SeatIndex, state: SeatState, dirty: &mut Dirty) {
        let Some(slot) = self.states.get_mut(seat.position()) else { return };
        let old = std::mem::replace(slot, state);
        self.digest.change_seat(seat, old, state);
        if (old == SeatState::Available) != (state == SeatState::Available)
            && let Some(section) = section_of(&self.section_ends, seat)
        {
            let count = &mut self.available[section];
            *count = if state == SeatState::Available { *count + 1 } else { count.saturating_sub(1) };
        }
        dirty.seats.push(seat);
    }

    fn set_area(&mut self, area: AreaIndex, remaining: u32, dirty: &mut Dirty) {
        let Some(slot) = self.areas.get_mut(area.position()) else { return };
        let old = std::mem::replace(slot, remaining);
        self.digest.change_area(area, old, remaining);
        if !dirty.areas.contains(&area) {
            dirty.areas.push(area);
        }
    }

    /// Where the board stands.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// When the last change was committed, the store's clock.
    #[must_use]
    pub const fn changed_ms(&self) -> u64 {
        self.changed_ms
    }

    /// States by seat index.
    #[must_use]
    pub fn states(&self) -> &[SeatState] {
        &self.states
    }

    /// Places left by area index.
    #[must_use]
    pub fn areas(&self) -> &[u32] {
        &self.areas
    }

    /// Digest of the whole state.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Seats available, by section index.
    #[must_use]
    pub fn available(&self) -> &[u32] {
        &self.available
    }
}

/// Sections are in the order of their seats; 8 steps for 200 sections.
fn section_of(section_ends: &[u32], seat: SeatIndex) -> Option<usize> {
    let section = section_ends.partition_point(|end| *end <= seat.0);
    (section < section_ends.len()).then_some(section)
}
