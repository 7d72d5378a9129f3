//! A buyer's line to the counter: one socket of one identity, one command at a time. A lost socket is opened again and
//! the command sent again with its key, so that an outcome is learned or said to be unknown, never guessed.

use crate::buyer::Shop;
use crate::check::Who;
use crate::socket::{self, BINARY, CLOSE, Decoder, PING, PONG, TEXT};
use crate::tally::{Count, Timing};
use rand::RngExt;
use seatwire_proto::client::{self, ClientMessage, ClientName, Command, Hello, IdempotencyKey};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

/// How long a reply may take before the socket is given up and the same key asked again. Checkout settles within 5 s.
const REPLY_TIMEOUT: Duration = Duration::from_secs(12);
/// Sendings of one command, reconnects included; after the last the outcome is unknown.
const MAX_SENDINGS: u32 = 8;
/// Longest wait before sending again, whatever the server asks for.
const MAX_WAIT_MS: u64 = 5_000;
/// Share of the budget that is used: the bucket of the server and ours do not fill at the same instant.
const BUDGET_SHARE: f64 = 0.97;
/// Bytes read at a time; a reply is some 500 bytes.
const READ_BYTES: usize = 2_048;

/// An answer to a command.
#[derive(Debug)]
pub(crate) struct Answer {
    /// When the command was sent for the first time.
    pub(crate) sent_us: u64,
    pub(crate) reply_us: u64,
    /// The whole reply.
    pub(crate) body: Value,
}

impl Answer {
    /// The refusal's code; None when it is ok.
    pub(crate) fn refusal(&self) -> Option<&str> {
        if self.body["ok"] == true { None } else { Some(self.body["error"]["code"].as_str().unwrap_or("no code")) }
    }

    /// Epoch and seq of the map at the reply.
    pub(crate) fn position(&self) -> Option<(u32, u64)> {
        Some((u32::try_from(self.body["epoch"].as_u64()?).ok()?, self.body["seq"].as_u64()?))
    }
}

/// No answer is to be had: the identity was sent away or the server does not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GaveUp;

#[derive(Debug)]
struct Open {
    stream: TcpStream,
    decoder: Decoder,
    out: Vec<u8>,
    replies: VecDeque<(u64, Value)>,
    end: Option<u16>,
}

/// One identity at the counter.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) who: Who,
    pub(crate) token: String,
    open: Option<Open>,
    next_id: u32,
    key_no: u32,
    tokens: f64,
    burst: f64,
    per_s: f64,
    filled: Instant,
}

impl Line {
    pub(crate) fn new(who: Who, token: String) -> Self {
        Self {
            who,
            token,
            open: None,
            next_id: 1,
            key_no: 0,
            tokens: 1.0,
            burst: 1.0,
            per_s: 1.0,
            filled: Instant::now(),
        }
    }

    /// Opens the socket and says hello.
    pub(crate) async fn join(&mut self, shop: &Shop) -> Result<(), u16> {
        self.open = None;
        let began_us = shop.clock.now_us();
        let source = socket::source(&shop.target, shop.run.wrapping_add(1), self.who.0);
        let (stream, rest) = match socket::connect(&shop.target, source).await {
            Ok(open) => open,
            Err(error) => {
                shop.tally.lock().at(began_us).add(Count::ConnectFailures, 1);
                shop.first_failure.lock().get_or_insert_with(|| error.to_string());
                return Err(1006);
            }
        };
        let joined_us = shop.clock.now_us();
        {
            let mut tally = shop.tally.lock();
            let window = tally.at(joined_us);
            window.record_n(Timing::Connect, joined_us - began_us, 1);
            window.add(Count::Connects, 1);
        }
        let mut open =
            Open { stream, decoder: Decoder::default(), out: Vec::new(), replies: VecDeque::new(), end: None };
        open.take(&rest, joined_us, shop);
        let client = ClientName { name: "seatwire-loadgen".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let hello = Hello { token: Some(self.token.clone()), client, accepts: Vec::new(), lang: None };
        let id = self.take_id();
        open.put(id, None, Command::Hello(hello));
        let (reply_us, reply) = open.reply(id, shop).await?;
        if reply["ok"] != true {
            shop.count_named(reply_us, &format!("hello_refused.{}", reply["error"]["code"].as_str().unwrap_or("?")));
            return Err(4503);
        }
        shop.tally.lock().at(reply_us).record_n(Timing::Hello, reply_us - joined_us, 1);
        let budget = |field: &str, default| reply["budget"][field].as_f64().filter(|n| *n > 0.0).unwrap_or(default);
        self.burst = budget("burst", 10.0);
        self.per_s = budget("per_s", 5.0) * BUDGET_SHARE;
        self.tokens = self.burst - 1.0;
        self.filled = Instant::now();
        self.open = Some(open);
        Ok(())
    }

    /// Sends a command until it is answered for good.
    pub(crate) async fn ask(&mut self, shop: &Shop, command: Command) -> Result<Answer, GaveUp> {
        let key = command.is_mutating().then(|| {
            self.key_no += 1;
            IdempotencyKey::parse(&format!("lg-{}-{}", self.who.0, self.key_no)).expect("letters, digits and dashes")
        });
        let mut first_sent_us = None;
        for sending in 0..MAX_SENDINGS {
            if sending > 0 {
                shop.count(Count::Retries);
            }
            self.wait_for_budget(shop, 1.0).await;
            if self.open.is_none()
                && let Err(code) = self.join(shop).await
            {
                if !socket::is_reconnect(code) {
                    return Err(GaveUp);
                }
                let wait_ms = rand::rng().random_range(0..=MAX_WAIT_MS.min(500 << sending));
                sleep(Duration::from_millis(wait_ms)).await;
                continue;
            }
            self.tokens -= 1.0;
            let id = self.take_id();
            let open = self.open.as_mut().expect("joined above");
            let sent_us = *first_sent_us.get_or_insert(shop.clock.now_us());
            open.put(id, key.clone(), command.clone());
            match open.reply(id, shop).await {
                Err(code) => {
                    self.open = None;
                    shop.count_named(shop.clock.now_us(), &format!("close.{code}"));
                    if !socket::is_reconnect(code) {
                        return Err(GaveUp);
                    }
                }
                Ok((reply_us, body)) => match wait_ms(&body) {
                    None => return Ok(Answer { sent_us, reply_us, body }),
                    Some(wait_ms) => {
                        let code = body["error"]["code"].as_str().unwrap_or("no code");
                        shop.count_named(reply_us, &format!("retried.{code}"));
                        if code == "rate_limited" {
                            shop.count(Count::RateLimited);
                        }
                        self.idle_for(shop, Duration::from_millis(wait_ms)).await;
                    }
                },
            }
        }
        shop.count(Count::UnknownOutcomes);
        Err(GaveUp)
    }

    /// Answers pings and reads pushes for a while.
    pub(crate) async fn idle_for(&mut self, shop: &Shop, time: Duration) {
        let until = Instant::now() + time;
        let _ = timeout_at(until, self.idle(shop)).await;
    }

    /// Answers pings and reads pushes until it is dropped; a lost socket is noticed and opened again by the next command.
    pub(crate) async fn idle(&mut self, shop: &Shop) {
        if let Some(open) = &mut self.open {
            while open.end.is_none() {
                open.turn(shop).await;
            }
            let code = open.end.unwrap_or(1006);
            shop.count_named(shop.clock.now_us(), &format!("close.{code}"));
            self.open = None;
        }
        std::future::pending::<()>().await;
    }

    /// Waits until so many commands may be sent.
    pub(crate) async fn wait_for_budget(&mut self, shop: &Shop, commands: f64) {
        let now = Instant::now();
        self.tokens = (self.tokens + now.duration_since(self.filled).as_secs_f64() * self.per_s).min(self.burst);
        self.filled = now;
        let missing = commands.min(self.burst) - self.tokens;
        if missing > 0.0 {
            self.idle_for(shop, Duration::from_secs_f64(missing / self.per_s)).await;
            let now = Instant::now();
            self.tokens += now.duration_since(self.filled).as_secs_f64() * self.per_s;
            self.filled = now;
        }
    }

    fn take_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

/// How long to wait before the same key is sent again; None when the answer is final.
fn wait_ms(body: &Value) -> Option<u64> {
    if body["ok"] == true {
        return None;
    }
    let error = &body["error"];
    let asked_ms = error["retry_after_ms"].as_u64();
    match error["retry"].as_str() {
        // Paused is the event's state and no trouble of the server's.
        Some("after") if error["code"] != "paused" => Some(asked_ms.unwrap_or(500).min(MAX_WAIT_MS)),
        Some("now") => Some(asked_ms.unwrap_or(50).min(MAX_WAIT_MS)),
        Some("ask") => Some(asked_ms.unwrap_or(200).min(MAX_WAIT_MS)),
        _ => None,
    }
}

impl Open {
    fn put(&mut self, id: u32, key: Option<IdempotencyKey>, command: Command) {
        let text = client::encode(&ClientMessage { id, key, command }).expect("commands are plain data");
        socket::put_frame(&mut self.out, TEXT, text.as_bytes());
    }

    /// Reads until the reply with this id; the close code when the socket ends before.
    async fn reply(&mut self, id: u32, shop: &Shop) -> Result<(u64, Value), u16> {
        let until = Instant::now() + REPLY_TIMEOUT;
        self.replies.clear();
        loop {
            if let Some(at) = self.replies.iter().position(|(_, reply)| reply["id"].as_u64() == Some(u64::from(id))) {
                return Ok(self.replies.swap_remove_back(at).expect("its position was just found"));
            }
            if let Some(code) = self.end {
                return Err(code);
            }
            if timeout_at(until, self.turn(shop)).await.is_err() {
                shop.count_named(shop.clock.now_us(), "reply_timeouts");
                return Err(1006);
            }
        }
    }

    /// Writes what is to be written, then reads once. Safe to drop at any await.
    async fn turn(&mut self, shop: &Shop) {
        while !self.out.is_empty() {
            match self.stream.write(&self.out).await {
                Ok(written) if written > 0 => drop(self.out.drain(..written)),
                _ => {
                    self.end.get_or_insert(1006);
                    return;
                }
            }
        }
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes).await {
            Ok(read) if read > 0 => self.take(&bytes[..read], shop.clock.now_us(), shop),
            _ => {
                self.end.get_or_insert(1006);
            }
        }
    }

    fn take(&mut self, bytes: &[u8], now_us: u64, shop: &Shop) {
        let Self { decoder, out, replies, end, .. } = self;
        let cut = decoder.feed(bytes, true, |received| match received.opcode {
            TEXT => match serde_json::from_slice::<Value>(received.payload) {
                Ok(said) if said.get("id").is_some() && said.get("push").is_none() => replies.push_back((now_us, said)),
                Ok(_) => {}
                Err(_) => shop.count(Count::ProtocolViolations),
            },
            PING => socket::put_frame(out, PONG, received.payload),
            CLOSE => *end = Some(socket::close_code(received.payload)),
            BINARY => shop.count(Count::ProtocolViolations),
            _ => {}
        });
        if cut.is_err() {
            shop.count(Count::ProtocolViolations);
            *end = Some(1006);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_the_server_calls_passing_is_sent_again() {
        let refused = |code: &str, retry: &str| json!({"ok": false, "error": {"code": code, "retry": retry}});
        assert_eq!(wait_ms(&json!({"ok": true})), None);
        assert_eq!(wait_ms(&refused("seat_taken", "never")), None);
        assert_eq!(wait_ms(&refused("paused", "after")), None);
        assert_eq!(wait_ms(&refused("timeout_unknown", "ask")), Some(200));
        let told = json!({"ok": false, "error": {"code": "rate_limited", "retry": "after", "retry_after_ms": 80}});
        assert_eq!(wait_ms(&told), Some(80));
    }
}
