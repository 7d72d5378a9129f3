//! Viewers that read slowly, not at all, or not to the end.

use super::foyer::Foyer;
use crate::support::map::{Header, Map, Took};
use crate::support::{PATIENCE, eventually};
use seatwire_proto::seat::SeatState::{self, Available, Held, Sold};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A socket that reads only when told to, with a small window.
struct Reluctant {
    stream: TcpStream,
}

fn masked_text(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

impl Reluctant {
    async fn watch(foyer: &Foyer) -> Self {
        let address = foyer.url.trim_start_matches("http://").parse().expect("an address");
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small window");
        let mut stream = socket.connect(address).await.expect("connects");
        let upgrade = "GET /v1/socket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(upgrade.as_bytes()).await.expect("sends");
        let hello = masked_text(r#"{"id":1,"op":"hello"}"#);
        let subscribe = masked_text(&format!(r#"{{"id":2,"op":"subscribe","event":"{}"}}"#, foyer.event));
        stream.write_all(&[hello, subscribe].concat()).await.expect("sends");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("the upgrade's answer"));
        }
        Self { stream }
    }

    /// The next frame: opcode and payload.
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let read = async {
            let first = self.stream.read_u8().await?;
            let length = match self.stream.read_u8().await? {
                126 => usize::from(self.stream.read_u16().await?),
                127 => self.stream.read_u64().await? as usize,
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await?;
            Ok::<_, std::io::Error>((first & 15, payload))
        };
        tokio::time::timeout(PATIENCE, read).await.expect("a frame in time").expect("a frame")
    }
}

/// Changes that fill any buffer: random-looking seats, so that nothing compresses.
fn storm(foyer: &Foyer, rounds: u32, state: SeatState) {
    let seat_count = foyer.truth().states.len() as u32;
    for round in 0..rounds {
        let scattered = |at: u32| (round * 200 + at).wrapping_mul(2_654_435_761) % seat_count;
        let seats: Vec<(u32, SeatState)> = (0..200).map(|at| (scattered(at), state)).collect();
        foyer.publish(&seats, &[(0, round)]);
    }
}

#[tokio::test]
async fn a_viewer_that_slept_through_a_storm_is_right_again_and_nothing_was_queued() {
    let foyer = Foyer::open_with(50_000, &[("SEATWIRE_TICK_MIN_MS", "5"), ("SEATWIRE_TICK_MAX_MS", "5")]).await;
    let mut sleeper = Reluctant::watch(&foyer).await;
    let mut awake = foyer.viewer().await;
    awake.call("subscribe", serde_json::json!({"event": foyer.event})).await;
    let mut good = Map::new(50_000, 1);
    let mut ticks = 0;
    let mut bytes = 0;
    for round in 0..400_u32 {
        storm(&foyer, 2, [Held, Sold, Available][round as usize % 3]);
        while good.seq < foyer.truth().seq {
            let frame = awake.frame().await;
            bytes += frame.len();
            ticks += u32::from(good.take(&frame) == Took::Applied);
        }
    }
    assert_eq!(good.states, foyer.truth().states, "the other viewer was never held up");
    assert!(ticks > 200 && bytes > 200_000, "{ticks} frames of {bytes} bytes");

    let mut map = Map::new(50_000, 1);
    let mut read = 0;
    while (map.epoch, map.seq) != (1, foyer.truth().seq) {
        let (opcode, payload) = sleeper.frame().await;
        if opcode == 2 {
            read += payload.len();
            assert_ne!(map.take(&payload), Took::NeedsResync, "no hole: {:?} at {}", Header::read(&payload), map.seq);
        }
    }
    assert_eq!(map.states, foyer.truth().states);
    assert!(read < bytes, "{read} of {bytes} bytes: it was not sent everything it had missed");
}

#[tokio::test]
async fn a_viewer_that_takes_nothing_is_closed_and_forgotten() {
    let foyer = Foyer::open_with(50_000, &[("SEATWIRE_TICK_MIN_MS", "5"), ("SEATWIRE_TICK_MAX_MS", "5")]).await;
    let sleeper = Reluctant::watch(&foyer).await;
    let live = foyer.live().await;
    eventually("the subscription", || async { (live.viewer_count() == 1).then_some(()) }).await;
    let began = std::time::Instant::now();
    while foyer.door.session_count() > 0 {
        storm(&foyer, 2, Held);
        storm(&foyer, 2, Sold);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(began.elapsed() < PATIENCE, "still there");
    }
    assert!(began.elapsed() > Duration::from_secs(14), "gone after {:?} already", began.elapsed());
    eventually("it to be forgotten", || async { (live.viewer_count() == 0).then_some(()) }).await;
    drop(sleeper);
}

#[tokio::test]
async fn replies_to_a_socket_that_takes_nothing_are_bounded() {
    let settings = [("SEATWIRE_COMMAND_BURST", "100000"), ("SEATWIRE_COMMANDS_PER_S", "100000")];
    let foyer = Foyer::open_with(50_000, &settings).await;
    let sleeper = Reluctant::watch(&foyer).await;
    let filler = "x".repeat(3_000);
    let (_reading, mut writing) = sleeper.stream.into_split();
    let writer = tokio::spawn(async move {
        for id in 10..100_000 {
            let ping = masked_text(&format!(r#"{{"id":{id},"op":"ping","t0":"{filler}"}}"#));
            if writing.write_all(&ping).await.is_err() {
                return;
            }
        }
    });
    eventually("the session to end", || async { (foyer.door.session_count() == 0).then_some(()) }).await;
    drop(_reading);
    writer.await.expect("the server stopped reading or closed");
}

#[tokio::test]
async fn a_message_that_never_ends_ends_the_session() {
    let foyer = Foyer::open(100).await;
    let mut slow = Reluctant::watch(&foyer).await;
    slow.stream.write_all(&[0x81, 0x80 | 20, 0, 0, 0, 0, b'{']).await.expect("sends");
    let began = std::time::Instant::now();
    loop {
        let (opcode, payload) = slow.frame().await;
        if opcode == 8 {
            assert_eq!(u16::from_be_bytes([payload[0], payload[1]]), 4000);
            break;
        }
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(40)).contains(&took), "{took:?}");
}
