//! Frames from end to end: what the encoder writes, the decoder and a view must read back, whatever
//! happened to the seats; and whatever bytes come, decoding ends in a value or a refusal.

use proptest::prelude::*;
use seatwire_proto::client::Position;
use seatwire_proto::digest::Digest;
use seatwire_proto::frame::{
    FrameDecoder, FrameEncoder, FrameError, FrameHeader, FrameKind, FrameMeta, HEADER_BYTES, SeatEncoding, Wrap,
    decode_frame, encode_beacon, websocket_header_bytes,
};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use seatwire_proto::view::{Cursor, DropReason, Outcome, ResyncReason, View};

fn meta(epoch: u32, seq_from: u64, seq_to: u64, digest: Digest) -> FrameMeta {
    FrameMeta { channel: 7, epoch, seq_from, seq_to, digest, server_ms: 1_800_000_000_000, is_coalesced: false }
}

/// A model of an event: states, areas, seq.
#[derive(Clone)]
struct Event {
    epoch: u32,
    seq: u64,
    states: Vec<SeatState>,
    areas: Vec<u32>,
}

impl Event {
    fn new(seats: usize, areas: usize) -> Self {
        Self { epoch: 1, seq: 0, states: vec![SeatState::Available; seats], areas: vec![500; areas] }
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.states, &self.areas)
    }

    fn snapshot(&self, encoder: &mut FrameEncoder, encoding: SeatEncoding) -> Vec<u8> {
        let mut out = Vec::new();
        let meta = meta(self.epoch, 0, self.seq, self.digest());
        encoder.snapshot(&mut out, &meta, &self.states, &self.areas, encoding, Wrap::Bare);
        out
    }

    fn change(&mut self, encoder: &mut FrameEncoder, seats: &[(u32, SeatState)], areas: &[(u32, u32)]) -> Vec<u8> {
        let mut dirty = Vec::new();
        for (seat, state) in seats {
            self.states[*seat as usize] = *state;
            dirty.push(SeatIndex(*seat));
        }
        let mut dirty_areas = std::collections::BTreeMap::new();
        for (area, remaining) in areas {
            self.areas[*area as usize] = *remaining;
            dirty_areas.insert(*area, *remaining);
        }
        let areas: Vec<_> = dirty_areas.into_iter().map(|(area, remaining)| (AreaIndex(area), remaining)).collect();
        self.seq += 1;
        let mut out = Vec::new();
        let meta = meta(self.epoch, self.seq, self.seq, self.digest());
        encoder.delta(&mut out, &meta, &self.states, &dirty, &areas, Wrap::Bare);
        out
    }

    fn beacon(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_beacon(&mut out, &meta(self.epoch, 0, self.seq, self.digest()), Wrap::Bare);
        out
    }

    fn assert_seen_by(&self, view: &View) {
        assert_eq!(view.states().iter().collect::<Vec<_>>(), self.states);
        assert_eq!(view.areas(), self.areas);
        assert_eq!(view.position(), Position { epoch: self.epoch, seq: self.seq });
        assert_eq!(view.digest(), Some(self.digest()));
    }
}

fn state() -> impl Strategy<Value = SeatState> {
    (0_u8..4).prop_map(|number| SeatState::from_u8(number).expect("below 4"))
}

proptest! {
    #[test]
    fn a_snapshot_shows_every_seat_in_both_encodings(
        states in prop::collection::vec(state(), 0..600), areas in prop::collection::vec(any::<u32>(), 0..5), packed: bool,
    ) {
        let event = Event { epoch: 3, seq: 9, states, areas };
        let encoding = if packed { SeatEncoding::Packed2 } else { SeatEncoding::Roaring };
        let bytes = event.snapshot(&mut FrameEncoder::new(), encoding);
        let mut view = View::new(event.states.len() as u32, event.areas.len() as u32);
        prop_assert_eq!(view.take(&bytes, &mut FrameDecoder::new()), Outcome::Applied);
        event.assert_seen_by(&view);
    }

    #[test]
    fn a_viewer_of_every_delta_sees_what_the_server_sees(
        changes in prop::collection::vec(
            (prop::collection::vec((0_u32..80_000, state()), 0..40), prop::collection::vec((0_u32..3, any::<u32>()), 0..4)),
            1..20,
        ),
    ) {
        let mut event = Event::new(80_000, 3);
        let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
        let mut view = View::new(80_000, 3);
        prop_assert_eq!(view.take(&event.snapshot(&mut encoder, SeatEncoding::Roaring), &mut decoder), Outcome::Applied);
        for (seats, areas) in changes {
            let bytes = event.change(&mut encoder, &seats, &areas);
            prop_assert_eq!(view.take(&bytes, &mut decoder), Outcome::Applied);
            prop_assert_eq!(view.take(&bytes, &mut decoder), Outcome::Dropped(DropReason::Old));
            prop_assert_eq!(view.take(&event.beacon(), &mut decoder), Outcome::InStep);
        }
        event.assert_seen_by(&view);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read_but_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400), seats in 0_u32..200_000, areas in 0_u32..9,
    ) {
        let _ = decode_frame(&bytes, seats, areas);
    }

    #[test]
    fn arbitrary_payloads_behind_a_good_header_never_panic(
        kind in 1_u8..4, flags in 0_u8..16, enc in 0_u8..3, payload in prop::collection::vec(any::<u8>(), 0..300),
        said in prop::option::of(any::<u32>()), seats in 0_u32..200_000, areas in 0_u32..9,
    ) {
        let mut bytes = vec![b'S', b'W', 1, kind, flags, enc, 48, 0];
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&[0; 20]);
        bytes.extend_from_slice(&said.unwrap_or(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&payload);
        let _ = decode_frame(&bytes, seats, areas);
    }

    #[test]
    fn one_damaged_byte_never_panics_and_never_leaves_a_wrong_map_unnoticed(
        at in any::<prop::sample::Index>(), flip in 1_u8..=255, packed: bool,
    ) {
        let mut event = Event::new(3_000, 2);
        let mut encoder = FrameEncoder::new();
        for seat in 0..300 {
            event.change(&mut encoder, &[(seat * 7, SeatState::Sold), (seat * 3, SeatState::Held)], &[]);
        }
        let encoding = if packed { SeatEncoding::Packed2 } else { SeatEncoding::Roaring };
        let mut bytes = event.snapshot(&mut encoder, encoding);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let mut view = View::new(3_000, 2);
        if view.take(&bytes, &mut FrameDecoder::new()) == Outcome::Applied && bytes[4] & 8 != 0 {
            prop_assert_eq!(view.states().iter().collect::<Vec<_>>(), event.states);
        }
    }
}

#[test]
fn a_frame_for_sockets_is_the_bare_frame_behind_a_websocket_header() {
    let mut encoder = FrameEncoder::new();
    for seats in [0_usize, 200, 4_000, 300_000] {
        // Alternating by a multiplicative sequence so that deflate cannot make the large one small.
        let states: Vec<_> = (0..seats as u32)
            .map(|seat| SeatState::from_u8((seatwire_proto::digest::mix(seat) & 3) as u8).expect("two bits"))
            .collect();
        let meta = meta(1, 0, 4, Digest::of(&states, &[]));
        let (mut bare, mut wrapped) = (Vec::new(), vec![0xee]);
        encoder.snapshot(&mut bare, &meta, &states, &[], SeatEncoding::Packed2, Wrap::Bare);
        encoder.snapshot(&mut wrapped, &meta, &states, &[], SeatEncoding::Packed2, Wrap::WebSocket);
        let header = websocket_header_bytes(bare.len());
        assert_eq!(wrapped[..2], [0xee, 0x82]);
        assert_eq!(wrapped[1 + header..], bare);
        let said = match wrapped[2] {
            126 => u64::from(u16::from_be_bytes([wrapped[3], wrapped[4]])),
            127 => u64::from_be_bytes(wrapped[3..11].try_into().expect("eight bytes")),
            short => u64::from(short),
        };
        assert_eq!(said, bare.len() as u64);
        assert!(decode_frame(&bare, seats as u32, 0).is_ok());
    }
}

#[test]
fn deflate_is_used_only_when_it_is_smaller() {
    let mut encoder = FrameEncoder::new();
    let mut event = Event::new(70_000, 0);
    let small = event.change(&mut encoder, &[(5, SeatState::Held)], &[]);
    assert!(!FrameHeader::decode(&small).expect("ours").is_deflated);
    let large = event.snapshot(&mut encoder, SeatEncoding::Packed2);
    let header = FrameHeader::decode(&large).expect("ours");
    assert!(header.is_deflated && large.len() < 200, "{}", large.len());
}

#[test]
fn noise_that_deflate_would_lengthen_is_carried_as_it_is() {
    let states: Vec<_> = (0..400)
        .map(|seat| SeatState::from_u8((seatwire_proto::digest::mix(seat) & 3) as u8).expect("two bits"))
        .collect();
    let bytes =
        Event { epoch: 1, seq: 1, states, areas: vec![] }.snapshot(&mut FrameEncoder::new(), SeatEncoding::Packed2);
    assert!(!FrameHeader::decode(&bytes).expect("ours").is_deflated);
    assert_eq!(bytes.len(), HEADER_BYTES + 2 + 100);
}

#[test]
fn a_stream_that_ends_early_is_refused_whatever_the_buffer_held_before() {
    let mut event = Event::new(4_000, 0);
    event.states[17] = SeatState::Sold;
    let mut frame = event.snapshot(&mut FrameEncoder::new(), SeatEncoding::Packed2);
    let mut decoder = FrameDecoder::new();
    assert!(decoder.decode(&frame, 4_000, 0).is_ok());
    let said = FrameHeader::decode(&frame).expect("ours").payload_bytes + 1;
    frame[36..40].copy_from_slice(&said.to_le_bytes());
    assert_eq!(decoder.decode(&frame, 4_000, 0), Err(FrameError::PayloadLength));
}

#[test]
fn a_set_that_promises_more_containers_than_seats_need_is_refused_before_they_are_reserved() {
    let mut header = FrameHeader::decode(&Event::new(4, 0).beacon()).expect("ours");
    header.kind = FrameKind::Delta;
    header.encoding = SeatEncoding::Roaring;
    let body = [12_346_u32.to_le_bytes(), 65_536_u32.to_le_bytes()].concat();
    header.payload_bytes = body.len() as u32 + 2;
    let bytes = [&header.encode()[..], &[1, body.len() as u8], &body].concat();
    assert_eq!(decode_frame(&bytes, 4, 0), Err(FrameError::SeatRange));
}

#[test]
fn an_untouched_event_has_a_snapshot_without_seat_records() {
    let bytes = Event::new(70_000, 0).snapshot(&mut FrameEncoder::new(), SeatEncoding::Roaring);
    assert_eq!(bytes.len(), HEADER_BYTES);
    assert_eq!(FrameHeader::decode(&bytes).expect("ours").encoding, SeatEncoding::None);
}

#[test]
fn a_stream_that_inflates_beyond_its_promise_is_stopped() {
    let bomb = {
        let mut deflater = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut deflater, &vec![0; 64 << 20]).expect("a Vec");
        deflater.finish().expect("a Vec")
    };
    let mut header =
        FrameHeader::decode(&Event::new(4, 0).snapshot(&mut FrameEncoder::new(), SeatEncoding::Roaring)).expect("ours");
    header.is_deflated = true;
    for (said, error) in
        [(100, FrameError::PayloadLength), (4 << 20, FrameError::PayloadLength), (64 << 20, FrameError::TooLarge)]
    {
        header.payload_bytes = said;
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&bomb);
        assert_eq!(decode_frame(&bytes, 4, 0), Err(error), "{said}");
    }
}

#[test]
fn a_deflate_stream_must_end_where_the_frame_ends() {
    let mut event = Event::new(4_000, 0);
    event.states[17] = SeatState::Sold;
    let good = event.snapshot(&mut FrameEncoder::new(), SeatEncoding::Packed2);
    assert!(decode_frame(&good, 4_000, 0).is_ok());
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(decode_frame(&longer, 4_000, 0), Err(FrameError::Deflate));
    assert_eq!(decode_frame(&good[..good.len() - 1], 4_000, 0), Err(FrameError::Deflate));
}

#[test]
fn a_gap_asks_once_and_the_answer_closes_it() {
    let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
    let mut event = Event::new(100, 1);
    let mut view = View::new(100, 1);
    let first = event.change(&mut encoder, &[(1, SeatState::Held)], &[]);
    assert_eq!(
        view.take(&first, &mut decoder),
        Outcome::Resync { from: Position { epoch: 0, seq: 0 }, reason: ResyncReason::HigherEpoch }
    );
    view.resync_answered();
    assert_eq!(view.take(&event.snapshot(&mut encoder, SeatEncoding::Roaring), &mut decoder), Outcome::Applied);
    let second = event.change(&mut encoder, &[(2, SeatState::Held)], &[]);
    let third = event.change(&mut encoder, &[(1, SeatState::Sold)], &[(0, 7)]);
    let gap = Outcome::Resync { from: Position { epoch: 1, seq: 1 }, reason: ResyncReason::Gap };
    assert_eq!(view.take(&third, &mut decoder), gap);
    assert_eq!(view.take(&third, &mut decoder), Outcome::Dropped(DropReason::ResyncOutstanding));
    assert_eq!(view.take(&event.beacon(), &mut decoder), Outcome::Dropped(DropReason::ResyncOutstanding));
    view.resync_answered();
    assert_eq!(view.take(&second, &mut decoder), Outcome::Applied);
    assert_eq!(view.take(&third, &mut decoder), Outcome::Applied);
    event.assert_seen_by(&view);
}

#[test]
fn a_new_epoch_is_entered_only_by_its_snapshot() {
    let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
    let mut event = Event::new(100, 0);
    event.seq = 50;
    let mut view = View::new(100, 0);
    view.take(&event.snapshot(&mut encoder, SeatEncoding::Roaring), &mut decoder);
    let mut next = Event { epoch: 2, seq: 0, ..event.clone() };
    assert_eq!(
        view.take(&next.beacon(), &mut decoder),
        Outcome::Resync { from: Position { epoch: 1, seq: 50 }, reason: ResyncReason::HigherEpoch }
    );
    view.resync_answered();
    assert_eq!(view.take(&next.snapshot(&mut encoder, SeatEncoding::Packed2), &mut decoder), Outcome::Applied);
    let old = event.change(&mut encoder, &[(3, SeatState::Sold)], &[]);
    assert_eq!(view.take(&old, &mut decoder), Outcome::Dropped(DropReason::LowerEpoch));
    let new = next.change(&mut encoder, &[(4, SeatState::Sold)], &[]);
    assert_eq!(view.take(&new, &mut decoder), Outcome::Applied);
    next.assert_seen_by(&view);
}

#[test]
fn a_wrong_digest_asks_for_a_snapshot_once() {
    let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
    let mut event = Event::new(100, 0);
    let mut view = View::new(100, 0);
    view.take(&event.snapshot(&mut encoder, SeatEncoding::Roaring), &mut decoder);
    let mut frame = event.change(&mut encoder, &[(3, SeatState::Sold)], &[]);
    frame[32] ^= 1;
    assert_eq!(
        view.take(&frame, &mut decoder),
        Outcome::Resync { from: Position { epoch: 1, seq: 0 }, reason: ResyncReason::Digest }
    );
    assert_eq!(view.position().seq, 1);
    let mut beacon = event.beacon();
    beacon[32] ^= 1;
    assert_eq!(view.take(&beacon, &mut decoder), Outcome::InStep, "the outstanding resync settles it");
    view.resync_answered();
    assert_eq!(
        view.take(&beacon, &mut decoder),
        Outcome::Resync { from: Position { epoch: 1, seq: 0 }, reason: ResyncReason::Digest }
    );
}

#[test]
fn a_live_view_takes_deltas_unchecked_until_a_snapshot_comes() {
    let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
    let mut event = Event::new(100, 1);
    event.change(&mut encoder, &[(9, SeatState::Sold)], &[]);
    let mut view = View::live(Position { epoch: 1, seq: 1 }, 100, 1);
    let delta = event.change(&mut encoder, &[(3, SeatState::Held)], &[(0, 4)]);
    assert_eq!(view.take(&delta, &mut decoder), Outcome::Applied);
    assert_eq!((view.digest(), view.areas()), (None, &[4][..]));
    assert_eq!(view.take(&event.snapshot(&mut encoder, SeatEncoding::Roaring), &mut decoder), Outcome::Applied);
    event.assert_seen_by(&view);
}

#[test]
fn a_cursor_follows_headers_and_compares_beacons_with_the_last_frame() {
    let mut encoder = FrameEncoder::new();
    let mut event = Event::new(100, 0);
    let mut cursor = Cursor::new();
    let mut follow = |bytes: &[u8]| cursor.follow(&FrameHeader::decode(bytes).expect("ours"));
    assert_eq!(follow(&event.snapshot(&mut encoder, SeatEncoding::Roaring)), Outcome::Applied);
    assert_eq!(follow(&event.change(&mut encoder, &[(1, SeatState::Held)], &[])), Outcome::Applied);
    assert_eq!(follow(&event.beacon()), Outcome::InStep);
    let mut beacon = event.beacon();
    beacon[32] ^= 1;
    assert!(matches!(follow(&beacon), Outcome::Resync { reason: ResyncReason::Digest, .. }));
}
