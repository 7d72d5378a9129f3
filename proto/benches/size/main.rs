//! Bytes on the wire and time to write them, as a table: `cargo bench -p seatwire-proto --bench size`.
//! Sizes are those of whole frames, header included; times are the median of many runs.
#![expect(clippy::print_stdout, reason = "a table is what this program is for")]

use std::time::Instant;

mod plans;

use seatwire_proto::digest::{Digest, mix};
use seatwire_proto::frame::{FrameDecoder, FrameEncoder, FrameMeta, SeatEncoding, Wrap};
use seatwire_proto::layout::Layout;
use seatwire_proto::layout_compact;
use seatwire_proto::seat::{SeatIndex, SeatState};

const SEATS: usize = 70_000;
const RUNS: usize = 31;

/// A small deterministic source of numbers.
struct Dice(u32);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        ((u64::from(mix(self.0)) * u64::from(end)) >> 32) as u32
    }
}

/// So many per mille of the seats taken in random groups of 1 to 4 neighbours; of the groups, one in
/// `held_one_in` is held, the others sold.
fn taken(per_mille: usize, held_one_in: u32, seed: u32) -> Vec<SeatState> {
    let mut dice = Dice(seed);
    let mut states = vec![SeatState::Available; SEATS];
    let mut left = SEATS * per_mille / 1000;
    while left > 0 {
        let size = (1 + dice.below(4) as usize).min(left);
        let first = dice.below((SEATS - size) as u32) as usize;
        let group = &mut states[first..first + size];
        if group.iter().all(|state| *state == SeatState::Available) {
            group.fill(if dice.below(held_one_in) == 0 { SeatState::Held } else { SeatState::Sold });
            left -= size;
        }
    }
    states
}

fn median_us(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn meta(digest: Digest) -> FrameMeta {
    FrameMeta { channel: 1, epoch: 1, seq_from: 1, seq_to: 9, digest, server_ms: 1_790_000_000_000, is_coalesced: true }
}

fn snapshots() {
    println!("snapshot of {SEATS} seats, taken in groups of 1 to 4      bytes     bar   encode us   decode us");
    let rows = [
        (20, 2, SeatEncoding::Roaring, Some(2_000)),
        (20, 2, SeatEncoding::Packed2, Some(1_400)),
        (400, 10, SeatEncoding::Roaring, Some(12_500)),
        (400, 10, SeatEncoding::Packed2, Some(10_500)),
        (980, 10, SeatEncoding::Roaring, None),
        (980, 10, SeatEncoding::Packed2, None),
    ];
    let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
    for (per_mille, held_one_in, encoding, bar) in rows {
        let mut worst = 0;
        let mut frame = Vec::new();
        for seed in 0..5 {
            let states = taken(per_mille, held_one_in, seed * 1_000_003);
            let meta = meta(Digest::of(&states, &[]));
            frame.clear();
            encoder.snapshot(&mut frame, &meta, &states, &[], encoding, Wrap::Bare);
            worst = worst.max(frame.len());
        }
        let states = taken(per_mille, held_one_in, 4 * 1_000_003);
        let meta = meta(Digest::of(&states, &[]));
        let mut out = Vec::new();
        let encode_us = median_us(|| {
            out.clear();
            encoder.snapshot(&mut out, &meta, &states, &[], encoding, Wrap::Bare);
        });
        let decode_us = median_us(|| {
            decoder.decode(&out, SEATS as u32, 0).expect("ours");
        });
        let bar = bar.map_or_else(|| "-".into(), |bar: usize| bar.to_string());
        let label = format!("{encoding:?}, {} % taken, 1 in {held_one_in} held", per_mille / 10);
        println!("  {label:<46} {worst:>9} {bar:>7} {encode_us:>11.0} {decode_us:>11.0}");
    }
}

fn deltas() {
    println!("delta of so many dirty seats                             bytes             encode us   decode us");
    let states = taken(400, 10, 7);
    let (mut encoder, mut decoder) = (FrameEncoder::new(), FrameDecoder::new());
    for groups in [1, 10, 100, 1_000] {
        let mut dice = Dice(groups);
        let dirty: Vec<SeatIndex> = (0..groups)
            .flat_map(|_| {
                let first = dice.below(SEATS as u32 - 4);
                (first..first + 1 + dice.below(4)).map(SeatIndex)
            })
            .collect();
        let mut out = Vec::new();
        let encode_us = median_us(|| {
            out.clear();
            encoder.delta(&mut out, &meta(Digest(0)), &states, &dirty, &[], Wrap::Bare);
        });
        let decode_us = median_us(|| {
            decoder.decode(&out, SEATS as u32, 0).expect("ours");
        });
        let label = format!("{} seats", dirty.len());
        println!("  {label:<46} {:>9} {:>7} {encode_us:>11.0} {decode_us:>11.0}", out.len(), "");
    }
}

fn layouts() {
    println!(
        "compact layout                                           bytes     bar   encode ms   decode ms     B/seat"
    );
    let stadium = plans::stadium(SEATS as u32);
    layout("generated stadium, 70,000 seats", &stadium, "1.2");
    // Other plans may be given as JSON files.
    for path in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        let json = std::fs::read(&path).expect("a readable file");
        layout(&path, &Layout::from_json(&json).expect("a layout"), "-");
    }
}

fn layout(label: &str, layout: &Layout, bar: &str) {
    let start = Instant::now();
    let bytes = layout_compact::encode(layout);
    let encode_ms = start.elapsed().as_secs_f64() * 1e3;
    let decode_ms = median_us(|| assert!(layout_compact::decode(&bytes).as_ref() == Ok(layout))) / 1e3;
    let per_seat = bytes.len() as f64 / f64::from(layout.seat_count);
    println!("  {label:<46} {:>9} {bar:>7} {encode_ms:>11.0} {decode_ms:>11.1} {per_seat:>10.3}", bytes.len());
}

fn main() {
    snapshots();
    deltas();
    layouts();
}
