//! The way out to other people's servers: the payment provider, organisers' webhooks. HTTP/1.1 over TLS or plain, no
//! redirects, a bound on every wait and size. With [`Reach::Public`] nothing inside our own network can be called, whatever
//! a name resolves to at the moment of the call.

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// Longest wait for a connection: a server that takes none is told apart from one that works.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Idle connections kept to one server.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// How long an idle connection is kept: shorter than most servers do, so that few calls meet a closing one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Most of a body that nobody asked for, and longest wait for it: enough for a page that says thanks, and no longer than a new
/// connection would cost.
const MAX_IDLE_BYTES: usize = 64 * 1024;
const IDLE_BYTES_WITHIN: Duration = Duration::from_millis(500);

/// Whom may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Anybody: the address comes from the operator.
    Anywhere,
    /// Public addresses only: the address comes from somebody else.
    Public,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// No connection was made: nothing was sent.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// It may have arrived.
    #[error("no answer: {0}")]
    Lost(String),
    /// More than was asked for.
    #[error("the answer is too large")]
    TooLarge,
    /// The address leads into a network that must not be reached.
    #[error("the address is not a public one")]
    NotPublic,
}

/// The client; cheap to clone.
#[derive(Debug, Clone)]
pub struct Outbound {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    reach: Reach,
}

impl Outbound {
    /// A client for this reach.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(reach: Reach) -> io::Result<Self> {
        let mut http = HttpConnector::new_with_resolver(Resolver(reach));
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.enforce_http(false);
        let builder = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            // A machine without certificates can still call plain servers, such as the simulator.
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "no certificates on this machine: TLS servers cannot be called");
                let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
                let config = rustls::ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .expect("ring knows the default versions")
                    .with_root_certificates(rustls::RootCertStore::empty())
                    .with_no_client_auth();
                HttpsConnectorBuilder::new().with_tls_config(config)
            });
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .build(connector);
        Ok(Self { client, reach })
    }

    /// Sends a request and reads its answer whole, within this time and up to this many bytes.
    ///
    /// # Errors
    /// As [`OutboundError`] says.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, OutboundError> {
        if self.reach == Reach::Public && !may_be_public(request.uri()) {
            return Err(OutboundError::NotPublic);
        }
        match tokio::time::timeout(within, self.read(request, max_bytes)).await {
            Ok(answer) => answer,
            Err(_) => Err(OutboundError::Lost(format!("nothing within {} ms", within.as_millis()))),
        }
    }

    /// Sends a request whose answer is its status: it stands whatever follows it.
    ///
    /// # Errors
    /// As [`OutboundError`] says, never `TooLarge`.
    pub async fn status(&self, request: Request<Full<Bytes>>, within: Duration) -> Result<StatusCode, OutboundError> {
        if self.reach == Reach::Public && !may_be_public(request.uri()) {
            return Err(OutboundError::NotPublic);
        }
        let answer = match tokio::time::timeout(within, self.begin(request)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(OutboundError::Lost(format!("nothing within {} ms", within.as_millis()))),
        };
        let (parts, mut body) = answer.into_parts();
        let rest = async {
            let mut left = MAX_IDLE_BYTES;
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    break;
                }
            }
        };
        // Read to its end it leaves the connection to the next call; cut, it is closed.
        let _ = tokio::time::timeout(IDLE_BYTES_WITHIN, rest).await;
        Ok(parts.status)
    }

    /// Sends a request; the answer as far as its head.
    async fn begin(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, OutboundError> {
        self.client.request(request).await.map_err(|error| {
            let text = causes(&error);
            if text.contains(NOT_PUBLIC) {
                OutboundError::NotPublic
            } else if error.is_connect() {
                OutboundError::NotConnected(text)
            } else {
                OutboundError::Lost(text)
            }
        })
    }

    async fn read(&self, request: Request<Full<Bytes>>, max_bytes: usize) -> Result<Response<Bytes>, OutboundError> {
        let (parts, mut body) = self.begin(request).await?.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| OutboundError::Lost(error.to_string()))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > max_bytes {
                    return Err(OutboundError::TooLarge);
                }
                bytes.extend_from_slice(data);
            }
        }
        Ok(Response::from_parts(parts, bytes.freeze()))
    }
}

/// An error with what is behind it: the outermost alone says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

const NOT_PUBLIC: &str = "leads to no public address";

/// Names become addresses at the moment of the call; those that must not be reached are left out.
#[derive(Debug, Clone)]
struct Resolver(Reach);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<_> = found.filter(|address| reach == Reach::Anywhere || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(io::Error::other(format!("{} {NOT_PUBLIC}", name.as_str())));
            }
            Ok(allowed.into_iter())
        })
    }
}

/// False for addresses that are written as numbers and lead inside, and for names that cannot be anybody's on the internet;
/// other names are looked at when they are resolved.
#[must_use]
pub fn may_be_public(uri: &Uri) -> bool {
    let Some(host) = uri.host() else { return false };
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => is_public(address),
        // Resolvers take a name that ends in a number for an address in another spelling: 0x7f.1, 2130706433, 127.1.
        Err(_) => {
            let (_, last) = host.rsplit_once('.').unwrap_or(("", host));
            let is_number =
                last.starts_with("0x") || last.starts_with("0X") || last.bytes().all(|b| b.is_ascii_digit());
            let is_local = last.eq_ignore_ascii_case("localhost") || !host.contains('.');
            !is_number && !is_local
        }
    }
}

/// Whether an address names nobody but a server: no user or password, and a port there is.
#[must_use]
pub fn is_plain(uri: &Uri) -> bool {
    uri.authority().is_some_and(|authority| {
        let text = authority.as_str();
        // Behind the bracket of an IPv6 address, or the only colon there is.
        let behind = text.rsplit_once(']').map_or(text, |(_, behind)| behind);
        let port = behind.split_once(':').map(|(_, port)| port);
        !text.contains('@') && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
    })
}

/// Whether an address belongs to the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    !(v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || v4.is_documentation()
        || a == 0
        || a >= 240
        // Carriers' own networks (RFC 6598), protocol assignments (RFC 6890), benchmarks (RFC 2544), relays of 6to4 (RFC
        // 7526).
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    match segments {
        // Addresses that carry a v4 one, translated (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        // Tunnels to wherever a relay leads: 6to4 (RFC 3056), and Teredo (RFC 4380) with the rest of the protocols' own block
        // (RFC 2928); documentation (RFC 3849, RFC 9637).
        [0x2002, ..] | [0x2001, 0x0000..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => false,
        // Only this eighth is given out (RFC 4291); loopback, local and multicast ones lie elsewhere.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_told_from_outside() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.8",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "192.88.99.1",
            "2002:a00:1::",
            "2002:101:101::1",
            "2001:0:7f00:1::",
            "2001:2::1",
            "2001:db8::1",
            "3fff::1",
        ] {
            assert!(!is_public(inside.parse().expect(inside)), "{inside}");
        }
        for outside in
            ["1.1.1.1", "93.184.216.34", "192.88.98.1", "2606:4700::1111", "2001:4860::8888", "64:ff9b::101:101"]
        {
            assert!(is_public(outside.parse().expect(outside)), "{outside}");
        }
    }

    #[test]
    fn an_address_in_any_spelling_is_inside_and_names_are_for_the_resolver() {
        let uri = |text: &str| may_be_public(&text.parse().expect(text));
        for inside in [
            "http://127.0.0.1:80/",
            "http://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[2001:0:7f00:1::]/",
            "https://0/",
            "https://127.1/",
            "https://0x7f.1/",
            "https://0X7F000001/",
            "https://2130706433/",
            "https://0177.0.0.1/",
            "https://127.0.0.1./",
            "https://localhost/",
            "https://a.localhost/",
            "https://redis/",
        ] {
            assert!(!uri(inside), "{inside}");
        }
        for outside in
            ["https://example.org/x", "https://1.1.1.1/", "https://example.org./", "https://4x.example.org:8443/"]
        {
            assert!(uri(outside), "{outside}");
        }
    }

    #[test]
    fn an_address_names_a_server_and_nobody_else() {
        for (text, is_good) in [
            ("https://example.org/", true),
            ("https://example.org:8443/x@y", true),
            ("https://[2606:4700::1111]:443/", true),
            ("https://[2606:4700::1111]/", true),
            ("https://u:p@example.org/", false),
            ("https://u@example.org/", false),
            ("https://example.org:99999/", false),
            ("https://example.org:0/", false),
        ] {
            let plain = text.parse().is_ok_and(|uri| is_plain(&uri));
            assert_eq!(plain, is_good, "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_called() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let request = || Request::get(format!("http://localhost:{port}/")).body(Full::default()).expect("a request");
        let public = Outbound::new(Reach::Public).expect("a client");
        let within = Duration::from_secs(2);
        assert!(matches!(public.send(request(), within, 10).await, Err(OutboundError::NotPublic)));
        let anywhere = Outbound::new(Reach::Anywhere).expect("a client");
        // Nobody answers, but somebody was reached.
        let lost = anywhere.send(request(), Duration::from_millis(200), 10).await;
        assert!(matches!(lost, Err(OutboundError::Lost(_))), "{lost:?}");
        drop(listener);
        let gone = anywhere.send(request(), within, 10).await;
        assert!(matches!(gone, Err(OutboundError::NotConnected(_))), "{gone:?}");
    }
}
