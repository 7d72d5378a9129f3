//! Layouts there and back: JSON with its hash, the compact form without loss, damage refused.

use proptest::prelude::*;
use seatwire_proto::layout::{Area, Layout, LayoutError, LayoutHash, Row, Section, Shape, ShapeKind, Text};
use seatwire_proto::layout_compact::{decode, encode};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};

#[path = "../benches/size/plans.rs"]
mod plans;

fn small() -> Layout {
    Layout {
        name: "Small hall".into(),
        seat_count: 5,
        unit_mm: 10,
        bounds: [0, 0, 400, 300],
        focal: [200, 0],
        sections: vec![Section {
            index: SectionIndex(0),
            name: "Stalls".into(),
            zone: None,
            floor: Some("0".into()),
            outline: vec![[0, 0], [400, 0], [400, 300]],
            entrance: None,
            focal: Some([200, 10]),
            rows: vec![
                Row {
                    label: "A".into(),
                    first: SeatIndex(0),
                    seats: ["1", "2", "3"].map(String::from).into(),
                    x: vec![10, 60, 160],
                    y: vec![50, 50, 50],
                    gaps: vec![1],
                    accessible: vec![0],
                    companion: vec![1],
                    restricted: vec![0, 2],
                },
                Row {
                    label: String::new(),
                    first: SeatIndex(3),
                    seats: ["Thrön", "Throne 2"].map(String::from).into(),
                    x: vec![-10, 60],
                    y: vec![130, 131],
                    gaps: vec![],
                    accessible: vec![],
                    companion: vec![],
                    restricted: vec![],
                },
            ],
        }],
        areas: vec![Area { index: AreaIndex(0), name: "Standing".into(), outline: vec![] }],
        shapes: vec![Shape { kind: ShapeKind::Ellipse, points: vec![[200, 0], [90, 30]], label: None }],
        texts: vec![Text { text: "Stage".into(), at: [200, 0], size: 20, angle_deg: -5 }],
    }
}

#[test]
fn the_stored_json_is_the_contracts_and_its_hash_is_served_with_it() {
    let layout = small();
    let stored = layout.stored_json();
    assert!(stored.starts_with(br#"{"name":"Small hall","seat_count":5,"unit_mm":10,"bounds":[0,0,400,300],"focal":[200,0],"sections":[{"index":0,"name":"Stalls","floor":"0","#));
    let served = Layout::served_json(&stored);
    let value: serde_json::Value = serde_json::from_slice(&served).expect("JSON");
    assert_eq!(value["hash"], layout.hash().to_string());
    assert_eq!(value["sections"][0]["rows"][0]["restricted"], serde_json::json!([0, 2]));
    assert_eq!(value["sections"][0]["rows"][1].get("gaps"), None);
    assert_eq!(Layout::from_json(&served).as_ref(), Ok(&layout));
    assert_eq!(LayoutHash::of(b"{}").to_string(), "44136fa355b3678a1146ad16f7e8649e");
}

#[test]
fn a_hash_has_one_spelling() {
    let text = "44136fa355b3678a1146ad16f7e8649e";
    assert_eq!(text.parse::<LayoutHash>().map(|hash| hash.to_string()), Ok(text.to_owned()));
    for bad in ["", "44136FA355b3678a1146ad16f7e8649e", &text[1..], "44136fa355b3678a1146ad16f7e8649g"] {
        assert_eq!(bad.parse::<LayoutHash>(), Err(LayoutError::Hash), "{bad}");
    }
}

#[test]
fn a_layout_that_contradicts_itself_is_refused_by_name() {
    type Change = fn(&mut Layout);
    let cases: [(&str, Change); 15] = [
        ("/seat_count", |l| l.seat_count = 6),
        ("/unit_mm", |l| l.unit_mm = 0),
        ("/bounds", |l| l.bounds = [1, 0, 0, 0]),
        ("/sections/0/index", |l| l.sections[0].index = SectionIndex(1)),
        ("/sections/0/rows/1/first", |l| l.sections[0].rows[1].first = SeatIndex(4)),
        ("/sections/0/rows/0/seats", |l| l.sections[0].rows[0].seats.clear()),
        ("/sections/0/rows/0/x", |l| l.sections[0].rows[0].x.truncate(2)),
        ("/sections/0/rows/0/y", |l| l.sections[0].rows[0].y[0] = i32::MIN),
        ("/sections/0/rows/0/gaps", |l| l.sections[0].rows[0].gaps = vec![2]),
        ("/sections/0/rows/0/restricted", |l| l.sections[0].rows[0].restricted = vec![2, 0]),
        ("/sections/0/rows/0/accessible", |l| l.sections[0].rows[0].accessible = vec![3]),
        ("/sections/0/name", |l| l.sections[0].name = "x".repeat(201)),
        ("/areas/0/index", |l| l.areas[0].index = AreaIndex(3)),
        ("/shapes/0/points", |l| l.shapes[0].points.truncate(1)),
        ("/texts/0/text", |l| l.texts[0].text = "a\nb".into()),
    ];
    assert_eq!(small().validate(), Ok(()));
    for (at, change) in cases {
        let mut layout = small();
        change(&mut layout);
        match layout.validate() {
            Err(LayoutError::Invalid { at: found, .. }) => assert_eq!(found, at),
            other => panic!("{at}: {other:?}"),
        }
    }
}

#[test]
fn plans_come_back_from_the_compact_form_to_the_byte() {
    for layout in [small(), plans::stadium(4_000)] {
        let back = decode(&encode(&layout)).expect("ours");
        assert_eq!(back.stored_json(), layout.stored_json());
    }
}

#[test]
fn a_stadium_takes_less_than_its_bar() {
    let layout = plans::stadium(20_000);
    let bytes = encode(&layout);
    assert!(bytes.len() < 20_000 * 6 / 10, "{}", bytes.len());
}

#[test]
fn a_compact_layout_that_is_cut_lengthened_or_renamed_is_refused() {
    let good = encode(&small());
    for length in 0..good.len() {
        assert!(decode(&good[..length]).is_err(), "{length}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(decode(&longer), Err(LayoutError::Compact(_))));
    for (at, byte) in [(0, b'X'), (1, b'X'), (2, 2), (4, good[4] + 1), (7, 1)] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        assert!(matches!(decode(&bytes), Err(LayoutError::Compact(_))), "{at}");
    }
}

#[test]
fn a_stream_of_more_than_8_mib_is_refused_unread() {
    let bytes = wrap(&vec![0; (8 << 20) + 1]);
    assert_eq!(decode(&bytes), Err(LayoutError::Compact("promises more than may be")));
}

fn label() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]{1,4}", "[A-Z]{1,3}", "[a-z ]{0,3}[0-9]{1,2}[a-c]?", "\\PC{0,5}", Just(String::new())]
}

fn positions(seats: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::btree_set(0..seats as u32, 0..=seats.min(4)).prop_map(|set| set.into_iter().collect())
}

fn row() -> impl Strategy<Value = Row> {
    let numbered = (1_usize..40, -9_i32..9, 0_i32..3000).prop_map(|(seats, step, start)| {
        (0..seats as i32).map(|at| (start + at * step).unsigned_abs().to_string()).collect::<Vec<_>>()
    });
    let seats = prop_oneof![numbered, prop::collection::vec(label(), 1..12)];
    seats
        .prop_flat_map(|seats| {
            let count = seats.len();
            let coordinates = || {
                let wild = prop::collection::vec(-(1_i32 << 26)..(1 << 26), count);
                let line = (-90_000_i32..90_000, -60.0..60.0, -0.5..0.5).prop_map(move |(start, step, bend)| {
                    let at = |at: f64| f64::from(start) + step * at + bend * at * at;
                    (0..count).map(|i| f64::round(at(i as f64)) as i32).collect::<Vec<_>>()
                });
                prop_oneof![1 => wild, 4 => line]
            };
            let lists = (positions(count - 1), positions(count), positions(count), positions(count));
            (label(), Just(seats), coordinates(), coordinates(), lists)
        })
        .prop_map(|(label, seats, x, y, (gaps, accessible, companion, restricted))| Row {
            label,
            first: SeatIndex(0),
            seats,
            x,
            y,
            gaps,
            accessible,
            companion,
            restricted,
        })
}

fn layout() -> impl Strategy<Value = Layout> {
    let point = || [-100_000_i32..100_000, -100_000..100_000];
    let optional = || prop::option::of(label());
    let section = (
        label(),
        (optional(), optional(), optional()),
        prop::collection::vec(point(), 0..6),
        prop::option::of(point()),
        prop::collection::vec(row(), 0..6),
    );
    let areas = prop::collection::vec((label(), prop::collection::vec(point(), 0..5)), 0..3);
    let shapes = prop::collection::vec((optional(), prop::collection::vec(point(), 2), 0_u8..3), 0..3);
    let texts = prop::collection::vec((label(), point(), any::<u32>(), any::<i32>()), 0..3);
    (label(), 1_u32..5000, prop::collection::vec(section, 0..5), areas, shapes, texts).prop_map(
        |(name, unit_mm, sections, areas, shapes, texts)| {
            let mut layout = Layout {
                name,
                seat_count: 0,
                unit_mm,
                bounds: [-5, -6, 7, 8],
                focal: [1, -1],
                sections: Vec::new(),
                areas: Vec::new(),
                shapes: Vec::new(),
                texts: Vec::new(),
            };
            for (name, (zone, floor, entrance), outline, focal, mut rows) in sections {
                for row in &mut rows {
                    row.first = SeatIndex(layout.seat_count);
                    layout.seat_count += row.seats.len() as u32;
                }
                let index = SectionIndex(layout.sections.len() as u32);
                layout.sections.push(Section { index, name, zone, floor, outline, entrance, focal, rows });
            }
            for (name, outline) in areas {
                layout.areas.push(Area { index: AreaIndex(layout.areas.len() as u32), name, outline });
            }
            for (label, points, kind) in shapes {
                let kind = [ShapeKind::Polygon, ShapeKind::Polyline, ShapeKind::Ellipse][usize::from(kind)];
                layout.shapes.push(Shape { kind, points, label });
            }
            layout.texts =
                texts.into_iter().map(|(text, at, size, angle_deg)| Text { text, at, size, angle_deg }).collect();
            layout
        },
    )
}

proptest! {
    #[test]
    fn any_layout_comes_back_from_json_and_from_the_compact_form(layout in layout()) {
        prop_assert_eq!(layout.validate(), Ok(()));
        prop_assert_eq!(Layout::from_json(&layout.stored_json()), Ok(layout.clone()));
        prop_assert_eq!(decode(&encode(&layout)), Ok(layout));
    }

    #[test]
    fn arbitrary_inflated_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0_usize..60) {
        // Begin like a good one, so that the damage lies deeper.
        let good = inflate(&encode(&small()));
        let at = at.min(good.len());
        let _ = decode(&wrap(&[&good[..at], &bytes].concat()));
    }

    #[test]
    fn one_damaged_byte_never_panics(at in any::<prop::sample::Index>(), byte: u8, deep: bool) {
        let mut bytes = if deep { inflate(&encode(&small())) } else { encode(&small()) };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&if deep { wrap(&bytes) } else { bytes });
    }
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::DeflateDecoder::new(&bytes[8..]), &mut out).expect("ours");
    out
}

fn wrap(inflated: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'S', b'L', 1, 0];
    bytes.extend((inflated.len() as u32).to_le_bytes());
    let mut deflater = flate2::write::DeflateEncoder::new(&mut bytes, flate2::Compression::fast());
    std::io::Write::write_all(&mut deflater, inflated).expect("a Vec");
    deflater.finish().expect("a Vec");
    bytes
}
