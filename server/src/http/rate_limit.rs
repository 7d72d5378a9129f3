//! Who may ask how often: so many requests a second for one address, whatever it claims to be. The key is the peer, or
//! behind proxies of ours the rightmost address that they did not write themselves; IPv6 counts by /64.

use super::refusal::Refusal;
use crate::config::{AddressPrefix, HttpConfig};
use crate::error;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use http::{HeaderMap, Request, Response};
use seatwire_proto::code::ErrorCode;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tower::{ServiceExt, service_fn};
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;
use tower_governor::{GovernorError, GovernorLayer};

/// Slots that addresses share: memory is bounded by them (about 16 MB when all are in use), and an attacker who does not
/// know the hash cannot aim at somebody else's slot. Ten thousand busy addresses share by chance about 4 in a hundred.
const SLOTS: u64 = 1 << 18;
/// Most addresses looked at in X-Forwarded-For: longer chains are nobody's proxies.
const MAX_HOPS: usize = 32;
/// Slots that are full again are dropped so often.
const FORGET_EVERY: Duration = Duration::from_secs(10);

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Which address asks.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    trusted: Arc<[AddressPrefix]>,
    is_loopback_limited: bool,
    hash: RandomState,
}

impl Addresses {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self {
            trusted: config.trusted_proxies.clone().into(),
            is_loopback_limited: config.is_loopback_limited,
            hash: RandomState::new(),
        }
    }

    /// The client: the peer, unless that is a proxy of ours; then the last address it was told that is not.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let is_trusted = |address: IpAddr| self.trusted.iter().any(|prefix| prefix.contains(address));
        let mut client = peer.to_canonical();
        if !is_trusted(client) {
            return client;
        }
        let values = headers.get_all(FORWARDED_FOR).into_iter().rev();
        let hops = values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        for hop in hops.take(MAX_HOPS) {
            // What is no address was not written by a proxy of ours: whoever passed it on is the client.
            let Some(address) = parse_hop(hop.trim()) else { break };
            client = address;
            if !is_trusted(client) {
                break;
            }
        }
        client
    }

    /// The client's slot; `None` = not limited.
    fn slot<T>(&self, request: &Request<T>) -> Option<u32> {
        // Without a peer (tests that call the router itself) everyone is one client.
        let peer =
            request.extensions().get::<ConnectInfo<SocketAddr>>().map_or(IpAddr::from([0, 0, 0, 0]), |c| c.0.ip());
        let client = self.client(peer, request.headers());
        if client.is_loopback() && !self.is_loopback_limited {
            return None;
        }
        Some((self.hash.hash_one(network(client)) % SLOTS) as u32)
    }
}

/// `203.0.113.9`, `203.0.113.9:4711`, `2001:db8::1`, `[2001:db8::1]:4711`.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let address = text.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|both| both.ip()));
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    address.or_else(bare).map(|address| address.to_canonical())
}

/// What one customer of a network can choose from: an IPv4 address, an IPv6 /64.
fn network(address: IpAddr) -> (bool, u64) {
    match address {
        IpAddr::V4(v4) => (false, u64::from(u32::from(v4))),
        IpAddr::V6(v6) => (true, (u128::from(v6) >> 64) as u64),
    }
}

impl KeyExtractor for Addresses {
    type Key = u32;
    fn extract<T>(&self, request: &Request<T>) -> Result<u32, GovernorError> {
        Ok(self.slot(request).unwrap_or_default())
    }
}

/// The router behind the limit; those who are not limited pass beside it. Slots start full and are forgotten by
/// themselves, as long as the router lives.
pub(super) fn limit(router: Router, config: &HttpConfig) -> Router {
    let addresses = Addresses::new(config);
    let governor = GovernorConfigBuilder::default()
        .period(Duration::from_secs(1) / config.requests_per_s.max(1))
        .burst_size(config.request_burst.max(1))
        .key_extractor(addresses.clone())
        .finish()
        .expect("neither is zero");
    let limiter = Arc::downgrade(governor.limiter());
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(FORGET_EVERY).await;
                let Some(limiter) = limiter.upgrade() else { return };
                limiter.retain_recent();
                limiter.shrink_to_fit();
            }
        });
    }
    let limited = router.clone().layer(GovernorLayer::new(governor).error_handler(refuse));
    let chosen = service_fn(move |request: Request<Body>| {
        let router = if addresses.slot(&request).is_some() { &limited } else { &router };
        router.clone().oneshot(request)
    });
    Router::new().fallback_service(chosen)
}

fn refuse(error: GovernorError) -> Response<Body> {
    let wait_s = match error {
        GovernorError::TooManyRequests { wait_time, .. } => wait_time,
        GovernorError::UnableToExtractKey | GovernorError::Other { .. } => 0,
    };
    // The governor counts whole seconds and rounds down; nobody should come back too early for it.
    let object = error::refuse(ErrorCode::RateLimited).with_retry_after_ms((wait_s + 1) * 1_000);
    Refusal::from(object).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use http::{StatusCode, header};

    fn settings(pairs: &[(&str, &str)]) -> HttpConfig {
        Config::from_pairs(pairs.iter().copied()).expect("settings").http
    }

    fn client(trusted: &str, peer: &str, forwarded: &[&str]) -> String {
        let addresses = Addresses::new(&settings(&[("SEATWIRE_TRUSTED_PROXIES", trusted)]));
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, value.parse().expect("a header"));
        }
        addresses.client(peer.parse().expect("an address"), &headers).to_string()
    }

    #[test]
    fn nobody_is_believed_but_trusted_proxies() {
        assert_eq!(client("", "203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
    }

    #[test]
    fn the_rightmost_address_that_is_not_ours_counts() {
        // What stands further left was sent by the client itself.
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["1.1.1.1, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["1.1.1.1", "198.51.100.1, 10.0.0.7"]), "198.51.100.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &["1.1.1.1, unknown"]), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "::ffff:10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
    }

    async fn statuses(pairs: &[(&str, &str)], requests: &[(&str, &str)]) -> Vec<StatusCode> {
        let mut all = vec![("SEATWIRE_HTTP_PER_S", "1"), ("SEATWIRE_HTTP_BURST", "2")];
        all.extend(pairs);
        let router = limit(Router::new().fallback(async || "here"), &settings(&all));
        let mut statuses = Vec::new();
        for (peer, forwarded) in requests {
            let peer: IpAddr = peer.parse().expect("an address");
            let request = Request::builder()
                .header(FORWARDED_FOR, *forwarded)
                .extension(ConnectInfo(SocketAddr::new(peer, 4711)))
                .body(Body::empty())
                .expect("a request");
            statuses.push(router.clone().oneshot(request).await.expect("answers").status());
        }
        statuses
    }

    const OK: StatusCode = StatusCode::OK;
    const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

    #[tokio::test]
    async fn turning_the_forwarded_address_does_not_help() {
        let seen = statuses(&[], &[("192.0.2.1", "1.1.1.1"), ("192.0.2.1", "1.1.1.2"), ("192.0.2.1", "1.1.1.3")]);
        assert_eq!(seen.await, [OK, OK, REFUSED]);
        // Behind a proxy of ours its client's own words do not help either.
        let proxied =
            [("10.0.0.1", "1.1.1.1, 192.0.2.1"), ("10.0.0.1", "1.1.1.2, 192.0.2.1"), ("10.0.0.1", "192.0.2.1")];
        assert_eq!(statuses(&[("SEATWIRE_TRUSTED_PROXIES", "10.0.0.1")], &proxied).await, [OK, OK, REFUSED]);
        let others = [("10.0.0.1", "192.0.2.1"), ("10.0.0.1", "192.0.2.2"), ("10.0.0.1", "192.0.2.3")];
        assert_eq!(statuses(&[("SEATWIRE_TRUSTED_PROXIES", "10.0.0.1")], &others).await, [OK, OK, OK]);
    }

    #[tokio::test]
    async fn turning_the_lower_half_of_an_ipv6_address_does_not_help() {
        let same = [("2001:db8::1", ""), ("2001:db8::2", ""), ("2001:db8::ffff:0:0:3", "")];
        assert_eq!(statuses(&[], &same).await, [OK, OK, REFUSED]);
        let others = [("2001:db8:0:1::1", ""), ("2001:db8:0:2::1", ""), ("2001:db8:0:3::1", "")];
        assert_eq!(statuses(&[], &others).await, [OK, OK, OK]);
    }

    #[tokio::test]
    async fn loopback_is_free_unless_configured() {
        let three = [("127.0.0.1", ""), ("127.0.0.1", ""), ("127.0.0.1", "")];
        assert_eq!(statuses(&[], &three).await, [OK, OK, OK]);
        assert_eq!(statuses(&[("SEATWIRE_LIMIT_LOOPBACK", "true")], &three).await, [OK, OK, REFUSED]);
    }

    #[tokio::test]
    async fn a_refusal_is_the_error_object_and_says_when_to_come_back() {
        let response = refuse(GovernorError::TooManyRequests { wait_time: 1, headers: None });
        assert_eq!(response.status(), REFUSED);
        assert_eq!(response.headers().get(header::RETRY_AFTER).map(|value| value.as_bytes()), Some(&b"2"[..]));
        let body = axum::body::to_bytes(response.into_body(), 4096).await.expect("small");
        let value: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            (&value["error"]["code"], &value["error"]["retry_after_ms"]),
            (&"rate_limited".into(), &2000.into())
        );
    }
}
