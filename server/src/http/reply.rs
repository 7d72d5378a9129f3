//! Answers: JSON of the counter with its status, and bytes that browsers and CDNs may keep.

use super::refusal::Refusal;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use seatwire_proto::server::Reply;
use std::io::Write as _;

/// Bodies below this are not worth compressing: they fit into one packet anyway.
const MIN_GZIP_BYTES: usize = 1_024;

/// What a route gives back.
pub(super) type Answer = Result<Response<Body>, Refusal>;

/// Cuts a list that was read with one item more than asked for, which tells whether there is more: then the last item that
/// stays is where the next page begins.
pub(super) fn cut<T>(items: &mut Vec<T>, limit: u32) -> Option<&T> {
    let has_more = items.len() > limit as usize;
    items.truncate(limit as usize);
    items.last().filter(|_| has_more)
}

/// A reply of the counter over HTTP: the body with `epoch`, `seq` and `replayed` where the socket would say them.
pub(super) fn answer(reply: Reply, status: impl FnOnce(&str) -> StatusCode) -> Response<Body> {
    let body = match reply.result {
        Err(object) => return Refusal::from(object).with_answer(reply.position, reply.is_replayed).into_response(),
        Ok(body) => body,
    };
    let status = status(&body);
    let mut text = body;
    // The body is a JSON object: what is added goes before its last brace.
    text.truncate(text.rfind('}').unwrap_or(text.len()));
    let mut comma = if text.trim_end().ends_with('{') { "" } else { "," };
    if let Some(position) = reply.position {
        text.push_str(&format!(r#"{comma}"epoch":{},"seq":{}"#, position.epoch, position.seq));
        comma = ",";
    }
    if reply.is_replayed {
        text.push_str(comma);
        text.push_str(r#""replayed":true"#);
    }
    text.push('}');
    private_json(status, text.into_bytes())
}

/// JSON for this client only.
pub(super) fn private_json(status: StatusCode, bytes: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Bytes that many may share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) bytes: Bytes,
    /// The same compressed, where that pays.
    pub(super) gzip: Option<Bytes>,
    pub(super) content_type: &'static str,
    pub(super) cache_control: &'static str,
    /// With the quotes.
    pub(super) etag: String,
    /// Request headers the answer depends on.
    pub(super) vary: Option<&'static str>,
}

impl Shared {
    /// The answer to this request: 304 when the client has it already.
    pub(super) fn respond(&self, request: &HeaderMap) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        let (etag, bytes, is_gzip) = match &self.gzip {
            Some(gzip) if accepts_gzip(request) => (with_suffix(&self.etag, "-gz"), gzip, true),
            _ => (self.etag.clone(), &self.bytes, false),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(self.cache_control));
        if let Ok(value) = HeaderValue::from_str(&etag) {
            headers.insert(header::ETAG, value);
        }
        if let Some(vary) = self.vary {
            headers.insert(header::VARY, HeaderValue::from_static(vary));
        }
        if has_it(request, &etag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        *response.body_mut() = Body::from(bytes.clone());
        response
    }
}

/// Another representation has another tag.
fn with_suffix(etag: &str, suffix: &str) -> String {
    format!("{}{suffix}\"", etag.strip_suffix('"').unwrap_or(etag))
}

/// Whether If-None-Match names the tag (weakly, as it must be compared).
fn has_it(request: &HeaderMap, etag: &str) -> bool {
    let values = request.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

/// Whether the client takes gzip.
pub(super) fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| {
        let mut parts = part.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case("gzip"));
        let is_refused =
            parts.any(|weight| weight.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0));
        is_gzip && !is_refused
    })
}

/// The bytes compressed, if that makes them clearly smaller.
pub(super) fn gzip(bytes: &[u8]) -> Option<Bytes> {
    if bytes.len() < MIN_GZIP_BYTES {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).ok()?;
    let compressed = encoder.finish().ok()?;
    (compressed.len() < bytes.len() * 9 / 10).then(|| Bytes::from(compressed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::client::Position;

    fn request(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().expect("a header"))])
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        for (value, takes) in
            [("gzip", true), ("br, gzip;q=0.5", true), ("gzip;q=0", false), ("br", false), ("", false)]
        {
            assert_eq!(accepts_gzip(&request(header::ACCEPT_ENCODING, value)), takes, "{value:?}");
        }
    }

    #[test]
    fn a_client_that_has_it_is_told_so() {
        let shared = Shared {
            bytes: Bytes::from_static(b"x"),
            gzip: None,
            content_type: "text/plain",
            cache_control: "no-cache",
            etag: "\"a\"".to_owned(),
            vary: None,
        };
        for (value, status) in [("\"a\"", 304), ("W/\"a\"", 304), ("\"b\", \"a\"", 304), ("*", 304), ("\"b\"", 200)] {
            let response = shared.respond(&request(header::IF_NONE_MATCH, value));
            assert_eq!(response.status().as_u16(), status, "{value}");
            assert_eq!(response.headers()[header::ETAG], "\"a\"");
        }
    }

    #[test]
    fn a_list_goes_on_where_one_more_was_found_than_asked_for() {
        let next = |found: &[u32]| cut(&mut found.to_vec(), 2).copied();
        assert_eq!((next(&[]), next(&[1, 2]), next(&[1, 2, 3])), (None, None, Some(2)));
    }

    #[tokio::test]
    async fn the_position_is_written_into_the_body() {
        let reply = |body: &str, position| Reply { id: None, result: Ok(body.to_owned()), position, is_replayed: true };
        let body = async |reply| {
            let response = answer(reply, |_| StatusCode::OK);
            axum::body::to_bytes(response.into_body(), 1_000).await.expect("small")
        };
        let position = Some(Position { epoch: 2, seq: 7 });
        assert_eq!(
            &body(reply(r#"{"hold":{}}"#, position)).await[..],
            br#"{"hold":{},"epoch":2,"seq":7,"replayed":true}"#
        );
        assert_eq!(&body(reply("{}", position)).await[..], br#"{"epoch":2,"seq":7,"replayed":true}"#);
        assert_eq!(&body(reply("{}", None)).await[..], br#"{"replayed":true}"#);
    }
}
