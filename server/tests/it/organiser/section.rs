//! Sections appended to a plan that sells, said again and said at once by several: each stands there once, behind the others.

use crate::support::admin::Admin;
use crate::support::client::Client;
use crate::support::stage::{Draft, Stage};
use seatwire::organiser::Scope;
use serde_json::{Value, json};

/// A section of one row of so many seats, in a place of its own.
fn section(name: &str, at: i32, seats: i32) -> Value {
    let y = 200 + 20 * at;
    let labels: Vec<String> = (1..=seats).map(|seat| seat.to_string()).collect();
    let x: Vec<i32> = (0..seats).map(|seat| seat * 5).collect();
    json!({"name": name, "outline": [[0, y], [500, y], [500, y + 10]], "price_tier": "B",
        "rows": [{"label": "1", "seats": labels, "x": x, "y": vec![y + 5; seats as usize]}]})
}

#[tokio::test]
async fn a_section_that_is_said_again_or_by_several_at_once_stands_there_once() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let nodes = [stage.node().await, stage.node().await];
    let admin = Admin::new(&stage, &nodes[0], &[Scope::Inventory, Scope::Read]).await;
    let other = Admin { url: nodes[1].admin_url.clone(), ..admin.clone() };
    let path = format!("/v1/admin/events/{event}/sections");
    let post = |at: usize, section: Value| {
        let (admin, path) = ([&admin, &other][at % 2].clone(), path.clone());
        tokio::spawn(async move { admin.done("POST", &path, section).await })
    };
    let all = async |posts: Vec<tokio::task::JoinHandle<Value>>| {
        let mut answers = Vec::new();
        for answer in posts {
            answers.push(answer.await.expect("answers"));
        }
        answers
    };
    // The same one by four at once: one answer.
    let same = all((0..4).map(|at| post(at, section("North", 0, 3))).collect()).await;
    for answer in &same {
        assert_eq!((&answer["first_seat"], &answer["layout"]), (&json!(160), &same[0]["layout"]), "{same:?}");
        assert_eq!(answer["seat_count"], 163, "{answer}");
    }
    // Different ones at once: behind each other, none in another's place.
    let sizes = [4, 5, 6, 7];
    let posts = (0..4).map(|at| post(at, section(&format!("Stand {at}"), 1 + at as i32, sizes[at])));
    let different = all(posts.collect()).await;
    let mut ranges: Vec<(i64, i64)> = different
        .iter()
        .zip(sizes)
        .map(|(answer, n)| (answer["first_seat"].as_i64().expect("a seat"), n.into()))
        .collect();
    ranges.sort_unstable();
    let mut next = 163;
    for (first, n) in ranges {
        assert_eq!(first, next, "{different:?}");
        next += n;
    }
    assert_eq!(next, 185);
    // Said again when others stand behind it: where it was; under its name with other rows it is another one.
    let again = admin.done("POST", &path, section("North", 0, 3)).await;
    assert_eq!((&again["first_seat"], &again["seat_count"]), (&json!(160), &json!(185)), "{again}");
    let longer = admin.done("POST", &path, section("North", 8, 2)).await;
    assert_eq!((&longer["first_seat"], &longer["seat_count"]), (&json!(185), &json!(187)), "{longer}");
    let mut given_out = section("Gallery", 9, 2);
    given_out["sales_mode"] = json!("best_available");
    admin.done("POST", &path, given_out).await;
    let shown = admin.done("GET", &format!("/v1/admin/events/{event}"), Value::Null).await;
    let modes: Vec<&Value> = shown["sections"].as_array().expect("sections").iter().map(|s| &s["sales_mode"]).collect();
    let expected: Vec<&str> = (0..8).map(|at| if at == 7 { "best_available" } else { "pick_seat" }).collect();
    assert_eq!(modes, expected, "{shown}");
    let (mut buyer, _) = Client::guest(&nodes[0].url).await;
    let held = buyer.call("hold", json!({"key": "1", "event": event, "seats": [160, 184, 186]})).await;
    assert_eq!((&held["ok"], &held["hold"]["total_minor"]), (&json!(true), &json!(6000)), "{held}");
}
