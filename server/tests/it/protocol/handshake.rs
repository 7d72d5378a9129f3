//! Before the first message: upgrade, Origin, subprotocol, and what a hostile client sends instead of frames.

use crate::support::PATIENCE;
use crate::support::client::Client;
use crate::support::stage::Stage;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

struct Raw {
    stream: TcpStream,
    host: String,
}

impl Raw {
    async fn connect(url: &str) -> Self {
        let host = url.trim_start_matches("http://").to_owned();
        Self { stream: TcpStream::connect(&host).await.expect("connects"), host }
    }

    /// Sends the upgrade with these extra headers and reads the head of the answer.
    async fn upgrade(url: &str, headers: &str) -> (Self, String) {
        let mut raw = Self::connect(url).await;
        let host = raw.host.clone();
        let request = format!(
            "GET /v1/socket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        raw.stream.write_all(request.as_bytes()).await.expect("sends");
        let head = raw.head().await;
        (raw, head)
    }

    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        let mut byte = [0u8; 1];
        while !head.ends_with(b"\r\n\r\n") {
            let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut byte)).await.expect("an answer in time");
            if read.expect("reads") == 0 {
                break;
            }
            head.push(byte[0]);
        }
        String::from_utf8(head).expect("ASCII")
    }

    /// The error object behind a head.
    async fn error(&mut self, head: &str) -> Value {
        let head = head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/json"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut bytes = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut bytes).await.expect("a body");
        serde_json::from_slice::<Value>(&bytes).expect("JSON")["error"].take()
    }

    /// Reads frames until the close frame; its code.
    async fn close_code(mut self) -> Option<u16> {
        let mut bytes = Vec::new();
        tokio::time::timeout(PATIENCE, self.stream.read_to_end(&mut bytes)).await.expect("closes in time").ok()?;
        let mut rest = bytes.as_slice();
        while rest.len() >= 2 {
            let opcode = rest[0] & 0x0f;
            let (length, head) = match rest[1] & 0x7f {
                126 => (usize::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
                127 => panic!("a server frame this large"),
                short => (usize::from(short), 2),
            };
            let body = &rest[head..head + length];
            if opcode == 8 {
                return Some(u16::from_be_bytes([body[0], body[1]]));
            }
            rest = &rest[head + length..];
        }
        None
    }
}

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(long as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[1, 2, 3, 4]);
    frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ [1, 2, 3, 4][at % 4]));
    frame
}

#[tokio::test]
async fn the_upgrade_is_answered_by_the_book() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let (_, head) = Raw::upgrade(&node.url, "").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    let (_, head) = Raw::upgrade(&node.url, "Sec-WebSocket-Protocol: other.v9, seatwire.v1\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 101") && head.to_ascii_lowercase().contains("sec-websocket-protocol: seatwire.v1"),
        "{head}"
    );
    let (_, head) = Raw::upgrade(&node.url, "Sec-WebSocket-Extensions: permessage-deflate\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101") && !head.to_ascii_lowercase().contains("permessage-deflate"), "{head}");
}

#[tokio::test]
async fn an_unknown_subprotocol_is_refused_and_the_known_one_named() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let (mut raw, head) = Raw::upgrade(&node.url, "Sec-WebSocket-Protocol: seatwire.v2\r\nConnection: close\r\n").await;
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    let error = raw.error(&head).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&"bad_field".into(), &"/Sec-WebSocket-Protocol".into()));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("seatwire.v1")), "{error}");
}

/// These bytes to a listener; the head and all that came.
async fn said(url: &str, request: &str) -> (String, Raw) {
    let mut raw = Raw::connect(url).await;
    raw.stream.write_all(request.as_bytes()).await.expect("sends");
    (raw.head().await, raw)
}

#[tokio::test]
async fn a_request_names_one_host_on_every_listener() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (url, path, headers, good) in [
        (&node.url, "/v1/events", "", "200"),
        (&node.url, "/healthz", "", "200"),
        (&node.admin_url, "/healthz", "", "200"),
        (&node.door_url, "/scan", "", "308"),
        (&node.url, "/v1/socket", upgrade, "101"),
    ] {
        for (hosts, wanted) in [("", "400"), ("Host: a\r\n", good), ("Host: a\r\nHost: b\r\n", "400")] {
            let (head, mut raw) = said(url, &format!("GET {path} HTTP/1.1\r\n{hosts}{headers}\r\n")).await;
            assert!(head.starts_with(&format!("HTTP/1.1 {wanted}")), "{url}{path} {hosts:?}: {head}");
            if wanted == "400" {
                let error = raw.error(&head).await;
                assert_eq!((&error["code"], &error["data"]["path"]), (&"bad_field".into(), &"/Host".into()), "{error}");
            }
        }
    }
    // The older version has no such header.
    let (head, _) = said(&node.url, "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
}

#[tokio::test]
async fn no_listener_waits_for_one_who_says_nothing_or_trickles() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let ends = [&node.url, &node.admin_url, &node.door_url].map(|url| async move {
        let mut silent = Raw::connect(url).await;
        let (head, mut idle) = said(url, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        let mut slow = Raw::connect(url).await;
        slow.stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("sends");
        for raw in [&mut silent, &mut idle, &mut slow] {
            let mut rest = Vec::new();
            let end = tokio::time::timeout(PATIENCE, raw.stream.read_to_end(&mut rest)).await;
            end.expect("it is closed in time").expect("reads");
        }
        // More headers and longer ones than anybody needs.
        for headers in ["a: b\r\n".repeat(70), format!("a: {}\r\n", "b".repeat(17 << 10))] {
            let (head, _) = said(url, &format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n")).await;
            assert!(head.starts_with("HTTP/1.1 431"), "{url}: {head}");
        }
    });
    futures_util::future::join_all(ends).await;
}

#[tokio::test]
async fn a_foreign_origin_is_refused_before_the_upgrade_and_our_own_is_not() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_ORIGINS", "https://tickets.example")]).await;
    for (origin, status) in [
        (node.url.clone(), "101"),
        ("https://tickets.example".into(), "101"),
        ("https://evil.example".into(), "403"),
        ("https://tickets.example.evil.example".into(), "403"),
        ("null".into(), "403"),
    ] {
        let (mut raw, head) = Raw::upgrade(&node.url, &format!("Origin: {origin}\r\n")).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{origin}: {head}");
        if status == "403" {
            assert_eq!(raw.error(&head).await["code"], "forbidden", "{origin}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_no_upgrade_is_a_plain_error() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let response = reqwest::get(format!("{}/v1/socket", node.url)).await.expect("answers");
    assert!(response.status().is_client_error(), "{}", response.status());
    for (name, value) in [("Sec-WebSocket-Version", "12"), ("Sec-WebSocket-Key", "short")] {
        let mut raw = Raw::connect(&node.url).await;
        let pairs = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let headers: String =
            pairs.iter().map(|&(n, v)| format!("{n}: {}\r\n", if n == name { value } else { v })).collect();
        let request = format!("GET /v1/socket HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", raw.host);
        raw.stream.write_all(request.as_bytes()).await.expect("sends");
        let head = raw.head().await;
        assert!(head.starts_with("HTTP/1.1 4"), "{name}: {head}");
        assert_eq!(raw.error(&head).await["number"], 1002, "{name}");
    }
}

#[tokio::test]
async fn frames_against_the_rules_close_with_their_code() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let long = vec![b'a'; 4097];
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("unmasked", vec![0x81, 2, b'{', b'}'], 1002),
        ("reserved bit", masked(0x91, b"{}"), 1002),
        ("reserved opcode", masked(0x83, b"{}"), 1002),
        ("fragmented ping", masked(0x09, b""), 1002),
        ("long ping", masked(0x89, &[0; 126]), 1002),
        ("stray continuation", masked(0x80, b"{}"), 1002),
        ("binary", masked(0x82, b"{}"), 1003),
        ("not UTF-8", masked(0x81, &[0xff, 0xfe]), 1007),
        ("one byte too long", masked(0x81, &long), 1009),
        ("absurd length", [&[0x81u8, 0xff][..], &(1u64 << 62).to_be_bytes(), &[1, 2, 3, 4]].concat(), 1009),
        ("fragments too long together", [masked(0x01, &long[..4000]), masked(0x80, &long[..100])].concat(), 1009),
    ];
    for (name, bytes, code) in cases {
        let (mut raw, head) = Raw::upgrade(&node.url, "").await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        raw.stream.write_all(&bytes).await.expect("sends");
        assert_eq!(raw.close_code().await, Some(code), "{name}");
    }
}

#[tokio::test]
async fn a_message_in_pieces_with_a_ping_between_is_one_message() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let (mut raw, _) = Raw::upgrade(&node.url, "").await;
    let hello = br#"{"id":1,"op":"hello"}"#;
    let mut bytes = masked(0x01, &hello[..5]);
    bytes.extend(masked(0x89, b"are you there"));
    bytes.extend(masked(0x00, &hello[5..9]));
    bytes.extend(masked(0x80, &hello[9..]));
    bytes.extend(masked(0x88, &1000u16.to_be_bytes()));
    // One byte at a time: the server must not depend on how bytes arrive.
    for byte in bytes {
        raw.stream.write_all(&[byte]).await.expect("sends");
    }
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, raw.stream.read_to_end(&mut answer)).await.expect("closes in time").expect("reads");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("are you there"), "the ping is answered: {text}");
    assert!(text.contains(r#""id":1,"ok":true"#), "the hello is answered: {text}");
}

#[tokio::test]
async fn a_socket_that_never_says_hello_is_closed() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_HELLO_TIMEOUT_MS", "300")]).await;
    let mut client = Client::open(&node.url).await;
    assert_eq!(client.closed().await, (4504, "hello_timeout".into()));
}

#[tokio::test]
async fn headers_that_never_end_are_cut_off() {
    let stage = Stage::new().await;
    let node = stage.node().await;
    let mut raw = Raw::connect(&node.url).await;
    raw.stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.expect("sends");
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, raw.stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "closed by the server");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_gone_after_two() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_HEARTBEAT_MS", "200")]).await;
    let (mut raw, _) = Raw::upgrade(&node.url, "").await;
    raw.stream.write_all(&masked(0x81, br#"{"id":1,"op":"hello"}"#)).await.expect("sends");
    assert_eq!(raw.close_code().await, Some(4004));
}

#[tokio::test]
async fn a_client_that_answers_pings_stays() {
    let stage = Stage::new().await;
    let node = stage.node_with(&[("SEATWIRE_HEARTBEAT_MS", "2500"), ("SEATWIRE_COMMANDS_PER_S", "100")]).await;
    let mut client = Client::hello(&node.url, None).await;
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_millis(8_000) {
        // Each call reads, and reading answers the server's pings; more than two heartbeats pass.
        let reply = client.call("ping", serde_json::json!({"t0": 1})).await;
        assert_eq!(reply["t0"], 1);
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
    client.send(Message::Close(None)).await;
    assert!(matches!(client.closed().await.0, 1000 | 1005));
}
