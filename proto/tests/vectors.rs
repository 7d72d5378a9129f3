//! The golden vectors as every client must pass them: read from the files, never computed here.
//! Their format is told in proto/README.md; `examples/write_vectors` makes them.

use seatwire_proto::client::Position;
use seatwire_proto::digest::{Digest, mix};
use seatwire_proto::frame::FrameDecoder;
use seatwire_proto::layout::LayoutHash;
use seatwire_proto::layout_compact;
use seatwire_proto::seat::SeatState;
use seatwire_proto::view::{Outcome, ResyncReason, View};
use serde_json::Value;

fn file(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("vectors are JSON")
}

fn position(value: &Value) -> Position {
    serde_json::from_value(value.clone()).expect("epoch and seq")
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().expect("a number")).expect("32 bits")
}

fn state(value: u64) -> SeatState {
    u8::try_from(value).ok().and_then(SeatState::from_u8).expect("a state")
}

/// Outcome, reason and position to ask from, as the files spell them.
fn spell(outcome: Outcome) -> (&'static str, Option<&'static str>, Option<Position>) {
    match outcome {
        Outcome::Applied => ("applied", None, None),
        Outcome::InStep => ("in_step", None, None),
        Outcome::Dropped(_) => ("dropped", None, None),
        Outcome::Resync { from, reason } => {
            let reason = match reason {
                ResyncReason::HigherEpoch => "higher_epoch",
                ResyncReason::Gap => "gap",
                ResyncReason::Behind => "behind",
                ResyncReason::Digest => "digest",
                ResyncReason::Invalid(_) => "invalid",
            };
            ("resync", Some(reason), Some(from))
        }
    }
}

fn check_case(case: &Value) {
    let name = case["name"].as_str().expect("a name");
    let (seats, areas) = (number(&case["seat_count"]), number(&case["area_count"]));
    let mut view = match case.get("live") {
        Some(live) => View::live(position(live), seats, areas),
        None => View::new(seats, areas),
    };
    let mut decoder = FrameDecoder::new();
    for (at, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
        if step.get("resync_answered").is_some() {
            view.resync_answered();
            continue;
        }
        let frame = hex::decode(step["frame"].as_str().expect("hex")).expect("hex");
        let outcome = view.take(&frame, &mut decoder);
        let expected =
            (step["outcome"].as_str().expect("an outcome"), step["reason"].as_str(), step.get("from").map(position));
        assert_eq!(spell(outcome), expected, "{name}, step {at}: {outcome:?}");
        assert_eq!(view.position(), position(&step["position"]), "{name}, step {at}");
        assert_eq!(view.digest().map(|digest| u64::from(digest.0)), step["digest"].as_u64(), "{name}, step {at}");
        let areas: Vec<u32> = step["areas"].as_array().expect("areas").iter().map(number).collect();
        assert_eq!(view.areas(), areas, "{name}, step {at}");
        let mut states = Vec::new();
        for run in step["states"].as_array().expect("runs") {
            states.resize(states.len() + number(&run[1]) as usize, state(run[0].as_u64().expect("a state")));
        }
        assert!(view.states().iter().eq(states), "{name}, step {at}: states differ");
    }
}

#[test]
fn every_frame_vector_ends_as_it_says() {
    let cases = file("frames.json");
    let cases = cases["cases"].as_array().expect("cases");
    assert!(cases.len() >= 20, "{}", cases.len());
    cases.iter().for_each(check_case);
}

#[test]
fn every_invalid_frame_is_refused_and_leaves_the_map_alone() {
    let cases = file("frames_refused.json");
    let cases = cases["cases"].as_array().expect("cases");
    assert!(cases.len() >= 60, "{}", cases.len());
    cases.iter().for_each(check_case);
}

#[test]
fn every_digest_vector_agrees() {
    let vectors = file("digest.json");
    for pair in vectors["mix"].as_array().expect("pairs") {
        assert_eq!(mix(number(&pair["x"])), number(&pair["mix"]));
    }
    for map in vectors["maps"].as_array().expect("maps") {
        let states: Vec<_> =
            map["states"].as_str().expect("digits").bytes().map(|digit| state(u64::from(digit - b'0'))).collect();
        let areas: Vec<u32> = map["areas"].as_array().expect("areas").iter().map(number).collect();
        assert_eq!(Digest::of(&states, &areas).0, number(&map["digest"]), "{map}");
    }
}

#[test]
fn every_compact_layout_decodes_to_the_layout_of_its_hash() {
    let vectors = file("layouts.json");
    let cases = vectors["cases"].as_array().expect("cases");
    assert!(cases.iter().any(|case| case["name"] == "race_track"));
    for case in cases {
        let compact = hex::decode(case["compact"].as_str().expect("hex")).expect("hex");
        let layout = layout_compact::decode(&compact).unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
        let stored = layout.stored_json();
        assert_eq!(layout.seat_count, number(&case["seat_count"]), "{}", case["name"]);
        assert_eq!(LayoutHash::of(&stored).to_string(), case["hash"].as_str().expect("a hash"), "{}", case["name"]);
        if let Some(json) = case["stored_json"].as_str() {
            assert_eq!(String::from_utf8(stored).as_deref(), Ok(json), "{}", case["name"]);
        }
    }
}

#[test]
fn every_damaged_compact_layout_is_refused() {
    let vectors = file("layouts.json");
    let cases = vectors["refused"].as_array().expect("cases");
    assert!(cases.len() >= 15);
    for case in cases {
        let compact = hex::decode(case["compact"].as_str().expect("hex")).expect("hex");
        assert!(layout_compact::decode(&compact).is_err(), "{}", case["name"]);
    }
}
