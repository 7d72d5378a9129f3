//! Who waits is offered what becomes free by one chance at a time, also when Redis dies with the offers and a node dies with
//! the list's lock: what two people were told never overlaps.

use super::audit;
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use parking_lot::Mutex;
use seatwire::clock::Clock;
use seatwire::organiser::Scope;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// People on the list; each lets most of its offers lapse and joins again.
const WAITERS: usize = 8;
/// Seats that go round among them.
const SEATS: [u32; 3] = [4, 5, 6];
const OFFER_MS: &str = "2000";
/// An offer made so shortly before Redis died may be unknown to the journal: then it is over, and its owner is told.
const JOURNAL_MS: u64 = 1_000;
/// A push is a hint and may be lost with Redis; then whoever waits asks again.
const PUSH_WITHIN: Duration = Duration::from_secs(6);
/// Offers before, between and after the faults.
const ROUNDS: usize = 5;

/// One offer as its owner was told: of a seat, in a life, from when to when.
#[derive(Debug, Clone)]
struct Offered {
    seat: u64,
    hold: String,
    from_ms: u64,
    until_ms: u64,
}

type Offers = Arc<Mutex<Vec<Offered>>>;

/// Redis dies and begins anew; between which two moments it died.
async fn lose_redis(stage: &mut Stage) -> (u64, u64) {
    let from_ms = Clock::system().now_ms();
    stage.redis.kill();
    let until_ms = Clock::system().now_ms();
    stage.redis.restart().await;
    (from_ms, until_ms)
}

/// Waits at the list for ever: an offer is written down, and when it is over the place is taken anew.
async fn wait(url: String, event: String, offers: Offers) {
    let guest = Guest::new(&url).await;
    loop {
        let mut client = Client::hello(&url, Some(&guest.token)).await;
        // Until the old place is over, joining changes that one.
        eventually("a new place", || async {
            let key = format!("j{}", rand::random::<u64>());
            let path = format!("/v1/events/{event}/waitlist");
            let (_, answer) = guest.post(&path, &key, json!({"quantity": 1})).await;
            (answer["place"]["state"] == "waiting").then_some(())
        })
        .await;
        let Ok(offer) = tokio::time::timeout(PUSH_WITHIN, client.push("waitlist.offer")).await else { continue };
        let hold = &offer["hold"];
        let ms = |name: &str| hold[name].as_u64().expect("a time");
        offers.lock().push(Offered {
            seat: hold["lines"][0]["seat"].as_u64().expect("a seat"),
            hold: hold["id"].as_str().expect("an id").to_owned(),
            from_ms: ms("server_ms"),
            until_ms: ms("expires_ms"),
        });
        // Until it is over, whatever ends it.
        eventually("the offer to end", || async {
            let (_, answer) = guest.get(&format!("/v1/holds/{}", hold["id"].as_str()?)).await;
            let code = answer["error"]["code"].as_str()?;
            ["hold_expired", "hold_not_found"].contains(&code).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_is_live_for_one_person_also_when_redis_and_a_node_die() {
    let draft =
        Draft { rows: vec![4, 4], areas: vec![], blocked: SEATS.to_vec(), has_waitlist: true, ..Draft::default() };
    let (mut stage, event) = Stage::with_event(&draft).await;
    let settings = [("SEATWIRE_OFFER_MS", OFFER_MS)];
    let (mortal, node) = tokio::join!(stage.node_with(&settings), stage.node_with(&settings));
    let admin = Admin::new(&stage, &node, &[Scope::Inventory]).await;
    let mut buyer = Client::guest(&node.url).await.0;
    let rest: Vec<u32> = (0..8).filter(|seat| !SEATS.contains(seat)).collect();
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": rest})).await;
    let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": held["hold"]["total_minor"]});
    assert_eq!(buyer.call("checkout", body).await["order"]["state"], "paid");
    let guest = Guest::new(&node.url).await;
    eventually("the event to be sold out", || async {
        let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
        (page["state"] == "sold_out").then_some(())
    })
    .await;

    let offers = Offers::default();
    let waiters: Vec<_> =
        (0..WAITERS).map(|_| tokio::spawn(wait(node.url.clone(), event.clone(), offers.clone()))).collect();
    eventually("everybody to wait", || async {
        let count = "select count(*) from waitlist_places";
        let n: i64 = sqlx::query_scalar(count).fetch_one(stage.store.pool()).await.expect("counts");
        (n >= WAITERS as i64).then_some(())
    })
    .await;
    let path = format!("/v1/admin/events/{event}/unblock");
    eventually("the seats to be unblocked", || async {
        let (status, _) = admin.call("POST", &path, json!({"seats": SEATS})).await;
        (status == 200).then_some(())
    })
    .await;
    let more = async |what: &str| {
        let goal = offers.lock().len() + ROUNDS;
        eventually(what, || async { (offers.lock().len() >= goal).then_some(()) }).await;
    };
    // Somebody who does not wait asks all the time, and is refused.
    let passer_by = tokio::spawn({
        let (url, event) = (node.url.clone(), event.clone());
        async move {
            let guest = Guest::new(&url).await;
            for n in 0u64.. {
                let seat = SEATS[n as usize % SEATS.len()];
                let body = json!({"seats": [seat]});
                let (_, answer) = guest.post(&format!("/v1/events/{event}/holds"), &format!("p{n}"), body).await;
                assert!(answer["hold"].is_null(), "nobody is faster than who waits: {answer}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let mut losses_ms = Vec::new();
    more("offers").await;
    losses_ms.push(lose_redis(&mut stage).await);
    more("offers after the loss of Redis").await;
    mortal.signal("KILL");
    mortal.ended().await;
    more("offers after the death of a node").await;
    losses_ms.push(lose_redis(&mut stage).await);
    more("offers after another loss").await;
    assert!(!passer_by.is_finished(), "{:?}", passer_by.await);
    passer_by.abort();

    for seat in SEATS {
        let mut mine: Vec<Offered> =
            offers.lock().iter().filter(|offer| offer.seat == u64::from(seat)).cloned().collect();
        mine.sort_by_key(|offer| offer.from_ms);
        for pair in mine.windows(2) {
            let [one, next] = pair else { continue };
            let was_lost = losses_ms.iter().any(|&(from_ms, until_ms)| {
                one.from_ms + JOURNAL_MS > from_ms && one.from_ms <= until_ms && next.from_ms >= from_ms
            });
            assert!(
                was_lost || one.hold == next.hold || next.from_ms >= one.until_ms,
                "I17: seat {seat} was offered to two: {pair:?}"
            );
        }
    }
    for waiter in waiters {
        assert!(!waiter.is_finished(), "{:?}", waiter.await);
        waiter.abort();
    }
    audit::clean(&stage, &event).await;
}
