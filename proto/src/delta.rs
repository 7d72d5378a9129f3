//! Deltas: what changed since a seq, as it is now, so that applying one twice or out of a longer
//! range does no harm. The server's map encodes one a tick from its dirty seats; viewers apply it.

use roaring::RoaringBitmap;

use crate::frame::{FrameEncoder, FrameKind, FrameMeta, SeatEncoding, Wrap};
use crate::seat::{AreaIndex, SeatIndex, SeatState};

impl FrameEncoder {
    /// Appends a delta to `out`: the present state of each seat in `dirty` (any order, repeats are
    /// harmless, indices beyond `states` are left out) and the places remaining in `areas` (each
    /// area at most once). With neither, the delta is empty and legal: it only moves the seq.
    pub fn delta(
        &mut self,
        out: &mut Vec<u8>,
        meta: &FrameMeta,
        states: &[SeatState],
        dirty: &[SeatIndex],
        areas: &[(AreaIndex, u32)],
        wrap: Wrap,
    ) {
        self.payload.clear();
        for seats in &mut self.sorted {
            seats.clear();
        }
        for seat in dirty {
            if let Some(state) = states.get(seat.position()) {
                self.sorted[*state as usize].push(seat.0);
            }
        }
        let mut written = SeatEncoding::None;
        for state in [SeatState::Held, SeatState::Sold, SeatState::Blocked, SeatState::Available] {
            let seats = &mut self.sorted[state as usize];
            if seats.is_empty() {
                continue;
            }
            seats.sort_unstable();
            seats.dedup();
            let mut set =
                RoaringBitmap::from_sorted_iter(seats.iter().copied()).expect("sorted and without repeats just above");
            self.push_set(state, &mut set);
            written = SeatEncoding::Roaring;
        }
        self.push_areas(areas.iter().copied());
        self.finish(out, FrameKind::Delta, written, meta, wrap);
    }
}
