//! A server of one event in memory, good but for one planted bug: as much of the protocol as the generator speaks.

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use seatwire_proto::client::{Command, From, decode};
use seatwire_proto::digest::Digest;
use seatwire_proto::frame::{FrameEncoder, FrameMeta, SeatEncoding, Wrap, encode_beacon};
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{SeatIndex, SeatState};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

const SEATS: u32 = 400;
const CHANNEL: u32 = 7;
/// Frames a slow viewer may be behind; more, and the fake has a bug of its own.
const FRAMES: usize = 4_096;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Every so often a held seat is given to a second buyer.
    HoldsTwice,
    /// From a certain change on frames name a digest that is not the state's.
    WrongDigest,
    /// Every fifth delta is not sent; a resync brings a snapshot.
    DropsFrames,
    /// Every fifth delta is not sent and nothing tells: no beacon, no delta that would show the gap.
    StaysSilent,
    /// A paid order is not listed.
    ForgetsOrders,
    /// Paid seats are shown as held.
    HidesSales,
}

struct Held {
    who: IdentityId,
    seats: Vec<SeatIndex>,
}

struct State {
    bug: Bug,
    event: EventId,
    states: Vec<SeatState>,
    seq: u64,
    holds: HashMap<HoldId, Held>,
    orders: Vec<(IdentityId, Value)>,
    tokens: HashMap<String, IdentityId>,
    replies: HashMap<(IdentityId, String), Value>,
    encoder: FrameEncoder,
    frames: broadcast::Sender<Vec<u8>>,
    wins: u64,
}

/// A fake, serving until it is dropped.
pub(crate) struct Fake {
    pub(crate) url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn now_ms() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a fake server has a real clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Fake {
    /// Serves one event with a bug.
    pub(crate) async fn start(bug: Bug) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (frames, _) = broadcast::channel(FRAMES);
        let state = Arc::new(Mutex::new(State {
            bug,
            event: EventId::generate(),
            states: vec![SeatState::Available; SEATS as usize],
            seq: 1,
            holds: HashMap::new(),
            orders: Vec::new(),
            tokens: HashMap::new(),
            replies: HashMap::new(),
            encoder: FrameEncoder::new(),
            frames,
            wins: 0,
        }));
        let task = tokio::spawn(async move {
            let mut beacons = tokio::time::interval(Duration::from_millis(500));
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.expect("accepts");
                        tokio::spawn(serve(stream, Arc::clone(&state)));
                    }
                    _ = beacons.tick() => state.lock().beacon(),
                }
            }
        });
        Self { url, task }
    }
}

impl State {
    fn meta(&self, seq_from: u64) -> FrameMeta {
        let mut digest = Digest::of(&self.states, &[]);
        if self.bug == Bug::WrongDigest && self.seq > 20 {
            digest.0 ^= 1;
        }
        FrameMeta {
            channel: CHANNEL,
            epoch: 1,
            seq_from,
            seq_to: self.seq,
            digest,
            is_coalesced: false,
            server_ms: now_ms(),
        }
    }

    fn snapshot(&mut self) -> Vec<u8> {
        let (meta, mut out) = (self.meta(0), Vec::new());
        self.encoder.snapshot(&mut out, &meta, &self.states, &[], SeatEncoding::Roaring, Wrap::Bare);
        out
    }

    fn beacon(&self) {
        if self.bug != Bug::StaysSilent {
            let mut out = Vec::new();
            encode_beacon(&mut out, &self.meta(self.seq), Wrap::Bare);
            let _ = self.frames.send(out);
        }
    }

    fn change(&mut self, seats: &[SeatIndex], state: SeatState) {
        for seat in seats {
            self.states[seat.position()] = state;
        }
        self.seq += 1;
        let is_dropped = match self.bug {
            Bug::DropsFrames => self.seq.is_multiple_of(5),
            Bug::StaysSilent => self.seq > 12,
            _ => false,
        };
        if is_dropped {
            return;
        }
        let (meta, mut out) = (self.meta(self.seq), Vec::new());
        self.encoder.delta(&mut out, &meta, &self.states, seats, &[], Wrap::Bare);
        let _ = self.frames.send(out);
    }

    fn hold_json(&self, id: HoldId, seats: &[SeatIndex]) -> Value {
        let lines: Vec<Value> = seats
            .iter()
            .map(|seat| json!({"seat": seat, "quantity": 1, "price_tier": "A", "price_minor": 5000, "fee_minor": 500}))
            .collect();
        json!({"id": id, "event": self.event, "lines": lines, "total_minor": 5500 * seats.len(), "currency": "EUR",
            "expires_ms": now_ms() + 600_000, "server_ms": now_ms(), "extended": false, "locked": false, "offer": false})
    }

    fn ok(&self, mut body: Value) -> Value {
        body["ok"] = json!(true);
        body["epoch"] = json!(1);
        body["seq"] = json!(self.seq);
        body
    }

    fn run(&mut self, who: IdentityId, command: Command) -> Value {
        match command {
            Command::Hold(hold) => {
                let taken: Vec<_> =
                    hold.seats.iter().filter(|seat| self.states[seat.position()] != SeatState::Available).collect();
                let gives_anyway = self.bug == Bug::HoldsTwice
                    && taken.iter().all(|seat| self.states[seat.position()] == SeatState::Held);
                if !taken.is_empty() && !gives_anyway {
                    return json!({"ok": false, "epoch": 1, "seq": self.seq, "error": {"code": "seat_taken", "number": 2001,
                        "retry": "never", "message": "taken", "data": {"seats": taken, "alternatives": []}}});
                }
                self.wins += 1;
                self.change(&hold.seats, SeatState::Held);
                let id = HoldId::generate();
                let body = json!({"hold": self.hold_json(id, &hold.seats)});
                self.holds.insert(id, Held { who, seats: hold.seats });
                self.ok(body)
            }
            Command::Release(release) => match self.holds.remove(&release.hold) {
                Some(held) if held.who == who => {
                    self.change(&held.seats, SeatState::Available);
                    self.ok(json!({"hold": null}))
                }
                _ => {
                    json!({"ok": false, "error": {"code": "hold_not_found", "number": 2101, "retry": "never", "message": ""}})
                }
            },
            Command::Checkout(checkout) => {
                let Some(held) = self.holds.remove(&checkout.hold) else {
                    return json!({"ok": false, "error": {"code": "hold_not_found", "number": 2101, "retry": "never", "message": ""}});
                };
                let sold = if self.bug == Bug::HidesSales { SeatState::Held } else { SeatState::Sold };
                self.change(&held.seats, sold);
                let mut order = self.hold_json(checkout.hold, &held.seats);
                order["id"] = json!(OrderId::generate());
                order["reference"] = json!("ABCDEFGH");
                order["state"] = json!("paid");
                order["refunded_minor"] = json!(0);
                order["pay_url"] = json!("");
                order["created_ms"] = json!(now_ms());
                if self.bug != Bug::ForgetsOrders {
                    self.orders.push((who, order.clone()));
                }
                json!({"ok": true, "order": order})
            }
            other => panic!("the generator does not send {}", other.op()),
        }
    }

    fn http(&mut self, request: &str) -> Value {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let event = json!({"id": self.event, "name": "Fake", "performers": [], "starts_ms": 1, "on_sale_ms": 1,
            "venue": {"id": "ven_01h455vb4pex5vsknk084sn02q", "name": "", "city": "", "country": "", "lat": 0.0, "lon": 0.0, "time_zone": "UTC"},
            "state": "on_sale", "currency": "EUR", "layout": "0", "seat_count": SEATS, "price_tiers": [], "available": SEATS,
            "waiting_room": false, "waitlist": false, "description": "", "sections": [], "areas": [],
            "rules": {"seats_per_identity": 10, "hold_ttl_ms": 600_000, "orphans": "off"}, "seat_tiers": ""});
        if path.starts_with("/v1/identities") {
            let (identity, token) = (IdentityId::generate(), OrderId::generate().to_string());
            self.tokens.insert(token.clone(), identity);
            json!({"identity": identity, "token": token, "expires_ms": now_ms() + 9_999_999})
        } else if path.starts_with("/v1/orders") {
            let bearer = request
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("authorization: bearer ").map(str::to_owned));
            let who = bearer.and_then(|token| self.tokens.get(token.trim()).copied());
            let mine: Vec<&Value> =
                self.orders.iter().filter(|(owner, _)| Some(*owner) == who).map(|(_, order)| order).collect();
            json!({ "items": mine })
        } else if path.contains("/snapshot") {
            let states: String = self.states.iter().map(|state| char::from(b'0' + *state as u8)).collect();
            json!({"epoch": 1, "seq": self.seq, "states": states, "areas": []})
        } else if path.starts_with("/v1/events?") {
            json!({ "items": [event] })
        } else {
            event
        }
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut front = [0; 512];
    let seen = stream.peek(&mut front).await.unwrap_or(0);
    if front[..seen].starts_with(b"GET /v1/socket ") {
        return socket(stream, state).await;
    }
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let body = state.lock().http(&String::from_utf8_lossy(&request)).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

async fn socket(stream: TcpStream, state: Arc<Mutex<State>>) {
    #[expect(clippy::result_large_err, reason = "the callback's signature is the library's")]
    let greet = |_: &Request, mut response: Response| {
        response.headers_mut().insert("sec-websocket-protocol", "seatwire.v1".parse().expect("a header"));
        Ok(response)
    };
    let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, greet).await else { return };
    let (mut out, mut input) = socket.split();
    let mut frames: Option<broadcast::Receiver<Vec<u8>>> = None;
    let mut who = None;
    loop {
        let next_frame = async {
            match &mut frames {
                Some(frames) => frames.recv().await.expect("the fake keeps up"),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            frame = next_frame => if out.send(Message::Binary(frame.into())).await.is_err() { return },
            message = input.next() => {
                let Some(Ok(message)) = message else { return };
                let Message::Text(text) = message else { continue };
                let asked = decode(text.as_bytes()).expect("the generator speaks the protocol");
                let (id, key) = (asked.id, asked.key.map(|key| key.as_str().to_owned()));
                let mut behind = None;
                let mut reply = {
                    let mut state = state.lock();
                    match asked.command {
                        Command::Hello(hello) => {
                            who = hello.token.and_then(|token| state.tokens.get(&token.to_lowercase()).copied());
                            json!({"ok": true, "heartbeat_ms": 20_000, "budget": {"burst": 10, "per_s": 5}})
                        }
                        Command::Subscribe(subscribe) => {
                            frames = Some(state.frames.subscribe());
                            let recovered = matches!(subscribe.from, From::Position { seq, .. } if seq == state.seq);
                            behind = (!recovered).then(|| state.snapshot());
                            json!({"ok": true, "channel": CHANNEL, "event": state.event, "layout": "0", "seat_count": SEATS,
                                "area_count": 0, "epoch": 1, "seq": state.seq, "recovered": recovered})
                        }
                        Command::Resync(_) => {
                            behind = Some(state.snapshot());
                            json!({"ok": true})
                        }
                        command => {
                            let who = who.expect("buyers say hello");
                            let key = (who, key.expect("buyers send keys"));
                            match state.replies.get(&key) {
                                Some(reply) => reply.clone(),
                                None => {
                                    let reply = state.run(who, command);
                                    state.replies.insert(key, reply.clone());
                                    reply
                                }
                            }
                        }
                    }
                };
                reply["id"] = json!(id);
                if out.send(Message::Text(reply.to_string().into())).await.is_err() {
                    return;
                }
                if let Some(frame) = behind
                    && out.send(Message::Binary(frame.into())).await.is_err()
                {
                    return;
                }
            }
        }
    }
}
