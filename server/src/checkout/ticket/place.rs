//! Where a ticket's place is, in the words of its buyer's language. `door` prints them, `wallet` hands them to phones.

use crate::catalogue::SeatNames;
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
    names: Option<&SeatNames>,
    event: &Event,
    words: &PrintWords,
    seat: Option<SeatIndex>,
    area: Option<AreaIndex>,
) -> Vec<(String, String)> {
    if let Some(area) = area {
        let name = event.areas.get(area.position()).map(|area| area.name.clone());
        return name.map(|name| (words.area.to_owned(), name)).into_iter().collect();
    }
    let Some(name) = seat.and_then(|seat| names?.name(seat)) else { return Vec::new() };
    [(words.section, name.section), (words.row, name.row), (words.seat, name.seat)]
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .into()
}
