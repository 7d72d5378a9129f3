//! Seat states at 2 bits a seat: record 6 of a frame, and how a viewer keeps a map in little memory.
//! Seat `i` lies in bits `2 * (i mod 4)` of byte `i div 4`; bits beyond the last seat are 0.

use crate::seat::{SeatIndex, SeatState};

/// States by number; every two bits are one of these.
const STATES: [SeatState; 4] = [SeatState::Available, SeatState::Held, SeatState::Sold, SeatState::Blocked];

/// The states of all seats of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackedStates {
    bytes: Vec<u8>,
    seat_count: u32,
}

impl PackedStates {
    /// So many seats, all available.
    #[must_use]
    pub fn new(seat_count: u32) -> Self {
        Self { bytes: vec![0; packed_bytes(seat_count)], seat_count }
    }

    /// Packs a list of states.
    #[must_use]
    pub fn from_states(states: &[SeatState]) -> Self {
        let mut bytes = Vec::with_capacity(states.len().div_ceil(4));
        pack_into(&mut bytes, states);
        Self { bytes, seat_count: u32::try_from(states.len()).expect("seat indices are 32 bits") }
    }

    /// Takes record 6; `None` when its length is not that of so many seats or a spare bit is set.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>, seat_count: u32) -> Option<Self> {
        if bytes.len() != packed_bytes(seat_count) {
            return None;
        }
        let used_bits = 2 * (seat_count % 4);
        if used_bits != 0 && bytes.last().is_some_and(|last| last >> used_bits != 0) {
            return None;
        }
        Some(Self { bytes, seat_count })
    }

    /// The bytes of record 6.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of seats.
    #[must_use]
    pub const fn seat_count(&self) -> u32 {
        self.seat_count
    }

    /// The state of a seat; `None` beyond the last one.
    #[must_use]
    pub fn get(&self, seat: SeatIndex) -> Option<SeatState> {
        (seat.0 < self.seat_count).then(|| self.state(seat))
    }

    /// Changes a seat and returns its old state; a seat beyond the last one is left out and is available.
    pub fn set(&mut self, seat: SeatIndex, state: SeatState) -> SeatState {
        if seat.0 >= self.seat_count {
            return SeatState::Available;
        }
        let old = self.state(seat);
        let shift = 2 * (seat.0 % 4);
        let byte = &mut self.bytes[seat.position() / 4];
        *byte = *byte & !(3 << shift) | (state as u8) << shift;
        old
    }

    /// Makes every seat available.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
    }

    /// Appends available seats until there are `seat_count`; never removes any.
    pub fn grow(&mut self, seat_count: u32) {
        if seat_count > self.seat_count {
            self.bytes.resize(packed_bytes(seat_count), 0);
            self.seat_count = seat_count;
        }
    }

    /// All states in seat order.
    pub fn iter(&self) -> impl Iterator<Item = SeatState> + '_ {
        (0..self.seat_count).map(|seat| self.state(SeatIndex(seat)))
    }

    /// Seats that are not available, with their states, in seat order. Skips available seats four at a time.
    pub fn iter_taken(&self) -> impl Iterator<Item = (SeatIndex, SeatState)> + '_ {
        self.bytes.iter().zip(0_u32..).filter(|(byte, _)| **byte != 0).flat_map(|(byte, at)| {
            (0..4).filter_map(move |lane| {
                let state = STATES[usize::from(byte >> (2 * lane) & 3)];
                (state != SeatState::Available).then_some((SeatIndex(at * 4 + lane), state))
            })
        })
    }

    fn state(&self, seat: SeatIndex) -> SeatState {
        STATES[usize::from(self.bytes[seat.position() / 4] >> (2 * (seat.0 % 4)) & 3)]
    }
}

/// Bytes that hold so many seats.
#[must_use]
pub const fn packed_bytes(seat_count: u32) -> usize {
    seat_count.div_ceil(4) as usize
}

/// Appends the packed form of `states`.
pub(crate) fn pack_into(out: &mut Vec<u8>, states: &[SeatState]) {
    let (whole, rest) = states.as_chunks::<4>();
    out.extend(whole.iter().map(|[a, b, c, d]| *a as u8 | (*b as u8) << 2 | (*c as u8) << 4 | (*d as u8) << 6));
    if !rest.is_empty() {
        out.push(rest.iter().rev().fold(0, |byte, state| byte << 2 | *state as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_lie_where_the_protocol_says() {
        let states = [
            SeatState::Held,
            SeatState::Sold,
            SeatState::Blocked,
            SeatState::Available,
            SeatState::Sold,
            SeatState::Held,
        ];
        let packed = PackedStates::from_states(&states);
        assert_eq!(packed.as_bytes(), [0b00_11_10_01, 0b01_10]);
        assert_eq!(packed.iter().collect::<Vec<_>>(), states);
        let taken: Vec<u32> = packed.iter_taken().map(|(seat, _)| seat.0).collect();
        assert_eq!(taken, [0, 1, 2, 4, 5]);
    }

    #[test]
    fn spare_bits_and_wrong_lengths_are_refused() {
        assert!(PackedStates::from_bytes(vec![0xff, 0x03], 5).is_some());
        assert!(PackedStates::from_bytes(vec![0xff, 0x04], 5).is_none());
        assert!(PackedStates::from_bytes(vec![0xff], 5).is_none());
        assert!(PackedStates::from_bytes(vec![0xff, 0, 0], 5).is_none());
        assert!(PackedStates::from_bytes(vec![], 0).is_some());
    }

    #[test]
    fn a_seat_is_changed_alone_and_seats_are_only_added() {
        let mut packed = PackedStates::new(5);
        assert_eq!(packed.set(SeatIndex(3), SeatState::Blocked), SeatState::Available);
        assert_eq!(packed.set(SeatIndex(3), SeatState::Held), SeatState::Blocked);
        assert_eq!(packed.set(SeatIndex(5), SeatState::Held), SeatState::Available);
        packed.grow(9);
        packed.grow(2);
        assert_eq!((packed.seat_count(), packed.as_bytes()), (9, &[0b01_00_00_00, 0, 0][..]));
        assert_eq!(packed.get(SeatIndex(3)), Some(SeatState::Held));
        assert_eq!(packed.get(SeatIndex(9)), None);
    }
}
