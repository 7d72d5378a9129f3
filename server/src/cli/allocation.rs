//! `seatwire event allocate` and `close-allocation`: keeps seats of an event for those who have a presale code, and gives
//! them back. Running nodes notice within some seconds.

use super::event::moment;
use crate::catalogue::{Catalogue, EventFacts, code_hash};
use crate::clock::Clock;
use crate::store::Store;
use crate::store::allocation::{self, AllocationRow, Entered};
use anyhow::{Context, bail};
use roaring::RoaringBitmap;
use seatwire_proto::id::{AllocationId, EventId};

#[derive(Debug, clap::Args)]
pub(super) struct Allocate {
    /// The event, `evt_..`.
    event: EventId,
    /// For people, as the buyers who unlock it see it.
    #[arg(long)]
    name: String,
    /// What buyers type in.
    #[arg(long)]
    code: String,
    /// Seat indices and ranges, e.g. `0-99,120`; may be given several times.
    #[arg(long, value_parser = ranges)]
    seats: Vec<Ranges>,
    /// A whole section by its name; may be given several times.
    #[arg(long = "section")]
    sections: Vec<String>,
    /// From when on the code opens it; `now` or a time with its zone.
    #[arg(long, default_value = "now", value_parser = moment)]
    from: u64,
    /// Until when.
    #[arg(long, value_parser = moment)]
    until: u64,
}

/// Ranges of one argument, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ranges(Vec<(u32, u32)>);

fn ranges(text: &str) -> Result<Ranges, String> {
    let expected = || "expected indices and ranges such as 0-99,120".to_owned();
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) =
            (first.trim().parse().map_err(|_| expected())?, last.trim().parse().map_err(|_| expected())?);
        if first <= last { Ok((first, last)) } else { Err(expected()) }
    };
    text.split(',').map(one).collect::<Result<_, String>>().map(Ranges)
}

impl Allocate {
    /// Enters it; its id.
    pub(super) async fn enter(self, store: &Store) -> anyhow::Result<AllocationId> {
        let catalogue = Catalogue::new(store.clone(), Clock::system());
        let mut transaction = crate::store::begin(store.pool()).await?;
        if !allocation::lock_event(&mut transaction, self.event).await? {
            bail!("there is no event {}", self.event);
        }
        let event = catalogue.event(self.event).await?.context("the event was there a moment ago")?;
        let seats = self.chosen(&event)?;
        let mut bytes = Vec::with_capacity(seats.serialized_size());
        seats.serialize_into(&mut bytes)?;
        let row = AllocationRow {
            slot: 0,
            id: AllocationId::generate(),
            name: self.name,
            code_hash: code_hash(self.event, &self.code).to_vec(),
            seats: bytes,
            from_ms: self.from,
            until_ms: self.until,
            is_closed: false,
        };
        let entered = allocation::insert(&mut transaction, self.event, &row, Clock::system().now_ms()).await?;
        match entered {
            Entered::Done => transaction.commit().await?,
            Entered::NoSlot => {
                bail!("the event has had {} allocations, which is all it can have", allocation::MAX_ALLOCATIONS)
            }
            Entered::CodeUsed => bail!("this code opens another allocation of the event"),
        }
        Ok(row.id)
    }

    fn chosen(&self, event: &EventFacts) -> anyhow::Result<RoaringBitmap> {
        if self.code.trim().is_empty() || self.name.trim().is_empty() {
            bail!("a name and a code are needed");
        }
        if self.from >= self.until {
            bail!("it would end before it begins");
        }
        let mut seats = RoaringBitmap::new();
        for &(first, last) in self.seats.iter().flat_map(|ranges| &ranges.0) {
            if last >= event.seat_count() {
                bail!("the event has seats 0 to {}, not {last}", event.seat_count().saturating_sub(1));
            }
            seats.insert_range(first..=last);
        }
        for name in &self.sections {
            let section = event.sections.iter().find(|section| section.name == *name);
            let section = section.with_context(|| format!("the event has no section {name:?}"))?;
            seats.insert_range(section.first.0..section.end.0);
        }
        if seats.is_empty() {
            bail!("no seats: give --seats or --section");
        }
        for other in event.allocations.iter().filter(|other| !other.is_closed) {
            if let Some(seat) = (&other.seats & &seats).min() {
                bail!("seat {seat} is kept for {:?} already", other.name);
            }
        }
        if let Some(seat) = (&event.blocked & &seats).min() {
            bail!("seat {seat} is blocked; unblock it first");
        }
        Ok(seats)
    }
}

/// Closes it; its event.
pub(super) async fn close(store: &Store, id: AllocationId) -> anyhow::Result<EventId> {
    let event = allocation::close(store.pool(), id, Clock::system().now_ms()).await?;
    event.with_context(|| format!("there is no allocation {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_given_as_indices_and_ranges() {
        assert_eq!(ranges("0-2,7"), Ok(Ranges(vec![(0, 2), (7, 7)])));
        for bad in ["", "a", "3-1", "1,,2", "-1"] {
            assert!(ranges(bad).is_err(), "{bad}");
        }
    }
}
