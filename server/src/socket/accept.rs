//! The public listener: everything that connects comes in here, HTTP and sockets, under caps and deadlines of our own.
//! A request for `/v1/socket` goes to `handshake`, every other one to the router. Ends gracefully: no new connections,
//! requests in flight are finished.

use super::budget::Bucket;
use super::{Door, handshake};
use crate::error;
use crate::listener::{self, Impatient, Places, Taken};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use seatwire_proto::code::ErrorCode;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;

/// Where sockets are opened.
const SOCKET_PATH: &str = "/v1/socket";
/// What `Retry-After` says to those who come too many at once.
const RETRY_AFTER_S: &str = "2";
const RETRY_AFTER_MS: u64 = 2_000;
/// The caps of the listener.
#[derive(Debug)]
pub(super) struct Gate {
    places: Places,
    handshakes: Mutex<Bucket>,
}

/// A connection's place under the caps; given back when dropped.
#[derive(Debug)]
pub(super) struct Admission {
    door: Arc<Door>,
    taken: Taken,
}

impl Gate {
    pub(super) fn new(handshakes_per_s: u32) -> Self {
        Self { places: Places::default(), handshakes: Mutex::new(Bucket::full(handshakes_per_s.saturating_mul(2), 0)) }
    }
}

impl Admission {
    /// A place for a connection from `peer`; `None` when there is none.
    fn take(door: &Arc<Door>, peer: IpAddr) -> Option<Self> {
        let taken = door.gate.places.take(peer, door.is_limited(peer), door.config.max_connections)?;
        Some(Self { door: Arc::clone(door), taken })
    }

    /// The door it was taken at.
    pub(super) const fn door(&self) -> &Arc<Door> {
        &self.door
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.door.gate.places.give_back(self.taken);
    }
}

/// Accepts until the node drains; returns when the requests in flight are answered. Sockets live on: `drain` ends them.
pub(super) async fn run(door: Arc<Door>, listener: TcpListener, router: Router, draining: impl Future<Output = ()>) {
    let (is_ending, ending) = watch::channel(false);
    let mut draining = std::pin::pin!(draining);
    loop {
        let accepted = tokio::select! {
            accepted = listener::accept(&listener) => accepted,
            () = &mut draining => break,
        };
        if let Some((stream, peer)) = accepted {
            welcome(&door, stream, peer, &router, ending.clone());
        }
    }
    drop(listener);
    drop(ending);
    // Nobody listening means nobody left to wait for.
    let _ = is_ending.send(true);
    is_ending.closed().await;
}

fn welcome(door: &Arc<Door>, stream: TcpStream, peer: SocketAddr, router: &Router, mut ending: watch::Receiver<bool>) {
    let Some(admission) = Admission::take(door, peer.ip()) else {
        door.metrics.sockets_refused.inc();
        listener::turn_away(&stream);
        return;
    };
    let door = Arc::clone(door);
    let router = router.clone();
    tokio::spawn(async move {
        // The first socket takes the admission over; plain HTTP keeps it until the connection ends.
        let admission = Mutex::new(Some(admission));
        let service = service_fn(|request| serve(&door, &router, peer, &admission, request));
        let serving = listener::connection().serve_connection(TokioIo::new(Impatient::new(stream)), service);
        let mut connection = std::pin::pin!(serving.with_upgrades());
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
            let object = error::refuse(ErrorCode::Overloaded).with_retry_after_ms(RETRY_AFTER_MS);
            let mut response = handshake::refusal(StatusCode::SERVICE_UNAVAILABLE, &object);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }
    })
}
