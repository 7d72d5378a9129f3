//! What a viewer costs this process: memory while idle and after a large snapshot to all, CPU a delivery against a bare
//! loop of writes over as many sockets in the same run. The door is real, the inventory behind it is in memory; the
//! viewers live in a child process, so that the limit of open files counts once each.
//!
//! `cargo bench -p seatwire --bench viewers -- [viewers] [rounds]`, default 5000 and 60.

#![expect(clippy::print_stdout, reason = "a bench answers on the terminal")]

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use seatwire::catalogue::EventFacts;
use seatwire::clock::Clock;
use seatwire::command::{Basket, Counter, Spoken};
use seatwire::config::{Config, Secret};
use seatwire::identity::Identities;
use seatwire::inventory::{FeedMessage, InventoryError, MapState};
use seatwire::metrics::Metrics;
use seatwire::seatmap::{MapSource, SeatMap};
use seatwire::sender::Sender;
use seatwire::socket::{Behind, Door};
use seatwire_proto::client::{ClientMessage, Position};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, IdentityId, NodeId, SessionId};
use seatwire_proto::seat::{SeatIndex, SeatState};
use seatwire_proto::server::{ErrorObject, Reply};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Seats of the event; the snapshot of its second life has about 30 KB.
const SEAT_COUNT: u32 = 70_000;
/// Between two changes.
const ROUND: Duration = Duration::from_millis(150);
/// Viewers whose cost is not counted: pages, arenas and tables the process needs anyway.
const FIRST: usize = 1_000;
/// Handshakes of the child in flight.
const OPENING: usize = 64;

struct Shelf {
    facts: Arc<EventFacts>,
    map: parking_lot::Mutex<MapState>,
}

impl MapSource for Shelf {
    fn read_map<'a>(&'a self, _: &'a Arc<EventFacts>) -> BoxFuture<'a, Result<MapState, InventoryError>> {
        async { Ok(self.map.lock().clone()) }.boxed()
    }

    fn changes_since<'a>(
        &'a self,
        _: &'a Arc<EventFacts>,
        position: Position,
    ) -> BoxFuture<'a, Result<Option<Vec<FeedMessage>>, InventoryError>> {
        async move {
            let map = self.map.lock();
            Ok((position.epoch == map.epoch).then(Vec::new))
        }
        .boxed()
    }
}

impl Counter for Shelf {
    fn run(&self, _: Option<IdentityId>, _: SessionId, message: ClientMessage) -> BoxFuture<'_, Spoken> {
        let refusal = ErrorObject::new(ErrorCode::Unauthorized, "viewers only");
        async move { Reply::error(Some(message.id), refusal).into() }.boxed()
    }

    fn basket(&self, _: IdentityId) -> BoxFuture<'_, Result<Basket, ErrorObject>> {
        async { Ok(Basket::default()) }.boxed()
    }

    fn event(&self, _: EventId) -> BoxFuture<'_, Result<Arc<EventFacts>, ErrorObject>> {
        async { Ok(Arc::clone(&self.facts)) }.boxed()
    }
}

fn facts() -> EventFacts {
    EventFacts { layout: "0".repeat(32), ..EventFacts::on_sale(Vec::new(), vec![0; SEAT_COUNT as usize]) }
}

/// Anonymous resident memory of this process, bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line of the kernel");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number") * 1024
}

/// CPU time of this process, user and kernel.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
    Duration::from_millis(ticks * 10)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--bench")).collect();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("starts");
    match args.first().map(String::as_str) {
        Some("client") => runtime().block_on(client(&args[1], &args[2])),
        _ => {
            let number = |at: usize, default: usize| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
            runtime().block_on(server(number(0, 5_000), number(1, 60)));
        }
    }
}

/// The child: opens as many sockets as each line on stdin says, and reads whatever comes.
async fn client(address: &str, event: &str) {
    let is_plain = event == "-";
    let (mut open, mut line) = (0, String::new());
    while std::io::stdin().read_line(&mut line).expect("reads") > 0 {
        let wanted: usize = line.trim().parse().expect("a number");
        line.clear();
        let room = Arc::new(tokio::sync::Semaphore::new(OPENING));
        while open < wanted {
            open += 1;
            let permit = Arc::clone(&room).acquire_owned().await.expect("open");
            let (address, event) = (address.to_owned(), event.to_owned());
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(&address).await.expect("connects");
                if !is_plain {
                    begin(&mut stream, &event).await;
                }
                drop(permit);
                loop {
                    stream.readable().await.expect("readable");
                    let mut scratch = [0; 16 << 10];
                    match stream.try_read(&mut scratch) {
                        Ok(0) => return,
                        Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                        _ => {}
                    }
                }
            });
        }
        let _all = room.acquire_many(OPENING as u32).await.expect("open");
        println!("{open}");
    }
}

/// Handshake, hello, subscribe; returns when the subscription is answered.
async fn begin(stream: &mut TcpStream, event: &str) {
    let upgrade = "GET /v1/socket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut bytes = upgrade.as_bytes().to_vec();
    for text in [r#"{"id":1,"op":"hello"}"#.to_owned(), format!(r#"{{"id":2,"op":"subscribe","event":"{event}"}}"#)] {
        bytes.extend([0x81, 0x80 | text.len() as u8, 0, 0, 0, 0]);
        bytes.extend(text.as_bytes());
    }
    stream.write_all(&bytes).await.expect("sends");
    let mut seen = Vec::new();
    while !seen.windows(9).any(|window| window == b"recovered") {
        let mut chunk = [0; 1024];
        let read = stream.read(&mut chunk).await.expect("reads");
        assert!(read > 0, "closed");
        seen.extend_from_slice(&chunk[..read]);
    }
}

struct Viewers {
    child: Child,
}

impl Viewers {
    fn start(address: &str, event: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["client", address, event]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { child: command.spawn().expect("starts") }
    }

    /// Opens sockets until there are so many.
    async fn open(&mut self, count: usize) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{count}").expect("the child lives");
        let mut stdout = self.child.stdout.take().expect("piped");
        let (stdout, read) = tokio::task::spawn_blocking(move || {
            let (mut byte, mut text) = ([0], String::new());
            while stdout.read(&mut byte).expect("reads") == 1 && byte != *b"\n" {
                text.push(byte[0].into());
            }
            (stdout, text)
        })
        .await
        .expect("runs");
        assert_eq!(read, count.to_string(), "the child opened all");
        self.child.stdout = Some(stdout);
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn server(viewers: usize, rounds: usize) {
    let config = Config::from_pairs([("SEATWIRE_HANDSHAKES_PER_S", "100000")]).expect("fits");
    let facts = Arc::new(facts());
    let empty = MapState { epoch: 1, seq: 1, server_ms: 0, states: vec![0; SEAT_COUNT as usize], areas: Vec::new() };
    let shelf = Arc::new(Shelf { facts: Arc::clone(&facts), map: parking_lot::Mutex::new(empty) });
    let (clock, metrics) = (Clock::system(), Arc::new(Metrics::new()));
    let source = Arc::clone(&shelf) as Arc<dyn MapSource>;
    let seatmap = SeatMap::new(config.seatmap.clone(), clock.clone(), Arc::clone(&metrics), source, None);
    let door = Door::open(Behind {
        node: NodeId::generate(),
        config: config.socket.clone(),
        is_loopback_limited: false,
        clock: clock.clone(),
        metrics: Arc::clone(&metrics),
        seatmap: seatmap.clone(),
        sender: Sender::local(),
        identities: Identities::new(Secret::new("bench"), clock.clone()),
        counter: Arc::clone(&shelf) as Arc<dyn Counter>,
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn({
        let door = Arc::clone(&door);
        async move { door.serve(listener, axum::Router::new(), std::future::pending()).await }
    });

    let delivered = || metrics.deliveries.get();
    let mut crowd = Viewers::start(&address, &facts.id.to_string());
    crowd.open(FIRST).await;
    // What the process needs once, whatever the viewers: encoders, boards, buffers of that size.
    for epoch in 2..6 {
        new_life(&seatmap, &shelf, epoch).await;
    }
    let (before, began) = (resident_bytes(), cpu());
    crowd.open(viewers).await;
    let handshake_us = (cpu() - began).as_micros() as f64 / (viewers - FIRST) as f64;
    settle().await;
    let counted = (viewers - FIRST) as f64;
    let idle = resident_bytes().saturating_sub(before) as f64 / counted;
    println!("viewers: {viewers}, handshake, hello and subscribe: {handshake_us:.0} us CPU each");
    println!("idle viewer beyond the first {FIRST}: {idle:.0} bytes (bar: 1024)");

    new_life(&seatmap, &shelf, 6).await;
    let live = seatmap.live(&facts).await.expect("in memory");
    assert_eq!(live.position().epoch, 6);
    let snapshot_bytes = live.http_snapshot(seatwire::seatmap::SnapshotEncoding::Roaring).bytes.len();
    let after = resident_bytes().saturating_sub(before) as f64 / counted;
    println!("after a snapshot of {snapshot_bytes} bytes to all: {after:.0} bytes");

    let (began, sent, start) = (cpu(), delivered(), Instant::now());
    for round in 0..rounds {
        let seats: Vec<u32> = (0..8).map(|at| (round * 8 + at) as u32 * 7).collect();
        publish(&seatmap, &shelf, &seats).await;
        tokio::time::sleep_until((start + ROUND * (round as u32 + 1)).into()).await;
    }
    settle().await;
    let deliveries = delivered() - sent;
    let ours_us = (cpu() - began).as_micros() as f64 / deliveries as f64;
    assert!(deliveries as usize >= viewers * rounds / 2, "{deliveries} deliveries only");
    let frame_bytes = metrics.delivered_bytes.get() / delivered().max(1);
    drop(crowd);
    while door.session_count() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let bare_us = bare_loop(viewers, rounds, frame_bytes as usize).await;
    println!("a delivery of about {frame_bytes} bytes: {ours_us:.2} us CPU; a bare write: {bare_us:.2} us");
    println!("ratio {:.2} over {deliveries} deliveries", ours_us / bare_us);
}

/// Lets sockets, allocator and kernel come to rest.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}

/// The inventory begins anew with scattered sold and held seats: everyone gets its snapshot.
async fn new_life(seatmap: &SeatMap, shelf: &Shelf, epoch: u32) {
    {
        let mut map = shelf.map.lock();
        (map.epoch, map.seq) = (epoch, 0);
        for seat in 0..SEAT_COUNT {
            let scattered = seat.wrapping_add(epoch).wrapping_mul(2_654_435_761) ^ seat.wrapping_mul(40_503);
            map.states[seat as usize] = [0, 1, 2, 0, 2][(scattered >> 13) as usize % 5];
        }
    }
    publish(seatmap, shelf, &[]).await;
    settle().await;
}

async fn publish(seatmap: &SeatMap, shelf: &Shelf, seats: &[u32]) {
    let change = {
        let mut map = shelf.map.lock();
        map.seq += 1;
        let mut changed = Vec::new();
        for seat in seats {
            let state = &mut map.states[*seat as usize];
            *state = 2 - (*state).min(1);
            changed.push((SeatIndex(*seat), SeatState::from_u8(*state).expect("below 4")));
        }
        let server_ms = Clock::system().now_ms();
        FeedMessage { epoch: map.epoch, seq: map.seq, server_ms, seats: changed, areas: Vec::new() }
    };
    seatmap.take(shelf.facts.id, &change);
}

/// The least a delivery can cost: one write a socket and round, nothing else.
async fn bare_loop(viewers: usize, rounds: usize, frame_bytes: usize) -> f64 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let accepting = std::thread::spawn(move || {
        (0..viewers).map(|_| listener.accept().expect("accepts").0).collect::<Vec<std::net::TcpStream>>()
    });
    let mut crowd = Viewers::start(&address, "-");
    crowd.open(viewers).await;
    let mut streams = accepting.join().expect("accepts all");
    for stream in &streams {
        stream.set_nodelay(true).expect("a socket");
        stream.set_nonblocking(true).expect("a socket");
    }
    settle().await;
    let frame = vec![0_u8; frame_bytes];
    let (began, start) = (cpu(), Instant::now());
    for round in 0..rounds {
        for stream in &mut streams {
            let _ = stream.write(&frame);
        }
        tokio::time::sleep_until((start + ROUND * (round as u32 + 1)).into()).await;
    }
    let spent = cpu() - began;
    spent.as_micros() as f64 / (viewers * rounds) as f64
}
