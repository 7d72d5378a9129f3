//! What the seats of a plan are called, for whoever reads a ticket: section, row and seat. Made once with the plan, because
//! reading a stadium's plan takes longer than selling a seat of it. `checkout::ticket` comes in here.

use seatwire_proto::layout::Layout;
use seatwire_proto::seat::SeatIndex;

/// Names of all seats of a plan, a few bytes each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeatNames {
    sections: Vec<Box<str>>,
    /// By their first seats.
    rows: Vec<RowName>,
    /// The labels of all seats of all rows, one behind the other.
    labels: String,
    /// Where each label ends, in the order of `rows`.
    ends: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RowName {
    first: u32,
    len: u32,
    section: u32,
    label: Box<str>,
    /// Where its labels begin in `ends`.
    at: u32,
}

/// Where a seat is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatName<'a> {
    /// Its section.
    pub section: &'a str,
    /// Its row; may be empty.
    pub row: &'a str,
    /// Its label in the row.
    pub seat: &'a str,
}

impl SeatNames {
    /// The names of a sound plan.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let mut names = Self::default();
        for section in &layout.sections {
            let number = names.sections.len() as u32;
            names.sections.push(section.name.as_str().into());
            for row in &section.rows {
                names.rows.push(RowName {
                    first: row.first.0,
                    len: row.seats.len() as u32,
                    section: number,
                    label: row.label.as_str().into(),
                    at: names.ends.len() as u32,
                });
                for label in &row.seats {
                    names.labels.push_str(label);
                    names.ends.push(names.labels.len() as u32);
                }
            }
        }
        names.rows.sort_unstable_by_key(|row| row.first);
        names.labels.shrink_to_fit();
        names.ends.shrink_to_fit();
        names
    }

    /// The name of a seat; `None`: the plan has no such seat.
    #[must_use]
    pub fn name(&self, seat: SeatIndex) -> Option<SeatName<'_>> {
        let row = self.rows[..self.rows.partition_point(|row| row.first <= seat.0)].last()?;
        let position = seat.0 - row.first;
        if position >= row.len {
            return None;
        }
        let at = (row.at + position) as usize;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(SeatName {
            section: &self.sections[row.section as usize],
            row: &row.label,
            seat: &self.labels[begin as usize..self.ends[at] as usize],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seat_has_the_name_its_plan_gives_it() {
        let row = |label: &str, first: u32, seats: &[&str]| {
            serde_json::json!({"label": label, "first": first, "seats": seats,
                "x": vec![0; seats.len()], "y": vec![0; seats.len()]})
        };
        // The second section's seats come first.
        let plan = serde_json::json!({
            "name": "Hall", "seat_count": 6, "unit_mm": 10, "bounds": [0, 0, 9, 9], "focal": [0, 0], "areas": [],
            "sections": [
                {"index": 0, "name": "Stalls", "outline": [], "rows": [row("A", 3, &["1", "", "Gäste"])]},
                {"index": 1, "name": "Circle", "outline": [], "rows": [row("", 0, &["7"]), row("B", 1, &["12", "13"])]},
            ],
        });
        let layout: Layout = serde_json::from_value(plan).expect("a plan");
        let names = SeatNames::of(&layout);
        let all: Vec<_> =
            (0..7).map(|seat| names.name(SeatIndex(seat)).map(|name| (name.section, name.row, name.seat))).collect();
        assert_eq!(
            all,
            [
                Some(("Circle", "", "7")),
                Some(("Circle", "B", "12")),
                Some(("Circle", "B", "13")),
                Some(("Stalls", "A", "1")),
                Some(("Stalls", "A", "")),
                Some(("Stalls", "A", "Gäste")),
                None,
            ]
        );
        assert_eq!(SeatNames::default().name(SeatIndex(0)), None);
    }
}
