//! Foreign frames: decoding ends in a frame or a refusal, and a view that takes it keeps its promises.
//! The first two bytes choose seats and areas, the third whether the rest is an inflated payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seatwire_proto::frame::{FrameDecoder, decode_frame};
use seatwire_proto::seat::SeatState;
use seatwire_proto::view::{Outcome, View};

fuzz_target!(|input: &[u8]| {
    let Some((&[seats, areas, shape], rest)) = input.split_first_chunk::<3>() else { return };
    let (seats, areas) = (u32::from(seats) * 300, u32::from(areas % 8));
    let mut bytes = Vec::new();
    if shape & 1 == 1 {
        // A good header, so that the records are reached.
        bytes.extend_from_slice(&[b'S', b'W', 1, 1 + (shape >> 1) % 2, 8, (shape >> 2) % 3, 48, 0]);
        bytes.extend_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
        bytes.extend_from_slice(&[0; 20]);
        bytes.extend_from_slice(&(rest.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
    }
    bytes.extend_from_slice(rest);
    if let Ok(frame) = decode_frame(&bytes, seats, areas) {
        let mut seen = vec![false; seats as usize];
        frame.seats.for_each(|seat, _: SeatState| {
            assert!(!std::mem::replace(&mut seen[seat.position()], true), "a seat twice");
        });
        assert!(frame.areas.iter().all(|(area, _)| area.0 < areas));
    }
    let mut view = View::new(seats, areas);
    let outcome = view.take(&bytes, &mut FrameDecoder::new());
    if outcome != Outcome::Applied && !matches!(outcome, Outcome::Resync { .. }) {
        assert_eq!(view.position().epoch, 0);
    }
});
