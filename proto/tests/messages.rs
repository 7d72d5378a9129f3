//! The message vectors: every command the server reads or refuses, every reply and push a client reads.

use seatwire_proto::client;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::{
    ErrorObject, HelloReply, HoldBestReply, HoldReply, OrderReply, PingReply, Push, SubscribeReply, UnlockReply,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

fn file() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/messages.json");
    serde_json::from_slice(&std::fs::read(path).expect("the file")).expect("vectors are JSON")
}

fn cases(kind: &str) -> Vec<Value> {
    file()[kind].as_array().expect("cases").clone()
}

fn text(case: &Value) -> &str {
    case["text"].as_str().expect("a text")
}

#[test]
fn every_command_is_read_or_refused_as_it_says() {
    let mut ops = BTreeSet::new();
    for case in cases("commands") {
        let name = case["name"].as_str().expect("a name");
        let read = client::decode(text(&case).as_bytes()).map_err(|refused| (refused.id, refused.code, refused.field));
        let read = read.and_then(|message| match message.command.validate() {
            Ok(()) => Ok(message),
            Err(field) => Err((Some(message.id), ErrorCode::BadField, Some(field))),
        });
        match (read, case.get("command"), case.get("refused")) {
            (Ok(message), Some(command), None) => {
                assert_eq!(Value::from(message.id), command["id"], "{name}");
                assert_eq!(message.command.op(), command["op"], "{name}");
                assert_eq!(message.key.as_ref().map(|key| key.as_str()), command["key"].as_str(), "{name}");
                let encoded = client::encode(&message).expect("plain data");
                let mut fields: Value = serde_json::from_str(&encoded).expect("JSON");
                fields.as_object_mut().expect("an object").retain(|key, _| !["id", "op", "key"].contains(&&key[..]));
                assert_eq!(fields, command["fields"], "{name}");
                ops.insert(message.command.op());
            }
            (Err((id, code, field)), None, Some(refused)) => {
                assert_eq!(id.map(Value::from).unwrap_or_default(), refused["id"], "{name}");
                assert_eq!(code.as_str(), refused["code"], "{name}");
                assert_eq!(field.as_ref().map(|field| &field.path[..]), refused["path"].as_str(), "{name}");
            }
            (read, ..) => panic!("{name}: {read:?}"),
        }
    }
    assert_eq!(ops, client::Command::OPS.iter().copied().collect(), "every op has a vector");
}

fn survives<T: Serialize + DeserializeOwned>(name: &str, body: &Value) {
    let read: T = serde_json::from_value(body.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(&serde_json::to_value(read).expect("plain data"), body, "{name}");
}

#[test]
fn every_reply_is_read_and_written_the_same() {
    let mut codes = BTreeSet::new();
    for case in cases("replies") {
        let name = case["name"].as_str().expect("a name");
        let mut body: Value = serde_json::from_str(text(&case)).expect("JSON");
        let is_ok = body["ok"] == true;
        assert_eq!(is_ok, case["type"] != "error", "{name}");
        body.as_object_mut().expect("an object").retain(|key, _| !["id", "ok", "replayed"].contains(&&key[..]));
        if case["type"] != "subscribe" {
            body.as_object_mut().expect("an object").retain(|key, _| !["epoch", "seq"].contains(&&key[..]));
        }
        match case["type"].as_str().expect("a type") {
            "hello" => survives::<HelloReply>(name, &body),
            "ping" => survives::<PingReply>(name, &body),
            "subscribe" => survives::<SubscribeReply>(name, &body),
            "hold" => survives::<HoldReply>(name, &body),
            "hold_best" => survives::<HoldBestReply>(name, &body),
            "unlock" => survives::<UnlockReply>(name, &body),
            "order" => survives::<OrderReply>(name, &body),
            "empty" => assert_eq!(body, serde_json::json!({}), "{name}"),
            "error" => {
                survives::<ErrorObject>(name, &body["error"]);
                codes.insert(body["error"]["code"].as_str().expect("a code").to_owned());
            }
            other => panic!("{name}: type {other}"),
        }
    }
    let all = ErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(codes, all, "every code has a vector");
}

#[test]
fn every_push_is_read_and_written_the_same() {
    let cases = cases("pushes");
    assert!(cases.len() >= 15);
    for case in cases {
        let push = serde_json::from_str(text(&case)).expect("JSON");
        survives::<Push>(case["name"].as_str().expect("a name"), &push);
    }
}
