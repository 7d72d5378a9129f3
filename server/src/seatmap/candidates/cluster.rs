//! Seats that are near to each other but not in one block: across rows, and split. Around some good stretches, the nearest
//! others are added until there are enough.

use super::Eyes;
use crate::inventory::Block;
use seatwire_proto::seat::SeatIndex;
use std::ops::Range;

/// Stretches that a group is gathered around; the best group of each is offered.
const MAX_ANCHORS: usize = 8;
/// Most stretches looked at for each: a whole block of a stadium.
const MAX_PARTS: usize = 4_096;

/// Groups of the wished size, best first: those in fewer parts, then those nearest to what they look at.
pub(super) fn look(eyes: &Eyes<'_>) -> Vec<Block> {
    let mut gaps: Vec<Range<u32>> = Vec::new();
    for (_, run) in eyes.runs() {
        gaps.extend(eyes.gaps(run, |seat| eyes.is_free(seat) && !eyes.shape.companion.contains(seat)));
        if gaps.len() >= MAX_PARTS {
            break;
        }
    }
    // Long stretches first, and of equal ones the nearer: the order of the runs.
    let size = eyes.wish.quantity as usize;
    let mut anchors: Vec<usize> = (0..gaps.len()).collect();
    anchors.sort_by_key(|&at| std::cmp::Reverse(gaps[at].len().min(size)));
    let mut groups: Vec<(usize, u64, Vec<u32>)> =
        anchors.into_iter().take(MAX_ANCHORS).filter_map(|anchor| gather(eyes, &gaps, anchor, size)).collect();
    groups.sort();
    groups.dedup_by(|one, other| one.2 == other.2);
    groups.into_iter().map(|(parts, _, seats)| eyes.block(seats, parts == 1)).collect()
}

/// The seats around one stretch: in how many parts, how far from what they look at, which.
fn gather(eyes: &Eyes<'_>, gaps: &[Range<u32>], anchor: usize, size: usize) -> Option<(usize, u64, Vec<u32>)> {
    let begin = take(eyes, &gaps[anchor], size, None);
    let [x, y] = place(eyes, *begin.first()?)?;
    let away = |seat: u32| {
        let [other_x, other_y] = place(eyes, seat).unwrap_or([i32::MAX; 2]);
        (i64::from(other_x) - i64::from(x)).pow(2) + (i64::from(other_y) - i64::from(y)).pow(2)
    };
    let mut others: Vec<(i64, usize)> = gaps
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != anchor)
        .map(|(at, gap)| (away(gap.start).min(away(gap.end - 1)), at))
        .collect();
    others.sort_unstable();
    let (mut seats, mut parts) = (begin, 1);
    for (_, at) in others {
        if seats.len() == size {
            break;
        }
        seats.extend(take(eyes, &gaps[at], size - seats.len(), Some([x, y])));
        parts += 1;
    }
    (seats.len() == size && eyes.keeps_rule(&seats)).then(|| {
        let distance = seats.iter().map(|&seat| eyes.distance(seat)).sum();
        (parts, distance, seats)
    })
}

/// At most `size` seats from one end of a stretch: the one nearer to `to`, or to what they look at.
fn take(eyes: &Eyes<'_>, gap: &Range<u32>, size: usize, to: Option<[i32; 2]>) -> Vec<u32> {
    let size = size.min(gap.len()) as u32;
    let away = |seat: u32| match (to, place(eyes, seat)) {
        (Some(to), Some(at)) => {
            (i64::from(at[0]) - i64::from(to[0])).pow(2) + (i64::from(at[1]) - i64::from(to[1])).pow(2)
        }
        _ => eyes.distance(seat) as i64,
    };
    if away(gap.start) <= away(gap.end - 1) {
        (gap.start..gap.start + size).collect()
    } else {
        (gap.end - size..gap.end).collect()
    }
}

fn place(eyes: &Eyes<'_>, seat: u32) -> Option<[i32; 2]> {
    eyes.shape.places.get(SeatIndex(seat).position()).copied()
}
