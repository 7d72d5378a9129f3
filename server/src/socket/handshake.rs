//! From an HTTP request to a raw stream: Origin, upgrade headers, subprotocol, the 101, and the stream back from hyper
//! with whatever the client sent behind its request. Nothing of hyper stays in memory afterwards.

use super::Door;
use super::accept::Admission;
use super::conn::Conn;
use super::task::Task;
use crate::error;
use crate::listener::Impatient;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use seatwire_proto::client::FieldError;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The protocol spoken here.
const SUBPROTOCOL: &str = "seatwire.v1";
/// Unsent bytes the kernel takes before it says no; else it swallows megabytes for a viewer that reads nothing.
const NOT_SENT_LOW_WATER_BYTES: u32 = 16 << 10;
/// Unacknowledged bytes end a dead connection after this time.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a request is not upgraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Host,
    Origin,
    NotAnUpgrade(&'static str),
    Version,
    Subprotocol,
}

impl Refused {
    fn response(self) -> Response<Body> {
        let field = |path: &str, message: String| error::bad_field(&FieldError::new(path, message));
        let object = match self {
            Self::Host => field("/Host", "expected one Host header".to_owned()),
            Self::Origin => ErrorObject::new(ErrorCode::Forbidden, "this origin may not open a socket here"),
            Self::NotAnUpgrade(what) => field("/Upgrade", format!("expected a WebSocket upgrade: {what}")),
            Self::Version => field("/Sec-WebSocket-Version", "expected 13".to_owned()),
            Self::Subprotocol => field(
                "/Sec-WebSocket-Protocol",
                format!("none of these subprotocols is spoken here; supported: {SUBPROTOCOL}"),
            ),
        };
        let status = match self {
            Self::Version => StatusCode::UPGRADE_REQUIRED,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Host | Self::NotAnUpgrade(_) | Self::Subprotocol => StatusCode::BAD_REQUEST,
        };
        let mut response = refusal(status, &object);
        if self == Self::Version {
            response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

/// The error object, as every refusal over HTTP has it.
pub(super) fn refusal(status: StatusCode, object: &ErrorObject) -> Response<Body> {
    let mut response = Response::new(Body::from(json!({"error": object}).to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Answers the request; on success the session begins as soon as the answer is written.
pub(super) fn answer(door: &Arc<Door>, mut request: Request<Incoming>, admission: Admission) -> Response<Body> {
    let checked = check_host(request.version(), request.headers())
        .and_then(|()| check(&door.config.allowed_origins, request.method(), request.headers()));
    let accepted = match checked {
        Ok(accepted) => accepted,
        Err(refused) => {
            door.metrics.sockets_refused.inc();
            return refused.response();
        }
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let door = Arc::clone(door);
    tokio::spawn(async move {
        // A client that went away between request and answer is nobody's failure.
        let Ok(upgraded) = upgrade.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Impatient>>() else {
            tracing::error!("the upgraded stream is not the one that was accepted");
            return;
        };
        if let Err(error) = begin(&door, parts.io.into_inner().into_inner(), &parts.read_buf, admission) {
            tracing::debug!(%error, "a socket ended with its handshake");
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted.key);
    if accepted.has_subprotocol {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    response
}

/// Makes the stream a session of ours.
fn begin(door: &Arc<Door>, stream: TcpStream, early: &Bytes, admission: Admission) -> io::Result<()> {
    // Registered anew: the old registration still holds hyper's waker and with it the memory of its task.
    let stream = TcpStream::from_std(stream.into_std()?)?;
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(&stream);
    socket.set_tcp_notsent_lowat(NOT_SENT_LOW_WATER_BYTES)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    let conn = Arc::new(Conn::new(stream, admission));
    let Some(place) = door.sessions.join(Arc::clone(&conn)) else { return Ok(()) };
    door.metrics.sockets.inc();
    let mut task = Task::new(conn, place);
    if !early.is_empty() {
        task.feed(early.to_vec());
    }
    tokio::spawn(task);
    Ok(())
}

/// What the answer needs.
#[derive(Debug, PartialEq, Eq)]
struct Accepted {
    key: HeaderValue,
    has_subprotocol: bool,
}

fn check(allowed_origins: &[String], method: &Method, headers: &HeaderMap) -> Result<Accepted, Refused> {
    check_origin(allowed_origins, headers)?;
    if method != Method::GET {
        return Err(Refused::NotAnUpgrade("method GET"));
    }
    if !has_token(headers, &header::CONNECTION, "upgrade") {
        return Err(Refused::NotAnUpgrade("Connection: Upgrade"));
    }
    if !has_token(headers, &header::UPGRADE, "websocket") {
        return Err(Refused::NotAnUpgrade("Upgrade: websocket"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version.as_bytes() != b"13") {
        return Err(Refused::Version);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if STANDARD.decode(key).map_or(0, |nonce| nonce.len()) != 16 {
        return Err(Refused::NotAnUpgrade("Sec-WebSocket-Key of 16 bytes"));
    }
    let has_subprotocol = headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL);
    if has_subprotocol && !tokens(headers, &header::SEC_WEBSOCKET_PROTOCOL).any(|name| name == SUBPROTOCOL) {
        return Err(Refused::Subprotocol);
    }
    let key = HeaderValue::from_str(&derive_accept_key(key)).expect("base64 is a header value");
    Ok(Accepted { key, has_subprotocol })
}

/// One name for us, which HTTP/1.1 asks for.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Refused> {
    let hosts_n = headers.get_all(header::HOST).iter().count();
    if hosts_n == 1 || (hosts_n == 0 && version != Version::HTTP_11) { Ok(()) } else { Err(Refused::Host) }
}

/// A page of our own host, a listed one, or no browser at all.
fn check_origin(allowed_origins: &[String], headers: &HeaderMap) -> Result<(), Refused> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = origin.to_str().map_err(|_| Refused::Origin)?;
    if origins.next().is_some() {
        return Err(Refused::Origin);
    }
    if allowed_origins.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)) {
        return Ok(());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).ok_or(Refused::Origin)?;
    let (scheme, authority) = origin.split_once("://").ok_or(Refused::Origin)?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if is_web && authority.eq_ignore_ascii_case(host) { Ok(()) } else { Err(Refused::Origin) }
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(',')).map(str::trim)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    tokens(headers, name).any(|token| token.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    const GOOD: [(&str, &str); 5] = [
        ("host", "seats.example:8080"),
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn with(extra: &[(&'static str, &str)]) -> Result<Accepted, Refused> {
        let mut all = GOOD.to_vec();
        all.extend_from_slice(extra);
        check(&["https://shop.example".into()], &Method::GET, &headers(&all))
    }

    #[test]
    fn the_accept_key_is_that_of_the_rfc() {
        let accepted = with(&[]).expect("good");
        assert_eq!(accepted.key, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!accepted.has_subprotocol, "none asked, none named");
    }

    #[test]
    fn the_subprotocol_is_found_in_any_list() {
        assert!(with(&[("sec-websocket-protocol", "chat, seatwire.v1")]).expect("known").has_subprotocol);
        let split = [("sec-websocket-protocol", "chat"), ("sec-websocket-protocol", "seatwire.v1")];
        assert!(with(&split).expect("known").has_subprotocol);
        assert_eq!(with(&[("sec-websocket-protocol", "seatwire.v2, chat")]), Err(Refused::Subprotocol));
        assert_eq!(with(&[("sec-websocket-protocol", "")]), Err(Refused::Subprotocol));
    }

    #[test]
    fn our_host_and_listed_origins_come_in() {
        for origin in ["http://seats.example:8080", "https://SEATS.example:8080", "https://shop.example"] {
            assert!(with(&[("origin", origin)]).is_ok(), "{origin}");
        }
        for origin in [
            "http://seats.example",
            "https://evil.example",
            "http://seats.example:8080.evil.example",
            "http://evil.example/seats.example:8080",
            "null",
            "",
            "file://seats.example:8080",
            "https://shop.example.evil",
        ] {
            assert_eq!(with(&[("origin", origin)]), Err(Refused::Origin), "{origin}");
        }
        let twice = [("origin", "http://seats.example:8080"), ("origin", "https://evil.example")];
        assert_eq!(with(&twice), Err(Refused::Origin));
    }

    #[test]
    fn what_is_missing_is_named() {
        for missing in 1..GOOD.len() {
            let rest: Vec<_> =
                GOOD.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, pair)| *pair).collect();
            let refused = check(&[], &Method::GET, &headers(&rest)).expect_err("a header is missing");
            assert_ne!(refused, Refused::Origin, "{missing}");
        }
        assert!(matches!(check(&[], &Method::POST, &headers(&GOOD)), Err(Refused::NotAnUpgrade(_))));
        assert!(with(&[]).is_ok());
    }
}
