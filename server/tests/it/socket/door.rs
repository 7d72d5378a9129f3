//! Coming in and going out: caps, HTTP beside sockets, drain.

use super::foyer::Foyer;
use crate::support::client::Client;
use crate::support::{PATIENCE, eventually};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn raw(foyer: &Foyer) -> TcpStream {
    TcpStream::connect(foyer.url.trim_start_matches("http://")).await.expect("connects")
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("closed in time").expect("reads");
    String::from_utf8_lossy(&bytes).into_owned()
}

const UPGRADE: &str = "GET /v1/socket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[tokio::test]
async fn plain_http_goes_to_the_router() {
    let foyer = Foyer::open(10).await;
    let text = reqwest::get(format!("{}/hello", foyer.url)).await.expect("answers").text().await.expect("text");
    assert_eq!(text, "world");
    let missing = reqwest::get(format!("{}/v1/nothing", foyer.url)).await.expect("answers");
    assert_eq!(missing.status(), 404);
}

#[tokio::test]
async fn a_connection_above_the_cap_is_told_when_to_come_back() {
    let foyer = Foyer::open_with(10, &[("SEATWIRE_MAX_CONNECTIONS", "2")]).await;
    let first = foyer.viewer().await;
    let _second = foyer.viewer().await;
    let answer = rest(&mut raw(&foyer).await).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("Retry-After: "), "{answer}");
    drop(first);
    eventually("a place to be free", || async {
        let mut stream = raw(&foyer).await;
        stream.write_all(UPGRADE.as_bytes()).await.ok()?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.ok()?;
        (&head == b"HTTP/1.1 101").then_some(())
    })
    .await;
}

#[tokio::test]
async fn handshakes_above_their_rate_are_put_off() {
    let foyer = Foyer::open_with(10, &[("SEATWIRE_HANDSHAKES_PER_S", "1")]).await;
    // All at once, so that a slow machine asks fast enough.
    let mut asking = Vec::new();
    for _ in 0..6 {
        let mut stream = raw(&foyer).await;
        stream.write_all(UPGRADE.as_bytes()).await.expect("sends");
        asking.push(stream);
    }
    let mut refused = 0;
    for mut stream in asking {
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("an answer");
        if &head == b"HTTP/1.1 503" {
            refused += 1;
            assert!(rest(&mut stream).await.to_ascii_lowercase().contains("retry-after: "));
        }
    }
    assert!(refused >= 3, "{refused} of 6 refused");
}

#[tokio::test]
async fn the_cap_per_address_spares_loopback_unless_configured() {
    for (setting, expected) in [("false", 300), ("true", 256)] {
        let foyer = Foyer::open_with(10, &[("SEATWIRE_LIMIT_LOOPBACK", setting)]).await;
        let mut open = Vec::new();
        for _ in 0..300 {
            let mut stream = raw(&foyer).await;
            // At once: who says nothing is closed after a while. One that is refused may be gone already.
            let _ = stream.write_all(UPGRADE.as_bytes()).await;
            open.push(stream);
        }
        let mut served = 0;
        for stream in &mut open {
            let mut head = [0; 12];
            // A refused connection may be reset, as it is closed with our request unread.
            if stream.read_exact(&mut head).await.is_ok() && &head == b"HTTP/1.1 101" {
                served += 1;
            }
        }
        assert_eq!(served, expected, "loopback limited: {setting}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_before_and_after_a_request() {
    let foyer = Foyer::open(10).await;
    let began = Instant::now();
    let mut silent = raw(&foyer).await;
    let mut lazy = raw(&foyer).await;
    lazy.write_all(b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("sends");
    assert_eq!(rest(&mut silent).await.len(), 0);
    assert!(rest(&mut lazy).await.ends_with("world"));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_comes_right_behind_the_handshake_is_read() {
    let foyer = Foyer::open(10).await;
    let mut stream = raw(&foyer).await;
    let text = br#"{"id":1,"op":"hello"}"#;
    let mut bytes = UPGRADE.as_bytes().to_vec();
    bytes.extend([0x81, 0x80 | text.len() as u8, 0, 0, 0, 0]);
    bytes.extend(text);
    bytes.extend([0x88, 0x80, 0, 0, 0, 0]);
    stream.write_all(&bytes).await.expect("sends");
    let answer = rest(&mut stream).await;
    assert!(answer.contains(r#""id":1,"ok":true"#), "{answer}");
}

#[tokio::test]
async fn a_drain_says_so_and_closes_everyone_within_its_window() {
    let foyer = Foyer::open_with(10, &[("SEATWIRE_DRAIN_MS", "400")]).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(foyer.viewer().await);
    }
    foyer.stop.notify_one();
    foyer.served.await.expect("the listener ends");
    assert!(TcpStream::connect(foyer.url.trim_start_matches("http://")).await.is_err(), "nobody comes in any more");
    assert_eq!(clients[0].call("ping", json!({"t0": 1})).await["ok"], true, "sockets live on");
    let door = foyer.door.clone();
    let began = Instant::now();
    let drained = tokio::spawn(async move { door.drain().await });
    let mut closed_after = Vec::new();
    for mut client in clients {
        assert_eq!(client.push("server.drain").await["jitter_ms"], 400);
        assert_eq!(client.closed().await, (4001, "drain".into()));
        closed_after.push(began.elapsed());
        drop(client);
    }
    drained.await.expect("drains");
    assert_eq!(foyer.door.session_count(), 0);
    // Far from the usual window, which is five seconds.
    assert!(began.elapsed() < Duration::from_millis(4_500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn sessions_end_with_their_connections() {
    let foyer = Foyer::open(10).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client: Client = foyer.viewer().await;
        client.call("subscribe", json!({"event": foyer.event})).await;
        clients.push(client);
    }
    let live = foyer.live().await;
    assert_eq!((foyer.door.session_count(), live.viewer_count()), (5, 5));
    drop(clients);
    eventually("the sessions to end", || async {
        (foyer.door.session_count() == 0 && live.viewer_count() == 0).then_some(())
    })
    .await;
}
