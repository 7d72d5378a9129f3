//! States of an event: paused, closed, cancelled by the organiser, opened by time, sold out by the stock.

use super::{Viewer, code};
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use seatwire::clock::Clock;
use seatwire::organiser::Scope;
use serde_json::json;

#[tokio::test]
async fn a_pause_keeps_holds_and_refuses_new_ones() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events]).await;
    let path = format!("/v1/admin/events/{event}/state");
    let mut viewers = [Viewer::of(&first.url, &event).await, Viewer::of(&second.url, &event).await];
    let (mut buyer, _) = Client::guest(&second.url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    admin.done("PUT", &path, json!({"state": "paused", "reason": "the stage is being checked"})).await;
    let refused = buyer.call("hold", json!({"key": "2", "event": event, "seats": [2]})).await;
    assert_eq!((code(&refused), &refused["error"]["retry"]), ("paused", &json!("after")), "{refused}");
    for viewer in &mut viewers {
        let push = viewer.client.push("event.state").await;
        assert_eq!(
            (&push["event"], &push["state"], &push["reason"]),
            (&json!(event), &json!("paused"), &json!("the stage is being checked")),
            "{push}"
        );
    }
    // Whoever comes now reads the same.
    let guest = Guest::new(&second.url).await;
    let page = async || guest.get(&format!("/v1/events/{event}")).await.1;
    eventually("the page says why", async || {
        let page = page().await;
        ((&page["state"], &page["reason"]) == (&json!("paused"), &json!("the stage is being checked"))).then_some(())
    })
    .await;
    let longer = buyer.call("extend", json!({"key": "3", "hold": held["hold"]["id"]})).await;
    assert_eq!(code(&longer), "ok", "the basket is still there: {longer}");
    admin.done("PUT", &path, json!({"state": "on_sale"})).await;
    let more = buyer.call("hold", json!({"key": "4", "event": event, "seats": [2]})).await;
    assert_eq!(code(&more), "ok", "{more}");
    for viewer in &mut viewers {
        let push = viewer.client.push("event.state").await;
        assert_eq!((&push["state"], push.get("reason")), (&json!("on_sale"), None), "{push}");
    }
    eventually("the page forgets why", async || {
        let page = page().await;
        (page["state"] == "on_sale" && page.get("reason").is_none()).then_some(())
    })
    .await;
    let (status, answer) = admin.call("PUT", &path, json!({"state": "sold_out"})).await;
    assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!("/state")), "{answer}");
    let (status, answer) = admin.call("PUT", &path, json!({"state": "paused", "reason": "x".repeat(201)})).await;
    assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!("/reason")), "{answer}");
}

#[tokio::test]
async fn cancelling_ends_open_holds_truthfully_and_pays_back() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events]).await;
    let path = format!("/v1/admin/events/{event}/state");
    let mut viewer = Viewer::of(&second.url, &event).await;
    let (mut payer, _) = Client::guest(&second.url).await;
    let held = payer.call("hold", json!({"key": "1", "event": event, "seats": [100]})).await;
    assert_eq!(payer.pay(&held["hold"]).await["state"], "paid");
    let mut buyers = Vec::new();
    for seat in 0..70 {
        let (mut buyer, _) = Client::guest(&second.url).await;
        let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [seat]})).await;
        assert_eq!(code(&held), "ok", "{held}");
        buyers.push((buyer, held["hold"]["id"].clone()));
    }
    admin.done("PUT", &path, json!({"state": "cancelled"})).await;
    for (buyer, hold) in &mut buyers {
        let push = buyer.push("hold.revoked").await;
        assert_eq!((&push["hold"]["id"], &push["reason"]), (&*hold, &json!("cancelled")), "{push}");
        let push = buyer.push_where("hold.update", |push| push["hold"].is_null()).await;
        assert_eq!(push["id"], *hold);
    }
    let (buyer, hold) = &mut buyers[0];
    let refused = buyer.call("hold", json!({"key": "2", "event": event, "seats": [80]})).await;
    assert_eq!(code(&refused), "not_on_sale", "{refused}");
    let gone = buyer.call("extend", json!({"key": "3", "hold": hold})).await;
    assert_eq!(code(&gone), "hold_expired", "{gone}");
    viewer.until("the seats are free", |map| map.states[..70].iter().all(|state| *state == 0)).await;
    // Its money goes back by itself, and then its seat is nobody's.
    viewer.until("the refunded seat is free", |map| map.states[100] == 0).await;
    let (status, answer) = admin.call("PUT", &path, json!({"state": "on_sale"})).await;
    assert_eq!(status, 400, "{answer}");
}

#[tokio::test]
async fn closing_lets_nobody_begin_and_breaks_no_basket_and_no_order() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events]).await;
    let settings = format!("/v1/admin/events/{event}");
    let path = format!("{settings}/state");
    let mut viewer = Viewer::of(&second.url, &event).await;
    let (mut early, _) = Client::guest(&second.url).await;
    let held = early.call("hold", json!({"key": "1", "event": event, "seats": [100]})).await;
    let paid = early.pay(&held["hold"]).await;
    assert_eq!(paid["state"], "paid", "{paid}");
    let (mut payer, _) = Client::guest(&second.url).await;
    let to_pay = payer.call("hold", json!({"key": "1", "event": event, "seats": [1, 2]})).await;
    admin.done("PATCH", &settings, json!({"rules": {"hold_ttl_ms": 3_000}})).await;
    let (mut idler, _) = Client::guest(&second.url).await;
    let idle = idler.call("hold", json!({"key": "1", "event": event, "seats": [3]})).await;
    assert_eq!(code(&idle), "ok", "{idle}");
    admin.done("PUT", &path, json!({"state": "closed"})).await;
    assert_eq!(viewer.client.push_where("event.state", |push| push["state"] == "closed").await["event"], event);

    let (mut late, _) = Client::guest(&second.url).await;
    for client in [&mut payer, &mut late] {
        let refused = client.call("hold", json!({"key": "2", "event": event, "seats": [50]})).await;
        assert_eq!(code(&refused), "not_on_sale", "nobody begins, and nothing is added: {refused}");
    }
    let longer = payer.call("extend", json!({"key": "3", "hold": to_pay["hold"]["id"]})).await;
    assert_eq!((code(&longer), &longer["hold"]["lines"]), ("ok", &to_pay["hold"]["lines"]), "{longer}");
    let some = json!({"key": "4", "hold": to_pay["hold"]["id"], "seats": [2]});
    let less = payer.call("release", some).await;
    assert_eq!(code(&less), "ok", "{less}");
    assert_eq!(payer.pay(&less["hold"]).await["state"], "paid");
    // The other one runs out by itself, as any basket does, and everything is free that is not sold.
    assert_eq!(idler.push("hold.expired").await["hold"]["id"], idle["hold"]["id"]);
    for client in [&payer, &idler] {
        assert!(!client.has_push("hold.revoked"));
    }
    viewer.until("free but for what is sold", |map| map.states[..4] == [0, 2, 0, 0] && map.states[100] == 2).await;
    let order = early.call("order", json!({"order": paid["id"]})).await;
    assert_eq!(order["order"]["state"], "paid", "{order}");
    admin.done("PUT", &path, json!({"state": "on_sale"})).await;
}

#[tokio::test]
async fn time_opens_the_presale_and_the_sale_by_itself() {
    let now_ms = Clock::system().now_ms();
    let far_ms = now_ms + 3_600_000;
    let draft = Draft { state: seatwire_proto::server::EventState::Scheduled, on_sale_ms: far_ms, ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events]).await;
    let mut viewer = Viewer::of(&second.url, &event).await;
    let (mut buyer, _) = Client::guest(&second.url).await;
    let refused = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    assert_eq!((code(&refused), &refused["error"]["data"]["on_sale_ms"]), ("not_on_sale", &json!(far_ms)), "{refused}");
    let soon_ms = Clock::system().now_ms() + 1_200;
    let times = json!({"presale_ms": soon_ms - 600, "on_sale_ms": soon_ms});
    admin.done("PATCH", &format!("/v1/admin/events/{event}"), times).await;
    let mut push = viewer.client.push("event.state").await;
    if push["state"] == "scheduled" {
        // The new times, told before they came.
        push = viewer.client.push("event.state").await;
    }
    assert!(matches!(push["state"].as_str(), Some("presale" | "on_sale")), "{push}");
    if push["state"] == "presale" {
        assert_eq!(viewer.client.push("event.state").await["state"], "on_sale");
    }
    assert!(Clock::system().now_ms() >= soon_ms, "not before its time");
    let held = buyer.call("hold", json!({"key": "2", "event": event, "seats": [1]})).await;
    assert_eq!(code(&held), "ok", "the shelf knows as well: {held}");
}

#[tokio::test]
async fn the_last_seat_sold_says_sold_out_and_a_freed_one_takes_it_back() {
    let draft = Draft { rows: vec![2], areas: vec![1], ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Inventory]).await;
    let mut viewers = [Viewer::of(&first.url, &event).await, Viewer::of(&second.url, &event).await];
    let guest = Guest::new(&second.url).await;
    let mut buyer = Client::hello(&second.url, Some(&guest.token)).await;
    admin.done("POST", &format!("/v1/admin/events/{event}/block"), json!({"seats": [0]})).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    assert_eq!(
        code(&buyer.call("hold_area", json!({"key": "2", "event": event, "area": 0, "quantity": 1})).await),
        "ok"
    );
    let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": 2000 + 4750});
    let paid = buyer.call("checkout", body).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    for viewer in &mut viewers {
        assert_eq!(viewer.client.push("event.state").await["state"], "sold_out");
    }
    let refused = buyer.call("hold", json!({"key": "3", "event": event, "seats": [1]})).await;
    assert_eq!(code(&refused), "sold_out", "{refused}");
    admin.done("POST", &format!("/v1/admin/events/{event}/unblock"), json!({"seats": [0]})).await;
    let (mut other, _) = Client::guest(&second.url).await;
    let held = other.call("hold", json!({"key": "1", "event": event, "seats": [0]})).await;
    assert_eq!(code(&held), "ok", "at once: {held}");
    other.call("release", json!({"key": "2", "hold": held["hold"]["id"]})).await;
    for viewer in &mut viewers {
        assert_eq!(viewer.client.push("event.state").await["state"], "on_sale");
    }
    eventually("the page says so", async || {
        let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
        (page["state"] == "on_sale").then_some(())
    })
    .await;
}
