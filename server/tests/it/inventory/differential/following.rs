//! Whoever follows the changes of the map, and the journal that follows the records, know what the scripts know.

use super::Run;
use seatwire::inventory::{Changes, CopyCursor, Inventory, StreamPosition};
use seatwire::store::hold_journal::JournalRecord;
use seatwire_proto::id::IdentityId;
use std::collections::{BTreeMap, HashMap};

/// What followers know.
#[derive(Default)]
pub(super) struct Followed {
    seq: u64,
    states: Vec<u8>,
    areas: Vec<u32>,
    journal: StreamPosition,
    records: HashMap<IdentityId, Vec<u8>>,
}

impl Followed {
    /// Begins where the map is now.
    pub(super) fn new(map: &str, areas: Vec<u32>) -> Self {
        Self { states: map.bytes().map(|digit| digit - b'0').collect(), areas, ..Self::default() }
    }

    fn write(&mut self, records: Vec<JournalRecord>) {
        for JournalRecord { identity, record, .. } in records {
            match record {
                Some(bytes) => drop(self.records.insert(identity, bytes)),
                None => drop(self.records.remove(&identity)),
            }
        }
    }
}

impl Run {
    /// Takes what changed since the last time, and compares it with the map and everybody's hold.
    pub(super) async fn follow(&mut self, map: &str) {
        let (event, inventory) = (&self.shelf.event, &self.shelf.inventory);
        let changes = inventory.changes_since(event, 1, self.followed.seq).await.expect("Redis answers");
        for change in changes.expect("no hole in the stream") {
            self.followed.seq = change.seq;
            change.seats.iter().for_each(|(seat, state)| self.followed.states[seat.position()] = *state as u8);
            change.areas.iter().for_each(|(area, left)| self.followed.areas[area.position()] = *left);
        }
        let digits: String = self.followed.states.iter().map(|state| char::from(b'0' + state)).collect();
        self.agree("the map of whoever follows", &digits, &map.to_owned());
        self.agree("the areas of whoever follows", &self.followed.areas, &self.model.areas());
        self.agree("the seq of whoever follows", &self.followed.seq, &self.model.seq);

        let mut has_more = true;
        while has_more {
            let changes = inventory.journal_changes(event, 1, self.followed.journal).await.expect("Redis answers");
            let Changes::Found { records, to, is_full, .. } = changes else {
                panic!("the journal lost its place at {}", self.followed.journal)
            };
            self.followed.write(records);
            (self.followed.journal, has_more) = (to, is_full);
        }
        for (&identity, person) in &self.model.people {
            let record = self.followed.records.get(&identity);
            let hold = record.and_then(|bytes| Inventory::any_journalled_hold(identity, bytes).expect("a record"));
            let expected = person.hold.as_ref().map(|hold| hold.record(identity));
            self.agree("a hold in the journal", &hold, &expected);
        }
        let (mut copied, mut cursor) = (BTreeMap::new(), Some(CopyCursor::default()));
        while let Some(from) = cursor {
            let part = inventory.journal_copy(event, &from).await.expect("Redis answers");
            self.agree("the newest of a copy", &part.newest, &self.followed.journal);
            copied.extend(part.records.into_iter().filter_map(|found| Some((found.identity, found.record?))));
            cursor = part.next;
        }
        let followed: BTreeMap<_, _> = self.followed.records.clone().into_iter().collect();
        self.agree("a copy of the records", &copied, &followed);
    }
}
