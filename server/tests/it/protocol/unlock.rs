//! Presale codes: the map says blocked, and whoever has the code may hold.

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use base64::Engine as _;
use roaring::RoaringBitmap;
use seatwire::catalogue::code_hash;
use seatwire::store::allocation::{self, AllocationRow, Entered};
use seatwire_proto::id::{AllocationId, EventId, IdentityId};
use serde_json::{Value, json};

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or("ok")
}

/// Keeps seats for whoever knows the code.
async fn allocate(stage: &Stage, event: &str, code: &str, seats: std::ops::Range<u32>, until_ms: u64) -> AllocationId {
    let event: EventId = event.parse().expect("an id");
    let mut bytes = Vec::new();
    seats.collect::<RoaringBitmap>().serialize_into(&mut bytes).expect("a Vec takes everything");
    let row = AllocationRow {
        slot: 0,
        id: AllocationId::generate(),
        name: "Fan club".into(),
        code_hash: code_hash(event, code).to_vec(),
        seats: bytes,
        from_ms: 0,
        until_ms,
        is_closed: false,
    };
    let mut transaction = seatwire::store::begin(stage.store.pool()).await.expect("begins");
    assert!(allocation::lock_event(&mut transaction, event).await.expect("Postgres answers"));
    let entered = allocation::insert(&mut transaction, event, &row, 1).await.expect("Postgres answers");
    assert_eq!(entered, Entered::Done);
    transaction.commit().await.expect("commits");
    row.id
}

const LATER_MS: u64 = 4_000_000_000_000;

#[tokio::test]
async fn best_seats_among_those_of_a_code_go_to_those_who_have_it_when_nothing_else_is_left() {
    let (stage, event) = Stage::with_event(&Draft { rows: vec![4], areas: vec![], ..Draft::default() }).await;
    allocate(&stage, &event, "sesame", 2..4, LATER_MS).await;
    let node = stage.node().await;
    let (mut fan, _) = Client::guest(&node.url).await;
    let (mut other, _) = Client::guest(&node.url).await;
    let best = |key: &str| json!({"key": key, "event": event, "quantity": 2});
    assert_eq!(code(&fan.call("unlock", json!({"key": "1", "event": event, "code": "sesame"})).await), "ok");
    assert_eq!(code(&other.call("hold", json!({"key": "1", "event": event, "seats": [0, 1]})).await), "ok");
    let refused = other.call("hold_best", best("2")).await;
    assert!(["sold_out", "not_enough"].contains(&code(&refused)), "{refused}");
    let held = fan.call("hold_best", best("2")).await;
    let seats: Vec<u64> =
        held["hold"]["lines"].as_array().expect("lines").iter().filter_map(|line| line["seat"].as_u64()).collect();
    assert_eq!(seats, [2, 3], "{held}");
}

#[tokio::test]
async fn a_code_opens_seats_that_the_map_shows_blocked_and_a_rebuild_keeps_it_open() {
    let (mut stage, event) = Stage::with_event(&Draft::default()).await;
    let id = allocate(&stage, &event, "sesame", 20..24, LATER_MS).await;
    let node = stage.node().await;
    let (mut fan, guest) = Client::guest(&node.url).await;
    let (mut other, _) = Client::guest(&node.url).await;
    let hold = |key: &str, seat: u32| json!({"key": key, "event": event, "seats": [seat]});
    assert_eq!(code(&fan.call("hold", hold("1", 20)).await), "seat_taken");
    let unlock = |key: &str, code: &str| json!({"key": key, "event": event, "code": code});
    assert_eq!(code(&fan.call("unlock", unlock("2", "simsim")).await), "code_invalid");
    let reply = fan.call("unlock", unlock("3", " sesame ")).await;
    assert_eq!(reply["allocation"], json!({"id": id, "name": "Fan club", "until_ms": LATER_MS}), "{reply}");
    let seats = base64::engine::general_purpose::STANDARD.decode(reply["seats"].as_str().expect("text"));
    let seats = RoaringBitmap::deserialize_from(&seats.expect("base64")[..]).expect("a set");
    assert_eq!(seats.iter().collect::<Vec<_>>(), [20, 21, 22, 23]);
    assert!(reply["epoch"].is_u64() && reply["seq"].is_u64(), "{reply}");
    assert_eq!(fan.call("unlock", unlock("3", " sesame ")).await["replayed"], true);
    assert_eq!(code(&fan.call("hold", hold("4", 20)).await), "ok");
    assert_eq!(code(&other.call("hold", hold("1", 21)).await), "seat_taken");
    // Best seats come into the same basket.
    let best = json!({"key": "5", "event": event, "quantity": 3, "price_tiers": ["A"]});
    assert_eq!(code(&fan.call("hold_best", best).await), "ok");

    // The same over HTTP.
    let response = reqwest::Client::new()
        .post(format!("{}/v1/events/{event}/unlock", node.url))
        .bearer_auth(&guest.token)
        .header("Idempotency-Key", "6")
        .json(&json!({"code": "sesame"}))
        .send()
        .await
        .expect("answers");
    assert_eq!(response.status(), 200);
    assert_eq!(response.json::<Value>().await.expect("JSON")["allocation"]["id"], json!(id));

    // Redis is lost: who unlocked what comes back with the journal.
    let identity: IdentityId = guest.identity.parse().expect("an id");
    eventually("the journal to know what was unlocked and held", || async {
        let record: Option<(Vec<u8>,)> =
            sqlx::query_as("select record from journal_records where identity_id = $1 and has_hold")
                .bind(identity.uuid())
                .fetch_optional(stage.store.pool())
                .await
                .expect("Postgres answers");
        // The word behind number, bought and admitted.
        record.filter(|(record,)| record[14..18] == [1, 0, 0, 0])
    })
    .await;
    stage.redis.kill();
    stage.redis.restart().await;
    let mut tries = 0;
    let held = eventually("the event to open again", || {
        tries += 1;
        let key = format!("again {tries}");
        let body = json!({"key": key, "event": event, "seats": [23]});
        let token = guest.token.clone();
        let url = node.url.clone();
        async move {
            let mut client = Client::hello(&url, Some(&token)).await;
            let reply = client.call("hold", body).await;
            (!["unavailable", "timeout_unknown", "rate_limited"].contains(&code(&reply))).then_some(reply)
        }
    })
    .await;
    assert_eq!(code(&held), "ok", "{held}");
    assert!(held["epoch"].as_u64() > Some(1), "{held}");
    drop(node);
}

#[tokio::test]
async fn a_code_counts_within_its_window_and_guessing_is_slowed_down() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    allocate(&stage, &event, "yesterday", 0..4, 1_000).await;
    allocate(&stage, &event, "sesame", 4..8, LATER_MS).await;
    let node = stage.node().await;
    let (mut guesser, _) = Client::guest(&node.url).await;
    let unlock = |key: usize, code: &str| json!({"key": key.to_string(), "event": event, "code": code});
    assert_eq!(code(&guesser.call("unlock", unlock(0, "yesterday")).await), "code_invalid");
    for n in 1..5 {
        assert_eq!(code(&guesser.call("unlock", unlock(n, "guess")).await), "code_invalid");
    }
    let reply = guesser.call("unlock", unlock(5, "sesame")).await;
    assert_eq!(code(&reply), "rate_limited", "{reply}");
    assert!(reply["error"]["retry_after_ms"].as_u64() > Some(0), "{reply}");
    let (mut fan, _) = Client::guest(&node.url).await;
    assert_eq!(code(&fan.call("unlock", unlock(0, "sesame")).await), "ok");
    let reply = fan.call("unlock", json!({"key": "1", "event": event, "code": " "})).await;
    assert_eq!((code(&reply), &reply["error"]["data"]["path"]), ("bad_field", &json!("/code")));
    let mut nobody = Client::hello(&node.url, None).await;
    assert_eq!(code(&nobody.call("unlock", unlock(0, "sesame")).await), "unauthorized");
}

#[tokio::test]
async fn an_allocation_made_while_the_event_sells_reaches_the_map_and_is_given_back_when_closed() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let node = stage.node().await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    assert_eq!(code(&buyer.call("hold", json!({"key": "1", "event": event, "seats": [30]})).await), "ok");
    let states = async || {
        let url = format!("{}/v1/events/{event}/snapshot?format=json", node.url);
        let body: Value = reqwest::get(url).await.expect("answers").json().await.expect("JSON");
        body["states"].as_str().expect("digits").to_owned()
    };
    let id = allocate(&stage, &event, "sesame", 20..22, LATER_MS).await;
    eventually("the map to show the allocation", async || (&states().await[19..23] == "0330").then_some(())).await;
    allocation::close(stage.store.pool(), id, 2).await.expect("Postgres answers").expect("its event");
    eventually("the map to show it given back", async || (&states().await[19..23] == "0000").then_some(())).await;
    assert_eq!(code(&buyer.call("hold", json!({"key": "2", "event": event, "seats": [20]})).await), "ok");
}
