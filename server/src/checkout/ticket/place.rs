//! Where a ticket's place is, in the words of its buyer's language. `door` prints them, `wallet` hands them to phones.

use seatwire_proto::layout::Layout;
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::Event;

/// The labels of a printed ticket.
pub(super) struct PrintWords {
    pub(super) section: &'static str,
    pub(super) row: &'static str,
    pub(super) seat: &'static str,
    pub(super) area: &'static str,
    pub(super) holder: &'static str,
    pub(super) order: &'static str,
    pub(super) hint: &'static str,
}

impl PrintWords {
    pub(super) fn of(lang: &str) -> Self {
        if lang == "de" {
            return Self {
                section: "Block",
                row: "Reihe",
                seat: "Platz",
                area: "Bereich",
                holder: "Name",
                order: "Bestellung",
                hint: "Gilt für eine Person und einen Einlass. Zeigen Sie den Code niemandem sonst.",
            };
        }
        Self {
            section: "Section",
            row: "Row",
            seat: "Seat",
            area: "Area",
            holder: "Name",
            order: "Order",
            hint: "Admits one person once. Show the code to nobody else.",
        }
    }
}

/// The place in words: section, row and seat, or the area.
pub(super) fn place(
    layout: Option<&Layout>,
    event: &Event,
    words: &PrintWords,
    seat: Option<SeatIndex>,
    area: Option<AreaIndex>,
) -> Vec<(String, String)> {
    if let Some(area) = area {
        let name = event.areas.get(area.position()).map(|area| area.name.clone());
        return name.map(|name| (words.area.to_owned(), name)).into_iter().collect();
    }
    let (Some(layout), Some(seat)) = (layout, seat) else { return Vec::new() };
    for section in &layout.sections {
        for row in &section.rows {
            let at = seat.0.wrapping_sub(row.first.0) as usize;
            if let Some(label) = row.seats.get(at) {
                let parts = [(words.section, &section.name), (words.row, &row.label), (words.seat, label)];
                return parts.map(|(name, value)| (name.to_owned(), value.clone())).into();
            }
        }
    }
    Vec::new()
}
