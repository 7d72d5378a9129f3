//! The public listener: everything that connects comes in here, HTTP and sockets, under caps and deadlines of our own.
//! A request for `/v1/socket` goes to `handshake`, every other one to the router. Ends gracefully: no new connections,
//! requests in flight are finished.

use super::budget::Bucket;
use super::{Door, handshake};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;

/// Where sockets are opened.
const SOCKET_PATH: &str = "/v1/socket";
/// From connecting, or from the last answer, to the end of the next request's headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// Buffer of one HTTP connection; longer headers are answered 431.
const HTTP_BUFFER_BYTES: usize = 16 << 10;
/// Headers of one request; more are answered 431.
const MAX_HEADERS: usize = 64;
/// Connections of one address (IPv6: /64); more are answered 503. A proxy in front is one address: list it as trusted.
const MAX_PER_ADDRESS: usize = 256;
/// What `Retry-After` says to those who come too many at once.
const RETRY_AFTER_S: &str = "2";
/// After a failed accept (out of descriptors): connections that end meanwhile free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// The caps of the listener.
#[derive(Debug)]
pub(super) struct Gate {
    open: AtomicUsize,
    by_address: DashMap<u64, usize>,
    handshakes: Mutex<Bucket>,
}

/// A connection's place under the caps; given back when dropped.
#[derive(Debug)]
pub(super) struct Admission {
    door: Arc<Door>,
    /// What `address_key` made of the peer; 0 when it is not counted.
    address: u64,
}

impl Gate {
    pub(super) fn new(handshakes_per_s: u32) -> Self {
        Self {
            open: AtomicUsize::new(0),
            by_address: DashMap::new(),
            handshakes: Mutex::new(Bucket::full(handshakes_per_s.saturating_mul(2), 0)),
        }
    }
}

impl Admission {
    /// A place for a connection from `peer`; `None` when there is none.
    fn take(door: &Arc<Door>, peer: IpAddr) -> Option<Self> {
        let gate = &door.gate;
        if gate.open.fetch_add(1, Ordering::Relaxed) >= door.config.max_connections {
            gate.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut admission = Self { door: Arc::clone(door), address: 0 };
        if door.is_limited(peer) {
            let address = address_key(peer);
            let mut count = gate.by_address.entry(address).or_insert(0);
            if *count >= MAX_PER_ADDRESS {
                return None;
            }
            *count += 1;
            admission.address = address;
        }
        Some(admission)
    }
}

impl Admission {
    /// The door it was taken at.
    pub(super) const fn door(&self) -> &Arc<Door> {
        &self.door
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let gate = &self.door.gate;
        gate.open.fetch_sub(1, Ordering::Relaxed);
        if self.address != 0
            && let Entry::Occupied(mut entry) = gate.by_address.entry(self.address)
        {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// One key for an IPv4 address or an IPv6 /64. The two never meet: no global /64 begins with 32 bits of this shape.
fn address_key(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => 0x0000_ffff_0000_0000 | u64::from(u32::from(v4)),
        IpAddr::V6(v6) => (u128::from(v6) >> 64) as u64,
    }
}

/// Accepts until the node drains; returns when the requests in flight are answered. Sockets live on: `drain` ends them.
pub(super) async fn run(door: Arc<Door>, listener: TcpListener, router: Router, draining: impl Future<Output = ()>) {
    let (is_ending, ending) = watch::channel(false);
    let mut draining = std::pin::pin!(draining);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut draining => break,
        };
        match accepted {
            Ok((stream, peer)) => welcome(&door, stream, peer, &router, ending.clone()),
            Err(error) => {
                if !is_of_one_connection(&error) {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    drop(ending);
    // Nobody listening means nobody left to wait for.
    let _ = is_ending.send(true);
    is_ending.closed().await;
}

/// Errors of a connection that ended before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

fn welcome(door: &Arc<Door>, stream: TcpStream, peer: SocketAddr, router: &Router, mut ending: watch::Receiver<bool>) {
    let Some(admission) = Admission::take(door, peer.ip()) else {
        door.metrics.sockets_refused.inc();
        // Whether or not it still reads this, the connection ends here.
        let _ = stream.try_write(TOO_MANY);
        return;
    };
    // Answers are small and leave at once.
    let _ = stream.set_nodelay(true);
    let door = Arc::clone(door);
    let router = router.clone();
    tokio::spawn(async move {
        // The first socket takes the admission over; plain HTTP keeps it until the connection ends.
        let admission = Mutex::new(Some(admission));
        let service = service_fn(|request| serve(&door, &router, peer, &admission, request));
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_WITHIN)
                .max_buf_size(HTTP_BUFFER_BYTES)
                .max_headers(MAX_HEADERS)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
        );
        // Broken requests and lost connections are the peer's affair.
        tokio::select! {
            _ = connection.as_mut() => {}
            _ = ending.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    });
}

async fn serve(
    door: &Arc<Door>,
    router: &Router,
    peer: SocketAddr,
    admission: &Mutex<Option<Admission>>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != SOCKET_PATH {
        request.extensions_mut().insert(ConnectInfo(peer));
        return router.clone().oneshot(request.map(Body::new)).await;
    }
    let is_allowed = {
        let per_s = door.config.handshakes_per_s;
        door.gate.handshakes.lock().spend(per_s.saturating_mul(2), per_s, door.now_ms()).is_ok()
    };
    let admission = if is_allowed { admission.lock().take() } else { None };
    Ok(match admission {
        Some(admission) => handshake::answer(door, request, admission),
        None => {
            door.metrics.sockets_refused.inc();
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }
    })
}
