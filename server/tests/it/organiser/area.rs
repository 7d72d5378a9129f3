//! How many places an area has, changed while it sells: seen on two nodes, offered to those who wait, the same in a new
//! life, and never fewer than somebody has.

use super::{Viewer, code};
use crate::checkout::till::Till;
use crate::fault::audit::clean;
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use seatwire::organiser::{Operator, Scope};
use seatwire::store::event_change;
use seatwire_proto::id::EventId;
use seatwire_proto::seat::AreaIndex;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn an_area_grows_and_shrinks_for_everyone_but_never_below_what_is_taken() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Inventory, Scope::Read]).await;
    let path = format!("/v1/admin/events/{event}/areas");
    let mut viewers = [Viewer::of(&first.url, &event).await, Viewer::of(&second.url, &event).await];
    let guest = Guest::new(&second.url).await;
    let mut buyer = Client::hello(&second.url, Some(&guest.token)).await;
    let places = |key: &str, quantity: u32| json!({"key": key, "event": event, "area": 0, "quantity": quantity});
    let held = buyer.call("hold_area", places("1", 4)).await;
    let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": held["hold"]["total_minor"]});
    assert_eq!(buyer.call("checkout", body).await["order"]["state"], "paid");
    assert_eq!(code(&buyer.call("hold_area", places("2", 3)).await), "ok");

    let (status, refused) = admin.call("PUT", &path, json!({"area": 0, "capacity": 6})).await;
    let error = &refused["error"];
    assert_eq!(
        (status, &error["code"], &error["data"]),
        (409, &json!("area_full"), &json!({"taken": 7, "remaining": 43}))
    );
    assert!(error["message"].as_str().is_some_and(|text| text.starts_with("7 places are held")), "{error}");
    let answer = admin.done("PUT", &path, json!({"area": 0, "capacity": 7})).await;
    assert_eq!(answer, json!({"area": 0, "capacity": 7, "remaining": 0}));
    for viewer in &mut viewers {
        viewer.until("the area to be full", |map| map.areas == [0]).await;
    }
    let full = buyer.call("hold_area", places("3", 1)).await;
    assert_eq!((code(&full), &full["error"]["data"]["remaining"]), ("area_full", &json!(0)), "{full}");
    for _ in 0..2 {
        let answer = admin.done("PUT", &path, json!({"area": 0, "capacity": 9})).await;
        assert_eq!(answer, json!({"area": 0, "capacity": 9, "remaining": 2}), "twice is once");
    }
    for viewer in &mut viewers {
        viewer.until("the new places", |map| map.areas == [2]).await;
    }
    assert_eq!(code(&buyer.call("hold_area", places("4", 1)).await), "ok");
    eventually("the page shows it", async || {
        let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
        (page["areas"][0]["capacity"] == 9 && page["areas"][0]["remaining"] == 1).then_some(())
    })
    .await;
    clean(&stage, &event).await;

    // A new life has what Postgres says.
    stage.redis.kill();
    stage.redis.restart().await;
    let mut fresh = eventually("the inventory is back", async || {
        let (status, _) = guest.get(&format!("/v1/events/{event}/snapshot?format=json")).await;
        if status == 200 { Some(Viewer::of(&second.url, &event).await) } else { None }
    })
    .await;
    fresh.until("the place that is left", |map| map.areas == [1]).await;
    clean(&stage, &event).await;
    let log = admin.done("GET", &format!("/v1/admin/events/{event}/log"), Value::Null).await;
    assert_eq!(log["items"][2]["detail"], json!({"area": 0, "from": 50, "to": 7}), "{log}");

    for (body, wanted) in [
        (json!({"area": 0, "capacity": -1}), ("bad_field", "/capacity")),
        (json!({"area": 0, "capacity": 10_000_001}), ("bad_field", "/capacity")),
        (json!({"area": 0, "capacity": 2.5}), ("bad_field", "/capacity")),
        (json!({"area": 0}), ("bad_field", "/capacity")),
        (json!({"area": "x", "capacity": 9}), ("bad_field", "/area")),
        (json!({"area": 0, "capacity": 9, "name": "x"}), ("bad_field", "/name")),
        (json!({"area": 1, "capacity": 9}), ("seat_unknown", "")),
    ] {
        let (status, answer) = admin.call("PUT", &path, body.clone()).await;
        let error = &answer["error"];
        let path = error["data"]["path"].as_str().unwrap_or_default();
        assert_eq!(
            (status, error["code"].as_str().unwrap_or_default(), path),
            (400, wanted.0, wanted.1),
            "{body}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_places_go_to_those_who_wait_before_anybody_sees_them() {
    let draft = Draft { rows: vec![1], areas: vec![2], has_waitlist: true, ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Inventory]).await;
    let mut buyer = Client::guest(&first.url).await.0;
    buyer.call("hold", json!({"key": "1", "event": event, "seats": [0]})).await;
    let held = buyer.call("hold_area", json!({"key": "2", "event": event, "area": 0, "quantity": 2})).await;
    let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": held["hold"]["total_minor"]});
    assert_eq!(buyer.call("checkout", body).await["order"]["state"], "paid");
    let guest = Guest::new(&second.url).await;
    let mut waiter = Client::hello(&second.url, Some(&guest.token)).await;
    let joined = eventually("the sell-out", async || {
        let path = format!("/v1/events/{event}/waitlist");
        let (status, answer) = guest.post(&path, "j", json!({"quantity": 2})).await;
        (status == 201).then_some(answer)
    })
    .await;
    assert_eq!(joined["place"]["state"], "waiting", "{joined}");
    let mut viewer = Viewer::of(&second.url, &event).await;
    admin.done("PUT", &format!("/v1/admin/events/{event}/areas"), json!({"area": 0, "capacity": 5})).await;
    let offer = waiter.push("waitlist.offer").await;
    let line = &offer["hold"]["lines"][0];
    assert_eq!((&line["area"], &line["quantity"]), (&json!(0), &json!(2)), "{offer}");
    // What fits nobody is for everyone once nobody waits: one place, never three.
    viewer
        .until("the rest", |map| {
            assert!(map.areas[0] <= 1, "what is offered was never for everyone: {:?}", map.areas);
            map.areas == [1]
        })
        .await;
    clean(&stage, &event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_taken_away_by_a_change_that_ended_half_way_come_back() {
    let till = Till::open().await;
    let event: EventId = till.event.parse().expect("an id");
    let facts = till.app.catalogue.event(event).await.expect("answers").expect("is there");
    let pool = till.stage.store.pool();
    let left = async || till.app.inventory.read_map(&facts).await.map(|map| map.areas);
    assert_eq!(left().await.expect("Redis answers"), [50]);
    // What a change does before its transaction commits, and then the node dies.
    event_change::owe(pool, event).await.expect("written");
    till.app.inventory.shrink_area(&facts, AreaIndex(0), 10).await.expect("Redis answers");
    eventually("the job to give them back", async || (left().await.ok()? == [50]).then_some(())).await;
    // And where the commit fails it is refused.
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
        create trigger refuse before insert on admin_log execute function refuse();";
    sqlx::raw_sql(refuse).execute(pool).await.expect("written");
    assert!(till.app.organiser.set_capacity(Operator::server(), event, AreaIndex(0), 10).await.is_err());
    eventually("the places to come back", async || (left().await.ok()? == [50]).then_some(())).await;
    clean(&till.stage, &till.event).await;
}
