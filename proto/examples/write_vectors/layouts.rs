//! Cases of compact layouts, good and damaged.

use seatwire_proto::layout::{Area, Layout, Row, Section, Shape, ShapeKind, Text};
use seatwire_proto::layout_compact::{decode, encode};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};
use serde_json::{Value, json};

use crate::bytes::deflate;

#[path = "../../benches/size/plans.rs"]
mod plans;

/// `others` are compact layouts of real venues, kept as they lie in the file.
pub(crate) fn cases(others: &[(String, Vec<u8>)]) -> Value {
    let mut good = vec![
        case("empty", "nothing but a name", &empty(), true),
        case("every_member", "every optional member, every kind of label, flag, shape", &every_member(), true),
        case("rows", "straight, curved, chained and scattered rows, and rows of one and two seats", &rows(), true),
        case("stadium", "a bowl of 2,000 seats; its JSON is left out", &plans::stadium(2_000), false),
    ];
    for (name, compact) in others {
        let layout = decode(compact).expect("a good case");
        good.push(case(name, "a real venue; its JSON is left out", &layout, false));
    }
    json!({ "cases": good, "refused": refused() })
}

fn case(name: &str, about: &str, layout: &Layout, with_json: bool) -> Value {
    layout.validate().expect("a good case");
    let stored = layout.stored_json();
    let mut case = json!({
        "name": name,
        "about": about,
        "seat_count": layout.seat_count,
        "hash": layout.hash().to_string(),
        "compact": hex::encode(encode(layout)),
    });
    if with_json {
        case["stored_json"] = json!(String::from_utf8(stored).expect("JSON"));
    }
    case
}

fn empty() -> Layout {
    Layout {
        name: "Nothing".into(),
        seat_count: 0,
        unit_mm: 1,
        bounds: [0; 4],
        focal: [0; 2],
        sections: vec![],
        areas: vec![],
        shapes: vec![],
        texts: vec![],
    }
}

fn row(label: &str, seats: &[&str], place: impl Fn(f64) -> (f64, f64)) -> Row {
    let (x, y) = (0..seats.len())
        .map(|at| {
            let (x, y) = place(at as f64);
            (x.round() as i32, y.round() as i32)
        })
        .unzip();
    Row {
        label: label.into(),
        first: SeatIndex(0),
        seats: seats.iter().map(|label| (*label).to_owned()).collect(),
        x,
        y,
        gaps: vec![],
        accessible: vec![],
        companion: vec![],
        restricted: vec![],
    }
}

fn section(index: u32, name: &str, rows: Vec<Row>) -> Section {
    Section {
        index: SectionIndex(index),
        name: name.into(),
        zone: None,
        floor: None,
        outline: vec![],
        entrance: None,
        focal: None,
        rows,
    }
}

fn counted(mut layout: Layout) -> Layout {
    for row in layout.sections.iter_mut().flat_map(|section| &mut section.rows) {
        row.first = SeatIndex(layout.seat_count);
        layout.seat_count += row.seats.len() as u32;
    }
    layout
}

fn every_member() -> Layout {
    let line = |y: f64| move |at: f64| (100.0 + 50.3 * at, y);
    let mut first = row("Y", &["1", "2", "3", "4", "5"], line(100.0));
    (first.gaps, first.accessible, first.companion, first.restricted) = (vec![1, 3], vec![0], vec![1], vec![0, 2, 4]);
    let rows = vec![
        first,
        row("Z", &["2", "4", "6", "8"], line(180.0)),
        row("AA", &["9", "7", "5", "3"], line(260.0)),
        row("BB", &["01", "02", "09", "10"], line(340.0)),
        row("Box 7", &["A", "B", "C", "D", "E", "F", "G", "H", "J", "K"], line(420.0)),
    ];
    let mut stalls = section(0, "Stalls ö", rows);
    (stalls.zone, stalls.floor, stalls.entrance) = (Some("Left".into()), Some("1".into()), Some("Door 3".into()));
    (stalls.outline, stalls.focal) = (vec![[0, 0], [700, 0], [700, 500], [0, 500]], Some([350, -40]));
    let boxes = vec![
        row("1", &["Y", "Z", "AA", "AB"], line(600.0)),
        row("2", &["Loge 8 links", "Loge 9 links", "Loge 10 links"], line(680.0)),
        row("3", &["x", "", "1a", "1b", "7", "é"], line(760.0)),
    ];
    let layout = Layout {
        name: "Every \"member\"".into(),
        unit_mm: 10,
        bounds: [-10, -50, 900, 900],
        focal: [450, -50],
        sections: vec![stalls, section(1, "Boxes", boxes), section(2, "", vec![])],
        areas: vec![
            Area { index: AreaIndex(0), name: "Standing".into(), outline: vec![[0, 800], [9, 800], [9, 900]] },
            Area { index: AreaIndex(1), name: "Lawn".into(), outline: vec![] },
        ],
        shapes: vec![
            Shape { kind: ShapeKind::Polygon, points: vec![[0, 0], [9, 0], [9, -9]], label: Some("Stage".into()) },
            Shape { kind: ShapeKind::Polyline, points: vec![[1, 1], [2, 2]], label: None },
            Shape { kind: ShapeKind::Ellipse, points: vec![[50, 50], [20, 10]], label: Some(String::new()) },
        ],
        texts: vec![
            Text { text: "Upstage".into(), at: [1, -2], size: 30, angle_deg: 0 },
            Text { text: "Turned".into(), at: [-3, 4], size: 300, angle_deg: -90 },
        ],
        ..empty()
    };
    counted(layout)
}

fn rows() -> Layout {
    let labels: Vec<String> = (1..=40).map(|seat| seat.to_string()).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let arc = |radius: f64| {
        move |at: f64| {
            let (sin, cos) = (0.6 + at * 50.0 / radius).sin_cos();
            (5_000.0 - radius * cos, radius * sin)
        }
    };
    let snake = |at: f64| ((at * 0.35).sin() * 9_000.0, at * at * 40.0);
    let scattered = |at: f64| ((at * 7_919.0) % 1_000.0, (at * 104_729.0) % 997.0 - 500.0);
    let aisle = |at: f64| (if at > 15.0 { 1_000.0 } else { 0.0 } + at * 50.0, 7_777.4 + at * 0.1);
    let sections = vec![
        section(0, "Arcs", (0..6).map(|i| row("", &labels[..30 + i], arc(3_000.0 + i as f64 * 80.0))).collect()),
        section(1, "Odd", vec![row("S", &labels, snake), row("T", &labels[..20], scattered), row("U", &labels, aisle)]),
        section(2, "Few", (1..4).map(|i| row("F", &labels[..i], |at| (at * 51.0, at * at * 13.0))).collect()),
        section(3, "Far", vec![row("X", &labels[..4], |at| (at * 22_000_000.0, 67_000_000.0 - at * at * 9_000_000.0))]),
    ];
    counted(Layout { name: "Rows".into(), unit_mm: 10, sections, ..empty() })
}

fn refused() -> Vec<Value> {
    let good = encode(&every_member());
    let inflated = inflate(&good);
    let case =
        |name: &str, about: &str, bytes: Vec<u8>| json!({"name": name, "about": about, "compact": hex::encode(bytes)});
    let deep = |name: &str, about: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = inflate(&encode(&empty()));
        change(&mut bytes);
        case(name, about, wrap(&bytes))
    };
    let header = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    // The empty layout: name (1 + 7 bytes), unit 1, bounds 4, focal 2, fraction bits 1, then five counts.
    const FRACTION_BITS: usize = 15;
    const SECTIONS: usize = 16;
    const RULES: usize = 20;
    vec![
        case("nothing", "no bytes at all", vec![]),
        case("magic", "another magic", header(0, b'X')),
        case("version", "version 2", header(2, 2)),
        case("cut_header", "cut within the header", good[..7].to_vec()),
        case("cut_stream", "the stream is cut short", good[..good.len() - 1].to_vec()),
        case("trailing", "a byte after the stream", [good.clone(), vec![0]].concat()),
        case("length_short", "inflates to more than promised", header(4, good[4] - 1)),
        case("length_long", "inflates to less than promised", header(4, good[4] + 1)),
        case("length_huge", "more than 8 MiB promised", header(7, 1)),
        case("cut_inside", "the inflated bytes end early", wrap(&inflated[..inflated.len() - 1])),
        case("trailing_inside", "a byte after the last text", wrap(&[inflated.clone(), vec![0]].concat())),
        deep("fraction_bits", "more than 8 fraction bits", &|bytes| bytes[FRACTION_BITS] = 9),
        deep("not_utf8", "a name that is not UTF-8", &|bytes| bytes[1] = 0xff),
        deep("long_name", "a name of more than 200 bytes", &|bytes| {
            bytes.splice(..8, [0xc9, 1].into_iter().chain([b'x'; 201]));
        }),
        deep("unit_zero", "a unit of 0 mm", &|bytes| bytes[8] = 0),
        deep("many_sections", "more sections than bytes", &|bytes| bytes[SECTIONS] = 99),
        deep("unknown_rule", "a section whose rule does not exist", &|bytes| {
            bytes[SECTIONS] = 1;
            // No name, zone, floor, entrance, focal point, outline; one row; rule 0 of none.
            bytes.extend([0, 0, 0, 0, 0, 0, 1, 0]);
        }),
        deep("empty_run", "a run behind an open-ended one makes no label", &|bytes| {
            bytes[SECTIONS] = 1;
            bytes[RULES] = 1;
            // One rule of two runs: numbers, no width, prefix or suffix, from 1 by 1, to the end; twice.
            bytes.extend([2, 1, 0, 0, 0, 1, 2, 0, 1, 0, 0, 0, 1, 2, 0]);
            // A section with one row by that rule; the row has one seat by the same rule, on a curve of zeros.
            bytes.extend([0, 0, 0, 0, 0, 0, 1, 0]);
            bytes.extend([2, 0, 0]);
            bytes.extend([0; 8]);
        }),
        deep("unknown_label_kind", "a run of kind 4", &|bytes| {
            bytes[RULES] = 1;
            bytes.extend([1, 4]);
        }),
    ]
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::DeflateDecoder::new(&bytes[8..]), &mut out).expect("ours");
    out
}

fn wrap(inflated: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'S', b'L', 1, 0];
    bytes.extend((inflated.len() as u32).to_le_bytes());
    bytes.extend(deflate(inflated, 9));
    bytes
}
