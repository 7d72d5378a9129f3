//! Whether any seats at all, in as many parts as it takes, may be taken under the orphan rule: what `cluster` proposes are
//! the good choices, this is the exact answer as far as it looks. Each run says which numbers of its seats can be taken, the runs together
//! whether there are enough: seat by seat with a few states, run by run with the numbers that can be reached.

use super::Eyes;
use crate::catalogue::Run;
use crate::inventory::Block;
use seatwire_proto::client::MAX_SEATS_PER_COMMAND;
use seatwire_proto::server::OrphanRule;

/// Numbers of seats, 0 to 255, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts([u64; 4]);

/// Seats of the runs looked at, the nearest ones that have any free: some hundred nanoseconds each, so that a stadium costs a
/// call about a millisecond. Behind them nothing is found; the buyer is answered as if nothing were there, and may choose by
/// hand.
const MAX_SEATS_LOOKED: u32 = 4_096;

const _: () = assert!(MAX_SEATS_PER_COMMAND < 256, "a wish fits the bits");

impl Counts {
    const ZERO: Self = Self([1, 0, 0, 0]);

    const fn has(self, n: usize) -> bool {
        self.0[n / 64] >> (n % 64) & 1 == 1
    }

    const fn is_empty(self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine |= theirs;
        }
    }

    /// Each one more by `by`, those above 255 dropped.
    fn shifted(self, by: usize) -> Self {
        let mut out = [0; 4];
        for (at, word) in out.iter_mut().enumerate().skip(by / 64) {
            *word = self.0[at - by / 64] << (by % 64);
            if !by.is_multiple_of(64) && at > by / 64 {
                *word |= self.0[at - by / 64 - 1] >> (64 - by % 64);
            }
        }
        Self(out)
    }

    /// Those of at least `least`.
    fn from(self, least: usize) -> Self {
        let mut out = self;
        for n in 0..least.min(256) {
            out.0[n / 64] &= !(1 << (n % 64));
        }
        out
    }
}

/// The seat before, as far as it matters to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nobody can have it, or it is none.
    Closed,
    /// Chosen.
    Chosen,
    /// Left, beside another one that is left.
    Left,
    /// Left behind one that is closed: a single seat if the next one is chosen.
    LeftBehindClosed,
    /// Left behind a chosen one: a single seat unless the next one is left.
    LeftBehindChosen,
    /// Left, and may stand alone: for wheelchair users.
    LeftSpecial,
}

/// What is done with a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Pass,
    Choose,
    Leave,
}

/// What is known of a run up to a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    last: Last,
    /// Seats left in this free stretch; two stand for more.
    left_n: u8,
    /// A single seat is left, in this stretch (lenient) or in the run (strict).
    leaves_one: bool,
}

const LASTS: [Last; 6] =
    [Last::Closed, Last::Chosen, Last::Left, Last::LeftBehindClosed, Last::LeftBehindChosen, Last::LeftSpecial];
const STATES: usize = LASTS.len() * 6;
const BEGIN: State = State { last: Last::Closed, left_n: 0, leaves_one: false };

impl State {
    const fn index(self) -> usize {
        self.last as usize * 6 + self.left_n as usize * 2 + self.leaves_one as usize
    }

    fn of(index: usize) -> Self {
        Self { last: LASTS[index / 6], left_n: (index % 6 / 2) as u8, leaves_one: index % 2 == 1 }
    }

    /// The state behind the next seat; `None` where the rule forbids it.
    fn next(self, deed: Deed, is_special: bool, rule: OrphanRule) -> Option<Self> {
        let is_alone = match self.last {
            Last::LeftBehindChosen => deed != Deed::Leave,
            Last::LeftBehindClosed => deed == Deed::Choose,
            _ => false,
        };
        let leaves_one = self.leaves_one || is_alone;
        match deed {
            Deed::Choose => Some(Self { last: Last::Chosen, leaves_one, ..self }),
            Deed::Leave => {
                let last = match self.last {
                    _ if is_special => Last::LeftSpecial,
                    Last::Closed => Last::LeftBehindClosed,
                    Last::Chosen => Last::LeftBehindChosen,
                    _ => Last::Left,
                };
                Some(Self { last, left_n: (self.left_n + 1).min(2), leaves_one })
            }
            // The stretch ends. Lenient: the single seat must be all that is left of it.
            Deed::Pass if rule == OrphanRule::Lenient => (!leaves_one || self.left_n == 1).then_some(BEGIN),
            Deed::Pass => Some(Self { last: Last::Closed, left_n: 0, leaves_one }),
        }
    }
}

/// A run with the numbers of seats that can be taken of it.
struct Part<'a> {
    eyes: &'a Eyes<'a>,
    run: Run,
}

impl Part<'_> {
    /// What may be done with a seat of the run; behind its last one, nothing.
    fn deeds(&self, seat: u32) -> &'static [Deed] {
        if !self.run.seats().contains(&seat) || !self.eyes.is_open(seat) {
            &[Deed::Pass]
        } else if self.eyes.is_free(seat) && !self.eyes.shape.companion.contains(seat) {
            &[Deed::Choose, Deed::Leave]
        } else {
            &[Deed::Leave]
        }
    }

    fn is_special(&self, seat: u32) -> bool {
        self.eyes.shape.special.contains(seat)
    }

    /// The numbers that can be reached in each state before each seat, and behind the last.
    fn table(&self) -> Vec<[Counts; STATES]> {
        let rule = self.eyes.event.rules.orphans;
        let mut table = vec![[Counts::default(); STATES]; self.run.len as usize + 2];
        table[0][BEGIN.index()] = Counts::ZERO;
        for at in 0..=self.run.len as usize {
            let seat = self.run.first + at as u32;
            for index in 0..STATES {
                let counts = table[at][index];
                if counts.is_empty() {
                    continue;
                }
                for &deed in self.deeds(seat) {
                    if let Some(next) = State::of(index).next(deed, self.is_special(seat), rule) {
                        table[at + 1][next.index()].merge(counts.shifted(usize::from(deed == Deed::Choose)));
                    }
                }
            }
        }
        table
    }

    /// The numbers with which a state at the run's end may be left.
    fn allowed(&self, index: usize, counts: Counts) -> Counts {
        if !State::of(index).leaves_one || self.eyes.event.rules.orphans != OrphanRule::Strict {
            return counts;
        }
        // As `orphan.lua` has it: a run that is nearly sold out may keep a single seat.
        let open_n = self.run.seats().filter(|&seat| self.eyes.is_open(seat)).count();
        counts.from(open_n.saturating_sub((self.run.len / 10).max(1) as usize))
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for (index, counts) in self.table().last().into_iter().flatten().enumerate() {
            all.merge(self.allowed(index, *counts));
        }
        all
    }

    /// The seats of a choice of so many.
    fn seats(&self, mut count: usize) -> Option<Vec<u32>> {
        let rule = self.eyes.event.rules.orphans;
        let table = self.table();
        let last = table.last()?;
        let mut index = (0..STATES).find(|&index| self.allowed(index, last[index]).has(count))?;
        let mut seats = Vec::with_capacity(count);
        for at in (0..=self.run.len as usize).rev() {
            let seat = self.run.first + at as u32;
            let (before, deed) = (0..STATES).find_map(|before| {
                let leads = |deed: &&Deed| {
                    let chosen = usize::from(**deed == Deed::Choose);
                    chosen <= count
                        && table[at][before].has(count - chosen)
                        && State::of(before)
                            .next(**deed, self.is_special(seat), rule)
                            .is_some_and(|next| next.index() == index)
                };
                self.deeds(seat).iter().find(leads).map(|deed| (before, *deed))
            })?;
            if deed == Deed::Choose {
                seats.push(seat);
                count -= 1;
            }
            index = before;
        }
        seats.reverse();
        Some(seats)
    }
}

/// One choice, if there is any at all: of the nearest runs that make it possible, in few parts.
pub(super) fn look(eyes: &Eyes<'_>) -> Option<Block> {
    let size = eyes.wish.quantity as usize;
    let mut parts: Vec<(Part<'_>, Counts)> = Vec::new();
    let mut reached = vec![Counts::ZERO];
    let mut looked_n = 0;
    for (_, run) in eyes.runs() {
        if reached.last().is_some_and(|counts| counts.has(size)) {
            break;
        }
        if !run.seats().any(|seat| eyes.is_free(seat)) {
            continue;
        }
        looked_n += run.len;
        if looked_n > MAX_SEATS_LOOKED {
            break;
        }
        let part = Part { eyes, run };
        let counts = part.counts();
        let mut sum = Counts::default();
        let before = *reached.last()?;
        (0..=size).filter(|&n| counts.has(n)).for_each(|n| sum.merge(before.shifted(n)));
        reached.push(sum);
        parts.push((part, counts));
    }
    if !reached.last()?.has(size) {
        return None;
    }
    let (mut seats, mut missing) = (Vec::with_capacity(size), size);
    for (at, (part, counts)) in parts.iter().enumerate().rev() {
        let n = (0..=missing).rev().find(|&n| counts.has(n) && reached[at].has(missing - n))?;
        if n > 0 {
            seats.extend(part.seats(n)?);
            missing -= n;
        }
    }
    seats.sort_unstable();
    Some(eyes.block(seats, false))
}
