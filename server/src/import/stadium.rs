//! A stadium made of numbers: exactly 70,000 seats around a football pitch, for the demo, for load and for pictures.
//! A bowl of three bands (the lower tier; the upper tier below and above its gangway) follows a rectangle with round
//! corners. Every row is an offset of it, so rows keep their distance and aisles run straight to the pitch.

use super::draft::{Draft, DraftArea, DraftRow, DraftSeat, DraftSection, DraftShape, DraftText};
use super::geometry::{Xy, add, distance};
use super::{ImportError, Imported};
use crate::store::layout::Category;
use seatwire_proto::layout::ShapeKind;

/// Seats, exactly.
pub const SEATS: usize = 70_000;
/// Places on each of the two terraces.
pub const TERRACE_PLACES: u32 = 2_000;

// Lengths are metres.
const PITCH: Xy = (105.0, 68.0);
/// Half of the straight part of a long and of a short side.
const STRAIGHT: Xy = (40.0, 22.0);
/// Radius of the corners at the first row of the lower tier.
const CORNER_RADIUS: f64 = 20.0;
const SEAT_PITCH: f64 = 0.5;
const ROW_DEPTH: f64 = 0.8;
const AISLE: f64 = 1.2;
/// Of a short side's lower tier, left and right of the terrace.
const BESIDE_TERRACE: f64 = 8.0;
/// Seats of a vomitory's width, and the rows it takes.
const VOMITORY_SEATS: usize = 4;
const VOMITORY_ROWS: std::ops::Range<usize> = 9..13;
/// Seats at each end of a row behind a railing or a mast.
const RAILED_SEATS: usize = 2;
const GATES: usize = 24;

struct Band {
    /// Of the first row behind the corners' base radius.
    offset: f64,
    rows: usize,
    /// Sections of a long side, a short side and a corner.
    sections: [usize; 3],
    /// Sections are numbered from here.
    first_name: usize,
    tier: &'static str,
    has_terraces: bool,
}

const BANDS: [Band; 3] = [
    Band { offset: 0.0, rows: 31, sections: [10, 2, 6], first_name: 101, tier: "Lower", has_terraces: true },
    Band { offset: 35.0, rows: 22, sections: [10, 6, 10], first_name: 201, tier: "Upper", has_terraces: false },
    Band { offset: 55.0, rows: 22, sections: [10, 6, 12], first_name: 301, tier: "Upper", has_terraces: false },
];

const SIDES: [&str; 4] = ["North", "East", "South", "West"];

/// Categories from the best to the cheapest, with the share of sections each gets.
const CATEGORIES: [(&str, &str, f64); 5] = [
    ("Category 1", "#b5179e", 0.10),
    ("Category 2", "#3f37c9", 0.20),
    ("Category 3", "#4895ef", 0.25),
    ("Category 4", "#2a9d8f", 0.25),
    ("Category 5", "#8a9a5b", 0.20),
];
const TERRACE: (&str, &str) = ("Terrace", "#e76f51");

/// One of the eight pieces a ring is made of, clockwise from the left end of the north side.
#[derive(Clone, Copy)]
enum Piece {
    /// From `start` along `along`; `outward` is away from the pitch.
    Straight { start: Xy, along: Xy, outward: Xy },
    /// A quarter around `center`, from this angle on.
    Corner { center: Xy, from: f64 },
}

impl Piece {
    const fn ring() -> [(Self, f64); 8] {
        let (a, b) = STRAIGHT;
        let r = CORNER_RADIUS;
        let quarter = std::f64::consts::FRAC_PI_2;
        [
            (Self::Straight { start: (-a, -b - r), along: (1.0, 0.0), outward: (0.0, -1.0) }, 2.0 * a),
            (Self::Corner { center: (a, -b), from: -quarter }, quarter),
            (Self::Straight { start: (a + r, -b), along: (0.0, 1.0), outward: (1.0, 0.0) }, 2.0 * b),
            (Self::Corner { center: (a, b), from: 0.0 }, quarter),
            (Self::Straight { start: (a, b + r), along: (-1.0, 0.0), outward: (0.0, 1.0) }, 2.0 * a),
            (Self::Corner { center: (-a, b), from: quarter }, quarter),
            (Self::Straight { start: (-a - r, b), along: (0.0, -1.0), outward: (-1.0, 0.0) }, 2.0 * b),
            (Self::Corner { center: (-a, -b), from: 2.0 * quarter }, quarter),
        ]
    }

    /// The point at `along` (metres on a straight, radians on a corner), `offset` behind the first row.
    fn at(self, along: f64, offset: f64) -> Xy {
        match self {
            Self::Straight { start, along: direction, outward } => {
                (start.0 + direction.0 * along + outward.0 * offset, start.1 + direction.1 * along + outward.1 * offset)
            }
            Self::Corner { center, from } => {
                let (sin, cos) = (from + along).sin_cos();
                add(center, ((CORNER_RADIUS + offset) * cos, (CORNER_RADIUS + offset) * sin))
            }
        }
    }

    /// Metres in one unit of `along` at this offset.
    const fn metres(self, offset: f64) -> f64 {
        match self {
            Self::Straight { .. } => 1.0,
            Self::Corner { .. } => CORNER_RADIUS + offset,
        }
    }
}

/// A section's part of the ring.
struct Slot {
    piece: Piece,
    from: f64,
    to: f64,
    side: usize,
}

impl Slot {
    /// The outline between two offsets, `inset` metres away from the neighbours.
    fn outline(&self, near: f64, far: f64, inset: f64) -> Vec<Xy> {
        let corners = if matches!(self.piece, Piece::Corner { .. }) { 6 } else { 1 };
        let edge = |offset: f64, i: usize| {
            let inset = inset / self.piece.metres(offset);
            let (from, to) = (self.from + inset, self.to - inset);
            mm(self.piece.at(from + (to - from) * i as f64 / f64::from(corners), offset))
        };
        let near = (0..=corners as usize).map(|i| edge(near, i));
        near.chain((0..=corners as usize).rev().map(|i| edge(far, i))).collect()
    }

    /// Centres of the seats of the row at `offset`, and which seat each is counted from the aisle.
    fn seats(&self, offset: f64) -> Vec<Xy> {
        let metres = self.piece.metres(offset);
        let width = (self.to - self.from) * metres;
        let count = ((width - AISLE) / SEAT_PITCH).floor().max(1.0);
        let first = width / 2.0 - (count - 1.0) / 2.0 * SEAT_PITCH;
        (0..count as usize)
            .map(|i| mm(self.piece.at(self.from + (first + i as f64 * SEAT_PITCH) / metres, offset)))
            .collect()
    }
}

fn mm(point: Xy) -> Xy {
    (point.0 * 1_000.0, point.1 * 1_000.0)
}

/// The stadium.
///
/// # Errors
/// None, as long as the numbers above fit together; a test sees to it.
pub fn generate() -> Result<Imported, ImportError> {
    let mut draft = Draft {
        name: "Stadium, 70,000 seats".to_owned(),
        categories: CATEGORIES
            .iter()
            .map(|(name, color, _)| (*name, *color))
            .chain([TERRACE])
            .map(|(name, color)| Category { name: name.to_owned(), color: color.to_owned() })
            .collect(),
        focal: Some((0.0, 0.0)),
        mm_per_unit: Some(1.0),
        ..Draft::default()
    };
    for band in &BANDS {
        for (index, slot) in slots(band).iter().enumerate() {
            draft.sections.push(section(band, slot, index));
        }
        if band.has_terraces {
            terraces(band, &mut draft);
        }
    }
    trim(&mut draft)?;
    price(&mut draft);
    draw(&mut draft);
    draft.finish()
}

fn slots(band: &Band) -> Vec<Slot> {
    let mut slots = Vec::new();
    for (position, (piece, length)) in Piece::ring().into_iter().enumerate() {
        let is_corner = position % 2 == 1;
        let is_short = position % 4 == 2;
        let side = position / 2;
        if is_short && band.has_terraces {
            slots.push(Slot { piece, from: 0.0, to: BESIDE_TERRACE, side });
            slots.push(Slot { piece, from: length - BESIDE_TERRACE, to: length, side });
            continue;
        }
        let count = band.sections[if is_corner { 2 } else { usize::from(is_short) }];
        for i in 0..count {
            let part = length / count as f64;
            let (from, to) = (part * i as f64, part * (i + 1) as f64);
            // The second half of a corner belongs to the next side.
            let side = if is_corner && 2 * i >= count { (side + 1) % 4 } else { side };
            slots.push(Slot { piece, from, to, side });
        }
    }
    slots
}

fn section(band: &Band, slot: &Slot, index: usize) -> DraftSection {
    let last = band.offset + (band.rows - 1) as f64 * ROW_DEPTH;
    let rows = (0..band.rows).map(|i| row(band, slot, index, i)).collect();
    DraftSection {
        name: (band.first_name + index).to_string(),
        zone: Some(format!("{} {}", SIDES[slot.side], band.tier)),
        floor: None,
        outline: slot.outline(band.offset - ROW_DEPTH / 2.0, last + ROW_DEPTH / 2.0, 0.4),
        entrance: Some(format!("Gate {}", 1 + index * GATES / slots_count(band))),
        focal: None,
        rows,
    }
}

const fn slots_count(band: &Band) -> usize {
    2 * band.sections[0] + 2 * band.sections[1] + 4 * band.sections[2]
}

fn row(band: &Band, slot: &Slot, index: usize, i: usize) -> DraftRow {
    let mut places = slot.seats(band.offset + i as f64 * ROW_DEPTH);
    let mut gaps = Vec::new();
    // People come up through every other section.
    if index % 2 == 1 && VOMITORY_ROWS.contains(&i) && places.len() >= VOMITORY_SEATS + 4 {
        let from = (places.len() - VOMITORY_SEATS) / 2;
        places.drain(from..from + VOMITORY_SEATS);
        gaps.push(from as u32 - 1);
    }
    let count = places.len();
    // Wheelchair places stand at the level of the concourse, behind the lower tier, with a companion at hand.
    let is_platform = band.has_terraces && i + 1 == band.rows;
    // The first row of the upper tier looks through a railing beside the stairs, the last of the corners past masts.
    let is_railed = !band.has_terraces && i == 0
        || band.first_name == 301 && i + 2 >= band.rows && matches!(slot.piece, Piece::Corner { .. });
    let seats = places
        .into_iter()
        .enumerate()
        .map(|(seat, position)| {
            let from_end = seat.min(count - 1 - seat);
            DraftSeat {
                label: (seat + 1).to_string(),
                position,
                category: 0,
                is_accessible: is_platform && from_end == 0,
                is_companion: is_platform && from_end == 1,
                is_restricted: is_railed && from_end < RAILED_SEATS,
                at: String::new(),
            }
        })
        .collect();
    DraftRow { label: row_label(i), seats, at: String::new(), gaps: Some(gaps) }
}

/// A to Z, then AA to ZZ.
fn row_label(i: usize) -> String {
    let letter = char::from(b'A' + (i % 26) as u8);
    if i < 26 { letter.to_string() } else { format!("{letter}{letter}") }
}

/// Behind the goals people stand.
fn terraces(band: &Band, draft: &mut Draft) {
    let far = band.offset + (band.rows - 1) as f64 * ROW_DEPTH;
    for (position, (piece, length)) in Piece::ring().into_iter().enumerate() {
        if position % 4 == 2 {
            let slot = Slot { piece, from: BESIDE_TERRACE, to: length - BESIDE_TERRACE, side: position / 2 };
            draft.areas.push(DraftArea {
                name: format!("{} Terrace", SIDES[slot.side]),
                outline: slot.outline(band.offset - ROW_DEPTH / 2.0, far + ROW_DEPTH / 2.0, 0.4),
                category: CATEGORIES.len() as u8,
                capacity: Some(TERRACE_PLACES),
            });
        }
    }
}

/// Takes rows away from the very back, the corners first, until the number is exact.
fn trim(draft: &mut Draft) -> Result<(), ImportError> {
    let count: usize = draft.sections.iter().flat_map(|section| &section.rows).map(|row| row.seats.len()).sum();
    let mut surplus = count
        .checked_sub(SEATS)
        .ok_or_else(|| ImportError::new("stadium", format!("only {count} seats fit in the bands")))?;
    let mut order: Vec<usize> =
        (0..draft.sections.len()).filter(|&i| draft.sections[i].name.starts_with('3')).collect();
    let spread = |section: &DraftSection| -> f64 {
        section.rows.last().and_then(|row| row.seats.first()).map_or(0.0, |seat| distance(seat.position, (0.0, 0.0)))
    };
    order.sort_by(|&a, &b| spread(&draft.sections[b]).total_cmp(&spread(&draft.sections[a])));
    while surplus > 0 {
        for &section in &order {
            let rows = &mut draft.sections[section].rows;
            let Some(last) = rows.last_mut() else { continue };
            if last.seats.len() <= surplus {
                surplus -= last.seats.len();
                rows.pop();
            } else {
                last.seats.truncate(last.seats.len() - surplus);
                surplus = 0;
            }
        }
    }
    Ok(())
}

/// Sections by how far they are from the middle of the pitch; along the long sides one sees best.
fn price(draft: &mut Draft) {
    let score = |section: &DraftSection| {
        let seats = section.rows.iter().flat_map(|row| &row.seats);
        let (sum, count) = seats.fold((0.0, 0.0), |(sum, count), seat| {
            (sum + (seat.position.0 * 1.15).hypot(seat.position.1 * 0.9), count + 1.0)
        });
        sum / f64::max(count, 1.0)
    };
    let scores: Vec<f64> = draft.sections.iter().map(score).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let mut category = 0;
    let mut share = CATEGORIES[0].2;
    for (position, &section) in order.iter().enumerate() {
        while position as f64 >= share * order.len() as f64 && category + 1 < CATEGORIES.len() {
            category += 1;
            share += CATEGORIES[category].2;
        }
        for seat in draft.sections[section].rows.iter_mut().flat_map(|row| &mut row.seats) {
            seat.category = category as u8;
        }
    }
}

/// The pitch with its lines, the outer wall, the names of the stands.
fn draw(draft: &mut Draft) {
    let (w, h) = (PITCH.0 / 2.0, PITCH.1 / 2.0);
    let box_of = |x0: f64, y0: f64, x1: f64, y1: f64| [(x0, y0), (x1, y0), (x1, y1), (x0, y1)].map(mm).to_vec();
    let mut shape = |kind, points, label: Option<&str>| {
        draft.shapes.push(DraftShape { kind, points, label: label.map(str::to_owned) });
    };
    let wall = BANDS[2].offset + BANDS[2].rows as f64 * ROW_DEPTH + 1.5;
    let mut outer = Vec::new();
    for (piece, length) in Piece::ring() {
        let steps = if matches!(piece, Piece::Corner { .. }) { 12 } else { 1 };
        outer.extend((0..steps).map(|i| mm(piece.at(length * f64::from(i) / f64::from(steps), wall))));
    }
    shape(ShapeKind::Polygon, outer, None);
    shape(ShapeKind::Polygon, box_of(-w, -h, w, h), Some("Pitch"));
    shape(ShapeKind::Polyline, [(0.0, -h), (0.0, h)].map(mm).to_vec(), None);
    shape(ShapeKind::Ellipse, [(0.0, 0.0), (9.15, 9.15)].map(mm).to_vec(), None);
    shape(ShapeKind::Polygon, box_of(-w, -20.16, -w + 16.5, 20.16), None);
    shape(ShapeKind::Polygon, box_of(w - 16.5, -20.16, w, 20.16), None);
    shape(ShapeKind::Polygon, box_of(-w, -9.16, -w + 5.5, 9.16), None);
    shape(ShapeKind::Polygon, box_of(w - 5.5, -9.16, w, 9.16), None);
    let beyond = wall + 5.0;
    for (side, at, angle_deg) in [
        (0, (0.0, -STRAIGHT.1 - CORNER_RADIUS - beyond), 0.0),
        (1, (STRAIGHT.0 + CORNER_RADIUS + beyond, 0.0), 90.0),
        (2, (0.0, STRAIGHT.1 + CORNER_RADIUS + beyond), 0.0),
        (3, (-STRAIGHT.0 - CORNER_RADIUS - beyond, 0.0), -90.0),
    ] {
        draft.texts.push(DraftText { text: format!("{} Stand", SIDES[side]), at: mm(at), size: 5_000.0, angle_deg });
    }
}
