//! Snapshots: the whole map in one frame, from the states of all seats, in either seat encoding.
//! The server's map encodes one per (epoch, seq) on demand and shares it; viewers begin with it.

use roaring::RoaringBitmap;

use crate::frame::{FrameEncoder, FrameKind, FrameMeta, SeatEncoding, TAG_PACKED, Wrap};
use crate::leb128;
use crate::packed::pack_into;
use crate::seat::{AreaIndex, SeatState};

impl FrameEncoder {
    /// Appends a snapshot to `out`: `states` by seat index, `areas` = places remaining by area index.
    ///
    /// `encoding` says how seats are written; with [`SeatEncoding::None`] roaring is used, and a
    /// roaring snapshot of an event whose seats are all available carries no seat records at all.
    pub fn snapshot(
        &mut self,
        out: &mut Vec<u8>,
        meta: &FrameMeta,
        states: &[SeatState],
        areas: &[u32],
        encoding: SeatEncoding,
        wrap: Wrap,
    ) {
        self.payload.clear();
        let written = match encoding {
            SeatEncoding::Packed2 => {
                self.payload.push(TAG_PACKED);
                leb128::write(&mut self.payload, u32::try_from(states.len().div_ceil(4)).expect("u32 seat indices"));
                pack_into(&mut self.payload, states);
                SeatEncoding::Packed2
            }
            SeatEncoding::Roaring | SeatEncoding::None => self.push_taken_sets(states),
        };
        self.push_areas((0..).map(AreaIndex).zip(areas.iter().copied()));
        self.finish(out, FrameKind::Snapshot, written, meta, wrap);
    }

    fn push_taken_sets(&mut self, states: &[SeatState]) -> SeatEncoding {
        let before = self.payload.len();
        for (state, mut set) in taken_sets(states) {
            self.push_set(state, &mut set);
        }
        if self.payload.len() == before { SeatEncoding::None } else { SeatEncoding::Roaring }
    }
}

/// The seats of each state but available, run by run: neighbours usually share a state.
fn taken_sets(states: &[SeatState]) -> [(SeatState, RoaringBitmap); 3] {
    let mut sets = [SeatState::Held, SeatState::Sold, SeatState::Blocked].map(|state| (state, RoaringBitmap::new()));
    let mut from = 0_u32;
    for run in states.chunk_by(PartialEq::eq) {
        let to = from + u32::try_from(run.len()).expect("u32 seat indices");
        if let Some((_, set)) = sets.iter_mut().find(|(state, _)| *state == run[0]) {
            set.insert_range(from..to);
        }
        from = to;
    }
    sets
}
