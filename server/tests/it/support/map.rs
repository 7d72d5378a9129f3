//! A map that applies frames by the letter of the protocol, written from its text alone: the judge of the server's map.

use roaring::RoaringBitmap;
use std::io::Read;

/// Largest payload the protocol allows.
const MAX_PAYLOAD_BYTES: u64 = 4 << 20;

/// A viewer's map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) epoch: u32,
    pub(crate) seq: u64,
    pub(crate) states: Vec<u8>,
    pub(crate) areas: Vec<u32>,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) enc: u8,
    pub(crate) channel: u32,
    pub(crate) epoch: u32,
    pub(crate) seq_from: u64,
    pub(crate) seq_to: u64,
    pub(crate) digest: u32,
    pub(crate) header_bytes: usize,
    pub(crate) payload_bytes: u32,
}

/// What a frame did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    Applied,
    Dropped,
    NeedsResync,
}

impl Header {
    pub(crate) fn read(frame: &[u8]) -> Self {
        assert_eq!(&frame[..2], b"SW", "magic");
        assert_eq!(frame[2], 1, "version");
        let u32_at = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().expect("8 bytes"));
        let header = Self {
            kind: frame[3],
            flags: frame[4],
            enc: frame[5],
            channel: u32_at(8),
            epoch: u32_at(12),
            seq_from: u64_at(16),
            seq_to: u64_at(24),
            digest: u32_at(32),
            header_bytes: usize::from(u16::from_le_bytes([frame[6], frame[7]])),
            payload_bytes: u32_at(36),
        };
        assert!(header.header_bytes >= 48 && u64_at(40) > 1_600_000_000_000, "header length and time");
        assert_eq!(header.flags & 8, 8, "our server always sends a digest");
        header
    }
}

fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

fn leb128(bytes: &mut &[u8]) -> u32 {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a LEB128 byte");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).expect("32 bits");
        }
    }
    panic!("a LEB128 of more than 5 bytes");
}

impl Map {
    /// Before the first frame.
    pub(crate) fn new(seat_count: usize, area_count: usize) -> Self {
        Self { epoch: 0, seq: 0, states: vec![0; seat_count], areas: vec![0; area_count] }
    }

    pub(crate) fn digest(&self) -> u32 {
        let seats = self.states.iter().enumerate().filter(|(_, state)| **state != 0);
        let seats = seats.fold(0, |digest, (seat, &state)| {
            digest ^ mix((seat as u32).wrapping_mul(4).wrapping_add(u32::from(state)))
        });
        let areas = self.areas.iter().enumerate();
        areas.fold(seats, |digest, (area, &remaining)| {
            digest ^ mix(mix((area as u32).wrapping_add(0x8000_0000)).wrapping_add(remaining))
        })
    }

    /// Takes one frame by the rules of "Apply".
    pub(crate) fn take(&mut self, frame: &[u8]) -> Took {
        let header = Header::read(frame);
        if header.epoch < self.epoch {
            return Took::Dropped;
        }
        match header.kind {
            1 => {
                assert_eq!(header.seq_from, 0, "a snapshot's seq_from");
                if header.epoch == self.epoch && header.seq_to < self.seq {
                    return Took::Dropped;
                }
                self.states.fill(0);
                self.apply(&header, frame);
            }
            2 => {
                if header.epoch > self.epoch || header.seq_from > self.seq + 1 {
                    return Took::NeedsResync;
                }
                if header.seq_to <= self.seq {
                    return Took::Dropped;
                }
                self.apply(&header, frame);
            }
            3 => {
                assert_eq!((header.seq_from, header.enc, header.payload_bytes), (header.seq_to, 0, 0), "a beacon");
                if header.epoch > self.epoch || header.seq_to > self.seq {
                    return Took::NeedsResync;
                }
                if header.seq_to == self.seq {
                    assert_eq!(header.digest, self.digest(), "the beacon's digest");
                }
                return Took::Dropped;
            }
            kind => panic!("unknown kind {kind}"),
        }
        self.epoch = header.epoch;
        self.seq = header.seq_to;
        assert_eq!(header.digest, self.digest(), "the digest after applying");
        Took::Applied
    }

    fn apply(&mut self, header: &Header, frame: &[u8]) {
        let mut payload = Vec::new();
        let body = &frame[header.header_bytes..];
        if header.flags & 1 == 1 {
            flate2::read::DeflateDecoder::new(body)
                .take(MAX_PAYLOAD_BYTES + 1)
                .read_to_end(&mut payload)
                .expect("inflates");
        } else {
            payload.extend_from_slice(body);
        }
        assert_eq!(payload.len(), header.payload_bytes as usize, "payload length");
        let mut seen = RoaringBitmap::new();
        let mut rest = payload.as_slice();
        while let Some((&tag, after)) = rest.split_first() {
            rest = after;
            let length = leb128(&mut rest) as usize;
            let (mut body, after) = rest.split_at(length);
            rest = after;
            match tag {
                1..=4 => {
                    assert_eq!(header.enc, 1, "roaring records only in enc 1");
                    let seats = RoaringBitmap::deserialize_from(body).expect("the portable roaring format");
                    assert!(seats.is_disjoint(&seen), "a seat stands in one set");
                    seen |= &seats;
                    let state = [0, 1, 2, 3, 0][usize::from(tag)];
                    seats.iter().for_each(|seat| self.states[seat as usize] = state);
                }
                5 => {
                    while !body.is_empty() {
                        let area = leb128(&mut body);
                        self.areas[area as usize] = leb128(&mut body);
                    }
                }
                6 => {
                    assert_eq!(
                        (header.enc, header.kind, length),
                        (2, 1, self.states.len().div_ceil(4)),
                        "packed states"
                    );
                    for (seat, state) in self.states.iter_mut().enumerate() {
                        *state = (body[seat / 4] >> (2 * (seat % 4))) & 3;
                    }
                }
                tag => assert!(tag >= 0x80, "unknown tag {tag}"),
            }
        }
    }
}
