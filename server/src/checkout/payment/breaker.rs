//! The circuit to the provider: opens when it fails again and again or does not take our key, so that buyers are told at
//! once and nothing piles up behind a dead server. Pure: the caller brings the time. While open, money is not asked for;
//! questions about what was asked before go on. Each kind of call is counted apart: a provider whose reads work and whose
//! charges do not is not there for buyers, so what charges have opened only a charge closes, tried by one buyer each time.

use std::time::{Duration, Instant};

/// Failures in a row of one kind that open it: one slow call is not an outage.
const FAILURES_TO_OPEN: u32 = 20;
/// How long it stays open before one buyer may try, and how long that buyer has to come to the charge before the next one
/// has a turn.
const OPEN_FOR: Duration = Duration::from_secs(5);
/// Failures in a row of a lesser kind behind which an answer of that kind says that the provider is back: then a buyer need
/// not wait for a turn.
const FAILURES_OF_OUTAGE: u32 = 2;

/// What a call is for, the lesser first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// It changes nothing.
    Read,
    /// It changes something, and asks no buyer for money.
    Write,
    /// It asks for money.
    Charge,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The provider answered, whatever it said.
    Answer,
    /// It did not, or with a failure of its own.
    Failure,
    /// It does not take our key: nothing will work.
    Stranger,
}

/// What a call has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// Nothing.
    Not,
    /// It is open now.
    Open,
    /// Open still, but the provider answers: what became clear meanwhile can be read.
    Answering,
    /// It is closed now.
    Closed,
}

/// One buyer's turn while it is open.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// Whose it is.
    turn: u64,
    /// Behind this the next one has a turn.
    until: Instant,
    /// Calls it may make, by kind.
    may: [bool; 3],
}

/// An open circuit.
#[derive(Debug)]
struct Open {
    /// The greatest kind of call that has opened it.
    by: Call,
    /// When the next buyer may try.
    next_try: Instant,
    trial: Option<Trial>,
    /// Whether a lesser call was answered since.
    is_answering: bool,
}

/// The circuit.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Turns there were.
    turns_n: u64,
    /// Failures in a row, by kind.
    failures_n: [u32; 3],
    open: Option<Open>,
}

impl Breaker {
    /// Whether a buyer could begin to pay now: it is closed, or there is a turn to be had.
    pub(super) fn has_turn(&self, now: Instant) -> bool {
        let is_free = |open: &Open| now >= open.next_try && open.trial.is_none_or(|trial| now >= trial.until);
        self.open.as_ref().is_none_or(is_free)
    }

    /// A buyer begins to pay: freely where it is closed, else as the one who tries; `None`: not now.
    pub(super) fn take_turn(&mut self, now: Instant) -> Option<Option<u64>> {
        if !self.has_turn(now) {
            return None;
        }
        let Some(open) = &mut self.open else { return Some(None) };
        self.turns_n += 1;
        open.trial = Some(Trial { turn: self.turns_n, until: now + OPEN_FOR, may: [true; 3] });
        Some(Some(self.turns_n))
    }

    /// A turn is over. One that asked the provider nothing is the next buyer's at once.
    pub(super) fn give_back(&mut self, turn: u64) {
        if let Some(open) = &mut self.open {
            open.trial.take_if(|trial| trial.turn == turn && trial.may == [true; 3]);
        }
    }

    /// Whether a call on the way to a charge may be made now: it is closed, or the call belongs to the buyer who tries.
    pub(super) fn admits(&mut self, call: Call, turn: Option<u64>, now: Instant) -> bool {
        let Some(open) = &mut self.open else { return true };
        match &mut open.trial {
            Some(trial) if now < trial.until && turn == Some(trial.turn) => {
                std::mem::take(&mut trial.may[call as usize])
            }
            _ => false,
        }
    }

    /// Whether it is closed.
    pub(super) const fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    /// Takes note of a call.
    pub(super) fn hear(&mut self, call: Call, heard: Heard, now: Instant) -> Turned {
        let failures_n = &mut self.failures_n[call as usize];
        match heard {
            Heard::Answer => {
                let was_outage = std::mem::take(failures_n) >= FAILURES_OF_OUTAGE;
                let Some(open) = &mut self.open else { return Turned::Not };
                if call >= open.by {
                    self.open = None;
                    return Turned::Closed;
                }
                if was_outage {
                    open.next_try = open.next_try.min(now);
                } else if open.is_answering {
                    return Turned::Not;
                }
                open.is_answering = true;
                Turned::Answering
            }
            Heard::Failure => {
                *failures_n = failures_n.saturating_add(1);
                if *failures_n >= FAILURES_TO_OPEN { self.open_by(call, now) } else { Turned::Not }
            }
            Heard::Stranger => self.open_by(call, now),
        }
    }

    fn open_by(&mut self, call: Call, now: Instant) -> Turned {
        let before = self.open.as_ref().map(|open| open.by);
        // A question that fails takes no buyer's turn away.
        if before.is_none_or(|by| call >= by) {
            let is_answering = self.open.as_ref().is_some_and(|open| open.is_answering);
            self.open = Some(Open { by: call, next_try: now + OPEN_FOR, trial: None, is_answering });
        }
        if before.is_none() { Turned::Open } else { Turned::Not }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(breaker: &mut Breaker, call: Call, times: u32, now: Instant) {
        for _ in 0..times {
            breaker.hear(call, Heard::Failure, now);
        }
    }

    /// The turn of the one who tries.
    fn taken(breaker: &mut Breaker, now: Instant) -> Option<u64> {
        let turn = breaker.take_turn(now).expect("a turn");
        assert!(turn.is_some(), "it is open");
        turn
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_answer_of_their_kind_closes_it() {
        for call in [Call::Read, Call::Write, Call::Charge] {
            let now = Instant::now();
            let mut breaker = Breaker::default();
            fails(&mut breaker, call, FAILURES_TO_OPEN - 1, now);
            assert!(breaker.admits(Call::Charge, None, now) && breaker.take_turn(now) == Some(None));
            assert_eq!(breaker.hear(call, Heard::Answer, now), Turned::Not);
            fails(&mut breaker, call, FAILURES_TO_OPEN - 1, now);
            assert_eq!(breaker.hear(call, Heard::Failure, now), Turned::Open);
            assert!(!breaker.has_turn(now) && !breaker.admits(Call::Charge, None, now) && !breaker.is_closed());
            let later = now + OPEN_FOR;
            assert!(!breaker.admits(Call::Charge, None, later), "who did not ask for a turn has none");
            let turn = taken(&mut breaker, later);
            assert_eq!((breaker.take_turn(later), breaker.has_turn(later)), (None, false), "one may try, and only one");
            assert!(!breaker.admits(Call::Charge, None, later), "nor has anybody else, meanwhile");
            assert!(breaker.admits(Call::Charge, turn, later) && !breaker.admits(Call::Charge, turn, later), "once");
            assert_eq!(breaker.hear(call, Heard::Answer, later), Turned::Closed);
            assert!(breaker.has_turn(later) && breaker.admits(Call::Charge, None, later) && breaker.is_closed());
        }
    }

    #[test]
    fn what_charges_have_opened_no_other_answer_closes() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN {
            breaker.hear(Call::Write, Heard::Answer, now);
            breaker.hear(Call::Charge, Heard::Failure, now);
            breaker.hear(Call::Read, Heard::Answer, now);
        }
        assert!(!breaker.is_closed(), "what answers meanwhile does not count");
        let later = now + OPEN_FOR;
        assert!(!breaker.has_turn(now));
        let turn = taken(&mut breaker, later);
        assert!(breaker.admits(Call::Write, turn, later));
        assert_eq!(breaker.hear(Call::Write, Heard::Answer, later), Turned::Not);
        assert_eq!(breaker.hear(Call::Read, Heard::Answer, later), Turned::Not);
        assert!(!breaker.has_turn(later), "its turn is not over");
        assert!(breaker.admits(Call::Charge, turn, later) && !breaker.admits(Call::Charge, turn, later));
        breaker.hear(Call::Charge, Heard::Failure, later);
        assert!(!breaker.has_turn(later) && !breaker.admits(Call::Write, turn, later));
        let last = later + OPEN_FOR;
        let turn = taken(&mut breaker, last);
        assert!(breaker.admits(Call::Charge, turn, last));
        assert_eq!(breaker.hear(Call::Charge, Heard::Answer, last), Turned::Closed);
    }

    #[test]
    fn a_buyer_who_never_comes_to_the_charge_leaves_the_turn_to_the_next() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        fails(&mut breaker, Call::Charge, FAILURES_TO_OPEN, now);
        let later = now + OPEN_FOR;
        let turn = taken(&mut breaker, later);
        assert!(!breaker.has_turn(later));
        let last = later + OPEN_FOR;
        assert!(!breaker.admits(Call::Charge, turn, last), "too late");
        let next = taken(&mut breaker, last);
        assert!(!breaker.admits(Call::Charge, turn, last), "the turn is another's");
        assert!(breaker.admits(Call::Charge, next, last));
    }

    #[test]
    fn a_turn_in_which_nothing_was_asked_is_the_next_buyers_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        fails(&mut breaker, Call::Charge, FAILURES_TO_OPEN, now);
        let later = now + OPEN_FOR;
        let first = taken(&mut breaker, later);
        breaker.give_back(first.expect("a turn"));
        let second = taken(&mut breaker, later);
        breaker.give_back(first.expect("a turn"));
        assert!(!breaker.has_turn(later), "nobody gives back what is another's");
        assert!(breaker.admits(Call::Write, second, later));
        breaker.give_back(second.expect("a turn"));
        assert!(!breaker.has_turn(later), "it was used");
    }

    #[test]
    fn after_an_outage_of_everything_a_read_gives_a_buyer_a_turn_at_once_but_closes_nothing() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        fails(&mut breaker, Call::Charge, FAILURES_TO_OPEN, now);
        fails(&mut breaker, Call::Read, FAILURES_OF_OUTAGE, now);
        assert!(!breaker.has_turn(now));
        assert_eq!(breaker.hear(Call::Read, Heard::Answer, now), Turned::Answering);
        assert_eq!(breaker.hear(Call::Read, Heard::Answer, now), Turned::Not, "said once");
        assert!(!breaker.is_closed() && taken(&mut breaker, now).is_some() && !breaker.has_turn(now));
        breaker.hear(Call::Charge, Heard::Failure, now);
        assert!(!breaker.is_closed() && !breaker.has_turn(now));
    }

    #[test]
    fn a_refused_key_opens_it_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert_eq!(breaker.hear(Call::Read, Heard::Stranger, now), Turned::Open);
        assert!(!breaker.has_turn(now));
    }
}
