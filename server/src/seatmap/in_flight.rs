//! Seats that some buyer on this node is about to be given: chosen for a call to the shelf whose change the map does not
//! show yet. `pick` looks here, so that a thousand buyers do not name the same block. A mark is a hint and ends by itself.

use seatwire_proto::client::Position;
use seatwire_proto::seat::SeatIndex;
use std::collections::VecDeque;

/// Life of a mark whose call has not been answered: several round trips to Redis on a busy day.
const MARK_MS: u64 = 200;
/// A word with this bit is a seq: marked until the map has come that far. Otherwise it is a time.
const BY_SEQ: u64 = 1 << 63;

/// Marks of one event.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// One word a seat, empty until the first mark; 0 = none.
    words: Vec<u64>,
    /// The life of the inventory that the seqs belong to.
    epoch: u32,
    /// Ends of the marks, ascending: how many buyers are choosing at this moment.
    ends_ms: VecDeque<u64>,
}

impl InFlight {
    /// Whether the seat may be about to go, for whoever looks at the map as of `seq`.
    pub(super) fn is_marked(&self, seat: u32, now_ms: u64, seq: u64) -> bool {
        match self.words.get(seat as usize) {
            None | Some(0) => false,
            Some(word) if word & BY_SEQ != 0 => seq < word & !BY_SEQ,
            Some(until_ms) => now_ms < *until_ms,
        }
    }

    /// Marks seats for the length of a call.
    pub(super) fn mark(&mut self, seats: &[SeatIndex], seat_count: usize, now_ms: u64) {
        self.words.resize(seat_count, 0);
        self.ends_ms.push_back(now_ms + MARK_MS);
        for seat in seats {
            if let Some(word) = self.words.get_mut(seat.position()) {
                *word = now_ms + MARK_MS;
            }
        }
    }

    /// The call took these seats; the map shows it from `at` on.
    pub(super) fn settle(&mut self, seats: &[SeatIndex], at: Position) {
        if at.epoch != self.epoch {
            self.words.iter_mut().filter(|word| **word & BY_SEQ != 0).for_each(|word| *word = 0);
            self.epoch = at.epoch;
        }
        for seat in seats {
            if let Some(word) = self.words.get_mut(seat.position()) {
                *word = BY_SEQ | at.seq;
            }
        }
    }

    /// The call did not take these seats.
    pub(super) fn clear(&mut self, seats: &[SeatIndex]) {
        for seat in seats {
            if let Some(word) = self.words.get_mut(seat.position())
                && *word & BY_SEQ == 0
            {
                *word = 0;
            }
        }
    }

    /// How many marks were made within the life of one.
    pub(super) fn crowd(&mut self, now_ms: u64) -> usize {
        while self.ends_ms.front().is_some_and(|end| *end <= now_ms) {
            self.ends_ms.pop_front();
        }
        self.ends_ms.len()
    }

    /// Another life of the inventory: what was known of seqs is void.
    pub(super) fn enter(&mut self, epoch: u32) {
        if epoch != self.epoch {
            self.settle(&[], Position { epoch, seq: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_ends_with_its_time_with_its_answer_or_with_the_map() {
        let mut marks = InFlight::default();
        let [one, two, three] = [1, 2, 3].map(|seat| [SeatIndex(seat)]);
        assert!(!marks.is_marked(1, 0, 0));
        marks.mark(&one, 5, 1_000);
        marks.mark(&two, 5, 1_000);
        marks.mark(&three, 5, 1_000);
        assert_eq!(marks.crowd(1_100), 3);
        assert!(marks.is_marked(1, 1_199, 7) && !marks.is_marked(1, 1_200, 7));
        marks.clear(&two);
        assert!(!marks.is_marked(2, 1_100, 7));
        marks.settle(&three, Position { epoch: 1, seq: 9 });
        assert!(marks.is_marked(3, 9_999, 8) && !marks.is_marked(3, 1_100, 9));
        // What was taken stays marked, whatever a late answer says; another life forgets it.
        marks.clear(&three);
        assert!(marks.is_marked(3, 9_999, 8));
        marks.enter(2);
        assert!(!marks.is_marked(3, 9_999, 8));
        assert_eq!(marks.crowd(1_200), 0);
    }
}
