//! Builds frames byte by byte, right or wrong, without the encoder they are to check.

use roaring::RoaringBitmap;
use seatwire_proto::digest::Digest;
use seatwire_proto::seat::SeatState;
use serde_json::{Value, json};
use std::io::Write;

pub(crate) const SNAPSHOT: u8 = 1;
pub(crate) const DELTA: u8 = 2;
pub(crate) const BEACON: u8 = 3;

/// A frame under construction: a good one unless told otherwise.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) enc: u8,
    pub(crate) header_bytes: u16,
    pub(crate) epoch: u32,
    pub(crate) seq: (u64, u64),
    pub(crate) digest: u32,
    pub(crate) payload: Vec<u8>,
    /// What the header says, if not the truth.
    pub(crate) said_bytes: Option<u32>,
    /// What is carried, if not the payload: a deflate stream.
    pub(crate) carried: Option<Vec<u8>>,
}

impl Raw {
    pub(crate) fn new(kind: u8, epoch: u32, seq: (u64, u64), map: &Map) -> Self {
        Self {
            version: 1,
            kind,
            flags: 8,
            enc: 0,
            header_bytes: 48,
            epoch,
            seq,
            digest: map.digest(),
            payload: Vec::new(),
            said_bytes: None,
            carried: None,
        }
    }

    pub(crate) fn record(mut self, tag: u8, body: &[u8]) -> Self {
        self.payload.push(tag);
        self.payload.extend(leb(body.len() as u32));
        self.payload.extend_from_slice(body);
        self
    }

    /// A seat set; sets enc to roaring.
    pub(crate) fn set(self, tag: u8, seats: impl IntoIterator<Item = u32>) -> Self {
        let mut set: RoaringBitmap = seats.into_iter().collect();
        set.optimize();
        self.roaring(tag, &set)
    }

    pub(crate) fn roaring(mut self, tag: u8, set: &RoaringBitmap) -> Self {
        let mut body = Vec::new();
        set.serialize_into(&mut body).expect("a Vec");
        self.enc = 1;
        self.record(tag, &body)
    }

    pub(crate) fn areas(self, areas: &[(u32, u32)]) -> Self {
        let body: Vec<u8> = areas.iter().flat_map(|(area, remaining)| [leb(*area), leb(*remaining)].concat()).collect();
        self.record(5, &body)
    }

    pub(crate) fn packed(mut self, bytes: &[u8]) -> Self {
        self.enc = 2;
        self.record(6, bytes)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Deflates what has been built, at a level (0: stored blocks).
    pub(crate) fn deflate(self, level: u32) -> Self {
        let carried = deflate(&self.payload, level);
        self.with(|raw| {
            raw.flags |= 1;
            raw.carried = Some(carried);
        })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = vec![b'S', b'W', self.version, self.kind, self.flags, self.enc];
        out.extend(self.header_bytes.to_le_bytes());
        out.extend(if self.version == 1 { 5_u32 } else { 0 }.to_le_bytes());
        out.extend(self.epoch.to_le_bytes());
        out.extend(self.seq.0.to_le_bytes());
        out.extend(self.seq.1.to_le_bytes());
        out.extend(self.digest.to_le_bytes());
        out.extend(self.said_bytes.unwrap_or(self.payload.len() as u32).to_le_bytes());
        out.extend(1_790_000_000_123_u64.to_le_bytes());
        out.resize(usize::from(self.header_bytes).max(48), 0xaa);
        out.extend(self.carried.as_ref().unwrap_or(&self.payload));
        out
    }
}

pub(crate) fn leb(mut value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

pub(crate) fn deflate(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut deflater = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(level));
    deflater.write_all(bytes).expect("a Vec");
    deflater.finish().expect("a Vec")
}

/// What a viewer should see.
#[derive(Clone)]
pub(crate) struct Map {
    pub(crate) states: Vec<SeatState>,
    pub(crate) areas: Vec<u32>,
}

impl Map {
    pub(crate) fn new(seats: usize, areas: &[u32]) -> Self {
        Self { states: vec![SeatState::Available; seats], areas: areas.to_vec() }
    }

    pub(crate) fn put(&mut self, state: u8, seats: impl IntoIterator<Item = u32>) -> &mut Self {
        for seat in seats {
            self.states[seat as usize] = SeatState::from_u8(state).expect("below 4");
        }
        self
    }

    pub(crate) fn digest(&self) -> u32 {
        Digest::of(&self.states, &self.areas).0
    }

    pub(crate) fn seats(&self, state: u8) -> Vec<u32> {
        (0..).zip(&self.states).filter(|(_, s)| **s as u8 == state).map(|(seat, _)| seat).collect()
    }

    pub(crate) fn packed(&self) -> Vec<u8> {
        self.states.chunks(4).map(|four| four.iter().rev().fold(0, |byte, state| byte << 2 | *state as u8)).collect()
    }

    /// A good snapshot of this map, roaring.
    pub(crate) fn snapshot(&self, epoch: u32, seq: u64) -> Raw {
        let mut raw = Raw::new(SNAPSHOT, epoch, (0, seq), self);
        for (tag, state) in [(1, 1), (2, 2), (3, 3)] {
            let seats = self.seats(state);
            if !seats.is_empty() {
                raw = raw.set(tag, seats);
            }
        }
        if self.areas.is_empty() {
            return raw;
        }
        let areas: Vec<_> = (0..).zip(self.areas.iter().copied()).collect();
        raw.areas(&areas)
    }

    fn runs(&self) -> Value {
        let runs: Vec<_> = self.states.chunk_by(PartialEq::eq).map(|run| json!([run[0] as u8, run.len()])).collect();
        Value::from(runs)
    }
}

/// One vector: a viewer, what it is sent, and what must come of it.
pub(crate) struct Case {
    value: Value,
    steps: Vec<Value>,
    position: (u32, u64),
    is_whole: bool,
}

impl Case {
    pub(crate) fn new(name: &str, about: &str, map: &Map) -> Self {
        Self {
            value: json!({"name": name, "about": about, "seat_count": map.states.len(), "area_count": map.areas.len()}),
            steps: Vec::new(),
            position: (0, 0),
            is_whole: false,
        }
    }

    pub(crate) fn live(mut self, epoch: u32, seq: u64) -> Self {
        self.value["live"] = json!({"epoch": epoch, "seq": seq});
        self.position = (epoch, seq);
        self
    }

    /// The frame is applied; the viewer then shows `map`.
    pub(crate) fn applied(mut self, raw: &Raw, map: &Map) -> Self {
        self.position = (raw.epoch, raw.seq.1);
        self.is_whole |= raw.kind == SNAPSHOT;
        self.step(raw.bytes(), json!({"outcome": "applied"}), map)
    }

    pub(crate) fn in_step(self, raw: &Raw, map: &Map) -> Self {
        self.step(raw.bytes(), json!({"outcome": "in_step"}), map)
    }

    pub(crate) fn dropped(self, raw: &Raw, map: &Map) -> Self {
        self.step(raw.bytes(), json!({"outcome": "dropped"}), map)
    }

    /// The frame is applied, but its digest is wrong: resync with seq 0.
    pub(crate) fn applied_wrong(mut self, raw: &Raw, map: &Map) -> Self {
        self.position = (raw.epoch, raw.seq.1);
        self.is_whole |= raw.kind == SNAPSHOT;
        self.resync(raw, 0, "digest", map)
    }

    pub(crate) fn resync(self, raw: &Raw, seq: u64, reason: &str, map: &Map) -> Self {
        self.resync_bytes(raw.bytes(), seq, reason, map)
    }

    pub(crate) fn resync_bytes(self, bytes: Vec<u8>, seq: u64, reason: &str, map: &Map) -> Self {
        let epoch = self.position.0;
        self.step(bytes, json!({"outcome": "resync", "from": {"epoch": epoch, "seq": seq}, "reason": reason}), map)
    }

    pub(crate) fn answered(mut self) -> Self {
        self.steps.push(json!({"resync_answered": true}));
        self
    }

    fn step(mut self, bytes: Vec<u8>, mut step: Value, map: &Map) -> Self {
        step["frame"] = json!(hex::encode(bytes));
        step["position"] = json!({"epoch": self.position.0, "seq": self.position.1});
        step["states"] = map.runs();
        step["areas"] = json!(map.areas);
        step["digest"] = if self.is_whole { json!(map.digest()) } else { Value::Null };
        self.steps.push(step);
        self
    }

    pub(crate) fn done(mut self) -> Value {
        self.value["steps"] = Value::from(self.steps);
        self.value
    }
}
