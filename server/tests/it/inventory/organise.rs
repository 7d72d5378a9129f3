//! The scripts of the organiser and of the waitlist, each alone: what was, what was asked, what came back, what is, what
//! was published.

use super::shelf::{Shelf, indices, refused, seats_of};
use fred::interfaces::ClientLike;
use seatwire::catalogue::EventFacts;
use seatwire::inventory::{
    Caller, ChangeOutcome, HoldOutcome, Kept, NewOffer, OfferOutcome, Place, Refusal, ReleaseWhat,
};
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use seatwire_proto::server::{EventState, SalesMode};
use std::sync::Arc;

fn later(shelf: &Shelf, change: impl FnOnce(&mut EventFacts)) -> Arc<EventFacts> {
    let mut facts = EventFacts::clone(&shelf.event);
    facts.revision += 1;
    change(&mut facts);
    Arc::new(facts)
}

fn offer_of(seats: &[u32], areas: &[(u32, u32)]) -> NewOffer {
    NewOffer {
        life_ms: 60_000,
        seats: indices(seats),
        areas: areas.iter().map(|&(area, quantity)| (AreaIndex(area), quantity)).collect(),
    }
}

impl Shelf {
    async fn keep(&self, keeps: bool) {
        self.inventory.keep_for_waitlist(&self.event, keeps).await.expect("Redis answers");
    }

    async fn offer(&self, identity: IdentityId, seats: &[u32], areas: &[(u32, u32)]) -> OfferOutcome {
        self.inventory.offer(&self.event, identity, &offer_of(seats, areas)).await.expect("Redis answers")
    }

    async fn kept_seats(&self) -> Vec<u32> {
        let kept = self.inventory.kept(&self.event).await.expect("Redis answers");
        let mut seats: Vec<u32> = kept.seats.iter().map(|(seat, _)| seat.0).collect();
        seats.sort_unstable();
        seats
    }

    async fn available(&self) -> u32 {
        let available = self.inventory.stock(&self.event).await.expect("Redis answers").available;
        let map = self.map().await;
        assert_eq!(available as usize, map.bytes().filter(|state| *state == b'0').count(), "counted right: {map}");
        available
    }
}

#[tokio::test]
async fn block_takes_what_is_available_and_leaves_the_rest() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[1]).await;
    shelf.held(bob, &[2]).await;
    let order = OrderId::generate();
    shelf.inventory.sell(&shelf.event, order, bob, &[(Place::Seat(SeatIndex(3)), 1)]).await.expect("Redis answers");
    let (_, before) = shelf.position().await;
    let (held, sold, allocated) = (SeatState::Held, SeatState::Sold, SeatState::Blocked);
    // Seats asked for; those left alone; the first five seats after it; how many changes were published.
    type Case<'a> = (&'a [u32], &'a [(u32, SeatState)], &'static str, u64);
    let cases: [Case<'_>; 4] = [
        (&[0, 1, 2, 3, 29], &[(1, held), (2, held), (3, sold)], "31120", 1),
        (&[0], &[], "31120", 0),
        (&[4], &[], "31123", 1),
        (&[40], &[(40, allocated)], "31123", 0),
    ];
    let mut seq = before;
    for (seats, wanted, map, published) in cases {
        let answer = shelf.inventory.block(&shelf.event, &indices(seats)).await.expect("Redis answers");
        let wanted: Vec<_> = wanted.iter().map(|&(seat, state)| (SeatIndex(seat), state)).collect();
        assert_eq!(answer.outcome, wanted, "{seats:?}");
        seq += published;
        assert_eq!((answer.position.seq, &shelf.map().await[..5]), (seq, map), "{seats:?}");
    }
    assert_eq!(shelf.published(before + 1).await.seats, [(SeatIndex(0), SeatState::Blocked)]);
    shelf.available().await;
    // A held seat is free for everyone again when its holder lets it go, a blocked one is not.
    assert_eq!(refused(shelf.hold(ann, &[4]).await), Refusal::SeatTaken(indices(&[4])));

    shelf.inventory.unblock(&shelf.event, &indices(&[0, 1, 4, 5])).await.expect("Redis answers");
    assert_eq!(&shelf.map().await[..6], "011200");
    let freed = shelf.published(seq + 1).await.seats;
    assert_eq!(freed, [(SeatIndex(0), SeatState::Available), (SeatIndex(4), SeatState::Available)]);
    shelf.inventory.unblock(&shelf.event, &indices(&[0, 4])).await.expect("Redis answers");
    assert_eq!(shelf.position().await.1, seq + 1, "twice is once");
    shelf.available().await;
}

#[tokio::test]
async fn a_plan_that_grew_gets_its_seats_once_and_old_revisions_undo_nothing() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[28]).await;
    let (_, before) = shelf.position().await;
    let grown = later(&shelf, |facts| {
        facts.seat_tiers.extend([1, 1, 1]);
        facts.sections[1].end = SeatIndex(43);
        facts.rules.seats_per_identity = 2;
    });
    for _ in 0..2 {
        shelf.inventory.configure(&grown).await.expect("Redis answers");
    }
    shelf.inventory.configure(&shelf.event).await.expect("Redis answers");
    let map = shelf.inventory.read_map(&grown).await.expect("Redis answers");
    assert_eq!((map.states.len(), &map.states[39..], map.seq), (43, &[0, 0, 0, 0][..], before + 1));
    assert_eq!(map.states[28..30], [1, 3], "what was blocked stays");
    assert_eq!(shelf.map().await.len(), 40, "who does not know the new plan sees the old one");
    let published = shelf.published(before + 1).await;
    assert!(published.seats.is_empty() && published.areas.is_empty(), "{published:?}");
    assert_eq!(shelf.inventory.stock(&grown).await.expect("Redis answers").available, 38 + 3);
    // The limit of the newer revision holds, whoever asks; and the new seats go back as available, not as blocked.
    assert_eq!(refused(shelf.hold(ann, &[1, 2]).await), Refusal::LimitExceeded { limit: 2, used: 1 });
    shelf.inventory.block(&grown, &indices(&[41])).await.expect("Redis answers");
    shelf.inventory.unblock(&grown, &indices(&[41])).await.expect("Redis answers");
    let map = shelf.inventory.read_map(&grown).await.expect("Redis answers");
    assert_eq!(map.states[40..], [0, 0, 0]);
}

#[tokio::test]
async fn holds_end_with_a_cancelled_event_but_for_those_being_paid() {
    let shelf = Shelf::new().await;
    let people: Vec<IdentityId> = (0..5).map(|_| IdentityId::generate()).collect();
    let mut holds = Vec::new();
    for (seat, &identity) in (0..).zip(&people) {
        holds.push(shelf.held(identity, &[seat]).await);
    }
    shelf.hold_area(people[0], 0, 2).await;
    let until_ms = shelf.now_ms() + 100_000;
    shelf.inventory.lock(&shelf.event, people[4], holds[4].id, OrderId::generate(), until_ms).await.expect("locked");
    let (_, before) = shelf.position().await;
    let open = shelf.inventory.end_holds(&shelf.event, 0, 64).await.expect("Redis answers");
    assert!(open.0.is_empty() && open.1.is_none(), "not while it is on sale");
    assert_eq!(shelf.position().await.1, before);

    let closed = later(&shelf, |facts| facts.state = EventState::Closed);
    let open = shelf.inventory.end_holds(&closed, 0, 64).await.expect("Redis answers");
    assert!(open.0.is_empty() && open.1.is_none(), "a basket may be paid for when selling is over");
    assert_eq!(shelf.position().await.1, before);
    let more = Caller { event: Arc::clone(&closed), ..shelf.caller(people[0]) };
    let more = shelf.try_hold(more, &[9]).await.expect("Redis answers").outcome;
    assert_eq!(refused(more), Refusal::NotOnSale, "but nothing is added");

    let cancelled = later(&shelf, |facts| {
        facts.revision += 1;
        facts.state = EventState::Cancelled;
    });
    let (first, next) = shelf.inventory.end_holds(&cancelled, 0, 3).await.expect("Redis answers");
    assert_eq!(
        first.iter().map(|hold| hold.id).collect::<Vec<_>>(),
        holds[..3].iter().map(|h| h.id).collect::<Vec<_>>()
    );
    assert_eq!((&shelf.map().await[..5], &shelf.areas().await[..]), ("00011", &[5, 100][..]));
    let change = shelf.published(before + 1).await;
    assert_eq!((change.seats.len(), &change.areas[..]), (3, &[(AreaIndex(0), 5)][..]), "one change: {change:?}");
    let (rest, next) = shelf.inventory.end_holds(&cancelled, next.expect("more"), 64).await.expect("Redis answers");
    assert_eq!((rest.len(), next), (1, None));
    assert_eq!(&shelf.map().await[..5], "00001", "the locked one goes on");
    assert!(shelf.open_hold(people[0]).await.is_none());
    let gone = shelf.extend(people[0], holds[0].id).await;
    assert_eq!(gone, ChangeOutcome::Refused(Refusal::HoldExpired));
    assert!(shelf.inventory.end_holds(&cancelled, 0, 64).await.expect("Redis answers").0.is_empty(), "twice is once");
    let stock = shelf.inventory.stock(&cancelled).await.expect("Redis answers");
    assert_eq!(stock.open_holds, 1);
    shelf.available().await;
}

#[tokio::test]
async fn what_becomes_free_while_somebody_waits_is_kept_and_shown_as_held() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let hold = shelf.held(ann, &[0, 1, 2]).await;
    shelf.hold_area(ann, 0, 3).await;
    shelf.keep(true).await;
    let available = shelf.available().await;
    let parts = ReleaseWhat::Parts { seats: indices(&[1]), areas: Vec::new() };
    shelf.release(ann, hold.id, parts).await;
    assert_eq!((&shelf.map().await[..3], shelf.kept_seats().await), ("111", vec![1]));
    assert_eq!(refused(shelf.hold(bob, &[1]).await), Refusal::SeatTaken(indices(&[1])));
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    assert_eq!((&shelf.map().await[..3], &shelf.areas().await[..1]), ("111", &[2][..]));
    let Kept { seats, places } = shelf.inventory.kept(&shelf.event).await.expect("Redis answers");
    assert_eq!((seats.len(), &places[..]), (3, &[3, 0][..]));
    assert_eq!(shelf.available().await, available, "none of it is for everyone");
    let full = HoldOutcome::Refused(Refusal::AreaFull { remaining: 2 });
    assert_eq!(shelf.hold_area(bob, 0, 3).await, full);
    // A blocked seat of it is not kept any more; an unblocked one is.
    shelf.inventory.block(&shelf.event, &indices(&[2])).await.expect("Redis answers");
    assert_eq!(shelf.kept_seats().await, [0, 1]);
    shelf.inventory.unblock(&shelf.event, &indices(&[2])).await.expect("Redis answers");
    assert_eq!(shelf.kept_seats().await, [0, 1, 2]);

    let (_, before) = shelf.position().await;
    shelf.inventory.give_up_kept(&shelf.event, &indices(&[0, 7]), &[AreaIndex(0)]).await.expect("Redis answers");
    assert_eq!((&shelf.map().await[..3], &shelf.areas().await[..1]), ("011", &[5][..]));
    assert_eq!(shelf.published(before + 1).await.seats, [(SeatIndex(0), SeatState::Available)]);
    shelf.keep(false).await;
    assert_eq!((&shelf.map().await[..3], shelf.kept_seats().await), ("000", vec![]));
    shelf.available().await;
    let hold = shelf.held(ann, &[5]).await;
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    assert_eq!(shelf.map().await.as_bytes()[5], b'0', "and from then on it is for everyone");
}

#[tokio::test]
async fn what_is_over_but_not_swept_is_nobodys_while_somebody_waits() {
    let shelf = Shelf::with(|facts| facts.rules.hold_ttl_ms = 10_000).await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[0]).await;
    shelf.hold_area(ann, 0, 5).await;
    shelf.keep(true).await;
    shelf.move_clock_ms(20_000).await;
    assert_eq!(refused(shelf.hold(bob, &[0]).await), Refusal::SeatTaken(indices(&[0])));
    assert_eq!(refused(shelf.hold(ann, &[0]).await), Refusal::SeatTaken(indices(&[0])), "nor its last owner's");
    let full = HoldOutcome::Refused(Refusal::AreaFull { remaining: 0 });
    assert_eq!(shelf.hold_area(ann, 0, 1).await, full);
    crate::support::eventually("a sweep to keep all of it", || async {
        shelf.inventory.sweep(&shelf.event).await.expect("Redis answers");
        let Kept { seats, places } = shelf.inventory.kept(&shelf.event).await.expect("Redis answers");
        ((seats.len(), places[0], shelf.areas().await[0]) == (1, 5, 0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_plan_that_grows_much_while_somebody_waits_is_told_in_small_changes() {
    let shelf = Shelf::new().await;
    shelf.keep(true).await;
    let grown = later(&shelf, |facts| {
        facts.seat_tiers.resize(1_240, 0);
        facts.sections[1].end = SeatIndex(1_240);
    });
    for _ in 0..2 {
        shelf.inventory.configure(&grown).await.expect("Redis answers");
    }
    let stock = shelf.inventory.stock(&grown).await.expect("Redis answers");
    assert_eq!((stock.kept, shelf.position().await.1), (1_200, 3));
    for seq in 1..=3 {
        assert!(shelf.published(seq).await.seats.len() <= 500);
    }
}

#[tokio::test]
async fn an_offer_is_made_of_what_is_kept_once_and_ends_like_a_hold() {
    let shelf = Shelf::with(|facts| facts.sections[1].sales_mode = SalesMode::PickSeat).await;
    let (ann, bob, cat) = (IdentityId::generate(), IdentityId::generate(), IdentityId::generate());
    shelf.keep(true).await;
    let hold = shelf.held(ann, &[0, 1, 30]).await;
    shelf.hold_area(ann, 1, 2).await;
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    let basket = shelf.held(cat, &[9]).await;

    let taken = |seats: &[u32]| OfferOutcome::Refused(Refusal::SeatTaken(indices(seats)));
    assert_eq!(shelf.offer(bob, &[0, 5, 9], &[]).await, taken(&[5, 9]), "available and held seats are not kept");
    assert_eq!(shelf.offer(bob, &[], &[(1, 3)]).await, OfferOutcome::Refused(Refusal::AreaFull { remaining: 2 }));
    let limit = Refusal::LimitExceeded { limit: 2, used: 0 };
    let strict = later(&shelf, |facts| facts.rules.seats_per_identity = 2);
    let refused = shelf.inventory.offer(&strict, bob, &offer_of(&[0, 1, 30], &[])).await.expect("Redis answers");
    assert_eq!(refused, OfferOutcome::Refused(limit));
    for (revision, state, refusal) in
        [(3, EventState::Paused, Refusal::Paused), (4, EventState::Closed, Refusal::NotOnSale)]
    {
        let facts = later(&shelf, |facts| (facts.revision, facts.state) = (revision, state));
        let refused = shelf.inventory.offer(&facts, bob, &offer_of(&[0], &[])).await.expect("Redis answers");
        assert_eq!(refused, OfferOutcome::Refused(refusal), "{state:?}");
    }
    let sold_out = later(&shelf, |facts| (facts.revision, facts.state) = (5, EventState::SoldOut));
    let OfferOutcome::InTheWay(found) =
        shelf.inventory.offer(&sold_out, cat, &offer_of(&[0], &[])).await.expect("Redis answers")
    else {
        panic!("cat has a basket")
    };
    assert_eq!((found.id, found.is_offer), (basket.id, false));

    let OfferOutcome::Offered(offer) =
        shelf.inventory.offer(&sold_out, bob, &offer_of(&[0, 30], &[(1, 2)])).await.expect("Redis answers")
    else {
        panic!("kept, and free of other wishes")
    };
    assert!(offer.is_offer && seats_of(&offer) == [0, 30] && offer.lines.len() == 3, "{offer:?}");
    assert_eq!((offer.lines[0].price_minor, offer.lines[1].price_minor), (4500, 2000), "each at its tier");
    let life_ms = offer.expires_ms - shelf.now_ms();
    assert!((50_000..=60_000).contains(&life_ms), "{life_ms}");
    assert_eq!(shelf.kept_seats().await, [1]);
    let again = shelf.inventory.offer(&sold_out, bob, &offer_of(&[1], &[])).await.expect("Redis answers");
    assert_eq!(again, OfferOutcome::InTheWay(offer.clone()), "asked again it is the offer that was made");
    let second = shelf.inventory.offer(&sold_out, ann, &offer_of(&[0, 1], &[])).await.expect("Redis answers");
    assert_eq!(second, taken(&[0]), "never live for two");

    let longer = shelf.extend(bob, offer.id).await;
    assert_eq!(longer, ChangeOutcome::Refused(Refusal::ExtendRefused { is_offer: true }), "others wait behind it");

    let client = shelf.plain_client().await;
    shelf.pass_ms(&client, 61_000).await;
    client.quit().await.expect("quits");
    let swept = shelf.inventory.sweep(&sold_out).await.expect("Redis answers");
    assert_eq!(swept.expired.iter().map(|hold| hold.id).collect::<Vec<_>>(), [offer.id]);
    assert_eq!(shelf.kept_seats().await, [0, 1, 30], "kept again");
    assert_eq!(shelf.inventory.kept(&shelf.event).await.expect("Redis answers").places, [0, 2]);
    assert_eq!(&shelf.map().await[..2], "11");
    let gone = shelf.inventory.extend(shelf.caller(bob), offer.id).await.expect("Redis answers").outcome;
    assert_eq!(gone, ChangeOutcome::Refused(Refusal::HoldExpired));
}

#[tokio::test]
async fn an_area_gets_more_places_and_loses_only_those_nobody_has() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.hold_area(ann, 0, 2).await;
    let order = OrderId::generate();
    shelf.inventory.sell(&shelf.event, order, bob, &[(Place::Area(AreaIndex(0)), 1)]).await.expect("Redis answers");
    let (_, mut seq) = shelf.position().await;
    // Places asked for; places somebody has; what is left then; whether it was published.
    for (wanted, taken, left, is_published) in [(2, 3, 2, false), (3, 3, 0, true), (3, 3, 0, false), (9, 3, 0, false)] {
        let answer = shelf.inventory.shrink_area(&shelf.event, AreaIndex(0), wanted).await.expect("Redis answers");
        seq += u64::from(is_published);
        assert_eq!((answer.outcome, answer.position.seq), (taken, seq), "{wanted}");
        assert_eq!(shelf.areas().await, [left, 100], "{wanted}");
        if is_published {
            assert_eq!(shelf.published(seq).await.areas, [(AreaIndex(0), left)]);
        }
    }
    assert_eq!(shelf.hold_area(bob, 0, 1).await, HoldOutcome::Refused(Refusal::AreaFull { remaining: 0 }));

    // Told as Postgres has it: absolute, twice is once, and nothing from whoever knows less.
    let more = later(&shelf, |facts| (facts.areas[0].capacity, facts.areas[1].capacity) = (8, 60));
    for _ in 0..2 {
        shelf.inventory.configure(&more).await.expect("Redis answers");
        assert_eq!((shelf.areas().await, shelf.position().await.1), (vec![5, 60], seq + 1));
    }
    let mut told = shelf.published(seq + 1).await.areas;
    told.sort_unstable();
    assert_eq!(told, [(AreaIndex(0), 5), (AreaIndex(1), 60)]);
    shelf.inventory.configure(&shelf.event).await.expect("Redis answers");
    shelf.inventory.open(&more).await.expect("Redis answers");
    assert_eq!(
        (shelf.areas().await, shelf.position().await.1),
        (vec![5, 60], seq + 1),
        "an older revision undoes nothing"
    );

    // Below what is taken it stands at nothing until some come back.
    let hold = shelf.open_hold(ann).await.expect("open");
    let less = later(&shelf, |facts| (facts.revision, facts.areas[0].capacity, facts.areas[1].capacity) = (3, 2, 60));
    shelf.inventory.configure(&less).await.expect("Redis answers");
    assert_eq!(shelf.areas().await, [0, 60]);
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    assert_eq!(shelf.areas().await, [1, 60], "two places, one of them sold");
}

#[tokio::test]
async fn new_places_are_for_those_who_wait_and_kept_ones_may_go_again() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.hold_area(ann, 0, 5).await;
    shelf.keep(true).await;
    let (_, before) = shelf.position().await;
    let more = later(&shelf, |facts| facts.areas[0].capacity = 9);
    shelf.inventory.configure(&more).await.expect("Redis answers");
    let kept = async || shelf.inventory.kept(&shelf.event).await.expect("Redis answers").places;
    assert_eq!((shelf.areas().await, kept().await, shelf.position().await.1), (vec![0, 100], vec![4, 0], before));
    let answer = shelf.inventory.shrink_area(&more, AreaIndex(0), 7).await.expect("Redis answers");
    assert_eq!((answer.outcome, kept().await, shelf.areas().await), (5, vec![2, 0], vec![0, 100]));
    let answer = shelf.inventory.shrink_area(&more, AreaIndex(0), 4).await.expect("Redis answers");
    assert_eq!((answer.outcome, kept().await), (5, vec![2, 0]), "five are held");
    let offered = shelf.inventory.offer(&more, IdentityId::generate(), &offer_of(&[], &[(0, 2)])).await;
    assert!(matches!(offered, Ok(OfferOutcome::Offered(_))), "{offered:?}");
}

#[tokio::test]
async fn a_life_that_does_not_know_how_many_places_its_areas_have_is_rebuilt() {
    let shelf = Shelf::new().await;
    shelf.map().await;
    let client = shelf.plain_client().await;
    let key = format!("{{{}}}:1:z", shelf.event.id);
    let _: u64 = fred::interfaces::KeysInterface::del(&client, key).await.expect("Redis answers");
    let more = later(&shelf, |facts| facts.areas[0].capacity = 9);
    shelf.inventory.configure(&more).await.expect("Redis answers");
    assert_eq!((shelf.position().await.0, shelf.areas().await), (2, vec![9, 100]));
}
