//! Plans to measure with: a stadium made of numbers. Tests and vectors draw from it too.

use seatwire_proto::layout::{Area, Layout, Point, Row, Section, Shape, ShapeKind, Text};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};

/// Centimetres between two seats, two rows.
const SEAT_CM: f64 = 50.0;
const ROW_CM: f64 = 80.0;
const AISLE_CM: f64 = 120.0;
const RADIUS_CM: f64 = 2_000.0;
/// Zones, alternately a straight side and a corner.
const ZONES: [(&str, f64); 8] = [
    ("North", 8_000.0),
    ("North-East", 0.0),
    ("East", 4_400.0),
    ("South-East", 0.0),
    ("South", 8_000.0),
    ("South-West", 0.0),
    ("West", 4_400.0),
    ("North-West", 0.0),
];
/// First row's offset, rows, sections of a straight side and of a corner.
const TIERS: [(f64, usize, usize, usize); 3] = [(0.0, 30, 8, 6), (3_200.0, 22, 8, 10), (5_400.0, 22, 8, 10)];

/// Exactly `seats` seats (at most about 74,000), 8 zones, 200 sections, two standing areas.
pub(crate) fn stadium(seats: u32) -> Layout {
    let mut sections = Vec::new();
    let mut next_seat = 0;
    for (tier, (offset, rows, straight, corner)) in TIERS.into_iter().enumerate() {
        let mut start = [-4_000.0, -2_200.0 - RADIUS_CM];
        for (zone, (name, length)) in ZONES.into_iter().enumerate() {
            let count = if length > 0.0 { straight } else { corner };
            let heading = (zone / 2) as f64 * std::f64::consts::FRAC_PI_2;
            for slot in 0..count {
                let index = sections.len();
                let piece =
                    Piece { start, heading, length, share: [slot as f64, slot as f64 + 1.0].map(|s| s / count as f64) };
                let rows: Vec<Row> = (0..rows)
                    .map_while(|row| piece.row(offset + row as f64 * ROW_CM, row, index, rows, seats, &mut next_seat))
                    .collect();
                sections.push(Section {
                    index: SectionIndex(index as u32),
                    name: format!("{}{:02}", tier + 1, index % 100),
                    zone: Some(name.to_owned()),
                    floor: None,
                    outline: piece.outline(offset - 40.0, offset + rows.len() as f64 * ROW_CM),
                    entrance: Some(format!("Gate {}", 1 + index / 9)),
                    focal: None,
                    rows,
                });
            }
            start = Piece { start, heading, length, share: [0.0, 1.0] }.point(1.0, 0.0);
        }
    }
    assert_eq!(next_seat, seats, "the bowl is too small");
    let square = |x: i32, y: i32, half: i32| -> Vec<Point> {
        vec![[x - half, y - half], [x + half, y - half], [x + half, y + half], [x - half, y + half]]
    };
    Layout {
        name: "Stadium".to_owned(),
        seat_count: seats,
        unit_mm: 10,
        bounds: [-14_000, -12_000, 14_000, 12_000],
        focal: [0, 0],
        sections,
        areas: (0..2)
            .map(|index| Area {
                index: AreaIndex(index),
                name: format!("Terrace {}", index + 1),
                outline: square(index as i32 * 2_000 - 1_000, 0, 900),
            })
            .collect(),
        shapes: vec![Shape { kind: ShapeKind::Polygon, points: square(0, 0, 3_400), label: Some("Pitch".to_owned()) }],
        texts: vec![Text { text: "North Stand".to_owned(), at: [0, -11_500], size: 500, angle_deg: 0 }],
    }
}

/// A section's share of a straight side or of a corner (length 0: a quarter around `start`'s inside).
struct Piece {
    start: [f64; 2],
    heading: f64,
    length: f64,
    share: [f64; 2],
}

impl Piece {
    fn point(&self, along: f64, offset: f64) -> [f64; 2] {
        let (sin, cos) = self.heading.sin_cos();
        let [x, y] = self.start;
        if self.length > 0.0 {
            let way = along * self.length;
            return [x + cos * way + sin * offset, y + sin * way - cos * offset];
        }
        let (center_x, center_y) = (x - sin * RADIUS_CM, y + cos * RADIUS_CM);
        let (sin, cos) = (self.heading - std::f64::consts::FRAC_PI_2 + along * std::f64::consts::FRAC_PI_2).sin_cos();
        [center_x + cos * (RADIUS_CM + offset), center_y + sin * (RADIUS_CM + offset)]
    }

    fn width(&self, offset: f64) -> f64 {
        let whole = if self.length > 0.0 { self.length } else { (RADIUS_CM + offset) * std::f64::consts::FRAC_PI_2 };
        whole * (self.share[1] - self.share[0])
    }

    fn outline(&self, near: f64, far: f64) -> Vec<Point> {
        let at = |share, offset| self.point(share, offset).map(|value| value.round() as i32);
        let steps = if self.length > 0.0 { 1 } else { 4 };
        let share = |step: i32| self.share[0] + (self.share[1] - self.share[0]) * f64::from(step) / f64::from(steps);
        (0..=steps)
            .map(|step| at(share(step), near))
            .chain((0..=steps).rev().map(|step| at(share(step), far)))
            .collect()
    }

    /// One row; `None` when all seats are used up.
    fn row(&self, offset: f64, row: usize, section: usize, rows: usize, all: u32, next: &mut u32) -> Option<Row> {
        let width = self.width(offset);
        let mut places: Vec<f64> = (0..((width - AISLE_CM) / SEAT_CM) as usize)
            .map(|seat| AISLE_CM / 2.0 + (seat as f64 + 0.5) * SEAT_CM)
            .collect();
        let mut gaps = Vec::new();
        // People come up through every other section.
        if section % 2 == 1 && (9..13).contains(&row) && places.len() >= 8 {
            let from = (places.len() - 4) / 2;
            places.drain(from..from + 4);
            gaps.push(from as u32 - 1);
        }
        places.truncate((all - *next) as usize);
        let count = places.len() as u32;
        if count == 0 {
            return None;
        }
        gaps.retain(|gap| gap + 1 < count);
        let share = self.share[1] - self.share[0];
        let points = places.iter().map(|way| self.point(self.share[0] + way / width * share, offset));
        let (x, y) = points.map(|[x, y]| (x.round() as i32, y.round() as i32)).unzip();
        let letter = char::from(b'A' + (row % 26) as u8);
        let is_last = row + 1 == rows;
        let ends = |inset: u32| if count > 4 { vec![inset, count - 1 - inset] } else { Vec::new() };
        let built = Row {
            label: String::from(letter).repeat(1 + row / 26),
            first: SeatIndex(*next),
            seats: (1..=count).map(|seat| seat.to_string()).collect(),
            x,
            y,
            gaps,
            accessible: if is_last { ends(0) } else { Vec::new() },
            companion: if is_last { ends(1) } else { Vec::new() },
            restricted: if row == 0 { ends(0) } else { Vec::new() },
        };
        *next += count;
        Some(built)
    }
}
