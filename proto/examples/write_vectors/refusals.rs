//! Cases of invalid frames: each leaves the map as it was and asks for a snapshot.

use roaring::RoaringBitmap;
use serde_json::Value;

use crate::bytes::{BEACON, Case, DELTA, Map, Raw, SNAPSHOT, deflate};

/// Ten seats and two areas, seat 4 sold, at epoch 2, seq 6.
fn start() -> Map {
    let mut map = Map::new(10, &[5, 6]);
    map.put(2, [4]);
    map
}

fn delta() -> Raw {
    Raw::new(DELTA, 2, (7, 7), &start())
}

fn snapshot() -> Raw {
    Raw::new(SNAPSHOT, 2, (0, 7), &start())
}

fn case(name: &str, about: &str, bytes: Vec<u8>) -> Value {
    let map = start();
    Case::new(name, about, &map).applied(&map.snapshot(2, 6), &map).resync_bytes(bytes, 0, "invalid", &map).done()
}

fn roaring_bytes(seats: impl IntoIterator<Item = u32>, with_runs: bool) -> Vec<u8> {
    let mut set: RoaringBitmap = seats.into_iter().collect();
    if with_runs {
        set.optimize();
    }
    let mut bytes = Vec::new();
    set.serialize_into(&mut bytes).expect("a Vec");
    bytes
}

fn roaring_case(name: &str, about: &str, body: &[u8]) -> Value {
    case(name, about, delta().with(|raw| raw.enc = 1).record(1, body).bytes())
}

pub(crate) fn cases() -> Vec<Value> {
    let mut cases = header_cases();
    cases.extend(payload_cases());
    cases.extend(record_cases());
    cases.extend(roaring_cases());
    cases
}

fn header_cases() -> Vec<Value> {
    let good = delta().bytes();
    let mut magic = good.clone();
    magic[1] = b'X';
    vec![
        case("nothing", "no bytes at all", Vec::new()),
        case("three_bytes", "cut before the kind", good[..3].to_vec()),
        case("cut_header", "cut within the header", good[..47].to_vec()),
        case("magic", "does not begin with SW", magic),
        case("short_header", "header length 47", delta().with(|raw| raw.header_bytes = 47).bytes()),
        case("header_beyond_frame", "header length 49 in a frame of 48 bytes", {
            let mut bytes = good;
            bytes[6] = 49;
            bytes
        }),
        case("epoch_zero", "epochs count from 1", delta().with(|raw| raw.epoch = 0).bytes()),
        case("snapshot_range", "a snapshot has seq_from 0", {
            start().snapshot(2, 7).with(|raw| raw.seq = (7, 7)).bytes()
        }),
        case("delta_range", "seq_from above seq_to", delta().with(|raw| raw.seq = (8, 7)).bytes()),
        case("beacon_range", "a beacon has seq_from = seq_to", Raw::new(BEACON, 2, (5, 6), &start()).bytes()),
        case("beacon_payload", "a beacon has no payload", {
            Raw::new(BEACON, 2, (6, 6), &start()).record(0x80, &[]).bytes()
        }),
        case("beacon_enc", "a beacon has enc 0", {
            Raw::new(BEACON, 2, (6, 6), &start()).with(|raw| raw.enc = 1).bytes()
        }),
        case("enc_unknown", "enc 3 does not exist", delta().with(|raw| raw.enc = 3).bytes()),
        case("enc_packed_delta", "packed states only in snapshots", delta().packed(&start().packed()).bytes()),
    ]
}

fn payload_cases() -> Vec<Value> {
    let good = delta().set(1, [1, 2]);
    let deflated = good.clone().deflate(9);
    let stream = deflate(&good.payload, 9);
    let longer = deflated.clone().with(|raw| raw.carried = Some([stream.clone(), vec![0]].concat()));
    let cut = deflated.clone().with(|raw| raw.carried = Some(stream[..stream.len() - 1].to_vec()));
    let bomb = deflate(&vec![0x80; 1 << 20], 9);
    vec![
        case("payload_cut", "fewer bytes than the header says", {
            let bytes = good.bytes();
            bytes[..bytes.len() - 1].to_vec()
        }),
        case("payload_longer", "more bytes than the header says", [good.bytes(), vec![0]].concat()),
        case(
            "payload_too_large",
            "4 MiB + 1 said",
            good.clone().with(|raw| raw.said_bytes = Some((4 << 20) + 1)).bytes(),
        ),
        case("inflate_bomb", "1 MiB of stream behind a promise of 100 bytes", {
            delta().with(|raw| (raw.flags, raw.said_bytes, raw.carried) = (9, Some(100), Some(bomb.clone()))).bytes()
        }),
        case("inflate_beyond_limit", "more than 4 MiB promised", {
            delta().with(|raw| (raw.flags, raw.said_bytes, raw.carried) = (9, Some(5 << 20), Some(bomb))).bytes()
        }),
        case("inflate_short", "the stream ends before the promised length", {
            deflated.clone().with(|raw| raw.said_bytes = Some(raw.payload.len() as u32 + 1)).bytes()
        }),
        case("inflate_long", "the stream is longer than promised", {
            deflated.clone().with(|raw| raw.said_bytes = Some(raw.payload.len() as u32 - 1)).bytes()
        }),
        case("deflate_trailing", "a byte after the end of the stream", longer.bytes()),
        case("deflate_cut", "the stream is cut short", cut.bytes()),
        case("deflate_garbage", "not a deflate stream", {
            delta().with(|raw| (raw.flags, raw.said_bytes, raw.carried) = (9, Some(9), Some(vec![0xff; 9]))).bytes()
        }),
        case("deflate_nothing", "flag 1 without a stream", delta().with(|raw| raw.flags = 9).bytes()),
    ]
}

fn record_cases() -> Vec<Value> {
    let raw_payload = |payload: &[u8]| delta().with(|raw| raw.payload = payload.to_vec()).bytes();
    let packed = start().packed();
    let with_areas = |raw: Raw| raw.areas(&[(0, 5), (1, 6)]);
    let mut spare = packed.clone();
    *spare.last_mut().expect("ten seats") |= 0x10;
    vec![
        case("tag_zero", "tag 0 is not known", delta().record(0, &[]).bytes()),
        case("tag_unknown", "tag 7 is not known", delta().record(7, &[1]).bytes()),
        case("tag_7f", "tag 0x7f is not known", delta().record(0x7f, &[]).bytes()),
        case("tag_alone", "a tag without a length", raw_payload(&[0x80])),
        case("record_cut", "a record longer than the payload", raw_payload(&[0x80, 5, 1, 2])),
        case("length_not_minimal", "record length 0 in two bytes", raw_payload(&[0x80, 0x80, 0x00])),
        case("length_cut", "record length cut short", raw_payload(&[0x80, 0x80])),
        case(
            "length_six_bytes",
            "record length in six bytes",
            raw_payload(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
        ),
        case("length_33_bits", "record length above 32 bits", raw_payload(&[0x80, 0xff, 0xff, 0xff, 0xff, 0x1f])),
        case("area_not_minimal", "area index 0 in two bytes", delta().record(5, &[0x80, 0x00, 1]).bytes()),
        case("area_cut", "an area without its number", delta().record(5, &[0]).bytes()),
        case("area_range", "area 2 of 2", delta().areas(&[(2, 1)]).bytes()),
        case("area_twice", "an area named twice in one record", delta().areas(&[(0, 1), (0, 1)]).bytes()),
        case("area_twice_in_two", "an area named in two records", delta().areas(&[(0, 1)]).areas(&[(0, 1)]).bytes()),
        case("area_missing", "a snapshot names every area", snapshot().set(2, [4]).areas(&[(1, 6)]).bytes()),
        case("enc_none_with_set", "a seat set behind enc 0", delta().set(1, [1]).with(|raw| raw.enc = 0).bytes()),
        case("enc_none_with_packed", "packed states behind enc 0", {
            with_areas(snapshot().packed(&packed)).with(|raw| raw.enc = 0).bytes()
        }),
        case("enc_roaring_with_packed", "packed states behind enc 1", {
            with_areas(snapshot().packed(&packed)).with(|raw| raw.enc = 1).bytes()
        }),
        case("enc_packed_with_set", "a seat set behind enc 2", {
            with_areas(snapshot().set(4, [1]).packed(&packed)).bytes()
        }),
        case("packed_missing", "enc 2 without record 6", with_areas(snapshot()).with(|raw| raw.enc = 2).bytes()),
        case("packed_twice", "record 6 twice", with_areas(snapshot().packed(&packed).packed(&packed)).bytes()),
        case(
            "packed_short",
            "record 6 of two bytes for ten seats",
            with_areas(snapshot().packed(&packed[..2])).bytes(),
        ),
        case("packed_long", "record 6 of four bytes for ten seats", {
            with_areas(snapshot().packed(&[packed.clone(), vec![0]].concat())).bytes()
        }),
        case("packed_spare_bits", "a bit set beyond the last seat", with_areas(snapshot().packed(&spare)).bytes()),
    ]
}

fn roaring_cases() -> Vec<Value> {
    let array = roaring_bytes([1, 3], false);
    let runs = roaring_bytes(1..9, true);
    let changed = |bytes: &[u8], at: usize, byte: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = byte;
        bytes
    };
    let too_many = [12_346_u32.to_le_bytes(), 65_537_u32.to_le_bytes()].concat();
    // Cookie without runs, two containers of one seat each, keys given.
    let two = |first: u16, second: u16| {
        let mut bytes = [12_346_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat();
        for key in [first, second] {
            bytes.extend(key.to_le_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend(24_u32.to_le_bytes());
        bytes.extend(26_u32.to_le_bytes());
        bytes.extend([1, 0, 2, 0]);
        bytes
    };
    // Cookie with runs, one container, runs given as (start, length - 1).
    let run = |cardinality: u16, runs: &[(u16, u16)]| {
        let mut bytes = 12_347_u32.to_le_bytes().to_vec();
        bytes.push(1);
        bytes.extend([0, 0]);
        bytes.extend((cardinality - 1).to_le_bytes());
        bytes.extend((runs.len() as u16).to_le_bytes());
        for (start, more) in runs {
            bytes.extend(start.to_le_bytes());
            bytes.extend(more.to_le_bytes());
        }
        bytes
    };
    vec![
        case("seat_twice", "a seat in two sets", delta().set(1, [3, 4]).set(2, [4]).bytes()),
        case("seat_twice_same_tag", "a seat in two records of one tag", delta().set(1, [3]).set(1, [3]).bytes()),
        case(
            "seat_held_and_available",
            "a seat in the sets held and available",
            delta().set(4, [3]).set(1, [3]).bytes(),
        ),
        case("seat_range", "seat 10 of 10", delta().set(1, [10]).bytes()),
        case("seat_range_far", "a seat in the second container", delta().set(1, [70_000]).bytes()),
        case("seat_range_run", "a run that ends beyond the last seat", delta().set(1, 2..11).bytes()),
        roaring_case("roaring_empty_body", "a set of no bytes", &[]),
        roaring_case("roaring_cookie", "an unknown cookie", &changed(&array, 0, 0x3c)),
        roaring_case("roaring_cut", "an array cut short", &array[..array.len() - 1]),
        roaring_case("roaring_trailing", "a byte after the set", &[array.clone(), vec![0]].concat()),
        roaring_case("roaring_unsorted", "an array in falling order", &changed(&array, 16, 5)),
        roaring_case("roaring_repeat", "a seat twice in an array", &changed(&array, 16, 3)),
        roaring_case("roaring_keys_equal", "two containers with one key", &two(0, 0)),
        roaring_case("roaring_keys_falling", "containers in falling order", &two(1, 0)),
        roaring_case("roaring_too_many", "65,537 containers promised", &too_many),
        roaring_case("roaring_run_cut", "runs cut short", &runs[..runs.len() - 1]),
        roaring_case("roaring_run_none", "a run container of no runs", &run(1, &[])),
        roaring_case("roaring_run_overlap", "runs that overlap", &run(6, &[(1, 3), (4, 1)])),
        roaring_case("roaring_run_falling", "runs in falling order", &run(2, &[(6, 0), (2, 0)])),
        roaring_case("roaring_run_overflow", "a run beyond 65,535", &run(3, &[(65_535, 2)])),
    ]
}
