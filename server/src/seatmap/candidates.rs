//! Blocks of seats for whoever asks for good ones, best first: side by side without leaving a single seat, side by side,
//! across rows and split where that is allowed; each by its distance to what the section looks at. Pure: the map as it is
//! comes in, blocks go out; `pick` marks them, the shelf decides.

mod accessible;
mod cluster;
mod split;

use crate::catalogue::{EventFacts, Run, SeatShape};
use crate::inventory::{Block, MAX_SCANNED, Stretches, orphan_checks};
use roaring::RoaringBitmap;
use seatwire_proto::client::Together;
use seatwire_proto::seat::{SeatIndex, SeatState};
use seatwire_proto::server::OrphanRule;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Blocks ranked of which a call's blocks are chosen: room for a crowd to spread in.
pub(super) const MAX_RANKED: usize = 160;

/// What a buyer asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// How many seats, at least 1.
    pub quantity: u32,
    /// How near to each other.
    pub together: Together,
    /// By price tier: whether it will do, the budget considered.
    pub tiers: Vec<bool>,
    /// Seats of the sections that will do, ascending; `None` = anywhere.
    pub sections: Option<Vec<Range<u32>>>,
    /// How many of them for wheelchair users.
    pub accessible: u32,
    /// Blocked seats that are available to this buyer.
    pub unlocked: RoaringBitmap,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Best first; each with its seats ascending but for splits, which begin with the best part.
    pub(super) blocks: Vec<Block>,
    /// Seats that fit and are free.
    pub(super) free: u32,
    /// The longest block.
    pub(super) most_together: u32,
}

/// The map with what a buyer may have of it.
pub(super) struct Eyes<'a> {
    pub(super) event: &'a EventFacts,
    pub(super) shape: &'a SeatShape,
    pub(super) states: &'a [SeatState],
    pub(super) wish: &'a Wish,
    /// Seats that are about to go count as gone.
    pub(super) is_in_flight: &'a dyn Fn(u32) -> bool,
    /// Whether seats for wheelchair users may be given to others: nothing else is left.
    pub(super) takes_special: bool,
}

/// A block while it is ranked: the less, the better.
type Ranked = (u8, u64, u32);

impl Eyes<'_> {
    /// Whether somebody could still take the seat.
    fn is_open(&self, seat: u32) -> bool {
        let is_open = match self.states.get(seat as usize) {
            Some(SeatState::Available) => true,
            Some(SeatState::Blocked) => self.wish.unlocked.contains(seat),
            _ => false,
        };
        is_open && !(self.is_in_flight)(seat)
    }

    fn fits_tier(&self, seat: u32) -> bool {
        let tier = self.event.seat_tiers.get(seat as usize).copied().unwrap_or_default();
        self.wish.tiers.get(usize::from(tier)).copied().unwrap_or(false)
    }

    /// Whether the seat would do if it were free.
    fn would_do(&self, seat: u32) -> bool {
        self.fits_tier(seat) && (self.takes_special || !self.shape.special.contains(seat))
    }

    fn is_free(&self, seat: u32) -> bool {
        self.is_open(seat) && self.would_do(seat)
    }

    /// Whether the run stands in one of the wished sections.
    fn is_wished(&self, run: Run) -> bool {
        let Some(sections) = &self.wish.sections else { return true };
        let after = sections.partition_point(|section| section.end <= run.first);
        sections.get(after).is_some_and(|section| section.contains(&run.first))
    }

    /// Wished runs, nearest first, with their least distance.
    fn runs(&self) -> impl Iterator<Item = (u32, Run)> {
        self.shape
            .by_distance
            .iter()
            .map(|&(distance, at)| (distance, self.shape.runs[at]))
            .filter(|(_, run)| self.is_wished(*run))
    }

    /// Stretches of touching seats of a run that `fits`.
    fn gaps(&self, run: Run, fits: impl Fn(u32) -> bool) -> Vec<Range<u32>> {
        let mut gaps: Vec<Range<u32>> = Vec::new();
        for seat in run.seats().filter(|&seat| fits(seat)) {
            match gaps.last_mut() {
                Some(gap) if gap.end == seat => gap.end += 1,
                _ => gaps.push(seat..seat + 1),
            }
        }
        gaps
    }

    /// Whether a seat for a wheelchair user that would do otherwise is open.
    pub(super) fn has_accessible(&self) -> bool {
        let is_one = |&seat: &u32| self.shape.is_accessible(seat) && self.fits_tier(seat) && self.is_open(seat);
        self.shape.runs.iter().filter(|run| self.is_wished(**run)).any(|run| run.seats().any(|seat| is_one(&seat)))
    }

    fn distance(&self, seat: u32) -> u64 {
        u64::from(self.shape.distances.get(seat as usize).copied().unwrap_or(u32::MAX))
    }

    fn distance_of(&self, seats: Range<u32>) -> u64 {
        seats.map(|seat| self.distance(seat)).sum()
    }

    /// The single seats that taking `seats` would leave in the run, at most one on either side.
    fn orphans(&self, run: Run, seats: &Range<u32>) -> impl Iterator<Item = u32> {
        let is_closed = |seat: Option<u32>| !seat.is_some_and(|seat| run.seats().contains(&seat) && self.is_open(seat));
        let is_orphan = |seat: Option<u32>, beyond: Option<u32>| {
            let seat = seat.filter(|&seat| !is_closed(Some(seat)) && !self.shape.special.contains(seat));
            seat.filter(|_| is_closed(beyond))
        };
        let left = is_orphan(seats.start.checked_sub(1), seats.start.checked_sub(2));
        let right = is_orphan(Some(seats.end), Some(seats.end + 1));
        left.into_iter().chain(right)
    }

    /// Whether the block leaves a single seat; `None` when it must not.
    pub(super) fn leaves_one(&self, run: Run, seats: &Range<u32>) -> Option<bool> {
        let mut leaves_one = false;
        for left in self.orphans(run, seats) {
            if !self.may_leave(run, left, |seat| seats.contains(&seat)) {
                return None;
            }
            leaves_one = true;
        }
        Some(leaves_one)
    }

    /// Whether the rule allows to leave the open seat `left` alone: what the script will say of it.
    fn may_leave(&self, run: Run, left: u32, is_chosen: impl Fn(u32) -> bool) -> bool {
        match self.event.rules.orphans {
            OrphanRule::Off => true,
            OrphanRule::Strict => {
                let still_open = run.seats().filter(|&seat| self.is_open(seat) && !is_chosen(seat)).count() as u32;
                still_open <= (run.len / 10).max(1)
            }
            OrphanRule::Lenient => {
                let around = self.gaps(run, |seat| self.is_open(seat)).into_iter().find(|gap| gap.contains(&left));
                around.is_some_and(|mut gap| gap.all(|seat| seat == left || is_chosen(seat)))
            }
        }
    }

    /// Whether any seats, also of several rows, may be taken under the rule.
    fn keeps_rule(&self, seats: &[u32]) -> bool {
        if self.event.rules.orphans == OrphanRule::Off {
            return true;
        }
        let chosen: RoaringBitmap = seats.iter().copied().collect();
        orphan_checks(self.shape, &chosen).iter().all(|check| {
            let run = Run { first: check.first, len: check.len };
            !self.is_open(check.seat)
                || check.beyond.is_some_and(|beyond| self.is_open(beyond))
                || self.may_leave(run, check.seat, |seat| chosen.contains(seat))
        })
    }

    /// Companions only beside somebody they accompany.
    fn is_fair(&self, seats: Range<u32>) -> bool {
        let mut seats = seats;
        let has_companion = seats.clone().any(|seat| self.shape.companion.contains(seat));
        !has_companion || seats.any(|seat| self.shape.is_accessible(seat))
    }

    /// A block with what the script must look at besides.
    fn block(&self, seats: impl IntoIterator<Item = u32>, is_together: bool) -> Block {
        let seats: Vec<SeatIndex> = seats.into_iter().map(SeatIndex).collect();
        let orphans = if self.event.rules.orphans == OrphanRule::Off {
            Vec::new()
        } else {
            orphan_checks(self.shape, &seats.iter().map(|seat| seat.0).collect())
        };
        Block { seats, is_together, orphans }
    }

    /// Everything a look finds.
    pub(super) fn look(&self) -> Found {
        if self.wish.accessible > 0 {
            return accessible::look(self);
        }
        let mut found = self.side_by_side();
        if found.blocks.is_empty() && self.wish.together != Together::Required && found.free >= self.wish.quantity {
            found.blocks = cluster::look(self);
            if found.blocks.is_empty() && self.event.rules.orphans != OrphanRule::Off {
                found.blocks.extend(split::look(self));
            }
        }
        found
    }

    /// Blocks in one row. Within a free stretch they begin at multiples of their size from one of its ends, so that equal
    /// parties fill a row without leaving anything.
    fn side_by_side(&self) -> Found {
        let size = self.wish.quantity;
        let mut ranked: BinaryHeap<Ranked> = BinaryHeap::with_capacity(MAX_RANKED + 1);
        let (mut free, mut most_together) = (0, 0);
        for (nearest, run) in self.runs() {
            let worst = ranked.peek().filter(|_| ranked.len() == MAX_RANKED);
            if worst
                .is_some_and(|(class, distance, _)| *class == 0 && u64::from(nearest) * u64::from(size) >= *distance)
            {
                break;
            }
            for gap in self.gaps(run, |seat| self.is_free(seat)) {
                let len = gap.len() as u32;
                free += len;
                most_together = most_together.max(len);
                let from_left = (gap.start..).step_by(size as usize).take((len / size) as usize);
                let from_right =
                    (0..len / size).map(|n| gap.end - (n + 1) * size).filter(|_| !len.is_multiple_of(size));
                let before = ranked.len();
                from_left.chain(from_right).for_each(|first| self.rank(run, first, &mut ranked));
                if ranked.len() == before && self.event.rules.orphans != OrphanRule::Off && ranked.len() < MAX_RANKED {
                    // Seats of another price beside the stretch can make another beginning the only one.
                    (gap.start..(gap.end + 1).saturating_sub(size))
                        .for_each(|first| self.rank(run, first, &mut ranked));
                }
            }
        }
        let ranked = ranked.into_sorted_vec();
        let blocks = ranked.into_iter().map(|(_, _, first)| self.block(first..first + size, true)).collect();
        Found { blocks, free, most_together }
    }

    /// Adds the block that begins here to the ranked ones, if the rules allow it and it is good enough.
    fn rank(&self, run: Run, first: u32, ranked: &mut BinaryHeap<Ranked>) {
        let seats = first..first + self.wish.quantity;
        let Some(leaves_one) = self.leaves_one(run, &seats) else { return };
        if self.is_fair(seats.clone()) {
            ranked.push((u8::from(leaves_one), self.distance_of(seats), first));
            if ranked.len() > MAX_RANKED {
                ranked.pop();
            }
        }
    }

    /// Whether nothing that would do for everybody is left or may come back: then seats for wheelchair users are given to
    /// others too.
    pub(super) fn is_all_sold_but_special(&self) -> bool {
        self.runs().all(|(_, run)| {
            run.seats().filter(|&seat| self.would_do(seat)).all(|seat| {
                let state = self.states.get(seat as usize);
                state == Some(&SeatState::Sold)
                    || (state == Some(&SeatState::Blocked) && !self.wish.unlocked.contains(seat))
            })
        })
    }
}

/// Every stretch that would do, in parts small enough for one scan each, in the order of their seats.
pub(super) fn stretches(eyes: &Eyes<'_>) -> Vec<Stretches> {
    let mut parts: Vec<Stretches> = Vec::new();
    for run in eyes.shape.runs.iter().filter(|run| eyes.is_wished(**run)) {
        for gap in eyes.gaps(*run, |seat| eyes.would_do(seat)) {
            for first in gap.clone().step_by(usize::from(u16::MAX).min(MAX_SCANNED as usize)) {
                let len = (gap.end - first).min(MAX_SCANNED).min(u32::from(u16::MAX));
                let around = (run.first, u16::try_from(run.len).unwrap_or(u16::MAX));
                match parts.last_mut() {
                    Some(part) if part.stretches[0].0 + MAX_SCANNED >= first + len => {
                        part.stretches.push((first, len as u16));
                        part.runs.push(around);
                    }
                    _ => parts.push(Stretches { stretches: vec![(first, len as u16)], runs: vec![around] }),
                }
            }
        }
    }
    parts
}

#[cfg(test)]
pub(super) mod tests;
