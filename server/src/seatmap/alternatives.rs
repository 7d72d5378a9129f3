//! Blocks of the same size near seats that just went: what a refused buyer is offered instead. Read from the map in
//! memory, so a refusal costs no store anything; the next hold decides whether they are still there. Only blocks that the
//! event's rules let a buyer pick.

use super::candidates::{Eyes, Wish};
use crate::catalogue::{EventFacts, SeatShape};
use roaring::RoaringBitmap;
use seatwire_proto::client::Together;
use seatwire_proto::seat::{SeatIndex, SeatState};
use seatwire_proto::server::SalesMode;

/// Most blocks offered; a phone shows three without scrolling.
const MAX_BLOCKS: usize = 3;
/// Runs looked at on either side of the wanted one: some rows of the same section, a few microseconds of work.
const RUNS_EACH_WAY: usize = 24;

/// Up to three free blocks of as many touching seats as were wanted, of the same price tier, nearest first; none with a seat
/// of `taken`, which the map may not know of yet.
#[must_use]
pub fn alternatives(
    event: &EventFacts,
    shape: &SeatShape,
    states: &[SeatState],
    wanted: &[SeatIndex],
    taken: &[SeatIndex],
) -> Vec<Vec<u32>> {
    let Some(&first) = wanted.first() else { return Vec::new() };
    let (Some(run), Some(&tier)) = (shape.run_of(first), event.seat_tiers.get(first.position())) else {
        return Vec::new();
    };
    let size = wanted.len() as u32;
    let center = center(shape, wanted.iter().map(|seat| seat.0));
    let is_taken = |seat: u32| taken.contains(&SeatIndex(seat));
    let is_free = |seat: u32| {
        let at = seat as usize;
        !is_taken(seat)
            && states.get(at) == Some(&SeatState::Available)
            && event.seat_tiers.get(at) == Some(&tier)
            && !shape.special.contains(seat)
    };
    let wish = Wish {
        quantity: size,
        together: Together::Required,
        tiers: (0..event.price_tiers.len()).map(|at| at == usize::from(tier)).collect(),
        sections: None,
        accessible: 0,
        unlocked: RoaringBitmap::new(),
    };
    let eyes = Eyes { event, shape, states, wish: &wish, is_in_flight: &is_taken, takes_special: false };
    let sells_by_index = |first: u32| {
        let section = event.section_of(SeatIndex(first));
        section.is_none_or(|(_, section)| section.sales_mode != SalesMode::BestAvailable)
    };
    let nearby = run.saturating_sub(RUNS_EACH_WAY)..(run + RUNS_EACH_WAY + 1).min(shape.runs.len());
    let mut blocks: Vec<(i64, u32)> = Vec::new();
    for run in shape.runs[nearby].iter().filter(|run| sells_by_index(run.first)) {
        let mut free = 0;
        for seat in run.seats() {
            free = if is_free(seat) { free + 1 } else { 0 };
            let begin = (seat + 1).saturating_sub(size);
            // What the next hold would be refused for is no help.
            if free >= size && eyes.leaves_one(*run, &(begin..seat + 1)).is_some() {
                let [x, y] = self::center(shape, begin..=seat);
                blocks.push(((x - center[0]).pow(2) + (y - center[1]).pow(2), begin));
            }
        }
    }
    blocks.sort_unstable();
    let mut chosen: Vec<u32> = Vec::new();
    for (_, begin) in blocks {
        if chosen.iter().all(|other| other.abs_diff(begin) >= size) {
            chosen.push(begin);
            if chosen.len() == MAX_BLOCKS {
                break;
            }
        }
    }
    chosen.into_iter().map(|begin| (begin..begin + size).collect()).collect()
}

/// Mean place in twice the plan's units, so that pairs keep their middle.
fn center(shape: &SeatShape, seats: impl Iterator<Item = u32>) -> [i64; 2] {
    let (mut sum, mut count) = ([0i64; 2], 0);
    for place in seats.filter_map(|seat| shape.places.get(seat as usize)) {
        sum = [sum[0] + i64::from(place[0]), sum[1] + i64::from(place[1])];
        count += 1;
    }
    [2 * sum[0] / count.max(1), 2 * sum[1] / count.max(1)]
}
