//! A plan as the counter needs it: which seats touch, where each stands, which are special. Built once with the plan;
//! `seatmap::alternatives` and best-available look-ups come in here.

use roaring::RoaringBitmap;
use seatwire_proto::layout::Layout;
use seatwire_proto::seat::SeatIndex;
use std::ops::Range;

/// Seats that touch: consecutive indices of one row without an aisle between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its first seat.
    pub first: u32,
    /// How many.
    pub len: u32,
}

impl Run {
    /// Its seat indices.
    #[must_use]
    pub const fn seats(self) -> Range<u32> {
        self.first..self.first + self.len
    }
}

/// How much farther a seat with a restricted view counts as, in tenths of its distance.
const RESTRICTED_TENTHS: u32 = 15;

/// Neighbours, places and marks of every seat of a plan.
#[derive(Debug, Clone, Default)]
pub struct SeatShape {
    /// In the order of their seats; together they are all seats.
    pub runs: Vec<Run>,
    /// Where each seat stands, in the plan's units.
    pub places: Vec<[i32; 2]>,
    /// Seats kept for wheelchair users and their companions.
    pub special: RoaringBitmap,
    /// Those of them that are for the companions.
    pub companion: RoaringBitmap,
    /// How far each seat is from where its section looks, in the plan's units: the less the better.
    pub distances: Vec<u32>,
    /// Least distance within a run, and its position in `runs`; best first.
    pub by_distance: Vec<(u32, usize)>,
}

impl SeatShape {
    /// The shape of a sound plan.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let mut shape = Self::default();
        let rows = layout.sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
        for (section, row) in rows {
            let mut begin = 0;
            let len = row.seats.len() as u32;
            let ends = row.gaps.iter().map(|&gap| gap + 1).chain([len]);
            for end in ends {
                if end > begin {
                    shape.runs.push(Run { first: row.first.0 + begin, len: end - begin });
                    begin = end;
                }
            }
            shape.places.extend(row.x.iter().zip(&row.y).map(|(&x, &y)| [x, y]));
            let focal = section.focal.unwrap_or(layout.focal);
            for (position, (&x, &y)) in (0..).zip(row.x.iter().zip(&row.y)) {
                let distance = f64::from(x - focal[0]).hypot(f64::from(y - focal[1])) as u32;
                let is_restricted = row.restricted.binary_search(&position).is_ok();
                let tenths = if is_restricted { RESTRICTED_TENTHS } else { 10 };
                shape.distances.push(distance.saturating_mul(tenths) / 10);
            }
            let index_of = |&position: &u32| row.first.0 + position;
            shape.special.extend(row.accessible.iter().chain(&row.companion).map(index_of));
            shape.companion.extend(row.companion.iter().map(index_of));
        }
        let nearest = |run: &Run| run.seats().filter_map(|seat| shape.distances.get(seat as usize)).min().copied();
        let mut by_distance: Vec<_> =
            shape.runs.iter().enumerate().map(|(at, run)| (nearest(run).unwrap_or(u32::MAX), at)).collect();
        by_distance.sort_unstable();
        shape.by_distance = by_distance;
        shape
    }

    /// Whether the seat is for a wheelchair user.
    #[must_use]
    pub fn is_accessible(&self, seat: u32) -> bool {
        self.special.contains(seat) && !self.companion.contains(seat)
    }

    /// Position in `runs` of the run a seat stands in.
    #[must_use]
    pub fn run_of(&self, seat: SeatIndex) -> Option<usize> {
        let after = self.runs.partition_point(|run| run.first <= seat.0);
        let at = after.checked_sub(1)?;
        self.runs[at].seats().contains(&seat.0).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::layout::{Row, Section};
    use seatwire_proto::seat::SectionIndex;

    fn layout() -> Layout {
        let row = |first: u32, len: i32, gaps: Vec<u32>| Row {
            label: "1".into(),
            first: SeatIndex(first),
            seats: (0..len).map(|seat| seat.to_string()).collect(),
            x: (0..len).collect(),
            y: vec![first as i32; len as usize],
            gaps,
            accessible: vec![0],
            companion: vec![1],
            restricted: Vec::new(),
        };
        let rows = vec![row(0, 6, vec![1, 3]), row(6, 3, Vec::new())];
        let section = Section {
            index: SectionIndex(0),
            name: "S".into(),
            zone: None,
            floor: None,
            outline: Vec::new(),
            entrance: None,
            focal: None,
            rows,
        };
        Layout {
            name: "L".into(),
            seat_count: 9,
            unit_mm: 1,
            bounds: [0; 4],
            focal: [0; 2],
            sections: vec![section],
            areas: Vec::new(),
            shapes: Vec::new(),
            texts: Vec::new(),
        }
    }

    #[test]
    fn aisles_and_rows_part_runs() {
        let shape = SeatShape::of(&layout());
        let runs: Vec<_> = shape.runs.iter().map(|run| (run.first, run.len)).collect();
        assert_eq!(runs, [(0, 2), (2, 2), (4, 2), (6, 3)]);
        assert_eq!(
            (shape.run_of(SeatIndex(3)), shape.run_of(SeatIndex(8)), shape.run_of(SeatIndex(9))),
            (Some(1), Some(3), None)
        );
        assert_eq!(shape.special.iter().collect::<Vec<_>>(), [0, 1, 6, 7]);
        assert_eq!(shape.places[6], [0, 6]);
        assert_eq!(shape.companion.iter().collect::<Vec<_>>(), [1, 7]);
        assert!(shape.is_accessible(0) && !shape.is_accessible(1) && !shape.is_accessible(2));
    }

    #[test]
    fn seats_are_ranked_by_what_they_look_at() {
        let mut layout = layout();
        layout.sections[0].rows[0].restricted = vec![4];
        let shape = SeatShape::of(&layout);
        assert_eq!(shape.distances, [0, 1, 2, 3, 6, 5, 6, 6, 6]);
        assert_eq!(shape.by_distance, [(0, 0), (2, 1), (5, 2), (6, 3)]);
        layout.sections[0].focal = Some([5, 0]);
        assert_eq!(SeatShape::of(&layout).by_distance[0], (0, 2));
    }
}
