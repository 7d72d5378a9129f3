//! What every format is read into before it becomes a layout: places in the source's own units. `finish` orders seats
//! along their rows, finds aisles, draws missing outlines, chooses the scale and refuses what cannot be sold.

use super::geometry::{Xy, distance, hull_around, median, order_along};
use super::{ImportError, Imported};
use crate::store::layout::{AreaProposal, Category, Proposal};
use seatwire_proto::layout::{Area, Layout, MAX_COORDINATE, MAX_SEATS, Point, Row, Section, Shape, ShapeKind, Text};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};
use std::collections::HashMap;

/// Millimetres in one unit of an imported layout: a fiftieth of a seat, finer than any screen shows it.
const UNIT_MM: u32 = 10;
/// Sources draw in pixels of their own; two neighbouring seats are taken to be so far apart.
const SEAT_PITCH_MM: f64 = 500.0;
/// Source units between two seats when no row has two.
const DEFAULT_PITCH: f64 = 24.0;
/// A step along a row this much longer than usual in it is an aisle: one missing seat makes it 2.
const AISLE_FACTOR: f64 = 1.6;
/// Rows with fewer steps are measured against the whole plan.
const MIN_STEPS: usize = 4;
/// Repeats named in a refusal; the number of all is said beside.
pub(super) const MAX_NAMED: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) categories: Vec<Category>,
    pub(super) sections: Vec<DraftSection>,
    pub(super) areas: Vec<DraftArea>,
    pub(super) shapes: Vec<DraftShape>,
    pub(super) texts: Vec<DraftText>,
    pub(super) focal: Option<Xy>,
    /// Millimetres in one source unit where it is known; else guessed from the distance of seats.
    pub(super) mm_per_unit: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct DraftSection {
    pub(super) name: String,
    pub(super) zone: Option<String>,
    pub(super) floor: Option<String>,
    pub(super) outline: Vec<Xy>,
    pub(super) entrance: Option<String>,
    pub(super) focal: Option<Xy>,
    pub(super) rows: Vec<DraftRow>,
}

#[derive(Debug, Default)]
pub(super) struct DraftRow {
    pub(super) label: String,
    pub(super) seats: Vec<DraftSeat>,
    /// Where the row stands in the file.
    pub(super) at: String,
    /// Whether the order of seats and the aisles are known to be right.
    pub(super) gaps: Option<Vec<u32>>,
}

#[derive(Debug, Clone)]
pub(super) struct DraftSeat {
    pub(super) label: String,
    pub(super) position: Xy,
    pub(super) category: u8,
    pub(super) is_accessible: bool,
    pub(super) is_companion: bool,
    pub(super) is_restricted: bool,
    /// Where the seat stands in the file.
    pub(super) at: String,
}

#[derive(Debug)]
pub(super) struct DraftArea {
    pub(super) name: String,
    pub(super) outline: Vec<Xy>,
    pub(super) category: u8,
    pub(super) capacity: Option<u32>,
}

#[derive(Debug)]
pub(super) struct DraftShape {
    pub(super) kind: ShapeKind,
    pub(super) points: Vec<Xy>,
    pub(super) label: Option<String>,
}

#[derive(Debug)]
pub(super) struct DraftText {
    pub(super) text: String,
    pub(super) at: Xy,
    pub(super) size: f64,
    pub(super) angle_deg: f64,
}

impl Draft {
    /// Makes the layout.
    pub(super) fn finish(mut self) -> Result<Imported, ImportError> {
        let seat_count: usize = self.rows().map(|row| row.seats.len()).sum();
        if seat_count > MAX_SEATS as usize {
            return Err(ImportError::new("/", format!("{seat_count} seats, more than {MAX_SEATS}")));
        }
        self.check_rows()?;
        if seat_count == 0 && self.areas.is_empty() {
            return Err(ImportError::new("/", "there is nothing to sell: no seat and no area"));
        }
        self.check_labels()?;
        for row in self.sections.iter_mut().flat_map(|section| &mut section.rows) {
            if row.gaps.is_none() {
                let positions: Vec<Xy> = row.seats.iter().map(|seat| seat.position).collect();
                row.seats = order_along(&positions).into_iter().map(|i| row.seats[i].clone()).collect();
            }
        }
        let pitch = median(&mut self.rows().flat_map(steps).collect::<Vec<_>>()).unwrap_or(DEFAULT_PITCH);
        if let Some((row, i)) = self.rows().find_map(|row| Some((row, steps(row).position(|step| step <= 0.0)?))) {
            let [a, b] = [&row.seats[i], &row.seats[i + 1]];
            return Err(ImportError::new(
                &b.at,
                format!("seat {} stands where seat {} of the same row stands", b.label, a.label),
            ));
        }
        for section in &mut self.sections {
            if section.outline.len() < 3 {
                let centers = section.rows.iter().flat_map(|row| &row.seats).map(|seat| seat.position);
                section.outline = hull_around(centers, pitch * 0.75);
            }
        }
        self.scaled(pitch)
    }

    fn rows(&self) -> impl Iterator<Item = &DraftRow> {
        self.sections.iter().flat_map(|section| &section.rows)
    }

    fn check_rows(&self) -> Result<(), ImportError> {
        for row in self.rows() {
            if row.seats.is_empty() {
                return Err(ImportError::new(&row.at, format!("row {:?} has no seats", row.label)));
            }
            if let Some(seat) = row.seats.iter().find(|seat| seat.label.is_empty()) {
                return Err(ImportError::new(&seat.at, format!("a seat of row {:?} has no label", row.label)));
            }
        }
        Ok(())
    }

    /// A ticket says section, row and seat: no two seats may say the same.
    fn check_labels(&self) -> Result<(), ImportError> {
        let mut seen: HashMap<(&str, &str, &str), &str> = HashMap::new();
        let mut repeats = Vec::new();
        for section in &self.sections {
            for row in &section.rows {
                for seat in &row.seats {
                    let name = (section.name.as_str(), row.label.as_str(), seat.label.as_str());
                    match seen.get(&name) {
                        Some(first) => repeats.push((name, *first, seat.at.as_str())),
                        None => {
                            seen.insert(name, &seat.at);
                        }
                    }
                }
            }
        }
        let Some((_, _, at)) = repeats.first() else { return Ok(()) };
        let named: Vec<String> = repeats
            .iter()
            .take(MAX_NAMED)
            .map(|((section, row, seat), first, _)| {
                format!("section {section:?} row {row:?} seat {seat:?} is at {first} already")
            })
            .collect();
        Err(ImportError::new(
            *at,
            format!("{} of {} seats repeat a label: {}", repeats.len(), seen.len() + repeats.len(), named.join("; ")),
        ))
    }

    /// Everything in whole layout units, the upper left corner at (0, 0).
    fn scaled(self, pitch: f64) -> Result<Imported, ImportError> {
        let scale = self.mm_per_unit.unwrap_or(SEAT_PITCH_MM / pitch) / f64::from(UNIT_MM);
        let [x0, y0, x1, y1] = self.bounds(pitch);
        let largest = [x0, y0, x1, y1].into_iter().chain(self.focal.into_iter().flat_map(|f| [f.0, f.1]));
        if largest.map(f64::abs).fold(0.0, f64::max) * scale * 2.0 > f64::from(MAX_COORDINATE) {
            return Err(ImportError::new("/", "coordinates are too far apart for the distance of seats"));
        }
        let number = |value: f64| (value * scale).round() as i32;
        let point = |p: Xy| -> Point { [number(p.0 - x0), number(p.1 - y0)] };
        let outline = |points: &[Xy]| -> Vec<Point> {
            let mut outline: Vec<Point> = points.iter().copied().map(point).collect();
            outline.dedup();
            if outline.len() > 1 && outline.first() == outline.last() {
                outline.pop();
            }
            outline
        };
        let steps_usual = median(&mut self.rows().flat_map(steps).collect::<Vec<_>>()).unwrap_or(pitch);
        let mut next_seat = 0_u32;
        let mut proposal = Proposal { categories: self.categories, ..Proposal::default() };
        let mut sections = Vec::with_capacity(self.sections.len());
        for (index, section) in self.sections.iter().enumerate() {
            let mut rows = Vec::with_capacity(section.rows.len());
            for row in &section.rows {
                rows.push(finish_row(row, SeatIndex(next_seat), steps_usual, point));
                next_seat += row.seats.len() as u32;
                proposal.seat_categories.extend(row.seats.iter().map(|seat| seat.category));
            }
            sections.push(Section {
                index: SectionIndex(index as u32),
                name: section.name.clone(),
                zone: section.zone.clone(),
                floor: section.floor.clone(),
                outline: outline(&section.outline),
                entrance: section.entrance.clone(),
                focal: section.focal.map(point),
                rows,
            });
        }
        let mut areas = Vec::with_capacity(self.areas.len());
        for (index, area) in self.areas.iter().enumerate() {
            proposal.areas.push(AreaProposal { category: area.category, capacity: area.capacity });
            let index = AreaIndex(index as u32);
            areas.push(Area { index, name: area.name.clone(), outline: outline(&area.outline) });
        }
        let shape = |shape: &DraftShape| {
            let points = match (shape.kind, shape.points.as_slice()) {
                (ShapeKind::Ellipse, &[center, radii]) => vec![point(center), [number(radii.0), number(radii.1)]],
                (_, points) => points.iter().copied().map(point).collect(),
            };
            Shape { kind: shape.kind, points, label: shape.label.clone() }
        };
        let text = |text: &DraftText| Text {
            text: text.text.clone(),
            at: point(text.at),
            size: number(text.size).max(1) as u32,
            angle_deg: text.angle_deg.round() as i32 % 360,
        };
        let layout = Layout {
            name: self.name.clone(),
            seat_count: next_seat,
            unit_mm: UNIT_MM,
            bounds: [0, 0, number(x1 - x0), number(y1 - y0)],
            // Without a word about it the audience looks to the top of the plan, where sources put the stage.
            focal: point(self.focal.unwrap_or(((x0 + x1) / 2.0, y0))),
            sections,
            areas,
            shapes: self.shapes.iter().map(shape).collect(),
            texts: self.texts.iter().map(text).collect(),
        };
        layout.validate().map_err(|error| ImportError::new("/", format!("not a usable {error}")))?;
        Ok(Imported { layout, proposal })
    }

    /// Around everything drawn, with room for half a seat more than the seats' centres.
    fn bounds(&self, pitch: f64) -> [f64; 4] {
        let mut bounds = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
        let mut take = |(x, y): Xy, room: f64| {
            bounds[0] = bounds[0].min(x - room);
            bounds[1] = bounds[1].min(y - room);
            bounds[2] = bounds[2].max(x + room);
            bounds[3] = bounds[3].max(y + room);
        };
        for seat in self.rows().flat_map(|row| &row.seats) {
            take(seat.position, pitch);
        }
        for point in self.sections.iter().flat_map(|section| &section.outline) {
            take(*point, 0.0);
        }
        for point in self.areas.iter().flat_map(|area| &area.outline) {
            take(*point, 0.0);
        }
        for shape in &self.shapes {
            match (shape.kind, shape.points.as_slice()) {
                (ShapeKind::Ellipse, &[center, radii]) => {
                    take((center.0 - radii.0, center.1 - radii.1), 0.0);
                    take((center.0 + radii.0, center.1 + radii.1), 0.0);
                }
                (_, points) => points.iter().for_each(|point| take(*point, 0.0)),
            }
        }
        for text in &self.texts {
            take(text.at, text.size);
        }
        if bounds[0] > bounds[2] { [0.0; 4] } else { bounds }
    }
}

/// Distances between neighbours.
fn steps(row: &DraftRow) -> impl Iterator<Item = f64> {
    row.seats.windows(2).map(|pair| distance(pair[0].position, pair[1].position))
}

fn finish_row(row: &DraftRow, first: SeatIndex, plan_step: f64, point: impl Fn(Xy) -> Point) -> Row {
    let gaps = row.gaps.clone().unwrap_or_else(|| {
        let mut own: Vec<f64> = steps(row).collect();
        // Few steps say little about what is usual; and where every step is an aisle the row's own middle is one too.
        let usual = if own.len() < MIN_STEPS { plan_step } else { median(&mut own).unwrap_or(plan_step) };
        steps(row).enumerate().filter(|(_, step)| *step > usual * AISLE_FACTOR).map(|(i, _)| i as u32).collect()
    });
    let flagged = |is_flagged: fn(&DraftSeat) -> bool| -> Vec<u32> {
        row.seats.iter().enumerate().filter(|(_, seat)| is_flagged(seat)).map(|(i, _)| i as u32).collect()
    };
    let places: Vec<Point> = row.seats.iter().map(|seat| point(seat.position)).collect();
    Row {
        label: row.label.clone(),
        first,
        seats: row.seats.iter().map(|seat| seat.label.clone()).collect(),
        x: places.iter().map(|place| place[0]).collect(),
        y: places.iter().map(|place| place[1]).collect(),
        gaps,
        accessible: flagged(|seat| seat.is_accessible),
        companion: flagged(|seat| seat.is_companion),
        restricted: flagged(|seat| seat.is_restricted),
    }
}

/// Colours of the source in one spelling; what is no colour gets one of these, so that tiers can be told apart.
pub(super) fn color(text: Option<&str>, position: usize) -> String {
    const FALLBACK: [&str; 8] =
        ["#4176a5", "#fca700", "#5e9c4b", "#a64d79", "#2a9d8f", "#c8553d", "#6a5acd", "#7f7f7f"];
    let digits = text.and_then(|text| text.trim().strip_prefix('#')).unwrap_or_default().to_ascii_lowercase();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match digits.len() {
        6 if is_hex => format!("#{digits}"),
        3 if is_hex => digits.chars().fold("#".to_owned(), |text, digit| format!("{text}{digit}{digit}")),
        _ => FALLBACK[position % FALLBACK.len()].to_owned(),
    }
}

/// The categories of a source, at most one byte's worth.
pub(super) fn check_category_count(count: usize, at: &str) -> Result<(), ImportError> {
    if count > 256 {
        return Err(ImportError::new(at, format!("{count} categories, more than 256")));
    }
    Ok(())
}
