//! A client that knows only the wire: JSON in and out, map frames as bytes. It imports nothing of the server, so that
//! what it accepts is what any third party would have to accept.

use super::PATIENCE;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::VecDeque;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// One socket.
pub(crate) struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next_id: u32,
    replies: VecDeque<Value>,
    pushes: VecDeque<Value>,
    frames: VecDeque<Vec<u8>>,
    closed: Option<(u16, String)>,
}

impl Client {
    /// Opens the socket of a server at `http://host:port`; says nothing yet.
    pub(crate) async fn open(url: &str) -> Self {
        let request = format!("{}/v1/socket", url.replacen("http", "ws", 1));
        let mut request = request.into_client_request().expect("a request");
        request.headers_mut().insert("Sec-WebSocket-Protocol", "seatwire.v1".parse().expect("a header"));
        let (socket, response) = tokio_tungstenite::connect_async(request).await.expect("the handshake succeeds");
        assert_eq!(response.headers().get("Sec-WebSocket-Protocol").map(|v| v.as_bytes()), Some(&b"seatwire.v1"[..]));
        Self {
            socket,
            next_id: 1,
            replies: VecDeque::new(),
            pushes: VecDeque::new(),
            frames: VecDeque::new(),
            closed: None,
        }
    }

    /// Opens and says hello, with a token or anonymously.
    pub(crate) async fn hello(url: &str, token: Option<&str>) -> Self {
        let mut client = Self::open(url).await;
        let reply = client.call("hello", json!({"token": token, "client": {"name": "it", "version": "1"}})).await;
        assert_eq!(reply["ok"], true, "{reply}");
        client
    }

    /// A new guest's socket, and who it is.
    pub(crate) async fn guest(url: &str) -> (Self, Guest) {
        let guest = Guest::new(url).await;
        (Self::hello(url, Some(&guest.token)).await, guest)
    }

    /// Sends text as it is.
    pub(crate) async fn send_text(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.expect("the socket takes it");
    }

    /// Sends any message as it is.
    pub(crate) async fn send(&mut self, message: Message) {
        self.socket.send(message).await.expect("the socket takes it");
    }

    /// Sends a command without waiting; its id.
    pub(crate) async fn command(&mut self, op: &str, fields: Value) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = fields;
        message["id"] = id.into();
        message["op"] = op.into();
        self.send_text(message.to_string()).await;
        id
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn call(&mut self, op: &str, fields: Value) -> Value {
        let id = self.command(op, fields).await;
        self.reply(id).await
    }

    /// Pays a hold as shown, with a card that works; the order.
    pub(crate) async fn pay(&mut self, hold: &Value) -> Value {
        let body = json!({"key": "pay", "hold": hold["id"], "buyer": {"name": "A", "email": "a@example.org"},
            "payment": {"method": "pm_card_visa"}, "expect_total_minor": hold["total_minor"]});
        let reply = self.call("checkout", body).await;
        assert_eq!(reply["ok"], true, "{reply}");
        reply["order"].clone()
    }

    /// Waits for the answer with this id.
    pub(crate) async fn reply(&mut self, id: u32) -> Value {
        loop {
            if let Some(at) = self.replies.iter().position(|reply| reply["id"] == id) {
                return self.replies.remove(at).expect("just found");
            }
            self.read(&format!("the reply to command {id}")).await;
        }
    }

    /// Waits for the next answer, whatever its id.
    pub(crate) async fn any_reply(&mut self) -> Value {
        while self.replies.is_empty() {
            self.read("any reply").await;
        }
        self.replies.pop_front().expect("just looked")
    }

    /// Waits for a push of this name.
    pub(crate) async fn push(&mut self, name: &str) -> Value {
        self.push_where(name, |_| true).await
    }

    /// Waits for a push of this name that is as wanted; others of the name are dropped.
    pub(crate) async fn push_where(&mut self, name: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            while let Some(at) = self.pushes.iter().position(|push| push["push"] == name) {
                let push = self.pushes.remove(at).expect("just found");
                if is_wanted(&push) {
                    return push;
                }
            }
            self.read(&format!("the push {name}")).await;
        }
    }

    /// Whether a push of this name was read and not yet asked for.
    pub(crate) fn has_push(&self, name: &str) -> bool {
        self.pushes.iter().any(|push| push["push"] == name)
    }

    /// Waits for the next map frame.
    pub(crate) async fn frame(&mut self) -> Vec<u8> {
        while self.frames.is_empty() {
            self.read("a map frame").await;
        }
        self.frames.pop_front().expect("just looked")
    }

    /// Waits for the next map frame; `None` when the connection ends instead.
    pub(crate) async fn frame_unless_closed(&mut self) -> Option<Vec<u8>> {
        while self.frames.is_empty() {
            if self.closed.is_some() {
                return None;
            }
            self.read("a map frame").await;
        }
        self.frames.pop_front()
    }

    /// Map frames read while waiting for something else.
    pub(crate) fn frames_waiting(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.frames.iter()
    }

    /// Reads on until the server closes; its code and reason.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        while self.closed.is_none() {
            self.read("the close frame").await;
        }
        self.closed.clone().expect("just looked")
    }

    /// Takes one message; pings do not count, so that patience ends although the server is alive.
    async fn read(&mut self, what: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.read_one(what, deadline).await {}
    }

    async fn read_one(&mut self, what: &str, deadline: tokio::time::Instant) -> bool {
        if let Some((code, reason)) = &self.closed {
            panic!("closed with {code} {reason} while waiting for {what}");
        }
        let message = tokio::time::timeout_at(deadline, self.socket.next()).await;
        match message.unwrap_or_else(|_| panic!("waited in vain for {what}")) {
            Some(Ok(Message::Text(text))) => {
                let value: Value = serde_json::from_str(&text).expect("server text is JSON");
                let list = if value.get("push").is_some() { &mut self.pushes } else { &mut self.replies };
                list.push_back(value);
            }
            Some(Ok(Message::Binary(bytes))) => self.frames.push_back(bytes.to_vec()),
            Some(Ok(Message::Close(close))) => {
                let close = close.map_or((1005, String::new()), |close| (close.code.into(), close.reason.to_string()));
                self.closed = Some(close);
            }
            Some(Ok(_)) => return false,
            Some(Err(_)) | None => self.closed = Some((1006, String::new())),
        }
        true
    }
}

/// A guest identity and its token, for HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    pub(crate) url: String,
    pub(crate) identity: String,
    pub(crate) token: String,
}

impl Guest {
    /// A new one.
    pub(crate) async fn new(url: &str) -> Self {
        let body: Value = reqwest::Client::new()
            .post(format!("{url}/v1/identities"))
            .json(&json!({}))
            .send()
            .await
            .expect("answers")
            .json()
            .await
            .expect("JSON");
        let text = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}")).to_owned();
        Self { url: url.to_owned(), identity: text("identity"), token: text("token") }
    }

    /// GET with the token.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = reqwest::Client::new()
            .get(format!("{}{path}", self.url))
            .bearer_auth(&self.token)
            .send()
            .await
            .expect("answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// POST with the token and a key.
    pub(crate) async fn post(&self, path: &str, key: &str, body: Value) -> (u16, Value) {
        let request = reqwest::Client::new()
            .post(format!("{}{path}", self.url))
            .bearer_auth(&self.token)
            .header("Idempotency-Key", key);
        let response = request.json(&body).send().await.expect("answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }
}
