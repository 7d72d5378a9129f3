//! Choosing blocks for a buyer out of the map in memory, so that buyers of this node do not name the same ones: what is
//! chosen is marked until the map shows what became of it. `command::hold_best` comes in before and after each call.

use super::Wish;
use super::candidates::{Eyes, stretches};
use super::live::LiveEvent;
use crate::catalogue::{EventFacts, SeatShape};
use crate::inventory::{Block, MAX_BLOCKS, Nothing, Stretches};
use seatwire_proto::client::Position;
use seatwire_proto::seat::{SeatIndex, SeatState};

/// Buyers within the life of a mark for whom the spread grows by one block: a few leave the best blocks to the first,
/// many (on several nodes, which do not see each other's marks) each begin somewhere else.
const BUYERS_A_STEP: usize = 8;
/// Widest spread: the blocks of a call begin among so many of the best.
const MAX_SPREAD: usize = 64;

/// What to try for a buyer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    /// The map it was chosen from.
    pub position: Position,
    /// What to do.
    pub choice: Choice,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Try these, in this order; the first is marked.
    Try(Vec<Block>),
    /// Everything that would do is about to go to others of this node: look again in a moment.
    Wait,
    /// There is nothing in this map.
    Nothing(Nothing),
}

impl LiveEvent {
    /// Blocks for a buyer; the same `requester` begins at the same place. `looks_at_marked`: take what is about to go to
    /// others for free, as it may be.
    #[must_use]
    pub fn pick(&self, shape: &SeatShape, wish: &Wish, requester: u64, looks_at_marked: bool) -> Picked {
        let facts = self.facts();
        if let Some(position) = self.is_empty(&facts, wish) {
            return Picked { position, choice: Choice::Nothing(Nothing::SoldOut) };
        }
        // A copy, so that the feed does not wait for the look.
        let (position, states) = self.with_map(|position, states| (position, states.to_vec()));
        let now_ms = self.uptime_ms();
        let mut marks = self.in_flight.lock();
        marks.enter(position.epoch);
        let look = |is_in_flight: &dyn Fn(u32) -> bool| {
            let mut eyes = Eyes { event: &facts, shape, states: &states, wish, is_in_flight, takes_special: false };
            let found = eyes.look();
            if found.blocks.is_empty() && wish.accessible == 0 && eyes.is_all_sold_but_special() {
                eyes.takes_special = true;
                return eyes.look();
            }
            found
        };
        let is_marked = |seat: u32| marks.is_marked(seat, now_ms, position.seq);
        let mut found = look(&|seat| !looks_at_marked && is_marked(seat));
        if found.blocks.is_empty() {
            if !looks_at_marked {
                found = look(&|_| false);
            }
            let choice = if found.blocks.is_empty() {
                let eyes = Eyes {
                    event: &facts,
                    shape,
                    states: &states,
                    wish,
                    is_in_flight: &|_| false,
                    takes_special: false,
                };
                let is_gone = wish.accessible > 0 && !eyes.has_accessible();
                Choice::Nothing(if is_gone { Nothing::SoldOut } else { nothing(&found) })
            } else {
                Choice::Wait
            };
            return Picked { position, choice };
        }
        let spread = (1 + marks.crowd(now_ms) / BUYERS_A_STEP).min(MAX_SPREAD);
        let blocks = spread_out(found.blocks, spread, requester);
        if let Some(block) = blocks.first() {
            marks.mark(&block.seats, states.len(), now_ms);
        }
        Picked { position, choice: Choice::Try(blocks) }
    }

    /// Where the map stands, when no seat of the wished sections is available to anybody.
    fn is_empty(&self, facts: &EventFacts, wish: &Wish) -> Option<Position> {
        let counts = self.counts();
        let is_wished = |first: u32| match &wish.sections {
            None => true,
            Some(ranges) => ranges.iter().any(|range| range.contains(&first)),
        };
        let mut sections = facts.sections.iter().zip(&counts.available);
        let is_empty = sections.all(|(section, available)| *available == 0 || !is_wished(section.first.0));
        (is_empty && wish.unlocked.is_empty()).then_some(counts.position)
    }

    /// What a scan must look through for this wish.
    #[must_use]
    pub fn stretches(&self, shape: &SeatShape, wish: &Wish) -> Vec<Stretches> {
        let facts = self.facts();
        let states: Vec<SeatState> = self.with_states(<[SeatState]>::to_vec);
        let mut eyes =
            Eyes { event: &facts, shape, states: &states, wish, is_in_flight: &|_| false, takes_special: false };
        eyes.takes_special = wish.accessible == 0 && eyes.is_all_sold_but_special();
        stretches(&eyes)
    }

    /// The call took these seats; the map shows them from `at` on.
    pub fn taken(&self, seats: &[SeatIndex], at: Position) {
        self.in_flight.lock().settle(seats, at);
    }

    /// The call did not take what was marked for it.
    pub fn left(&self, seats: &[SeatIndex]) {
        self.in_flight.lock().clear(seats);
    }
}

fn nothing(found: &super::candidates::Found) -> Nothing {
    if found.free == 0 { Nothing::SoldOut } else { Nothing::NotEnough { most_together: found.most_together } }
}

/// The blocks of a call: beginning at the requester's place among the best, farther apart the more buyers there are.
fn spread_out(ranked: Vec<Block>, spread: usize, requester: u64) -> Vec<Block> {
    let begin = (requester % spread.min(ranked.len()).max(1) as u64) as usize;
    let step = 1 + spread / 16;
    let mut order: Vec<usize> = (0..MAX_BLOCKS).map(|n| (begin + n * step) % ranked.len().max(1)).collect();
    // Behind the end it goes on with the best; nothing twice.
    let mut seen = std::collections::HashSet::new();
    order.retain(|at| seen.insert(*at));
    let mut ranked: Vec<Option<Block>> = ranked.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| ranked.get_mut(at)?.take()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::board::Board;
    use super::super::candidates::tests::{event, shape, states, wish};
    use super::*;
    use crate::catalogue::SectionFacts;
    use crate::clock::Clock;
    use crate::inventory::MapState;
    use seatwire_proto::server::{OrphanRule, SalesMode};
    use std::sync::Arc;
    use tokio::sync::Notify;

    /// One section whose map is this text.
    fn live(map: &str) -> LiveEvent {
        let states: Vec<u8> = states(map).into_iter().map(|state| state as u8).collect();
        let mut facts = event(vec![0; states.len()], OrphanRule::Off);
        let end = SeatIndex(states.len() as u32);
        let sales_mode = SalesMode::PickSeat;
        facts.sections = vec![SectionFacts { name: "S".into(), first: SeatIndex(0), end, sales_mode }];
        let map = MapState { epoch: 1, seq: 0, server_ms: 0, states, areas: vec![] };
        let board = Board::new(&facts, &map, 0).expect("states that are states");
        LiveEvent::new(Arc::new(facts), 1, Clock::system(), board, Arc::new(Notify::new()))
    }

    fn first(picked: &Picked) -> Vec<u32> {
        match &picked.choice {
            Choice::Try(blocks) => blocks[0].seats.iter().map(|seat| seat.0).collect(),
            other => panic!("nothing to try: {other:?}"),
        }
    }

    #[test]
    fn what_one_buyer_is_about_to_get_is_not_named_to_the_next() {
        let (live, shape) = (live("...."), shape(&[4], &[], &[]));
        let pick = |looks_at_marked| live.pick(&shape, &wish(2), 0, looks_at_marked);
        let (one, two) = (first(&pick(false)), first(&pick(false)));
        assert!(one.iter().all(|seat| !two.contains(seat)), "{one:?} and {two:?}");
        assert_eq!(pick(false).choice, Choice::Wait, "both pairs are about to go");
        assert_eq!(first(&pick(true)).len(), 2, "who has waited takes what may be free");
        // What was not taken is named again, what was taken is not until the map shows it.
        let seats = |of: &[u32]| of.iter().copied().map(SeatIndex).collect::<Vec<_>>();
        live.left(&seats(&one));
        live.taken(&seats(&two), Position { epoch: 1, seq: 1 });
        assert_eq!(first(&pick(false)), one);
    }

    #[test]
    fn seats_that_a_buyer_has_unlocked_are_looked_at_where_nothing_else_is_left() {
        let (live, shape) = (live("ssbb"), shape(&[4], &[], &[]));
        let nothing = live.pick(&shape, &wish(2), 0, false).choice;
        assert_eq!(nothing, Choice::Nothing(Nothing::SoldOut));
        let unlocked = Wish { unlocked: [2, 3].into_iter().collect(), ..wish(2) };
        assert_eq!(first(&live.pick(&shape, &unlocked, 0, false)), [2, 3]);
    }

    #[test]
    fn seats_for_wheelchair_users_are_for_everyone_once_nothing_else_can_come_back() {
        let shape = shape(&[4], &[2], &[3]);
        assert_eq!(first(&live("ss..").pick(&shape, &wish(2), 0, false)), [2, 3]);
        let held = live("sh..").pick(&shape, &wish(1), 0, false).choice;
        assert_eq!(held, Choice::Nothing(Nothing::SoldOut), "the held one may come back");
        let wheelchair = Wish { accessible: 1, ..wish(2) };
        assert_eq!(first(&live("....").pick(&shape, &wheelchair, 0, false)), [2, 3]);
    }
}
