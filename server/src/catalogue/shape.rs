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

/// Neighbours, places and marks of every seat of a plan.
#[derive(Debug, Clone, Default)]
pub struct SeatShape {
    /// In the order of their seats; together they are all seats.
    pub runs: Vec<Run>,
    /// Where each seat stands, in the plan's units.
    pub places: Vec<[i32; 2]>,
    /// Seats kept for wheelchair users and their companions.
    pub special: RoaringBitmap,
}

impl SeatShape {
    /// The shape of a sound plan.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let mut shape = Self::default();
        for (_, row) in layout.rows() {
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
            shape.special.extend(row.accessible.iter().chain(&row.companion).map(|&position| row.first.0 + position));
        }
        shape
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
    }
}
