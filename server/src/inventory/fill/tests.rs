//! What a journal that contradicts the truth, or itself, makes of a new life.

use super::*;
use seatwire_proto::id::EventId;

const NOW_MS: u64 = 1_700_000_000_000;

fn written(n: u128, hold: HoldId, seat: u32, expires_ms: u64) -> WrittenRecord {
    let line =
        HoldLine { place: Place::Seat(SeatIndex(seat)), quantity: 1, price_tier: 0, price_minor: 1, fee_minor: 0 };
    let hold = StoredHold { flags: 0, id: hold, expires_ms, lock: None, lines: vec![line] };
    let record = IdentityRecord { hold: hold.encode(), ..IdentityRecord::default() }.encode();
    WrittenRecord { identity: IdentityId::from_uuid(uuid::Uuid::from_u128(n)), record }
}

fn truth(records: Vec<WrittenRecord>) -> Truth {
    Truth {
        taken: Vec::new(),
        areas: Vec::new(),
        uses: Vec::new(),
        orders: Vec::new(),
        freed: HashMap::new(),
        over: HashSet::new(),
        records,
        answers: Vec::new(),
        has_waiting: false,
    }
}

fn filled(event: &EventFacts, records: Vec<WrittenRecord>) -> Filled {
    fill(event, Life { event: EventId::generate(), epoch: 2 }, &truth(records), NOW_MS).expect("fits")
}

#[test]
fn of_two_holds_of_one_seat_the_one_that_is_not_over_goes_on_wherever_it_stands() {
    let event = EventFacts::on_sale(Vec::new(), vec![0; 4]);
    let (over, open) = (HoldId::generate(), HoldId::generate());
    for turned in [false, true] {
        // A copy gives both the same position, and then the order of identities would decide.
        let mut records = vec![written(1, over, 2, NOW_MS - 1_000), written(2, open, 2, NOW_MS + 60_000)];
        if turned {
            records.reverse();
        }
        let filled = filled(&event, records);
        let (_, table) = filled.values.iter().find(|(name, _)| name == "n").expect("the numbers");
        let owner_of = |number: usize| uuid::Uuid::from_slice(&table[number * SLOT_BYTES..][..16]).expect("an id");
        let (_, owners) = filled.values.iter().find(|(name, _)| name == "s").expect("the map");
        let owner = u32::from_le_bytes(owners[8..12].try_into().expect("four bytes"));
        assert_eq!(owner_of((owner - HELD_BY) as usize), uuid::Uuid::from_u128(2), "{turned}");
        // Both owners are told what they have; nothing was taken from anybody.
        assert_eq!(filled.restored.holds.iter().map(|(_, hold)| *hold).collect::<Vec<_>>(), [open, over]);
        assert_eq!(filled.restored.revoked, []);
    }
}

#[test]
fn a_hold_of_a_seat_that_the_organiser_has_taken_out_is_an_old_one_and_one_of_an_allocation_goes_on() {
    let mut event = EventFacts::on_sale(Vec::new(), vec![0; 4]);
    event.blocked = [1].into_iter().collect();
    event.allocations = vec![crate::catalogue::AllocationFacts {
        id: seatwire_proto::id::AllocationId::generate(),
        name: String::new(),
        slot: 0,
        code_hash: [0; 32],
        seats: [2].into_iter().collect(),
        from_ms: 0,
        until_ms: u64::MAX,
        is_closed: false,
    }];
    let (blocked, unlocked) = (HoldId::generate(), HoldId::generate());
    let ends_ms = NOW_MS + 60_000;
    let filled = filled(&event, vec![written(1, blocked, 1, ends_ms), written(2, unlocked, 2, ends_ms)]);
    assert_eq!(filled.restored.holds.iter().map(|(_, hold)| *hold).collect::<Vec<_>>(), [unlocked]);
    assert_eq!(filled.restored.revoked.iter().map(|hold| hold.id).collect::<Vec<_>>(), [blocked]);
    let (_, owners) = filled.values.iter().find(|(name, _)| name == "s").expect("the map");
    assert_eq!(owners[4..8], BLOCKED.to_le_bytes());
}
