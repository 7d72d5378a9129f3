//! Blocks with seats for wheelchair users: as many as asked for and no more, the others beside them, companion seats first.

use super::{Eyes, Found, MAX_RANKED};
use crate::inventory::Block;
use seatwire_proto::client::Together;

/// Seats that others are gathered around; the best group of each is offered.
const MAX_ANCHORS: usize = 8;

pub(super) fn look(eyes: &Eyes<'_>) -> Found {
    let size = eyes.wish.quantity as usize;
    let wanted = eyes.wish.accessible as usize;
    let would_do = |seat: u32| eyes.is_open(seat) && eyes.fits_tier(seat);
    let mut found = Found { blocks: Vec::new(), free: 0, most_together: 0 };
    // Ordinary seats left alone, companion seats used (the more the better), distance, seats.
    let mut ranked: Vec<(bool, usize, u64, u32)> = Vec::new();
    for (_, run) in eyes.runs() {
        for gap in eyes.gaps(run, would_do) {
            found.free += gap.len() as u32;
            let accessible = |seat: &u32| eyes.shape.is_accessible(*seat);
            if gap.clone().any(|seat| accessible(&seat)) {
                found.most_together = found.most_together.max(gap.len() as u32);
            }
            for first in gap.start..=gap.end.saturating_sub(size as u32) {
                let seats = first..first + size as u32;
                if seats.end > gap.end || seats.clone().filter(accessible).count() != wanted {
                    continue;
                }
                let Some(leaves_one) = eyes.leaves_one(run, &seats) else { continue };
                let companions = seats.clone().filter(|&seat| eyes.shape.companion.contains(seat)).count();
                ranked.push((leaves_one, size - companions, eyes.distance_of(seats), first));
            }
        }
    }
    ranked.sort_unstable();
    ranked.truncate(MAX_RANKED);
    found.blocks = ranked.iter().map(|&(_, _, _, first)| eyes.block(first..first + size as u32, true)).collect();
    // The block asked for would have been found: what is told must be less.
    found.most_together = found.most_together.min(eyes.wish.quantity - 1);
    if found.blocks.is_empty() && eyes.wish.together != Together::Required {
        found.blocks = scattered(eyes, would_do);
    }
    found
}

/// Not in one block: accessible seats near to each other, then companion seats and others near to them.
fn scattered(eyes: &Eyes<'_>, would_do: impl Fn(u32) -> bool) -> Vec<Block> {
    let (size, wanted) = (eyes.wish.quantity as usize, eyes.wish.accessible as usize);
    let free: Vec<u32> = eyes.runs().flat_map(|(_, run)| run.seats()).filter(|&seat| would_do(seat)).collect();
    let accessible: Vec<u32> = free.iter().copied().filter(|&seat| eyes.shape.is_accessible(seat)).collect();
    let mut blocks: Vec<Block> = Vec::new();
    for &anchor in accessible.iter().take(MAX_ANCHORS) {
        let away = |seat: u32| {
            let place = |seat: u32| eyes.shape.places.get(seat as usize).copied().unwrap_or_default();
            let ([x, y], [other_x, other_y]) = (place(anchor), place(seat));
            (i64::from(x) - i64::from(other_x)).pow(2) + (i64::from(y) - i64::from(other_y)).pow(2)
        };
        let mut chosen = accessible.clone();
        chosen.sort_by_key(|&seat| away(seat));
        chosen.truncate(wanted);
        let runs: Vec<usize> =
            chosen.iter().filter_map(|&seat| eyes.shape.run_of(seatwire_proto::seat::SeatIndex(seat))).collect();
        // A companion seat goes with an accessible seat of its own run.
        let mut others: Vec<u32> = free
            .iter()
            .copied()
            .filter(|&seat| match eyes.shape.companion.contains(seat) {
                true => runs.iter().any(|&run| eyes.shape.runs[run].seats().contains(&seat)),
                false => !eyes.shape.special.contains(seat),
            })
            .collect();
        others.sort_by_key(|&seat| (!eyes.shape.companion.contains(seat), away(seat)));
        chosen.extend(others.into_iter().take(size - wanted));
        if chosen.len() == size && eyes.keeps_rule(&chosen) {
            chosen.sort_unstable();
            blocks.push(eyes.block(chosen, false));
        }
    }
    blocks.dedup();
    blocks
}
