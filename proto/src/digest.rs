//! The digest of an event's whole state: 32 bits that server and viewer both keep up to date seat by
//! seat, so that a viewer who missed or misread something notices with the next frame.
//! XOR of one well-mixed term a seat and an area: the order of changes does not matter, and a change
//! costs two terms (the old one out, the new one in).

use crate::seat::{AreaIndex, SeatIndex, SeatState};

/// Spreads 32 bits over 32 bits, one to one. Constants from the protocol.
#[must_use]
pub const fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^= x >> 16;
    x
}

const fn seat_term(seat: SeatIndex, state: SeatState) -> u32 {
    match state {
        SeatState::Available => 0,
        _ => mix(seat.0.wrapping_mul(4).wrapping_add(state as u32)),
    }
}

const fn area_term(area: AreaIndex, remaining: u32) -> u32 {
    mix(mix(area.0.wrapping_add(0x8000_0000)).wrapping_add(remaining))
}

/// A digest being kept. An event with all seats available and no areas has digest 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Digest(pub u32);

impl Digest {
    /// The digest of a whole state; `areas` are the places remaining, by area index.
    #[must_use]
    pub fn of(states: &[SeatState], areas: &[u32]) -> Self {
        let mut digest = Self::default();
        for (seat, state) in (0..).zip(states) {
            digest.0 ^= seat_term(SeatIndex(seat), *state);
        }
        for (area, remaining) in (0..).zip(areas) {
            digest.0 ^= area_term(AreaIndex(area), *remaining);
        }
        digest
    }

    /// A seat went from `old` to `new`.
    #[inline]
    pub const fn change_seat(&mut self, seat: SeatIndex, old: SeatState, new: SeatState) {
        self.0 ^= seat_term(seat, old) ^ seat_term(seat, new);
    }

    /// The places remaining in an area went from `old` to `new`.
    #[inline]
    pub const fn change_area(&mut self, area: AreaIndex, old: u32, new: u32) {
        self.0 ^= area_term(area, old) ^ area_term(area, new);
    }

    /// An area with so many places joined (or left) the event.
    #[inline]
    pub const fn toggle_area(&mut self, area: AreaIndex, remaining: u32) {
        self.0 ^= area_term(area, remaining);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixer_gives_the_published_values() {
        // Computed apart from this code, from the protocol's five lines, in Python with 32-bit wrap-around.
        assert_eq!(mix(0), 0);
        assert_eq!(mix(1), 0x6889_90c0);
        assert_eq!(mix(0x8000_0000), 0xcc4b_4124);
    }

    #[test]
    fn an_empty_event_has_digest_zero_and_areas_count_even_when_full() {
        assert_eq!(Digest::of(&[SeatState::Available; 9], &[]), Digest(0));
        assert_ne!(Digest::of(&[], &[0]), Digest(0));
        assert_ne!(Digest::of(&[], &[0]), Digest::of(&[], &[1]));
    }

    #[test]
    fn keeping_the_digest_equals_computing_it() {
        let mut states = vec![SeatState::Available; 50];
        let mut areas = vec![100, 200];
        let mut digest = Digest::of(&states, &areas);
        for step in 0..500_u32 {
            let seat = mix(step) % 50;
            let new = SeatState::from_u8((mix(step + 1000) % 4) as u8).expect("below 4");
            let old = std::mem::replace(&mut states[seat as usize], new);
            digest.change_seat(SeatIndex(seat), old, new);
            let area = step % 2;
            let remaining = mix(step + 9) % 300;
            let before = std::mem::replace(&mut areas[area as usize], remaining);
            digest.change_area(AreaIndex(area), before, remaining);
            assert_eq!(digest, Digest::of(&states, &areas));
        }
    }
}
