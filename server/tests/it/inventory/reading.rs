//! The scripts that only read, each by table: what was, what was asked, what came back; nothing is changed or published by it.

use super::shelf::{Shelf, indices};
use crate::support::eventually;
use seatwire::inventory::{
    Changes, CopyCursor, FoundHold, HoldOutcome, Inventory, Place, ReleaseWhat, Stock, StreamPosition,
};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use std::collections::BTreeMap;

/// Endings are kept so long.
const KEEP_MS: i64 = 600_000;

#[derive(Debug, PartialEq)]
enum Found {
    Open,
    Ended,
    Unknown,
}

impl Shelf {
    /// What a hold's id leads to, and whether the identity has any hold.
    async fn read(&self, identity: IdentityId, hold: HoldId) -> (Found, bool) {
        let found = self.inventory.find_hold(&self.event, identity, hold).await.expect("Redis answers");
        let found = match found {
            FoundHold::Open(record) => {
                assert_eq!((record.id, record.identity), (hold, identity));
                Found::Open
            }
            FoundHold::Ended => Found::Ended,
            FoundHold::Unknown => Found::Unknown,
        };
        (found, self.open_hold(identity).await.is_some())
    }

    async fn journal(&self, from: StreamPosition) -> Changes {
        self.inventory.journal_changes(&self.event, 1, from).await.expect("Redis answers")
    }
}

fn position(seq: u64, step: u64) -> StreamPosition {
    StreamPosition { seq, step }
}

#[tokio::test]
async fn hold_read_says_what_is_behind_a_holds_id_and_to_nobody_else() {
    let shelf = Shelf::with(|facts| facts.rules.hold_ttl_ms = 15_000).await;
    let [ann, bob, cat, dan, eve] = std::array::from_fn(|_| IdentityId::generate());
    let order = OrderId::generate();
    let until_ms = shelf.now_ms() + 5_000_000;
    let (open, lapsed, locked) =
        (shelf.held(ann, &[1]).await.id, shelf.held(bob, &[2]).await.id, shelf.held(cat, &[3]).await.id);
    let given_back = shelf.held(dan, &[4]).await.id;
    shelf.release(dan, given_back, ReleaseWhat::All).await;
    shelf.inventory.lock(&shelf.event, cat, locked, order, until_ms).await.expect("Redis answers");
    let (nobody, none) = ((Found::Unknown, false), HoldId::generate());
    // Who asks, for which hold, what comes back.
    let table = [
        (ann, open, (Found::Open, true)),
        (ann, lapsed, (Found::Unknown, true)),
        (ann, none, (Found::Unknown, true)),
        (eve, open, nobody),
        (cat, locked, (Found::Open, true)),
        (dan, given_back, (Found::Unknown, false)),
    ];
    let before = (shelf.position().await, shelf.map().await);
    for (row, (who, hold, wanted)) in table.into_iter().enumerate() {
        assert_eq!(shelf.read(who, hold).await, wanted, "row {row}");
    }
    // Time is over, before any sweep: for all but the one that is being paid, and what does not own it learns nothing.
    shelf.move_clock_ms(20_000).await;
    for (row, (who, hold, wanted)) in [
        (ann, open, (Found::Ended, false)),
        (bob, lapsed, (Found::Ended, false)),
        (bob, open, (Found::Unknown, false)),
        (cat, locked, (Found::Open, true)),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(shelf.read(who, hold).await, wanted, "row {row} when time is over");
    }
    assert_eq!((shelf.position().await, shelf.map().await), before, "reading changes nothing");
    // Swept, sold; and in the end forgotten.
    eventually("the sweeper", || async {
        let swept = shelf.inventory.sweep(&shelf.event).await.expect("Redis answers");
        (swept.open_holds == 1).then_some(())
    })
    .await;
    let seat = [(Place::Seat(SeatIndex(3)), 1)];
    shelf.inventory.sell(&shelf.event, order, cat, &seat).await.expect("Redis answers");
    assert_eq!(shelf.read(bob, lapsed).await, (Found::Ended, false));
    assert_eq!(shelf.read(cat, locked).await, (Found::Unknown, false));
    shelf.move_clock_ms(KEEP_MS).await;
    assert_eq!(shelf.read(bob, lapsed).await, (Found::Unknown, false), "ten minutes later");
}

#[tokio::test]
async fn stock_counts_what_is_free_open_and_kept() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let stock = async |step: &str, available: u32, open_holds: u32, areas: [u32; 2], kept: u32| {
        let position = shelf.position().await;
        let found = shelf.inventory.stock(&shelf.event).await.expect("Redis answers");
        assert_eq!(found, Stock { available, open_holds, areas: areas.to_vec(), kept }, "{step}");
        assert_eq!(shelf.position().await, position, "{step}");
        assert_eq!(found.has_some(), available > 0 || areas != [0, 0], "{step}");
    };
    stock("at first", 39, 0, [5, 100], 0).await;
    let hold = shelf.held(ann, &[1, 2]).await.id;
    shelf.hold_area(ann, 0, 2).await;
    stock("held", 37, 1, [3, 100], 0).await;
    shelf.inventory.block(&shelf.event, &indices(&[5])).await.expect("Redis answers");
    stock("blocked", 36, 1, [3, 100], 0).await;
    shelf.inventory.keep_for_waitlist(&shelf.event, true).await.expect("Redis answers");
    shelf.release(ann, hold, ReleaseWhat::All).await;
    stock("kept for whoever waits", 36, 0, [3, 100], 4).await;
    // A late success takes kept seats and more places than are left.
    let late = [(Place::Seat(SeatIndex(1)), 1), (Place::Area(AreaIndex(0)), 4)];
    shelf.inventory.sell(&shelf.event, OrderId::generate(), bob, &late).await.expect("Redis answers");
    stock("sold late", 36, 0, [0, 100], 3).await;
    shelf.inventory.keep_for_waitlist(&shelf.event, false).await.expect("Redis answers");
    stock("nobody waits any more", 37, 0, [1, 100], 0).await;
}

#[tokio::test]
async fn changes_are_read_from_a_place_in_the_stream_and_a_hole_is_said() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.map().await;
    let found = |changes: Changes| match changes {
        Changes::Found { records, to, is_full, .. } => {
            let mut whose: Vec<(IdentityId, bool)> =
                records.iter().map(|record| (record.identity, record.has_hold)).collect();
            whose.sort_unstable();
            (whose, to, is_full)
        }
        Changes::Gone => panic!("gone"),
    };
    let start = StreamPosition::default();
    assert_eq!(found(shelf.journal(start).await), (vec![], start, false), "nothing has changed");
    let hold = shelf.held(ann, &[1]).await.id;
    assert_eq!(found(shelf.journal(start).await), (vec![(ann, true)], position(1, 0), false));
    shelf.extend(ann, hold).await;
    assert_eq!(
        found(shelf.journal(position(1, 0)).await),
        (vec![(ann, true)], position(1, 1), false),
        "not on the map"
    );
    shelf.held(bob, &[2]).await;
    shelf.release(ann, hold, ReleaseWhat::All).await;
    let mut both = vec![(ann, false), (bob, true)];
    both.sort_unstable();
    assert_eq!(found(shelf.journal(position(1, 1)).await), (both.clone(), position(3, 0), false), "each once");
    assert_eq!(found(shelf.journal(start).await), (both, position(3, 0), false), "also from the beginning");
    assert_eq!(found(shelf.journal(position(3, 0)).await), (vec![], position(3, 0), false));

    // A place that never was, or is not there any more; another life.
    for from in [position(2, 7), position(99, 0)] {
        assert_eq!(shelf.journal(from).await, Changes::Gone, "{from}");
    }
    let other_life = shelf.inventory.journal_changes(&shelf.event, 2, start).await.expect("Redis answers");
    assert_eq!(other_life, Changes::Gone);

    // A long way behind: a part at a time, without a hole between them.
    for n in 0..1_100 {
        let HoldOutcome::Held { hold, .. } = shelf.hold_area(ann, 1, 1).await else { panic!("turn {n}") };
        shelf.release(ann, hold.id, ReleaseWhat::All).await;
    }
    let (mut from, mut parts) = (position(3, 0), 0);
    loop {
        let (whose, to, is_full) = found(shelf.journal(from).await);
        assert_eq!(whose, [(ann, false)], "the newest of each");
        assert!(to > from);
        (from, parts) = (to, parts + 1);
        if !is_full {
            break;
        }
    }
    assert_eq!((from, parts), (position(2_203, 0), 3));
    assert_eq!(shelf.position().await, (1, 2_203), "reading changes nothing");
}

#[tokio::test]
async fn records_are_copied_in_parts_with_the_answers_that_found_no_room() {
    let shelf = Shelf::with(|facts| facts.areas[1].capacity = 1_000).await;
    shelf.map().await;
    let copy = async || {
        let (mut records, mut answers) = (BTreeMap::new(), Vec::new());
        let (mut cursor, mut parts, mut newest) = (Some(CopyCursor::default()), 0, None);
        while let Some(from) = cursor {
            let part = shelf.inventory.journal_copy(&shelf.event, &from).await.expect("Redis answers");
            assert_eq!(part.epoch, 1);
            assert!(newest.is_none_or(|known| known == part.newest), "nothing changes meanwhile");
            records.extend(part.records.into_iter().map(|found| (found.identity, found.record)));
            answers.extend(part.answers.into_iter().map(|answer| answer.identity));
            (cursor, parts, newest) = (part.next, parts + 1, Some(part.newest));
        }
        (records, answers, parts, newest.expect("at least one part"))
    };
    let (records, answers, parts, newest) = copy().await;
    assert_eq!(
        (records.len(), answers.len(), parts, newest),
        (0, 0, 4, StreamPosition::default()),
        "records, 3 buckets"
    );
    // More than one part of records; and one identity with more answers than its record has room for.
    let people: Vec<IdentityId> = (0..700).map(|_| IdentityId::generate()).collect();
    for &identity in &people {
        assert!(matches!(shelf.hold_area(identity, 1, 1).await, HoldOutcome::Held { .. }));
    }
    for n in 0..6 {
        shelf.try_hold(shelf.keyed(people[0], &format!("k{n}"), n), &[u32::from(n)]).await.expect("Redis answers");
    }
    let before = shelf.position().await;
    let (records, answers, parts, newest) = copy().await;
    assert_eq!((records.len(), answers), (700, vec![people[0]; 2]), "four answers are in the record");
    assert!(parts > 4, "{parts} parts");
    assert_eq!(newest, position(before.1, 1), "the last one was refused: an answer, and nothing on the map");
    for (identity, record) in records {
        let hold = Inventory::any_journalled_hold(identity, &record.expect("worth keeping")).expect("a record");
        assert_eq!(hold, shelf.open_hold(identity).await);
    }
    assert_eq!(shelf.position().await, before, "reading changes nothing");
}
