//! Best seats: one question, a held block, or the truth that there is none.

use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::stage::{Draft, Stage};
use seatwire::organiser::Scope;
use seatwire_proto::server::{OrphanRule, SalesMode};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

fn added(reply: &Value) -> Vec<u64> {
    let seats = reply["added"].as_array().unwrap_or_else(|| panic!("no added: {reply}"));
    seats.iter().map(|seat| seat.as_u64().expect("an index")).collect()
}

#[tokio::test]
async fn the_best_pair_is_held_in_one_answer_and_added_to_the_open_hold() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let reply = buyer.call("hold_best", json!({"key": "1", "event": event, "quantity": 2})).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    // The stage is in front of the middle of the first row.
    assert_eq!((added(&reply), &reply["together"]), (vec![10, 11], &json!(true)), "{reply}");
    assert_eq!(reply["hold"]["lines"].as_array().map(Vec::len), Some(2));
    assert!(reply["epoch"].is_u64() && reply["seq"].is_u64(), "{reply}");
    let again = buyer.call("hold_best", json!({"key": "1", "event": event, "quantity": 2})).await;
    assert_eq!((&again["replayed"], added(&again)), (&json!(true), vec![10, 11]));
    let reused = buyer.call("hold_best", json!({"key": "1", "event": event, "quantity": 3})).await;
    assert_eq!(code(&reused), "key_reused");
    let more = buyer.call("hold_best", json!({"key": "2", "event": event, "quantity": 3})).await;
    assert_eq!((added(&more).len(), &more["hold"]["id"]), (3, &reply["hold"]["id"]));
    assert_eq!(more["hold"]["lines"].as_array().map(Vec::len), Some(5));

    // The same over HTTP, with the same key: the same answer.
    let (status, body) = best_over_http(&node.url, &guest, &event, "1", json!({"quantity": 2})).await;
    assert_eq!((status, &body["added"]), (201, &json!([10, 11])), "{body}");
    let (status, body) =
        best_over_http(&node.url, &guest, &event, "3", json!({"quantity": 2, "price_tiers": ["B"]})).await;
    assert_eq!((status, &body["together"]), (201, &json!(true)), "{body}");
    assert!(added(&body).iter().all(|seat| *seat >= 140), "tier B is the last row: {body}");
    let (status, body) = best_over_http(&node.url, &guest, &event, "4", json!({"quantity": 0})).await;
    assert_eq!((status, &body["error"]["data"]["path"]), (400, &json!("/best/quantity")), "{body}");
}

async fn best_over_http(url: &str, guest: &Guest, event: &str, key: &str, best: Value) -> (u16, Value) {
    let response = reqwest::Client::new()
        .post(format!("{url}/v1/events/{event}/holds"))
        .bearer_auth(&guest.token)
        .header("Idempotency-Key", key)
        .json(&json!({"best": best}))
        .send()
        .await
        .expect("answers");
    (response.status().as_u16(), response.json().await.expect("JSON"))
}

#[tokio::test]
async fn what_does_not_fit_is_told() {
    let draft = Draft { rows: vec![4, 4], seats_per_identity: 4, ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    // A buyer each, because the budget for commands is small.
    let [(mut careless, _), (mut careful, _)] = [Client::guest(&node.url).await, Client::guest(&node.url).await];
    let ask = async |buyer: &mut Client, fields: Value| {
        let mut all =
            json!({"event": event, "quantity": 2, "key": fields.to_string().chars().take(64).collect::<String>()});
        all.as_object_mut().expect("an object").extend(fields.as_object().cloned().expect("an object"));
        buyer.call("hold_best", all).await
    };
    for (fields, path) in [
        (json!({"price_tiers": ["Z"]}), "/price_tiers/0"),
        (json!({"price_tiers": []}), "/price_tiers"),
        (json!({"accessible": 3}), "/accessible"),
        (json!({"sections": []}), "/sections"),
    ] {
        let reply = ask(&mut careless, fields.clone()).await;
        assert_eq!((code(&reply), &reply["error"]["data"]["path"]), ("bad_field", &json!(path)), "{fields}: {reply}");
    }
    assert_eq!(code(&ask(&mut careless, json!({"sections": [1]})).await), "seat_unknown");
    let reply = ask(&mut careful, json!({"quantity": 5})).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["most_together"]), ("not_enough", &json!(4)), "{reply}");
    // Nothing at this price, fees included: 45.00 + 2.50 and 20.00.
    assert_eq!(code(&ask(&mut careful, json!({"max_price_minor": 1999})).await), "sold_out");
    let reply = ask(&mut careful, json!({"max_price_minor": 4749})).await;
    assert!(added(&reply).iter().all(|seat| *seat >= 4), "{reply}");
    let reply = ask(&mut careful, json!({"accessible": 1})).await;
    assert_eq!(code(&reply), "sold_out", "no place for a wheelchair here: {reply}");
    let reply = ask(&mut careful, json!({"quantity": 3})).await;
    assert_eq!(code(&reply), "limit_exceeded");
    assert_eq!(reply["error"]["data"], json!({"limit": 4, "used": 2}));
}

#[tokio::test]
async fn a_party_is_split_only_if_it_may_be() {
    let draft = Draft { rows: vec![4, 4, 4], blocked: vec![1, 5, 6, 9], ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let ask = |key: &str, quantity: u32, together: &str| json!({"key": key, "event": event, "quantity": quantity, "together": together});
    let reply = buyer.call("hold_best", ask("1", 4, "required")).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["most_together"]), ("not_enough", &json!(2)));
    let reply = buyer.call("hold_best", ask("2", 4, "preferred")).await;
    assert_eq!((added(&reply).len(), &reply["together"]), (4, &json!(false)), "{reply}");
    let reply = buyer.call("hold_best", ask("3", 4, "no")).await;
    assert_eq!((added(&reply).len(), &reply["together"]), (4, &json!(false)), "{reply}");
    assert_eq!(code(&buyer.call("hold_best", ask("4", 1, "no")).await), "sold_out");
}

#[tokio::test]
async fn thirty_two_racing_buyers_on_two_nodes_share_out_sixteen_pairs() {
    let draft = Draft { rows: vec![8, 8, 8, 8], ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let nodes = [stage.node().await, stage.node().await];
    let mut racing = tokio::task::JoinSet::new();
    for number in 0..32 {
        let (mut buyer, _) = Client::guest(&nodes[number % 2].url).await;
        let event = event.clone();
        racing.spawn(async move { buyer.call("hold_best", json!({"key": "k", "event": event, "quantity": 2})).await });
    }
    let (mut seats, mut refused) = (HashSet::new(), 0);
    for reply in racing.join_all().await {
        match code(&reply) {
            "ok" => {
                let pair = added(&reply);
                assert_eq!((pair[0] / 8, pair[0] + 1), (pair[1] / 8, pair[1]), "side by side: {pair:?}");
                assert!(pair.iter().all(|seat| seats.insert(*seat)), "nobody else's: {pair:?}");
            }
            "sold_out" => refused += 1,
            other => panic!("{other}: {reply}"),
        }
    }
    assert_eq!((seats.len(), refused), (32, 16));
}

#[tokio::test]
async fn a_section_that_sells_best_seats_only_lets_nobody_pick_but_wheelchair_users() {
    let draft = Draft {
        rows: vec![6],
        sales_mode: SalesMode::BestAvailable,
        accessible: vec![0],
        companion: vec![1],
        ..Draft::default()
    };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let mut hold =
        async |key: &str, seats: &[u32]| buyer.call("hold", json!({"key": key, "event": event, "seats": seats})).await;
    assert_eq!(code(&hold("1", &[3]).await), "mode_not_allowed");
    assert_eq!(code(&hold("2", &[1]).await), "companion_rule");
    assert_eq!(code(&hold("3", &[0, 1]).await), "ok");
    let (mut other, _) = Client::guest(&node.url).await;
    let reply = other.call("hold_best", json!({"key": "1", "event": event, "quantity": 4})).await;
    assert_eq!(added(&reply), [2, 3, 4, 5], "{reply}");
}

#[tokio::test]
async fn wheelchair_users_get_their_place_and_a_companion_beside_it() {
    let draft = Draft { rows: vec![6, 6], accessible: vec![6], companion: vec![7], ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold_best", json!({"key": "1", "event": event, "quantity": 2, "accessible": 1})).await;
    assert_eq!((added(&reply), &reply["together"]), (vec![6, 7], &json!(true)), "{reply}");
    // There is no other; whoever asks for one is told so, and all the rest goes to others.
    let (mut other, _) = Client::guest(&node.url).await;
    let reply = other.call("hold_best", json!({"key": "1", "event": event, "quantity": 1, "accessible": 1})).await;
    assert_eq!(code(&reply), "sold_out", "{reply}");
    let reply = other.call("hold_best", json!({"key": "2", "event": event, "quantity": 4})).await;
    assert!(added(&reply).iter().all(|seat| ![6, 7].contains(seat)), "{reply}");
}

#[tokio::test]
async fn nobody_leaves_a_single_seat_where_that_is_forbidden() {
    let draft = Draft { rows: vec![10], orphans: OrphanRule::Strict, ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "1", "event": event, "seats": [1, 2]})).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["seats"]), ("orphan_seat", &json!([0])), "{reply}");
    assert_eq!(code(&buyer.call("hold", json!({"key": "2", "event": event, "seats": [2, 3]})).await), "ok");
    // Two on the left, six on the right: three would leave one or three, best seats leave three.
    let (mut other, _) = Client::guest(&node.url).await;
    let reply = other.call("hold_best", json!({"key": "1", "event": event, "quantity": 3})).await;
    assert!([vec![4, 5, 6], vec![7, 8, 9]].contains(&added(&reply)), "{reply}");
}

#[tokio::test]
async fn giving_up_some_seats_leaves_neither_a_single_seat_nor_a_companion_alone() {
    let draft = Draft {
        rows: vec![10, 6],
        accessible: vec![10],
        companion: vec![11],
        orphans: OrphanRule::Strict,
        ..Draft::default()
    };
    let (stage, event) = Stage::with_event(&draft).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "1", "event": event, "seats": [4, 5, 6, 7, 10, 11]})).await;
    assert_eq!(code(&reply), "ok", "{reply}");
    let hold = reply["hold"]["id"].clone();
    let mut release =
        async |key: &str, seats: &[u32]| buyer.call("release", json!({"key": key, "hold": hold, "seats": seats})).await;
    let reply = release("2", &[5]).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["seats"]), ("orphan_seat", &json!([5])), "{reply}");
    assert_eq!(code(&release("3", &[10]).await), "companion_rule");
    // At the end, a pair, or the companion with the accessible seat: nothing is left alone.
    assert_eq!(code(&release("4", &[4]).await), "ok");
    assert_eq!(code(&release("5", &[10, 11]).await), "ok");
    let reply = release("6", &[6]).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["seats"]), ("orphan_seat", &json!([6])), "{reply}");
    assert_eq!(code(&release("7", &[5, 6]).await), "ok");
    let reply = buyer.call("release", json!({"key": "8", "hold": hold})).await;
    assert_eq!((code(&reply), &reply["hold"]), ("ok", &Value::Null), "all may always go");
}

#[tokio::test]
async fn a_tier_named_twice_is_a_bad_field_and_a_section_without_wheelchair_seats_has_none() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let twice = json!({"key": "1", "event": event, "quantity": 1, "price_tiers": ["A", "A"]});
    let reply = buyer.call("hold_best", twice).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["path"]), ("bad_field", &json!("/price_tiers/1")), "{reply}");
    let reply = buyer.call("hold_best", json!({"key": "2", "event": event, "quantity": 1, "accessible": 1})).await;
    assert_eq!(code(&reply), "sold_out", "{reply}");
}

/// Buyers of best seats while their prices change faster than a search takes: nobody waits without end, nobody is told that a
/// store is away, and whoever is told that there is nothing is told the truth.
#[tokio::test(flavor = "multi_thread")]
async fn prices_that_change_all_the_time_neither_hang_nor_mislead_those_who_ask_for_the_best() {
    let (stage, event) = Stage::with_event(&Draft { rows: vec![4, 2], ..Draft::default() }).await;
    let node = stage.node().await;
    let admin = Admin::new(&stage, &node, &[Scope::Events]).await;
    let mut buyers = Vec::new();
    for _ in 0..24 {
        buyers.push(Client::guest(&node.url).await.0);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let changing = {
        let (is_over, path) = (Arc::clone(&is_over), format!("/v1/admin/events/{event}/prices"));
        tokio::spawn(async move {
            let mut changes: i64 = 0;
            while !is_over.load(Ordering::Relaxed) {
                changes += 1;
                let tiers = json!([{"code": "A", "price_minor": 1_000 + changes, "fee_minor": 0}]);
                admin.done("PUT", &path, json!({"price_tiers": tiers})).await;
            }
            changes
        })
    };
    let asks = buyers.into_iter().map(|mut buyer| {
        let ask = json!({"key": "1", "event": event, "quantity": 2});
        tokio::spawn(async move { buyer.call("hold_best", ask).await })
    });
    let mut got = 0;
    for answer in futures_util::future::join_all(asks).await {
        let answer = answer.expect("asked");
        match code(&answer) {
            "ok" => got += 1,
            "sold_out" | "not_enough" | "overloaded" => {}
            _ => panic!("{answer}"),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(changing.await.expect("changed") > 1, "they changed meanwhile");
    assert!((1..=3).contains(&got), "{got} pairs of three");
}
