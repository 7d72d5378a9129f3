//! How HTTP is listened to, whoever asks: deadlines and sizes of a connection, and how many one address may have. The
//! public listener takes these for its own loop (`socket/accept`), since it makes sockets of some; the operators' and the
//! doors' listeners are served whole by [`serve`].

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt;

/// From connecting, or from the last answer, to the end of the next request's headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// From an answer that the peer has no room for to the first byte of it that goes; then the connection ends. A phone in a
/// tunnel reads again within this.
const READS_WITHIN: Duration = Duration::from_secs(10);
/// Buffer of one connection; longer headers are answered 431.
const BUFFER_BYTES: usize = 16 << 10;
/// Headers of one request; more are answered 431.
const MAX_HEADERS: usize = 64;
/// Connections of one address (IPv6: /64); more are answered 503. A proxy in front is one address.
const MAX_PER_ADDRESS: usize = 256;
/// Connections of a listener that people of the house use: a hall full of scanners, and those who only try.
const MAX_OF_HOUSE: usize = 1_024;
/// After a failed accept (out of descriptors): connections that end meanwhile free some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// How every connection is read.
pub(crate) fn connection() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(MAX_HEADERS);
    builder
}

/// A stream that fails when the peer takes nothing of what is written to it for [`READS_WITHIN`]: otherwise whoever asks and
/// never reads keeps a place for good. A socket takes the stream out of it and has a deadline of its own.
pub(crate) struct Impatient {
    stream: TcpStream,
    // Set up with the first write that finds no room, and moved by each later one.
    deadline: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl Impatient {
    /// The stream under a deadline.
    pub(crate) const fn new(stream: TcpStream) -> Self {
        Self { stream, deadline: None, is_waiting: false }
    }

    /// The stream alone.
    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }

    fn watched<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(READS_WITHIN)));
        if !self.is_waiting {
            self.is_waiting = true;
            deadline.as_mut().reset(Instant::now() + READS_WITHIN);
        }
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watched(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Who is connected: how many in all, and of each address.
#[derive(Debug, Default)]
pub(crate) struct Places {
    open: AtomicUsize,
    by_address: DashMap<u64, usize>,
}

/// A place taken; whoever holds it gives it back by [`Places::give_back`]. Zero inside: the address is not counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken(u64);

impl Places {
    /// A place for a connection from `peer`, of at most so many; `None` when there is none.
    pub(crate) fn take(&self, peer: IpAddr, is_counted: bool, max_open: usize) -> Option<Taken> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= max_open {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        if !is_counted {
            return Some(Taken(0));
        }
        let address = address_key(peer);
        let mut count = self.by_address.entry(address).or_insert(0);
        if *count >= MAX_PER_ADDRESS {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        Some(Taken(address))
    }

    /// The connection has ended.
    pub(crate) fn give_back(&self, taken: Taken) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if taken.0 != 0
            && let Entry::Occupied(mut entry) = self.by_address.entry(taken.0)
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

/// The next connection; waits a little after a failure that is not one connection's own.
pub(crate) async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => {
            // Answers are small and leave at once.
            let _ = accepted.0.set_nodelay(true);
            Some(accepted)
        }
        Err(error) => {
            if !is_of_one_connection(&error) {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None
        }
    }
}

/// Errors of a connection that ended before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// Tells somebody that there is no place.
pub(crate) fn turn_away(stream: &TcpStream) {
    // Whether or not it still reads this, the connection ends here.
    let _ = stream.try_write(TOO_MANY);
}

/// A place that is given back when dropped.
struct Place {
    places: Arc<Places>,
    taken: Taken,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(self.taken);
    }
}

/// Serves a listener whole until `ending` is over, then ends it gracefully: no new connections, and it returns when the
/// requests in flight are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    is_loopback_limited: bool,
    ending: impl Future<Output = ()>,
) {
    let places = Arc::new(Places::default());
    let (is_ending, ended) = watch::channel(false);
    let mut ending = std::pin::pin!(ending);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = &mut ending => break,
        };
        let Some((stream, peer)) = accepted else { continue };
        let is_counted = is_loopback_limited || !peer.ip().to_canonical().is_loopback();
        let Some(taken) = places.take(peer.ip(), is_counted, MAX_OF_HOUSE) else {
            turn_away(&stream);
            continue;
        };
        let place = Place { places: Arc::clone(&places), taken };
        tokio::spawn(answer(stream, peer, router.clone(), place, ended.clone()));
    }
    drop(listener);
    drop(ended);
    // Nobody listening means nobody left to wait for.
    let _ = is_ending.send(true);
    is_ending.closed().await;
}

async fn answer(stream: TcpStream, peer: SocketAddr, router: Router, place: Place, mut ending: watch::Receiver<bool>) {
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request.map(Body::new))
    });
    let mut connection =
        std::pin::pin!(self::connection().serve_connection(TokioIo::new(Impatient::new(stream)), service));
    // Broken requests and lost connections are the peer's affair.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = ending.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
    drop(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_no_more_than_its_share() {
        let places = Places::default();
        let (one, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let taken: Vec<Taken> = (0..MAX_PER_ADDRESS).filter_map(|_| places.take(one, true, 10_000)).collect();
        assert_eq!(taken.len(), MAX_PER_ADDRESS);
        assert!(places.take(one, true, 10_000).is_none());
        assert!(places.take(one, false, 10_000).is_some(), "not counted");
        assert!(places.take(other, true, 10_000).is_some());
        places.give_back(taken[0]);
        assert!(places.take(one, true, 10_000).is_some(), "what is given back is there again");
        assert!(places.take(other, true, MAX_PER_ADDRESS).is_none(), "full is full for all");
    }

    #[tokio::test]
    async fn whoever_asks_and_never_reads_loses_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let body = "x".repeat(256 << 10);
        let router = Router::new().fallback(move || std::future::ready(body.clone()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, router, true, async { drop(stopped.await) }));
        let stream = TcpStream::connect(address).await.expect("connects");
        let began = Instant::now();
        // More asked than any buffer of answers holds; what is written fails once the server has hung up.
        let asked = async {
            loop {
                stream.writable().await.expect("the stream stands");
                match stream.try_write(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(200)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(4 * READS_WITHIN, asked).await.expect("the connection ends");
        assert!(began.elapsed() >= READS_WITHIN, "those who pause are waited for: {:?}", began.elapsed());
        stop.send(()).expect("it serves");
        served.await.expect("nobody is left");
    }
}
