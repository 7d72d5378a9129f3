//! Taking seats and giving them back.

use super::shelf::{Shelf, indices, refused, seats_of};
use seatwire::inventory::{ChangeOutcome, HoldOutcome, Refusal, ReleaseWhat};
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::{SeatIndex, SeatState};

#[tokio::test]
async fn a_hold_is_seen_by_everyone_and_its_release_too() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    assert_eq!(shelf.map().await, "0000000000000000000000000000030000000000");
    assert_eq!(shelf.position().await, (1, 0));

    let hold = shelf.held(ann, &[3, 4]).await;
    assert_eq!(seats_of(&hold), [3, 4]);
    assert_eq!((hold.lines[0].price_minor, hold.lines[0].fee_minor, hold.lines[0].quantity), (4500, 250, 1));
    assert_eq!(shelf.position().await, (1, 1));
    let change = shelf.published(1).await;
    assert_eq!(change.seats, [(SeatIndex(3), SeatState::Held), (SeatIndex(4), SeatState::Held)]);
    assert_eq!(shelf.map().await, "0001100000000000000000000000030000000000");
    assert_eq!(shelf.open_hold(ann).await.as_ref(), Some(&hold));

    let outcome = shelf.release(ann, hold.id, ReleaseWhat::Parts { seats: indices(&[3]), areas: vec![] }).await;
    let ChangeOutcome::Done(Some(rest)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(seats_of(&rest), [4]);
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, ChangeOutcome::Done(None));
    assert_eq!(shelf.published(3).await.seats, [(SeatIndex(4), SeatState::Available)]);
    assert_eq!(shelf.map().await, "0000000000000000000000000000030000000000");
    assert_eq!(shelf.position().await, (1, 3));
    let since = shelf.inventory.changes_since(&shelf.event, 1, 1).await.expect("Redis answers").expect("all there");
    assert_eq!(since.iter().map(|change| change.seq).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn a_hundred_racing_buyers_of_one_seat_get_exactly_one_hold() {
    let shelf = std::sync::Arc::new(Shelf::new().await);
    let other = shelf.another_node().await;
    let mut racers = tokio::task::JoinSet::new();
    for n in 0..100 {
        let (shelf, other) = (shelf.clone(), other.clone());
        racers.spawn(async move {
            let node = if n % 2 == 0 { &shelf.inventory } else { &other };
            node.hold(shelf.caller(IdentityId::generate()), &indices(&[12])).await.expect("Redis answers").outcome
        });
    }
    let outcomes = racers.join_all().await;
    let winners = outcomes.iter().filter(|outcome| matches!(outcome, HoldOutcome::Held { .. })).count();
    assert_eq!(winners, 1);
    for outcome in outcomes {
        if let HoldOutcome::Refused(refusal) = outcome {
            assert_eq!(refusal, Refusal::SeatTaken(indices(&[12])));
        }
    }
}

#[tokio::test]
async fn all_seats_or_none() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[5]).await;
    assert_eq!(refused(shelf.hold(bob, &[4, 5, 29]).await), Refusal::SeatTaken(indices(&[5, 29])));
    assert_eq!(shelf.open_hold(bob).await, None);
    assert_eq!(&shelf.map().await[..7], "0000010");
}
