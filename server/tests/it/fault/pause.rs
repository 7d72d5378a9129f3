//! Redis stops and goes on: for a moment, and for longer than any hold lives. Answers stay bounded, nothing piles up, nobody
//! is told a success that is none, and what was unknown is settled by its key.

use super::race::Race;
use crate::support::eventually;
use seatwire::store::epoch;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No answer takes longer while Redis is silent: the command timeout, and time for a busy machine.
const BOUNDED: Duration = Duration::from_secs(9);
/// Between two questions of those who ask while Redis is silent.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Stops Redis for so long while everybody asks on, and lets it go on.
async fn stop_for(race: &Arc<Race>, pause: Duration) {
    let token = race.identity().await;
    race.stage.lock().await.redis.signal("STOP");
    let began = Instant::now();
    let mut asked_n = 0;
    while began.elapsed() < pause {
        let asked = Instant::now();
        let answer = race.try_post(&race.holds_path(), &token, "k", &json!({"seats": [0]})).await.expect("an answer");
        let code = answer["error"]["code"].as_str().expect("a refusal").to_owned();
        assert!(["timeout_unknown", "unavailable", "overloaded", "key_in_use"].contains(&&*code), "{answer}");
        assert!(asked.elapsed() < BOUNDED, "bounded: {:?}", asked.elapsed());
        asked_n += 1;
        // That it sleeps for so long is what this is about.
        tokio::time::sleep(ASK_EVERY.min(pause.saturating_sub(began.elapsed()))).await;
    }
    assert!(asked_n >= 1, "somebody asked");
    race.stage.lock().await.redis.signal("CONT");
    // The same key has one answer now, whatever became of the first: and it is no success that somebody else has, too.
    let settled = race.post(&race.holds_path(), &token, "k", &json!({"seats": [0]})).await;
    let again = race.post(&race.holds_path(), &token, "k", &json!({"seats": [0]})).await;
    assert_eq!(settled["hold"], again["hold"], "{settled} and then {again}");
}

/// How far the event's clock is from Redis' own.
async fn skew_ms(race: &Race) -> i64 {
    let stage = race.stage.lock().await;
    let event: seatwire_proto::id::EventId = race.event.parse().expect("an id");
    let epoch = epoch::current(stage.store.pool(), event).await.expect("reads").expect("open");
    let key = format!("{{{event}}}:{epoch}:m");
    let meta = super::redis::command(&stage.redis.url(), &["GETRANGE", &key, "39", "46"]).await;
    i64::from_le_bytes(meta.as_bytes().expect("bytes").try_into().expect("eight bytes"))
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_and_continued() {
    let race = Race::start(&[], None).await;
    let fault = async {
        let before = race.epoch().await;
        for pause_ms in [1_000, 5_000] {
            stop_for(&race, Duration::from_millis(pause_ms)).await;
            race.more_grants(10).await;
        }
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert_eq!(race.epoch().await, before, "nothing was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_for_half_a_minute_every_hold_of_before_ends_and_the_clock_is_believed() {
    let race = Race::start(&[], None).await;
    let fault = async {
        let before = race.epoch().await;
        // Nobody else asks for these places before they are free again.
        let token = race.identity().await;
        let mut turn = 0;
        let id = loop {
            turn += 1;
            let key = format!("h{turn}");
            let held = race.post(&race.holds_path(), &token, &key, &json!({"area": 0, "quantity": 2})).await;
            // The racers have it for the moment; they give places back.
            if let Some(id) = held["hold"]["id"].as_str() {
                break id.to_owned();
            }
            assert!(turn < 1_000, "no two places are ever free: {held}");
        };
        stop_for(&race, Duration::from_secs(30)).await;
        let continued = Instant::now();
        race.more_grants(10).await;
        // Its time passed while Redis slept: it ends now, not when half a minute and what was left of it have passed again.
        eventually("the hold of before to end", || async {
            let url = race.urls.lock()[0].clone();
            let asked = reqwest::Client::new().get(format!("{url}/v1/holds/{id}")).bearer_auth(&token).send();
            let answer: Value = asked.await.ok()?.json().await.ok()?;
            let code = answer["error"]["code"].as_str()?;
            ["hold_expired", "hold_not_found"].contains(&code).then_some(())
        })
        .await;
        assert!(continued.elapsed() < Duration::from_secs(28), "it ended {:?} after", continued.elapsed());
        assert_eq!(skew_ms(&race).await, 0, "a Redis that slept has no wrong clock");
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert_eq!(race.epoch().await, before, "nothing was lost");
}
