//! What is kept for those who wait until it fits somebody: seen as held, through any loss, and for everyone in the end.

use super::waitlist::{SoldOut, seats};
use super::{Viewer, code};
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::Draft;
use serde_json::{Value, json};

#[tokio::test]
async fn what_is_kept_survives_the_loss_of_redis_and_of_every_node() {
    let mut sold_out = SoldOut::new(&[]).await;
    // One seat fits nobody who wants two: it stays kept.
    let (client, guest) = sold_out.waiter(json!({"quantity": 2})).await;
    drop(client);
    sold_out.unblock(&[2]).await;
    let path = format!("/v1/admin/events/{}", sold_out.event);
    eventually("the seat is kept", async || {
        let (_, body) = sold_out.admin.call("GET", &path, Value::Null).await;
        (body["stock"]["kept_for_waitlist"] == 1).then_some(())
    })
    .await;
    sold_out.nodes.clear();
    sold_out.stage.redis.kill();
    sold_out.stage.redis.restart().await;
    sold_out.nodes = vec![sold_out.stage.node().await, sold_out.stage.node().await];
    sold_out.admin.url = sold_out.nodes[0].admin_url.clone();
    let mut viewer = Viewer::of(&sold_out.nodes[0].url, &sold_out.event).await;
    assert_eq!(viewer.map.states, [2, 2, 1, 3], "kept, and shown as held");
    let mut client = Client::hello(&sold_out.nodes[1].url, Some(&guest.token)).await;
    sold_out.unblock(&[3]).await;
    let offer = client.push("waitlist.offer").await;
    assert_eq!(seats(&offer["hold"]), [2, 3], "{offer}");
    viewer.until("the offer", |map| map.states == [2, 2, 1, 1]).await;
    // Given back before its time, it goes on; with nobody left it is for everyone.
    let given = client.call("release", json!({"key": "r", "hold": offer["hold"]["id"]})).await;
    assert_eq!(code(&given), "ok", "{given}");
    viewer.until("the seats are for everyone", |map| map.states == [2, 2, 0, 0]).await;
    sold_out.until_state("on_sale").await;
}

#[tokio::test]
async fn what_fits_nobody_goes_on_the_map_after_a_while() {
    let sold_out = SoldOut::new(&[("SEATWIRE_WAITLIST_KEEP_MS", "1500")]).await;
    let (_client, guest) = sold_out.waiter(json!({"quantity": 2, "price_tiers": ["B"]})).await;
    let mut viewer = Viewer::of(&sold_out.nodes[0].url, &sold_out.event).await;
    sold_out.unblock(&[2]).await;
    viewer.until("kept for the one who wants two", |map| map.states[2] == 1).await;
    viewer.until("given up", |map| map.states[2] == 0).await;
    let (mut buyer, _) = Client::guest(&sold_out.nodes[1].url).await;
    let mut attempt = 0;
    let held = loop {
        attempt += 1;
        let body = json!({"key": format!("k{attempt}"), "event": sold_out.event, "seats": [2]});
        let reply = buyer.call("hold", body).await;
        if code(&reply) == "ok" {
            break reply;
        }
        assert!(matches!(code(&reply), "sold_out" | "rate_limited") && attempt < 1_000, "{reply}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(seats(&held["hold"]), [2]);
    let (_, place) = sold_out.place(&guest).await;
    assert_eq!(place["place"]["place"], 1, "the place stays: {place}");
}

#[tokio::test]
async fn a_seat_whose_tier_nobody_wants_goes_on_the_map_at_once() {
    let settings = [("SEATWIRE_WAITLIST_KEEP_MS", "600000")];
    let sold_out = SoldOut::with(vec![2, 2], &[1, 3], &settings).await;
    let (mut client, _) = sold_out.waiter(json!({"quantity": 1, "price_tiers": ["B"]})).await;
    let mut viewer = Viewer::of(&sold_out.nodes[0].url, &sold_out.event).await;
    sold_out.unblock(&[1]).await;
    viewer.until("nobody waits for tier A", |map| map.states[1] == 0).await;
    assert!(!client.has_push("waitlist.offer"));
    sold_out.unblock(&[3]).await;
    assert_eq!(seats(&client.push("waitlist.offer").await["hold"]), [3]);
}

#[tokio::test]
async fn seats_for_wheelchair_users_and_companions_are_offered_to_nobody_and_go_on_the_map_at_once() {
    let settings = [("SEATWIRE_WAITLIST_KEEP_MS", "600000")];
    let (accessible, companion) = (vec![3], vec![4]);
    let draft = Draft { rows: vec![6], blocked: vec![2, 3, 4], accessible, companion, ..Draft::default() };
    let mut sold_out = SoldOut::of(draft, &settings).await;
    let (mut one, _) = sold_out.waiter(json!({"quantity": 1})).await;
    let (two, _) = sold_out.waiter(json!({"quantity": 2})).await;
    let mut viewer = Viewer::of(&sold_out.nodes[0].url, &sold_out.event).await;
    sold_out.unblock(&[4]).await;
    viewer.until("the companion seat is on the map", |map| map.states[4] == 0).await;
    sold_out.unblock(&[2, 3]).await;
    viewer.until("the accessible seat is on the map", |map| map.states[3..5] == [0, 0]).await;
    assert_eq!(seats(&one.push("waitlist.offer").await["hold"]), [2], "an ordinary seat");
    assert!(!two.has_push("waitlist.offer"), "two are free, but not for anybody");
    sold_out.until_state("on_sale").await;
    let (mut buyer, _) = Client::guest(&sold_out.nodes[1].url).await;
    let wish = json!({"key": "k", "event": sold_out.event, "quantity": 2, "accessible": 1});
    assert_eq!(seats(&buyer.call("hold_best", wish).await["hold"]), [3, 4]);
}

#[tokio::test]
async fn nothing_stays_kept_for_a_list_that_is_empty_or_switched_off() {
    let sold_out = SoldOut::new(&[("SEATWIRE_WAITLIST_KEEP_MS", "600000")]).await;
    let path = format!("/v1/admin/events/{}", sold_out.event);
    let stock = async |kept: u32, available: u32| {
        eventually("the stock", async || {
            let (_, body) = sold_out.admin.call("GET", &path, Value::Null).await;
            let stock = &body["stock"];
            (stock["kept_for_waitlist"] == kept && stock["available"] == available).then_some(())
        })
        .await;
    };
    let (_staying, _guest) = sold_out.waiter(json!({"quantity": 2})).await;
    sold_out.unblock(&[2]).await;
    stock(1, 0).await;
    sold_out.admin.done("PATCH", &path, json!({"waitlist": false})).await;
    stock(0, 1).await;
    sold_out.admin.done("PATCH", &path, json!({"waitlist": true})).await;

    let sold_out = SoldOut::new(&[("SEATWIRE_WAITLIST_KEEP_MS", "600000")]).await;
    let path = format!("/v1/admin/events/{}", sold_out.event);
    let (mut client, _) = sold_out.waiter(json!({"quantity": 2})).await;
    let left = client.call("waitlist_leave", json!({"key": "l", "event": sold_out.event})).await;
    assert_eq!(code(&left), "ok", "{left}");
    sold_out.unblock(&[2, 3]).await;
    eventually("what is free is for everyone", async || {
        let (_, body) = sold_out.admin.call("GET", &path, Value::Null).await;
        let stock = &body["stock"];
        (stock["kept_for_waitlist"] == 0 && stock["available"] == 2).then_some(())
    })
    .await;
    eventually("nobody looks at it any more", async || {
        let counted: i64 = sqlx::query_scalar("select count(*) from waitlist_keepings")
            .fetch_one(sold_out.stage.store.pool())
            .await
            .expect("a count");
        (counted == 0).then_some(())
    })
    .await;
}
