//! One change of an event's map as Redis publishes it: the scripts write it, `seatmap` reads it. States are absolute.
//! Little-endian: epoch u32, seq u64, server_ms u64, count of seats u16, count of areas u16, (seat * 4 + state) u32 each,
//! (area u32, remaining u32) each.

use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};

/// What changed, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedMessage {
    /// Life of the inventory.
    pub epoch: u32,
    /// Position of this change; the one before is one less.
    pub seq: u64,
    /// Redis' clock when it happened.
    pub server_ms: u64,
    /// Seats and their state.
    pub seats: Vec<(SeatIndex, SeatState)>,
    /// Areas and what is left of them.
    pub areas: Vec<(AreaIndex, u32)>,
}

/// The bytes are not a message of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a feed message")]
pub struct FeedError;

impl FeedMessage {
    /// Reads one message.
    ///
    /// # Errors
    /// When the bytes are cut short, too long or name an impossible state.
    pub fn decode(bytes: &[u8]) -> Result<Self, FeedError> {
        let mut rest = bytes;
        let epoch = u32::from_le_bytes(take(&mut rest)?);
        let seq = u64::from_le_bytes(take(&mut rest)?);
        let server_ms = u64::from_le_bytes(take(&mut rest)?);
        let seats_n = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let areas_n = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let mut seats = Vec::with_capacity(seats_n);
        for _ in 0..seats_n {
            let word = u32::from_le_bytes(take(&mut rest)?);
            let state = SeatState::from_u8((word & 3) as u8).ok_or(FeedError)?;
            seats.push((SeatIndex(word >> 2), state));
        }
        let mut areas = Vec::with_capacity(areas_n);
        for _ in 0..areas_n {
            let area = AreaIndex(u32::from_le_bytes(take(&mut rest)?));
            areas.push((area, u32::from_le_bytes(take(&mut rest)?)));
        }
        if rest.is_empty() { Ok(Self { epoch, seq, server_ms, seats, areas }) } else { Err(FeedError) }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], FeedError> {
    let (head, tail) = rest.split_first_chunk().ok_or(FeedError)?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_decodes_and_a_damaged_one_is_refused() {
        let mut bytes = Vec::new();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(9u64.to_le_bytes());
        bytes.extend(1_790_000_000_000u64.to_le_bytes());
        bytes.extend([1, 0, 1, 0]);
        bytes.extend((5u32 * 4 + 2).to_le_bytes());
        bytes.extend([1, 0, 0, 0, 7, 0, 0, 0]);
        let message = FeedMessage::decode(&bytes).expect("whole");
        assert_eq!(message.seats, [(SeatIndex(5), SeatState::Sold)]);
        assert_eq!(message.areas, [(AreaIndex(1), 7)]);
        for len in 0..bytes.len() {
            assert_eq!(FeedMessage::decode(&bytes[..len]), Err(FeedError));
        }
        bytes.push(0);
        assert_eq!(FeedMessage::decode(&bytes), Err(FeedError));
    }
}
