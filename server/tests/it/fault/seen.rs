//! What becomes free is seen within a second and can be held at once: released or run out, at another node.

use crate::organiser::Viewer;
use crate::support::PATIENCE;
use crate::support::client::Guest;
use crate::support::stage::{Draft, Stage};
use futures_util::{StreamExt, stream};
use seatwire::clock::Clock;
use serde_json::json;
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;

/// Seats given back and seats that run out in one round.
const EACH: u64 = 100;
/// Of each kind, so many are wanted by somebody else at once.
const WANTED: u64 = 10;
const HOLD_TTL_MS: u64 = 2_000;
/// At p99, from the moment a seat is free until a viewer's map shows it: a second, as the bench measures it, and the rest for a
/// busy machine. A sweeper that rests would take five.
const SEEN_WITHIN_MS: u64 = 4_000;
/// A machine that is busy with other tests may spoil a round; a server that is late spoils every one.
const ROUNDS: u32 = 3;

/// Holds seats 0 to 199, gives back the first half, lets the others run out; how late the viewer saw each, ascending, ms.
async fn round(urls: &[String; 2], event: &str, viewer: &mut Viewer) -> Vec<u64> {
    let path = format!("/v1/events/{event}/holds");
    let hold = async |seat: u64| {
        let guest = Guest::new(&urls[0]).await;
        let (_, answer) = guest.post(&path, "h", json!({"seats": [seat]})).await;
        let id = answer["hold"]["id"].as_str().unwrap_or_else(|| panic!("seat {seat}: {answer}")).to_owned();
        (seat, guest, id, answer["hold"]["expires_ms"].as_u64().expect("a time"))
    };
    let now_ms = || Clock::system().now_ms();
    let is_all_free = Cell::new(false);
    let buyers = async {
        let held: Vec<_> = stream::iter(0..2 * EACH).map(&hold).buffered(8).collect().await;
        let mut free_ms: HashMap<usize, u64> = HashMap::new();
        for (seat, guest, id, expires_ms) in &held {
            if *seat >= EACH {
                free_ms.insert(*seat as usize, *expires_ms);
                continue;
            }
            if now_ms() < *expires_ms {
                let (status, answer) = guest.post(&format!("/v1/holds/{id}/release"), "r", json!({})).await;
                assert!(status == 200 || answer["error"]["code"] == "hold_expired", "{answer}");
                free_ms.insert(*seat as usize, now_ms().min(*expires_ms));
            } else {
                free_ms.insert(*seat as usize, *expires_ms);
            }
            if *seat < WANTED {
                free_ms.remove(&(*seat as usize));
                hold(*seat).await;
            }
        }
        for (seat, _, _, expires_ms) in held.iter().filter(|(seat, ..)| (EACH..EACH + WANTED).contains(seat)) {
            while now_ms() <= *expires_ms {
                tokio::task::yield_now().await;
            }
            // The caller's clock and Redis' are one; no sweeper has to come first.
            free_ms.remove(&(*seat as usize));
            hold(*seat).await;
        }
        is_all_free.set(true);
        free_ms
    };
    let viewing = async {
        // When a seat was last seen to become free: a slow machine may have shown it held for no time at all.
        let mut seen_ms: HashMap<usize, u64> = HashMap::new();
        let is_measured = |seat: &u64| !(*seat < WANTED || (EACH..EACH + WANTED).contains(seat));
        let wanted: Vec<usize> = (0..2 * EACH).filter(is_measured).map(|seat| seat as usize).collect();
        let began = Instant::now();
        while !is_all_free.get() || wanted.iter().any(|seat| viewer.map.states[*seat] != 0) {
            assert!(began.elapsed() < PATIENCE, "not everything becomes free");
            let before = viewer.map.states.clone();
            let frame = viewer.client.frame().await;
            viewer.map.take(&frame);
            for seat in wanted.iter().filter(|seat| before[**seat] != 0 && viewer.map.states[**seat] == 0) {
                seen_ms.insert(*seat, now_ms());
            }
        }
        seen_ms
    };
    let (free_ms, seen_ms) = tokio::join!(buyers, viewing);
    let late = |(seat, free_ms): (&usize, &u64)| seen_ms.get(seat).map_or(0, |ms| ms.saturating_sub(*free_ms));
    let mut late_ms: Vec<u64> = free_ms.iter().map(late).collect();
    late_ms.sort_unstable();
    late_ms
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_free_is_seen_within_a_second_and_can_be_held_at_once() {
    let draft = Draft { rows: vec![20; 11], hold_ttl_ms: HOLD_TTL_MS, ..Draft::default() };
    let (stage, event) = Stage::with_event(&draft).await;
    let (first, second) = tokio::join!(stage.node(), stage.node());
    let mut viewer = Viewer::of(&second.url, &event).await;
    let urls = [first.url.clone(), second.url.clone()];
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        viewer.until("everything free", |map| map.states.iter().all(|state| *state == 0)).await;
        let late_ms = round(&urls, &event, &mut viewer).await;
        let p99_ms = late_ms[(late_ms.len() * 99).div_ceil(100) - 1];
        found.push(p99_ms);
        if p99_ms <= SEEN_WITHIN_MS {
            break;
        }
    }
    assert!(found.iter().any(|p99_ms| *p99_ms <= SEEN_WITHIN_MS), "I11: p99 of each round: {found:?} ms");
    super::audit::clean(&stage, &event).await;
}
