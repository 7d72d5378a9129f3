//! A watcher: joins, follows the map, reports when each frame came, comes back when it is sent away. Most follow frames
//! by header alone; some keep the whole map and check every digest. `worker` spawns one task for each.

mod world;

pub(crate) use world::{Standing, World, join_times};

use crate::delivery::Step;
use crate::socket::{self, BINARY, CLOSE, Decoder, PING, PONG, Received, TEXT};
use crate::tally::{Count, Tally, Timing};
use rand::RngExt;
use seatwire_proto::client::{self, ClientMessage, ClientName, Command, From, Hello, Position, Resync, Subscribe};
use seatwire_proto::frame::{FrameHeader, FrameKind};
use seatwire_proto::view::{Cursor, Outcome, ResyncReason, View};
use serde::Deserialize;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

/// The one read buffer of a worker thread: frames are handled in place, so watchers keep none.
const SCRATCH_BYTES: usize = 64 * 1024;
/// Until the server says otherwise.
const DEFAULT_HEARTBEAT_MS: u64 = 20_000;
/// First wait before coming back, doubled with each failure up to the last.
const FIRST_BACKOFF_MS: u64 = 1_000;
const LAST_BACKOFF_MS: u64 = 30_000;

const HELLO_ID: u32 = 1;
const SUBSCRIBE_ID: u32 = 2;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// What a watcher knows of the map.
#[derive(Debug)]
enum Map {
    Headers(Cursor),
    /// None until the subscription says how many seats there are.
    Whole(Option<Box<View>>),
}

impl Map {
    fn position(&self) -> Position {
        match self {
            Map::Headers(cursor) => cursor.position(),
            Map::Whole(view) => view.as_ref().map_or(Position { epoch: 0, seq: 0 }, |view| view.position()),
        }
    }

    fn resync_answered(&mut self) {
        match self {
            Map::Headers(cursor) => cursor.resync_answered(),
            Map::Whole(Some(view)) => view.resync_answered(),
            Map::Whole(None) => {}
        }
    }
}

#[derive(Debug)]
struct Watcher {
    /// Among the watchers of its worker.
    no: u32,
    map: Map,
    decoder: Decoder,
    /// What is to be sent; empty and without allocation most of the time.
    out: Vec<u8>,
    /// 0 = not subscribed.
    channel: u32,
    next_id: u32,
    resync_round: u32,
    asked_us: u64,
    joined_us: u64,
    heard_us: u64,
    heartbeat_ms: u64,
    /// How long to spread the return, as told by a drain.
    jitter_ms: u64,
    has_snapshot: bool,
    is_ready: bool,
    end: Option<u16>,
}

/// The text messages a watcher understands: replies and one push.
#[derive(Deserialize)]
struct Said<'a> {
    id: Option<u32>,
    ok: Option<bool>,
    #[serde(borrow)]
    push: Option<std::borrow::Cow<'a, str>>,
    heartbeat_ms: Option<u64>,
    jitter_ms: Option<u64>,
    channel: Option<u32>,
    seat_count: Option<u32>,
    area_count: Option<u32>,
    error: Option<SaidError>,
}

#[derive(Deserialize)]
struct SaidError {
    code: String,
}

/// Follows the map until the process ends or the server sends the watcher away for good.
pub(crate) async fn watch(world: Arc<World>, no: u32, keeps_whole_map: bool, join_at_us: u64) {
    sleep_until(world.clock.instant(join_at_us)).await;
    let map = if keeps_whole_map { Map::Whole(None) } else { Map::Headers(Cursor::new()) };
    let mut watcher = Watcher {
        no,
        map,
        decoder: Decoder::default(),
        out: Vec::new(),
        channel: 0,
        next_id: SUBSCRIBE_ID + 1,
        resync_round: world.resync_round.load(Ordering::Relaxed),
        asked_us: 0,
        joined_us: join_at_us,
        heard_us: join_at_us,
        heartbeat_ms: DEFAULT_HEARTBEAT_MS,
        jitter_ms: 0,
        has_snapshot: false,
        is_ready: false,
        end: None,
    };
    let mut failures = 0_u32;
    loop {
        // Boxed: what a handshake needs is given back before the long wait begins.
        let joined = Box::pin(watcher.join(&world)).await;
        let code = match joined {
            Some(mut stream) => {
                failures = 0;
                watcher.follow(&world, &mut stream).await
            }
            None => {
                failures += 1;
                1006
            }
        };
        watcher.leave(&world, code);
        if !socket::is_reconnect(code) {
            world.tally.lock().at(world.clock.now_us()).add(Count::ClosedForGood, 1);
            world.gone.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let first_ms = if watcher.jitter_ms > 0 { watcher.jitter_ms } else { FIRST_BACKOFF_MS };
        let most_ms = first_ms.saturating_mul(1 << failures.min(8)).min(LAST_BACKOFF_MS.max(first_ms));
        let wait_ms = rand::rng().random_range(0..=most_ms);
        sleep(Duration::from_millis(wait_ms)).await;
        watcher.joined_us = world.clock.now_us();
        world.tally.lock().at(watcher.joined_us).add(Count::Reconnects, 1);
    }
}

impl Watcher {
    async fn join(&mut self, world: &World) -> Option<TcpStream> {
        let source = socket::source(&world.target, world.run, self.no);
        let (mut stream, rest) = match socket::connect(&world.target, source).await {
            Ok(open) => open,
            Err(error) => {
                world.tally.lock().at(world.clock.now_us()).add(Count::ConnectFailures, 1);
                world.first_failure.lock().get_or_insert_with(|| error.to_string());
                return None;
            }
        };
        let now_us = world.clock.now_us();
        {
            let mut tally = world.tally.lock();
            let window = tally.at(now_us);
            window.record_n(Timing::Connect, now_us.saturating_sub(self.joined_us), 1);
            window.add(Count::Connects, 1);
        }
        self.heard_us = now_us;
        self.asked_us = now_us;
        self.end = None;
        self.decoder = Decoder::default();
        self.map.resync_answered();
        self.has_snapshot = false;
        let accepts = if world.accepts_packed2 { vec!["packed2".to_owned()] } else { Vec::new() };
        let client = ClientName { name: "seatwire-loadgen".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        self.send(HELLO_ID, Command::Hello(Hello { token: None, client, accepts, lang: None }));
        let mine = self.map.position();
        let from = if mine.epoch == 0 { From::Snapshot } else { From::Position { epoch: mine.epoch, seq: mine.seq } };
        self.send(SUBSCRIBE_ID, Command::Subscribe(Subscribe { event: world.event, from, accepts: None }));
        self.take(&rest, now_us, world);
        Some(stream.write_all(&std::mem::take(&mut self.out)).await.map(|()| stream)).and_then(Result::ok)
    }

    /// Reads until the socket ends; the code says why.
    async fn follow(&mut self, world: &World, stream: &mut TcpStream) -> u16 {
        let mut patience = pin!(sleep(Duration::from_millis(2 * self.heartbeat_ms)));
        loop {
            // One timer that is looked at when it fires and never moved before: nothing is paid for it per frame.
            let read = poll_fn(|cx| match self.poll_read(world, stream, cx) {
                Poll::Ready(read) => Poll::Ready(Some(read)),
                Poll::Pending => patience.as_mut().poll(cx).map(|()| None),
            });
            match read.await {
                None => {
                    let silent_us = world.clock.now_us().saturating_sub(self.heard_us);
                    let allowed_us = 2_000 * self.heartbeat_ms;
                    if silent_us >= allowed_us {
                        world.tally.lock().at(world.clock.now_us()).add(Count::HeartbeatTimeouts, 1);
                        return 1006;
                    }
                    patience.as_mut().reset(Instant::now() + Duration::from_micros(allowed_us - silent_us));
                }
                Some(Err(_) | Ok(0)) => return self.end.unwrap_or(1006),
                Some(Ok(_)) => {
                    if !self.out.is_empty() && stream.write_all(&std::mem::take(&mut self.out)).await.is_err() {
                        return self.end.unwrap_or(1006);
                    }
                    if let Some(code) = self.end {
                        return code;
                    }
                }
            }
        }
    }

    fn poll_read(
        &mut self,
        world: &World,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
            let bytes = buffer.filled();
            if !bytes.is_empty() {
                self.take(bytes, world.clock.now_us(), world);
            }
            Poll::Ready(Ok(bytes.len()))
        })
    }

    fn take(&mut self, bytes: &[u8], now_us: u64, world: &World) {
        self.heard_us = now_us;
        let mut tally = world.tally.lock();
        tally.at(now_us).add(Count::BytesIn, bytes.len() as u64);
        let mut decoder = std::mem::take(&mut self.decoder);
        let is_whole = matches!(self.map, Map::Whole(_));
        let cut = decoder.feed(bytes, is_whole, |received| self.receive(received, now_us, world, &mut tally));
        self.decoder = decoder;
        if cut.is_err() {
            tally.at(now_us).add(Count::ProtocolViolations, 1);
            self.end = Some(1006);
        }
        let round = world.resync_round.load(Ordering::Relaxed);
        if self.resync_round != round && self.has_snapshot {
            self.resync_round = round;
            let epoch = self.map.position().epoch;
            self.send_resync(Position { epoch, seq: 0 });
        }
    }

    fn receive(&mut self, received: Received<'_>, now_us: u64, world: &World, tally: &mut Tally) {
        match received.opcode {
            BINARY => self.receive_frame(received, now_us, world, tally),
            TEXT => self.receive_text(received.payload, now_us, tally),
            PING => socket::put_frame(&mut self.out, PONG, received.payload),
            CLOSE => {
                let code = socket::close_code(received.payload);
                socket::put_frame(&mut self.out, CLOSE, received.payload.get(..2).unwrap_or_default());
                self.end = Some(code);
            }
            _ => {}
        }
    }

    fn receive_text(&mut self, text: &[u8], now_us: u64, tally: &mut Tally) {
        let Ok(said) = serde_json::from_slice::<Said<'_>>(text) else {
            tally.at(now_us).add(Count::ProtocolViolations, 1);
            return;
        };
        if said.push.as_deref() == Some("server.drain") {
            self.jitter_ms = said.jitter_ms.unwrap_or(0);
        }
        let Some(id) = said.id else { return };
        if let Some(error) = &said.error {
            tally.at(now_us).add_named(&format!("viewer_refused.{}", error.code), 1);
            if id == SUBSCRIBE_ID {
                self.end = Some(1006);
            }
        }
        let is_ok = said.ok == Some(true);
        match id {
            HELLO_ID if is_ok => {
                self.heartbeat_ms = said.heartbeat_ms.unwrap_or(DEFAULT_HEARTBEAT_MS).max(1_000);
                tally.at(now_us).record_n(Timing::Hello, now_us.saturating_sub(self.asked_us), 1);
            }
            SUBSCRIBE_ID if is_ok => {
                self.channel = said.channel.unwrap_or(0);
                if let (Map::Whole(view @ None), Some(seats), Some(areas)) =
                    (&mut self.map, said.seat_count, said.area_count)
                {
                    *view = Some(Box::new(View::new(seats, areas)));
                }
            }
            HELLO_ID | SUBSCRIBE_ID => {}
            _ => self.map.resync_answered(),
        }
    }

    fn receive_frame(&mut self, received: Received<'_>, now_us: u64, world: &World, tally: &mut Tally) {
        let window = tally.at(now_us);
        window.add(Count::Frames, 1);
        // A header alone cannot be checked against the length of its frame, so that is left out of it.
        let Some(header) = peek(received.payload, received.payload_bytes) else {
            window.add(Count::InvalidFrames, 1);
            return;
        };
        if header.channel != self.channel {
            return;
        }
        window.add(
            match header.kind {
                FrameKind::Snapshot => Count::Snapshots,
                FrameKind::Delta => Count::Deltas,
                FrameKind::Beacon => Count::Beacons,
            },
            1,
        );
        let before = self.map.position();
        let outcome = match &mut self.map {
            Map::Headers(cursor) => cursor.follow(&header),
            Map::Whole(Some(view)) => view.take(received.payload, &mut world.frames.lock()),
            Map::Whole(None) => return,
        };
        let after = self.map.position();
        let mut deliveries = world.deliveries.lock();
        if header.has_digest && !deliveries.agrees(header.epoch, header.seq_to, header.digest) {
            window.add(Count::DigestDisagreements, 1);
        }
        if after != before && before.epoch != 0 {
            let before_seq = if before.epoch == after.epoch { before.seq } else { 0 };
            deliveries.note(Step { epoch: after.epoch, before: before_seq, after: after.seq }, now_us);
        }
        drop(deliveries);
        if let Outcome::Resync { from, reason } = outcome {
            window.add(Count::Resyncs, 1);
            match reason {
                ResyncReason::Gap | ResyncReason::Behind => window.add(Count::Gaps, 1),
                ResyncReason::Digest => window.add(Count::DigestMismatches, 1),
                ResyncReason::Invalid(_) => window.add(Count::InvalidFrames, 1),
                ResyncReason::HigherEpoch => {}
            }
            self.send_resync(from);
        }
        if header.kind == FrameKind::Snapshot && !self.has_snapshot {
            window.record_n(Timing::Snapshot, now_us.saturating_sub(self.asked_us), 1);
            window.record_n(Timing::Ready, now_us.saturating_sub(self.joined_us), 1);
        }
        if after.epoch != 0 {
            self.has_snapshot = true;
            if !std::mem::replace(&mut self.is_ready, true) {
                world.ready.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(standing) = world.standings.lock().get_mut(self.no as usize) {
            let digest = match &self.map {
                Map::Whole(Some(view)) => view.digest().map_or(0, |digest| digest.0),
                _ if after == (Position { epoch: header.epoch, seq: header.seq_to }) => header.digest,
                _ => standing.digest,
            };
            *standing = Standing { epoch: after.epoch, seq: after.seq, digest, is_live: true };
        }
    }

    fn leave(&mut self, world: &World, code: u16) {
        self.channel = 0;
        self.out = Vec::new();
        world.tally.lock().at(world.clock.now_us()).add_named(&format!("close.{code}"), 1);
        if let Some(standing) = world.standings.lock().get_mut(self.no as usize) {
            standing.is_live = false;
        }
    }

    fn send_resync(&mut self, from: Position) {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1).max(SUBSCRIBE_ID + 1);
        self.send(id, Command::Resync(Resync { channel: self.channel, epoch: from.epoch, seq: from.seq }));
    }

    fn send(&mut self, id: u32, command: Command) {
        let text = client::encode(&ClientMessage { id, key: None, command }).expect("commands are plain data");
        socket::put_frame(&mut self.out, TEXT, text.as_bytes());
    }
}

/// The header at the front of a frame of which only the front is here.
fn peek(front: &[u8], frame_bytes: usize) -> Option<FrameHeader> {
    FrameHeader::decode_front(front, frame_bytes).ok()
}
