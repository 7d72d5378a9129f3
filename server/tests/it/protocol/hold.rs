//! Holding: all or nothing, one basket an identity, limits, keys, time.

use crate::support::PATIENCE;
use crate::support::client::{Client, Guest};
use crate::support::stage::{Draft, Stage, TIER_A_MINOR, TIER_B_MINOR};
use seatwire_proto::server::EventState;
use serde_json::{Value, json};

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

#[tokio::test]
async fn a_hold_is_a_whole_object_with_prices_and_a_deadline() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "1", "event": event, "seats": [3, 150]})).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    let hold = &reply["hold"];
    assert!(hold["id"].as_str().is_some_and(|id| id.starts_with("hld_") && id.len() == 30));
    let line = |seat: u32, tier: &str, (price, fee): (i64, i64)| json!({"seat": seat, "quantity": 1, "price_tier": tier, "price_minor": price, "fee_minor": fee});
    assert_eq!(hold["lines"], json!([line(3, "A", TIER_A_MINOR), line(150, "B", TIER_B_MINOR)]));
    assert_eq!((&hold["total_minor"], &hold["currency"]), (&json!(6750), &json!("EUR")));
    assert_eq!((&hold["extended"], &hold["locked"], &hold["offer"]), (&json!(false), &json!(false), &json!(false)));
    let left_ms = hold["expires_ms"].as_u64().expect("ms") - hold["server_ms"].as_u64().expect("ms");
    assert!((590_000..=600_000).contains(&left_ms), "{left_ms}");

    let more = buyer.call("hold", json!({"key": "2", "event": event, "seats": [4]})).await;
    assert_eq!(more["hold"]["id"], hold["id"], "one basket an identity and event");
    assert_eq!(more["hold"]["expires_ms"], hold["expires_ms"], "adding never refreshes the clock");
    let again = buyer.call("hold", json!({"key": "3", "event": event, "seats": [3]})).await;
    assert_eq!(
        (code(&again), again["hold"]["lines"].as_array().map(Vec::len)),
        ("ok", Some(3)),
        "one's own seat is a no-op"
    );
    let longer = buyer.call("extend", json!({"key": "4", "hold": hold["id"]})).await;
    assert_eq!(longer["hold"]["expires_ms"].as_u64(), hold["expires_ms"].as_u64().map(|ms| ms + 120_000));
    assert_eq!(code(&buyer.call("extend", json!({"key": "5", "hold": hold["id"]})).await), "extend_refused");
}

#[tokio::test]
async fn of_a_hundred_buyers_of_one_seat_exactly_one_gets_it() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let nodes = [stage.node().await, stage.node().await];
    let mut buyers = Vec::new();
    for number in 0..100 {
        buyers.push(Client::guest(&nodes[number % 2].url).await.0);
    }
    let mut racing = Vec::new();
    for mut buyer in buyers {
        let event = event.clone();
        racing.push(tokio::spawn(async move {
            buyer.call("hold", json!({"key": "k", "event": event, "seats": [42, 43]})).await
        }));
    }
    let mut winners = 0;
    for race in racing {
        let reply = race.await.expect("runs");
        match code(&reply) {
            "ok" => winners += 1,
            "seat_taken" => {
                assert_eq!(reply["error"]["data"]["seats"], json!([42, 43]), "{reply}");
                assert!(reply["error"]["data"]["alternatives"].is_array(), "{reply}");
                assert!(reply["epoch"].is_u64() && reply["seq"].is_u64(), "refusals carry the position: {reply}");
            }
            other => panic!("{other}: {reply}"),
        }
    }
    assert_eq!(winners, 1);
}

#[tokio::test]
async fn who_comes_too_late_is_offered_three_blocks_of_the_same_size() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut first, _) = Client::guest(&node.url).await;
    let (mut late, _) = Client::guest(&node.url).await;
    assert_eq!(code(&first.call("hold", json!({"key": "1", "event": event, "seats": [42, 43]})).await), "ok");
    // Nobody has looked at the map on this node so far.
    let reply = late.call("hold", json!({"key": "1", "event": event, "seats": [42, 43]})).await;
    assert_eq!(code(&reply), "seat_taken", "{reply}");
    let blocks = |reply: &Value| -> Vec<Vec<u32>> {
        serde_json::from_value(reply["error"]["data"]["alternatives"].clone()).expect("lists of seats")
    };
    let offered = blocks(&reply);
    let different: std::collections::BTreeSet<u32> = offered.iter().flatten().copied().collect();
    assert!(offered.len() == 3 && offered.iter().all(|block| block.len() == 2) && different.len() == 6, "{offered:?}");
    assert!(different.is_disjoint(&[42, 43].into()), "{offered:?}");
    // What the refusal says is taken is in no block, whether or not the map has heard of it.
    let wanted = json!({"key": "2", "event": event, "seats": offered[0]});
    assert_eq!(code(&first.call("hold", wanted.clone()).await), "ok");
    let reply = late.call("hold", wanted).await;
    let rest = blocks(&reply);
    assert!(rest.len() == 3 && rest.iter().flatten().all(|seat| !offered[0].contains(seat)), "{reply}");
    let taken = late.call("hold", json!({"key": "3", "event": event, "seats": rest[0]})).await;
    assert_eq!(code(&taken), "ok", "what is offered can be had: {taken}");
}

#[tokio::test]
async fn all_or_nothing_and_only_ones_own() {
    let (stage, event) = Stage::with_event(&Draft { blocked: vec![9], ..Draft::default() }).await;
    let node = stage.node().await;
    let (mut first, guest) = Client::guest(&node.url).await;
    let (mut second, _) = Client::guest(&node.url).await;
    let held = first.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    let reply = second.call("hold", json!({"key": "1", "event": event, "seats": [0, 1, 2, 9]})).await;
    assert_eq!(
        (code(&reply), &reply["error"]["data"]["seats"]),
        ("seat_taken", &json!([1, 9])),
        "blocked counts as taken: {reply}"
    );
    let reply = second.call("hold", json!({"key": "2", "event": event, "seats": [0, 2]})).await;
    assert_eq!(code(&reply), "ok", "nothing of the refused one stuck: {reply}");
    for (op, key) in [("release", "3"), ("extend", "4")] {
        let reply = second.call(op, json!({"key": key, "hold": held["hold"]["id"]})).await;
        assert_eq!(
            (code(&reply), &reply["error"]["number"]),
            ("hold_not_found", &json!(2101)),
            "somebody else's: {reply}"
        );
    }
    let reply = second.call("release", json!({"key": "5", "hold": "hld_01h455vb4pex5vsknk084sn02q"})).await;
    assert_eq!(code(&reply), "hold_not_found");
    let mine = &held["hold"]["id"];
    let reply = first.call("release", json!({"key": "6", "hold": mine, "seats": [1, 2]})).await;
    assert_eq!(
        (code(&reply), &reply["error"]["data"]["path"]),
        ("bad_field", &json!("/seats/1")),
        "not in the hold: {reply}"
    );
    // A list that is null is no list: it must not read as all of the hold.
    for (key, field) in [("7", "seats"), ("8", "areas")] {
        let reply = first.call("release", json!({"key": key, "hold": mine, field: null})).await;
        assert_eq!(
            (code(&reply), &reply["error"]["data"]["path"]),
            ("bad_field", &json!(format!("/{field}"))),
            "{reply}"
        );
    }
    let path = format!("/v1/holds/{}/release", mine.as_str().expect("an id"));
    let (status, body) = guest.post(&path, "9", json!({"seats": null})).await;
    assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!("/seats")), "{body}");
    let reply = first.call("release", json!({"key": "10", "hold": mine})).await;
    assert_eq!((code(&reply), &reply["hold"]), ("ok", &json!(null)), "all of it was still there: {reply}");
}

#[tokio::test]
async fn a_command_that_cannot_be_read_says_where_the_map_stands_too() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let subscribed = buyer.call("subscribe", json!({"event": event})).await;
    for (op, body, says) in [
        ("hold", json!({"key": "1", "event": event, "seats": [-1]}), true),
        ("hold", json!({"key": "2", "event": event}), true),
        ("hold", json!({"event": event, "seats": [1]}), true),
        ("hold_best", json!({"key": "3", "event": event, "quantity": "two"}), true),
        ("hold_area", json!({"key": "4", "event": event, "area": 0}), true),
        ("unlock", json!({"key": "5", "event": event, "code": 5}), true),
        // No event, no map; and what is no inventory command.
        ("hold", json!({"key": "6", "event": "evt_x", "seats": [1]}), false),
        ("waitlist_join", json!({"key": "7", "event": event, "quantity": "x"}), false),
    ] {
        let reply = buyer.call(op, body.clone()).await;
        assert_eq!(code(&reply), "bad_field", "{op} {body}: {reply}");
        let wanted = if says { &subscribed["epoch"] } else { &serde_json::Value::Null };
        assert_eq!(&reply["epoch"], wanted, "{op} {body}: {reply}");
        assert_eq!(reply["seq"].is_u64(), says, "{op} {body}: {reply}");
    }
}

#[tokio::test]
async fn a_refusal_says_where_the_map_stands_also_where_nobody_follows_it() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node_with(&[("SEATWIRE_COMMAND_BURST", "100")]).await;
    let mut nobody = Client::hello(&node.url, None).await;
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    let hold = &held["hold"]["id"];
    let (epoch, seq) = (&held["epoch"], &held["seq"]);
    for (op, fields, wanted) in [
        ("hold", json!({"event": event, "seats": []}), "bad_field"),
        ("hold", json!({"event": event, "seats": [160]}), "seat_unknown"),
        ("hold_best", json!({"event": event, "quantity": 1, "sections": [9]}), "seat_unknown"),
        ("hold_area", json!({"event": event, "area": 7, "quantity": 1}), "seat_unknown"),
        ("release", json!({"hold": hold, "seats": [1, 1]}), "bad_field"),
        ("hold", json!({"event": event, "seats": [2]}), "unauthorized"),
        ("unlock", json!({"event": event, "code": "x"}), "unauthorized"),
        ("extend", json!({"hold": hold}), "unauthorized"),
        ("release", json!({"hold": hold}), "unauthorized"),
    ] {
        let mut body = fields.clone();
        body["key"] = format!("{op} {wanted}").into();
        let client = if wanted == "unauthorized" { &mut nobody } else { &mut buyer };
        let reply = client.call(op, body).await;
        assert_eq!((code(&reply), &reply["epoch"], &reply["seq"]), (wanted, epoch, seq), "{op} {fields}: {reply}");
    }
    let (_, reply) = guest.post(&format!("/v1/events/{event}/holds"), "h", json!({"seats": [160]})).await;
    assert_eq!((&reply["error"]["code"], &reply["seq"]), (&json!("seat_unknown"), seq), "{reply}");
    // Of no event.
    for (op, fields, wanted) in [
        ("extend", json!({"hold": seatwire_proto::id::HoldId::generate()}), "hold_not_found"),
        ("hold", json!({"event": seatwire_proto::id::EventId::generate(), "seats": [1]}), "event_unknown"),
    ] {
        let mut body = fields;
        body["key"] = wanted.into();
        let reply = buyer.call(op, body).await;
        assert_eq!((code(&reply), reply.get("epoch"), reply.get("seq")), (wanted, None, None), "{reply}");
    }
}

#[tokio::test]
async fn bounds_and_limits_are_told_with_their_data() {
    let (stage, event) =
        Stage::with_event(&Draft { seats_per_identity: 4, areas: vec![50, 3], ..Draft::default() }).await;
    let node = stage.node_with(&[("SEATWIRE_COMMAND_BURST", "100")]).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    for (op, fields, wanted) in [
        ("hold", json!({"seats": [160]}), "seat_unknown"),
        ("hold", json!({"seats": [1, 1]}), "bad_field"),
        ("hold", json!({"seats": []}), "bad_field"),
        ("hold", json!({"seats": [-1]}), "bad_field"),
        ("hold_area", json!({"area": 2, "quantity": 1}), "seat_unknown"),
        ("hold_area", json!({"area": 0, "quantity": 0}), "bad_field"),
        ("hold_area", json!({"area": 1, "quantity": 4}), "area_full"),
        ("hold_area", json!({"area": 0, "quantity": 5}), "limit_exceeded"),
        ("hold", json!({"seats": [1, 2, 3, 4, 5]}), "limit_exceeded"),
        ("hold", json!({"seats": [1, 2, 3]}), "ok"),
        ("hold_area", json!({"area": 0, "quantity": 2}), "limit_exceeded"),
        ("hold_area", json!({"area": 0, "quantity": 1}), "ok"),
    ] {
        let mut body = fields.clone();
        body["event"] = event.as_str().into();
        body["key"] = format!("{op}{fields}").chars().filter(char::is_ascii_alphanumeric).collect::<String>().into();
        let reply = buyer.call(op, body).await;
        assert_eq!(code(&reply), wanted, "{op} {fields}: {reply}");
        match wanted {
            "limit_exceeded" => assert_eq!(reply["error"]["data"]["limit"], 4, "{reply}"),
            "area_full" => assert_eq!(reply["error"]["data"]["remaining"], 3, "{reply}"),
            _ => {}
        }
    }
    buyer.call("subscribe", json!({"event": event})).await;
    let refused = buyer.call("hold", json!({"key": "p", "event": event, "seats": [160]})).await;
    assert!(code(&refused) == "seat_unknown" && refused["seq"].is_u64(), "with the position: {refused}");
    let unknown = buyer.call("hold", json!({"key": "u", "event": "evt_01h455vb4pex5vsknk084sn02q", "seats": []})).await;
    assert_eq!(code(&unknown), "event_unknown", "before the bounds: {unknown}");
}

#[tokio::test]
async fn states_of_an_event_decide() {
    for (state, on_sale_ms, wanted) in [
        (EventState::Scheduled, 4_000_000_000_000, "not_on_sale"),
        (EventState::Paused, 0, "paused"),
        (EventState::Closed, 0, "not_on_sale"),
        (EventState::Cancelled, 0, "not_on_sale"),
    ] {
        let (stage, event) = Stage::with_event(&Draft { state, on_sale_ms, ..Draft::default() }).await;
        let node = stage.node().await;
        let (mut buyer, _) = Client::guest(&node.url).await;
        let reply = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
        assert_eq!(code(&reply), wanted, "{state:?}: {reply}");
        if wanted == "not_on_sale" {
            assert_eq!(reply["error"]["data"]["on_sale_ms"], on_sale_ms, "{reply}");
        }
    }
}

#[tokio::test]
async fn a_key_answers_once_and_for_all_on_both_roads() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let (first, second) = tokio::join!(stage.node(), stage.node());
    let guest = Guest::new(&first.url).await;
    let mut buyer = Client::hello(&first.url, Some(&guest.token)).await;
    let body = json!({"key": "same", "event": event, "seats": [7]});
    let original = buyer.call("hold", body.clone()).await;
    buyer.call("release", json!({"key": "r", "hold": original["hold"]["id"]})).await;
    let mut elsewhere = Client::hello(&second.url, Some(&guest.token)).await;
    let again = elsewhere.call("hold", body).await;
    assert_eq!(
        (&again["replayed"], &again["hold"], &again["seq"]),
        (&json!(true), &original["hold"], &original["seq"]),
        "{again}"
    );
    let other = elsewhere.call("hold", json!({"key": "same", "event": event, "seats": [8]})).await;
    assert_eq!((code(&other), &other["error"]["number"]), ("key_reused", &json!(3007)), "{other}");
    let (status, over_http) = guest.post(&format!("/v1/events/{event}/holds"), "same", json!({"seats": [7]})).await;
    assert_eq!((status, &over_http["hold"]), (201, &original["hold"]), "{over_http}");
    let (status, reused) = guest.post(&format!("/v1/events/{event}/holds"), "same", json!({"seats": [8]})).await;
    assert_eq!((status, code(&reused)), (422, "key_reused"), "{reused}");
    // A refusal is remembered too: the seat is free again, the answer stays.
    let (mut rival, _) = Client::guest(&first.url).await;
    let taken = rival.call("hold", json!({"key": "a", "event": event, "seats": [9]})).await;
    let refused = elsewhere.call("hold", json!({"key": "no", "event": event, "seats": [9]})).await;
    assert_eq!(code(&refused), "seat_taken");
    rival.call("release", json!({"key": "b", "hold": taken["hold"]["id"]})).await;
    let refused = elsewhere.call("hold", json!({"key": "no", "event": event, "seats": [9]})).await;
    assert_eq!((code(&refused), &refused["replayed"]), ("seat_taken", &json!(true)), "{refused}");
}

#[tokio::test]
async fn an_expired_hold_is_free_for_anyone_at_once_and_its_owner_is_told() {
    let (stage, event) = Stage::with_event(&Draft { hold_ttl_ms: 1_500, ..Draft::default() }).await;
    let node = stage.node().await;
    let (mut slow, _) = Client::guest(&node.url).await;
    let (mut quick, _) = Client::guest(&node.url).await;
    let held = slow.call("hold", json!({"key": "1", "event": event, "seats": [11]})).await;
    let push = slow.push("hold.expired").await;
    assert_eq!(push["hold"]["id"], held["hold"]["id"], "{push}");
    let reply = quick.call("hold", json!({"key": "1", "event": event, "seats": [11]})).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    for (op, key) in [("extend", "2"), ("release", "3")] {
        let reply = slow.call(op, json!({"key": key, "hold": held["hold"]["id"]})).await;
        assert_eq!((code(&reply), &reply["error"]["number"]), ("hold_expired", &json!(2102)), "{op}: {reply}");
    }
}

#[tokio::test]
async fn a_dropped_socket_releases_nothing_and_hello_brings_the_basket_back() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let guest = Guest::new(&node.url).await;
    let mut buyer = Client::hello(&node.url, Some(&guest.token)).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [20, 21]})).await;
    drop(buyer);
    let mut back = Client::open(&node.url).await;
    let hello = back.call("hello", json!({"token": guest.token})).await;
    assert_eq!(hello["holds"][0]["lines"], held["hold"]["lines"], "{hello}");
    let (status, body) = guest.get(&format!("/v1/holds/{}", held["hold"]["id"].as_str().expect("id"))).await;
    assert_eq!((status, &body["hold"]["lines"]), (200, &held["hold"]["lines"]), "{body}");
}

#[tokio::test]
async fn redis_killed_while_serving_heals_in_a_new_epoch() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let before = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1]})).await;
    buyer.call("subscribe", json!({"event": event})).await;
    stage.redis.kill();
    let refused = buyer.call("hold", json!({"key": "2", "event": event, "seats": [2]})).await;
    assert!(matches!(code(&refused), "unavailable" | "timeout_unknown"), "{refused}");
    let began = std::time::Instant::now();
    loop {
        let refused = buyer.call("hold", json!({"key": "3", "event": event, "seats": [2]})).await;
        if code(&refused) == "unavailable" {
            assert_eq!(refused["error"]["retry"], "after", "{refused}");
            break;
        }
        // Until the node has seen that the line is dead.
        assert!(matches!(code(&refused), "timeout_unknown" | "key_in_use" | "rate_limited"), "{refused}");
        assert!(began.elapsed() < PATIENCE, "a plain refusal: {refused}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let response = reqwest::get(format!("{}/v1/events/{event}/snapshot", node.url)).await.expect("answers");
    assert_eq!(response.status(), 200, "the map stays");
    stage.redis.restart().await;
    let (mut attempt, began) = (0, std::time::Instant::now());
    let healed = loop {
        attempt += 1;
        let reply = buyer.call("hold", json!({"key": format!("again{attempt}"), "event": event, "seats": [5]})).await;
        if code(&reply) == "ok" {
            break reply;
        }
        assert!(matches!(code(&reply), "unavailable" | "timeout_unknown" | "rate_limited"), "{reply}");
        assert!(began.elapsed() < PATIENCE, "it heals");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(healed["epoch"].as_u64() > before["epoch"].as_u64(), "{healed}");
}

#[tokio::test]
async fn what_two_pages_on_two_nodes_hear_last_is_the_truth() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let settings = [("SEATWIRE_COMMAND_BURST", "1000"), ("SEATWIRE_COMMANDS_PER_S", "1000")];
    let nodes = [stage.node_with(&settings).await, stage.node_with(&settings).await];
    let guest = Guest::new(&nodes[0].url).await;
    let mut here = Client::hello(&nodes[0].url, Some(&guest.token)).await;
    let mut there = Client::hello(&nodes[1].url, Some(&guest.token)).await;
    for round in 0..20 {
        let first = here.call("hold", json!({"key": format!("{round}a"), "event": event, "seats": [20]})).await;
        let id = first["hold"]["id"].clone();
        let added = there.call("hold", json!({"key": format!("{round}b"), "event": event, "seats": [30]})).await;
        let left = here.call("release", json!({"key": format!("{round}c"), "hold": id, "seats": [20]})).await;
        let over = there.call("release", json!({"key": format!("{round}d"), "hold": id})).await;
        for reply in [&first, &added, &left, &over] {
            assert_eq!(code(reply), "ok", "round {round}: {reply}");
        }
        for page in [&mut here, &mut there] {
            // One seat, two, the other one, none: some may be left out, none may come behind what followed it.
            let mut steps = vec![json!([20]), json!([20, 30]), json!([30]), json!([])].into_iter();
            loop {
                let told = page.push("hold.update").await;
                assert_eq!(told["id"], id, "round {round}: a hold that is over");
                let lines = told["hold"]["lines"].as_array().cloned().unwrap_or_default();
                let seats = json!(lines.iter().map(|line| line["seat"].clone()).collect::<Vec<_>>());
                assert!(steps.any(|step| step == seats), "round {round}: {seats} came too late");
                if seats == json!([]) {
                    break;
                }
            }
        }
    }
}
