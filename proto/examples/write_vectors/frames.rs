//! Cases of good frames: what a viewer makes of them, in and out of order.

use serde_json::{Value, json};

use crate::bytes::{BEACON, Case, DELTA, Map, Raw, SNAPSHOT};
use seatwire_proto::digest::mix;

pub(crate) fn digests() -> Value {
    let mixed: Vec<_> =
        [0, 1, 2, 3, 4, 70_000, 0x7fff_ffff, 0x8000_0000, u32::MAX].map(|x| json!({"x": x, "mix": mix(x)})).into();
    let map = |states: &str, areas: &[u32]| {
        let mut map = Map::new(states.len(), areas);
        for (seat, digit) in (0..).zip(states.bytes()) {
            map.put(digit - b'0', [seat]);
        }
        json!({"states": states, "areas": areas, "digest": map.digest()})
    };
    json!({
        "mix": mixed,
        "maps": [
            map("", &[]), map("0000", &[]), map("1", &[]), map("2", &[]), map("3", &[]), map("0123", &[]),
            map("3210", &[]), map("", &[0]), map("", &[1]), map("", &[0, 0]), map("012301230123", &[500, 0, 4_294_967_295]),
        ],
    })
}

pub(crate) fn cases() -> Vec<Value> {
    vec![
        plain(),
        packed(),
        large(),
        stored_deflate(),
        empty_delta(),
        gap(),
        overlap(),
        coalesced(),
        areas(),
        epochs(),
        snapshots(),
        beacons(),
        wrong_digest(),
        no_digest(),
        live(),
        before_the_first_snapshot(),
        one_resync_at_a_time(),
        later_versions(),
        longer_header(),
        optional_record(),
        records_in_any_order(),
        large_seq(),
    ]
}

fn beacon(epoch: u32, seq: u64, map: &Map) -> Raw {
    Raw::new(BEACON, epoch, (seq, seq), map)
}

fn delta(epoch: u32, from: u64, to: u64, map: &Map) -> Raw {
    Raw::new(DELTA, epoch, (from, to), map)
}

/// Twelve seats, two held, one sold, at epoch 3, seq 10.
fn start() -> (Map, Raw) {
    let mut map = Map::new(12, &[]);
    map.put(1, [2, 3]).put(2, [7]);
    let raw = map.snapshot(3, 10);
    (map, raw)
}

fn plain() -> Value {
    let (mut map, snapshot) = start();
    let case = Case::new("plain", "snapshot, two deltas, a beacon", &map).applied(&snapshot, &map);
    map.put(2, [2, 3]).put(1, [11]);
    let case = case.applied(&delta(3, 11, 11, &map).set(2, [2, 3]).set(1, [11]), &map);
    map.put(0, [11]).put(3, [0]);
    let case = case.applied(&delta(3, 12, 12, &map).set(4, [11]).set(3, [0]), &map);
    case.in_step(&beacon(3, 12, &map), &map).done()
}

fn packed() -> Value {
    let mut map = Map::new(13, &[40]);
    map.put(1, [0, 5]).put(2, [6, 12]).put(3, [7]);
    let raw = Raw::new(SNAPSHOT, 1, (0, 4), &map).packed(&map.packed()).areas(&[(0, 40)]);
    let case = Case::new("packed2", "2-bit snapshot with spare bits, then a roaring delta", &map).applied(&raw, &map);
    map.put(0, [5]);
    case.applied(&delta(1, 5, 5, &map).set(4, [5]), &map).done()
}

fn large() -> Value {
    let mut map = Map::new(70_000, &[]);
    // More than 4,096 seats, none beside another: only a bitmap container holds them well.
    map.put(2, (0..9_000).step_by(2)).put(1, 66_000..66_300).put(3, 65_530..65_540);
    let raw = map.snapshot(1, 500);
    let case = Case::new(
        "large",
        "two containers, bitmap, array and run containers, deflated; then the same map as packed2",
        &map,
    )
    .applied(&raw.deflate(9), &map);
    let packed = Raw::new(SNAPSHOT, 1, (0, 501), &map).packed(&map.packed()).deflate(9);
    let case = case.applied(&packed, &map);
    let released: Vec<u32> = (66_000..66_300).collect();
    map.put(0, released.iter().copied());
    case.applied(&delta(1, 502, 540, &map).set(4, released).with(|raw| raw.flags |= 2).deflate(9), &map).done()
}

fn stored_deflate() -> Value {
    let (map, raw) = start();
    Case::new("stored", "a deflate stream of stored blocks, and one with fixed codes", &map)
        .applied(&raw.clone().deflate(0), &map)
        .applied(&raw.deflate(1), &map)
        .done()
}

fn empty_delta() -> Value {
    let (map, raw) = start();
    Case::new("empty_delta", "a delta without records moves the seq", &map)
        .applied(&raw, &map)
        .applied(&delta(3, 11, 14, &map), &map)
        .in_step(&beacon(3, 14, &map), &map)
        .done()
}

fn gap() -> Value {
    let (mut map, raw) = start();
    let case = Case::new("gap", "a missing delta is asked for, then everything follows", &map).applied(&raw, &map);
    let mut later = map.clone();
    map.put(1, [4]);
    let missing = delta(3, 11, 11, &map).set(1, [4]);
    later.clone_from(&map);
    later.put(2, [4]);
    let next = delta(3, 12, 12, &later).set(2, [4]);
    let (before, _) = start();
    case.resync(&next, 10, "gap", &before).answered().applied(&missing, &map).applied(&next, &later).done()
}

fn overlap() -> Value {
    let (mut map, raw) = start();
    let case =
        Case::new("overlap", "a delta that begins before and ends after what is known", &map).applied(&raw, &map);
    map.put(2, [3, 9]);
    let wide = delta(3, 4, 12, &map).set(2, [3, 7, 9]);
    let case = case.applied(&wide, &map).dropped(&wide, &map);
    case.dropped(&delta(3, 9, 11, &map).set(3, [1]), &map).done()
}

fn coalesced() -> Value {
    let (mut map, raw) = start();
    let case = Case::new("coalesced", "one frame for several changes; only the last state of a seat counts", &map)
        .applied(&raw, &map);
    map.put(0, [2]).put(2, [3]);
    case.applied(&delta(3, 11, 19, &map).set(4, [2]).set(2, [3]).with(|raw| raw.flags |= 2), &map).done()
}

fn areas() -> Value {
    let mut map = Map::new(4, &[100, 20_000, 0]);
    let case = Case::new("areas", "places remaining, numbers of several bytes, full areas", &map)
        .applied(&map.snapshot(1, 1), &map);
    map.areas = vec![99, 4_294_967_295, 0];
    let case = case.applied(&delta(1, 2, 2, &map).areas(&[(1, 4_294_967_295), (0, 99)]), &map);
    map.areas[2] = 128;
    map.put(1, [3]);
    case.applied(&delta(1, 3, 3, &map).set(1, [3]).areas(&[(2, 128)]), &map).done()
}

fn epochs() -> Value {
    let (map, raw) = start();
    let mut next = Map::new(12, &[]);
    next.put(2, [7]);
    let case = Case::new("epoch_change", "a new epoch begins with its snapshot, whatever its seq", &map)
        .applied(&raw, &map)
        .resync(&delta(4, 1, 1, &next).set(2, [7]), 10, "higher_epoch", &map)
        .answered()
        .resync(&beacon(4, 1, &next), 10, "higher_epoch", &map)
        .answered()
        .applied(&next.snapshot(4, 1), &next)
        .dropped(&delta(3, 11, 11, &map).set(1, [1]), &next)
        .dropped(&beacon(3, 99, &map), &next)
        .dropped(&map.snapshot(3, 99), &next);
    next.put(1, [0]);
    case.applied(&delta(4, 2, 2, &next).set(1, [0]), &next).done()
}

fn snapshots() -> Value {
    let (map, raw) = start();
    let mut later = map.clone();
    later.put(3, [1]);
    Case::new("snapshots", "unasked snapshots: the same seq or later is taken, earlier is dropped", &map)
        .applied(&raw, &map)
        .applied(&raw, &map)
        .applied(&later.snapshot(3, 15), &later)
        .dropped(&raw, &later)
        .done()
}

fn beacons() -> Value {
    let (map, raw) = start();
    Case::new("beacons", "equal: compared; behind: dropped; ahead: resync; never moves the viewer", &map)
        .applied(&raw, &map)
        .in_step(&beacon(3, 10, &map), &map)
        .dropped(&beacon(3, 9, &map).with(|raw| raw.digest ^= 1), &map)
        .resync(&beacon(3, 11, &map), 10, "behind", &map)
        .answered()
        .resync(&beacon(3, 10, &map).with(|raw| raw.digest ^= 1), 0, "digest", &map)
        .done()
}

fn wrong_digest() -> Value {
    let (mut map, raw) = start();
    let case =
        Case::new("digest_mismatch", "the frame is applied, then a snapshot is asked for", &map).applied(&raw, &map);
    map.put(1, [5]);
    let wrong = delta(3, 11, 11, &map).set(1, [5]).with(|raw| raw.digest ^= 0x8000_0000);
    let case = case.applied_wrong(&wrong, &map).answered().applied(&map.snapshot(3, 11), &map);
    case.applied_wrong(&map.snapshot(3, 12).with(|raw| raw.digest ^= 1), &map).done()
}

fn no_digest() -> Value {
    let (mut map, raw) = start();
    let case = Case::new("digest_absent", "without flag 8 the digest field means nothing", &map).applied(&raw, &map);
    map.put(1, [5]);
    let frame = delta(3, 11, 11, &map).set(1, [5]).with(|raw| (raw.flags, raw.digest) = (0, 1));
    case.applied(&frame, &map).in_step(&beacon(3, 11, &map).with(|raw| (raw.flags, raw.digest) = (0, 1)), &map).done()
}

fn live() -> Value {
    let mut map = Map::new(12, &[0]);
    let case =
        Case::new("live", "subscribed live at (3, 10): no digest is compared before a snapshot", &map).live(3, 10);
    map.put(1, [5]);
    let unchecked = |raw: &mut Raw| raw.digest = 0xdead_beef;
    let case = case.applied(&delta(3, 11, 11, &map).set(1, [5]).with(unchecked), &map);
    let case = case.in_step(&beacon(3, 11, &map).with(unchecked), &map);
    map.areas[0] = 9;
    let case = case.applied(&delta(3, 12, 12, &map).areas(&[(0, 9)]).with(unchecked), &map);
    let case = case.resync(&delta(3, 14, 14, &map), 12, "gap", &map).answered();
    map.put(2, [0]);
    let case = case.applied(&map.snapshot(3, 14), &map);
    case.resync(&beacon(3, 14, &map).with(unchecked), 0, "digest", &map).done()
}

fn before_the_first_snapshot() -> Value {
    let (map, raw) = start();
    let nothing = Map::new(12, &[]);
    Case::new("before_snapshot", "deltas and beacons before the first snapshot ask for one from (0, 0)", &map)
        .resync(&delta(3, 11, 11, &map).set(1, [1]), 0, "higher_epoch", &nothing)
        .dropped(&beacon(3, 11, &map), &nothing)
        .answered()
        .applied(&raw, &map)
        .done()
}

fn one_resync_at_a_time() -> Value {
    let (map, raw) = start();
    Case::new("one_resync", "while a resync is outstanding nothing asks again", &map)
        .applied(&raw, &map)
        .resync(&delta(3, 15, 15, &map), 10, "gap", &map)
        .dropped(&delta(3, 16, 16, &map), &map)
        .dropped(&beacon(3, 16, &map), &map)
        .in_step(&beacon(3, 10, &map).with(|raw| raw.digest ^= 1), &map)
        .applied(&delta(3, 11, 11, &map), &map)
        .answered()
        .resync(&delta(3, 17, 17, &map), 11, "gap", &map)
        .done()
}

fn later_versions() -> Value {
    let (map, raw) = start();
    Case::new("unknown_kind_and_version", "frames of a later server are dropped, whatever they hold", &map)
        .applied(&raw, &map)
        .dropped(&delta(3, 11, 11, &map).with(|raw| raw.kind = 4), &map)
        .dropped(&delta(3, 11, 11, &map).with(|raw| raw.version = 2), &map)
        .dropped(&delta(3, 11, 11, &map).with(|raw| (raw.kind, raw.enc, raw.flags) = (200, 9, 0xff)), &map)
        .done()
}

fn longer_header() -> Value {
    let (map, raw) = start();
    Case::new("longer_header", "a header of 56 bytes: the surplus is skipped; unknown flags are ignored", &map)
        .applied(&raw.with(|raw| (raw.header_bytes, raw.flags) = (56, 8 | 4 | 0x40)), &map)
        .done()
}

fn optional_record() -> Value {
    let (map, raw) = start();
    Case::new("optional_record", "tags from 0x80 on are skipped, even when they stand twice or are empty", &map)
        .applied(&raw.record(0x80, &[1, 2, 3]).record(0x80, &[]).record(0xff, &[0; 200]), &map)
        .applied(&delta(3, 11, 11, &map).record(0x90, b"later"), &map)
        .done()
}

fn records_in_any_order() -> Value {
    let mut map = Map::new(12, &[3]);
    map.put(1, [2, 3]).put(2, [7, 8]);
    let raw = Raw::new(SNAPSHOT, 3, (0, 10), &map).set(2, [8]).areas(&[(0, 3)]).set(1, [2, 3]).set(2, [7]).set(3, []);
    Case::new("records_in_any_order", "any order, a tag in two records, an empty set, available seats named", &map)
        .applied(&raw.set(4, [0, 1]), &map)
        .done()
}

fn large_seq() -> Value {
    let (map, _) = start();
    let seq = 9_007_199_254_740_990;
    Case::new("large_seq", "seq above 32 bits, up to 2^53 - 1", &map)
        .applied(&map.snapshot(4_294_967_295, seq), &map)
        .applied(&delta(4_294_967_295, seq + 1, seq + 1, &map), &map)
        .done()
}
