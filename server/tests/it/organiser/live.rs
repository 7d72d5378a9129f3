//! Changes while it sells, seen by viewers and buyers on two nodes: blocks, prices, limits, appended seats.

use super::{Viewer, code};
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use seatwire::organiser::Scope;
use serde_json::{Value, json};

#[tokio::test]
async fn seats_are_blocked_and_unblocked_for_everyone_and_nobody_loses_a_hold() {
    let (mut stage, event) = Stage::with_event(&Draft { blocked: vec![9], ..Draft::default() }).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Inventory, Scope::Read]).await;
    let path = |rest: &str| format!("/v1/admin/events/{event}{rest}");
    let mut viewers = [Viewer::of(&first.url, &event).await, Viewer::of(&second.url, &event).await];
    let (mut buyer, _) = Client::guest(&second.url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [5]})).await;
    assert_eq!(code(&held), "ok");
    let answer = admin.done("POST", &path("/block"), json!({"seats": [4, 5, 6, 9]})).await;
    assert_eq!(answer, json!({"seats": [4, 6, 9], "refused": [{"seat": 5, "state": "held"}]}));
    for viewer in &mut viewers {
        viewer.until("the blocked seats", |map| map.states[4..=9] == [3, 1, 3, 0, 0, 3]).await;
    }
    let refused = buyer.call("hold", json!({"key": "2", "event": event, "seats": [4]})).await;
    assert_eq!(code(&refused), "seat_taken");
    let again = admin.done("POST", &path("/block"), json!({"seats": [4, 6]})).await;
    assert_eq!(again, json!({"seats": [4, 6], "refused": []}), "twice is once");
    let body = admin.done("GET", &path(""), Value::Null).await;
    assert_eq!((&body["blocked"], &body["stock"]["available"]), (&json!(3), &json!(156)), "{body}");

    // What stands in Postgres survives the loss of Redis.
    stage.redis.kill();
    stage.redis.restart().await;
    let answer = eventually("the inventory is back", async || {
        let (status, answer) = admin.call("POST", &path("/unblock"), json!({"seats": [6, 7]})).await;
        (status == 200).then_some(answer)
    })
    .await;
    assert_eq!(answer["seats"], json!([6, 7]));
    let mut fresh = Viewer::of(&second.url, &event).await;
    fresh.until("the new life", |map| map.states[4] == 3 && map.states[6] == 0 && map.states[9] == 3).await;

    for (body, path_in_body) in [
        (json!({"seats": [160]}), "/seats/0"),
        (json!({"seats": [1, 1]}), "/seats/1"),
        (json!({"seats": []}), "/seats"),
        (json!({"seats": [-1]}), "/seats/0"),
        (json!({"places": []}), ""),
    ] {
        for verb in ["/block", "/unblock"] {
            let (status, answer) = admin.call("POST", &path(verb), body.clone()).await;
            assert_eq!(status, 400, "{body}: {answer}");
            if !path_in_body.is_empty() {
                assert_eq!(answer["error"]["data"]["path"], path_in_body, "{body}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_new_price_holds_for_new_holds_only_and_everyone_is_told() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events]).await;
    let mut viewers = [Viewer::of(&first.url, &event).await, Viewer::of(&second.url, &event).await];
    let guest = Guest::new(&second.url).await;
    let mut early = Client::hello(&second.url, Some(&guest.token)).await;
    let held = early.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    assert_eq!(held["hold"]["total_minor"], 4750);
    let path = format!("/v1/admin/events/{event}/prices");
    admin.done("PUT", &path, json!({"price_tiers": [{"code": "A", "price_minor": 6000, "fee_minor": 300}]})).await;
    // At once, also at the node that was not asked.
    let (mut late, _) = Client::guest(&second.url).await;
    let new = late.call("hold", json!({"key": "1", "event": event, "seats": [2]})).await;
    assert_eq!(new["hold"]["total_minor"], 6300, "{new}");
    for viewer in &mut viewers {
        let push = viewer.client.push("price.change").await;
        assert_eq!((&push["event"], &push["price_tiers"][0]["price_minor"]), (&json!(event), &json!(6000)), "{push}");
        assert_eq!(push["price_tiers"][1]["price_minor"], 2000, "all tiers: {push}");
    }
    let more = early.call("hold", json!({"key": "2", "event": event, "seats": [3]})).await;
    assert_eq!(more["hold"]["lines"][0]["price_minor"], 4500, "the old line keeps its price: {more}");
    assert_eq!(more["hold"]["total_minor"], 4750 + 6300, "{more}");
    let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": 4750 + 6300});
    let paid = early.call("checkout", body).await;
    assert_eq!((code(&paid), &paid["order"]["total_minor"]), ("ok", &json!(11_050)), "{paid}");
    let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
    assert_eq!(page["price_tiers"][0]["price_minor"], 6000, "{page}");

    for (prices, wanted) in [
        (json!([{"code": "Z", "price_minor": 1, "fee_minor": 0}]), "/price_tiers/0/code"),
        (json!([{"code": "A", "price_minor": -1, "fee_minor": 0}]), "/price_tiers/0"),
        (json!([]), "/price_tiers"),
    ] {
        let (status, answer) = admin.call("PUT", &path, json!({"price_tiers": prices})).await;
        assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!(wanted)), "{answer}");
    }
}

#[tokio::test]
async fn limits_and_times_change_for_new_holds() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events]).await;
    let (mut buyer, _) = Client::guest(&second.url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1, 2, 3]})).await;
    let path = format!("/v1/admin/events/{event}");
    let mut viewer = Viewer::of(&second.url, &event).await;
    let rules = json!({"seats_per_identity": 2, "hold_ttl_ms": 120_000});
    admin.done("PATCH", &path, json!({"rules": rules, "starts_ms": 1_900_000_000_000_u64, "name": "Later"})).await;
    let told = viewer.client.push("event.state").await;
    assert_eq!((&told["event"], &told["state"]), (&json!(event), &json!("on_sale")), "said again: {told}");
    // The page alone: a time that no hold depends on.
    admin.done("PATCH", &path, json!({"starts_ms": 1_900_000_000_001_u64})).await;
    assert_eq!(viewer.client.push("event.state").await["state"], "on_sale");
    let refused = buyer.call("hold", json!({"key": "2", "event": event, "seats": [4]})).await;
    assert_eq!((code(&refused), &refused["error"]["data"]["limit"]), ("limit_exceeded", &json!(2)), "{refused}");
    let basket = buyer.call("extend", json!({"key": "3", "hold": held["hold"]["id"]})).await;
    assert_eq!(basket["hold"]["lines"].as_array().map(Vec::len), Some(3), "what is held stays: {basket}");
    let (mut other, _) = Client::guest(&second.url).await;
    let short = other.call("hold", json!({"key": "1", "event": event, "seats": [10]})).await;
    let life_ms = short["hold"]["expires_ms"].as_u64().expect("ms") - short["hold"]["server_ms"].as_u64().expect("ms");
    assert!((110_000..=120_000).contains(&life_ms), "{life_ms}");
    let guest = Guest::new(&second.url).await;
    eventually("the page shows it", async || {
        let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
        (page["name"] == "Later" && page["starts_ms"] == 1_900_000_000_001_u64).then_some(())
    })
    .await;
    for (change, wanted) in [
        (json!({}), ""),
        (json!({"rules": {}}), ""),
        (json!({"name": ""}), "/name"),
        (json!({"rules": {"seats_per_identity": 0}}), "/rules/seats_per_identity"),
        (json!({"rules": {"hold_ttl_ms": 1}}), "/rules/hold_ttl_ms"),
        (json!({"starts_ms": 1_u64 << 60}), "/starts_ms"),
        (json!({"color": "red"}), "/color"),
    ] {
        let (status, answer) = admin.call("PATCH", &path, change.clone()).await;
        assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!(wanted)), "{change}: {answer}");
    }
}

#[tokio::test]
async fn how_a_section_sells_changes_while_it_sells_and_breaks_no_basket() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Events, Scope::Read]).await;
    let path = format!("/v1/admin/events/{event}");
    let guest = Guest::new(&second.url).await;
    let mut buyer = Client::hello(&second.url, Some(&guest.token)).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    let mut viewer = Viewer::of(&second.url, &event).await;
    let set = |mode: &str| json!({"sections": [{"index": 0, "sales_mode": mode}]});
    let answer = admin.done("PATCH", &path, set("best_available")).await;
    assert_eq!(answer["sections"], json!([{"index": 0, "name": "Stalls", "sales_mode": "best_available"}]));
    assert_eq!(viewer.client.push("event.state").await["state"], "on_sale", "said again");
    eventually("the page says so", async || {
        let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
        (page["sections"][0]["sales_mode"] == "best_available").then_some(())
    })
    .await;
    let refused = buyer.call("hold", json!({"key": "2", "event": event, "seats": [2]})).await;
    assert_eq!((code(&refused), &refused["error"]["number"]), ("mode_not_allowed", &json!(2014)), "{refused}");
    let own = buyer.call("hold", json!({"key": "3", "event": event, "seats": [1]})).await;
    assert_eq!((code(&own), &own["hold"]["id"]), ("ok", &held["hold"]["id"]), "what is held stays: {own}");
    let best = buyer.call("hold_best", json!({"key": "4", "event": event, "quantity": 2})).await;
    assert_eq!((code(&best), best["hold"]["lines"].as_array().map(Vec::len)), ("ok", Some(3)), "{best}");
    admin.done("PATCH", &path, set("pick_seat")).await;
    assert_eq!(viewer.client.push("event.state").await["state"], "on_sale");
    let picked = buyer.call("hold", json!({"key": "5", "event": event, "seats": [150]})).await;
    assert_eq!(code(&picked), "ok", "{picked}");
    let mode = |index: u32| json!({"index": index, "sales_mode": "pick_seat"});
    for (sections, wanted) in
        [(json!([mode(1)]), "/sections/0/index"), (json!([mode(0), mode(0)]), "/sections/1/index"), (json!([]), "")]
    {
        let (status, answer) = admin.call("PATCH", &path, json!({"sections": sections})).await;
        assert_eq!((status, &answer["error"]["data"]["path"]), (400, &json!(wanted)), "{sections}: {answer}");
    }
    let (_, log) = admin.call("GET", &format!("{path}/log"), Value::Null).await;
    assert_eq!(log["items"][0]["detail"], json!({"sections": [{"index": 0, "sales_mode": "pick_seat"}]}), "{log}");
}

#[tokio::test]
async fn appended_seats_are_told_before_any_frame_names_them() {
    let (mut stage, event) = Stage::with_event(&Draft { blocked: vec![3], ..Draft::default() }).await;
    let (first, second) = (stage.node().await, stage.node().await);
    let admin = Admin::new(&stage, &first, &[Scope::Inventory]).await;
    let mut viewers = [Viewer::of(&first.url, &event).await, Viewer::of(&second.url, &event).await];
    let guest = Guest::new(&second.url).await;
    let mut buyer = Client::hello(&second.url, Some(&guest.token)).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    let path = format!("/v1/admin/events/{event}/sections");
    let section = json!({"name": "Extra", "outline": [[0, 200], [20, 200], [20, 220]], "price_tier": "B", "focal": [0, 209],
        "rows": [{"label": "1", "seats": ["1", "2"], "x": [0, 5], "y": [210, 210]}, {"label": "2", "seats": ["1"], "x": [0], "y": [218]}]});
    let answer = admin.done("POST", &path, section.clone()).await;
    assert_eq!((&answer["first_seat"], &answer["seat_count"]), (&json!(160), &json!(163)), "{answer}");
    let mut attempt = 0;
    let more = loop {
        attempt += 1;
        let body = json!({"key": format!("new{attempt}"), "event": event, "seats": [160, 162]});
        let reply = buyer.call("hold", body).await;
        if code(&reply) == "ok" {
            break reply;
        }
        // The other node hears of it within moments.
        assert!(matches!(code(&reply), "seat_unknown" | "rate_limited") && attempt < 1_000, "{reply}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(more["hold"]["lines"][1]["price_minor"], 2000, "{more}");
    for viewer in &mut viewers {
        let push = viewer.client.push("layout.change").await;
        assert_eq!((&push["layout"], &push["seat_count"]), (&answer["layout"], &json!(163)), "{push}");
        viewer.map.states.resize(163, 0);
        viewer.until("the held new seats", |map| map.states[160..] == [1, 0, 1]).await;
        assert_eq!((viewer.map.states[1], viewer.map.states[3]), (1, 3), "what was there stays");
        assert!(!viewer.client.has_push("layout.change"), "told once");
    }
    let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
    assert_eq!((&page["layout"], &page["seat_count"]), (&answer["layout"], &json!(163)), "{page}");
    assert_eq!(page["sections"][1]["name"], "Extra", "{page}");
    let (status, layout) = guest.get(&format!("/v1/layouts/{}", answer["layout"].as_str().expect("hash"))).await;
    assert_eq!((status, &layout["seat_count"]), (200, &json!(163)));
    assert_eq!(layout["sections"][1]["focal"], json!([0, 209]), "{layout}");
    // Nothing is as near to what it looks at: the best seat there is.
    let (mut anybody, _) = Client::guest(&first.url).await;
    let best = anybody.call("hold_best", json!({"key": "b", "event": event, "quantity": 1})).await;
    assert_eq!(best["added"], json!([161]), "{best}");
    anybody.call("release", json!({"key": "r", "hold": best["hold"]["id"]})).await;

    // The longer plan is whole in a new life as well, and the old seat is still somebody's to pay for.
    let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": 4750 + 2000 + 2000});
    let paid = buyer.call("checkout", body).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    stage.redis.kill();
    stage.redis.restart().await;
    eventually("the inventory is back", async || {
        let (status, _) = guest.get(&format!("/v1/events/{event}/snapshot?format=json")).await;
        (status == 200).then_some(())
    })
    .await;
    let mut fresh = Viewer::of(&second.url, &event).await;
    fresh.until("the sold seats", |map| map.states.len() == 163 && map.states[160..] == [2, 0, 2]).await;

    let mut wrong = section.clone();
    wrong["price_tier"] = json!("Z");
    let mut crooked = section.clone();
    crooked["rows"][0]["x"] = json!([0]);
    for (body, wanted) in [
        (wrong, "/price_tier"),
        (crooked, "/rows/0"),
        (json!({"name": "x", "outline": [], "price_tier": "A", "rows": []}), "/rows"),
    ] {
        let (status, answer) = admin.call("POST", &path, body).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"]["data"]["path"].as_str().is_some_and(|path| path.starts_with(wanted)), "{answer}");
    }
}
