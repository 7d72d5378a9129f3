//! Headers on every answer: what a browser may do with our pages, and which other sites may call us.

use super::call::bad_field;
use super::refusal::Refusal;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, Version, header};
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::set_header::SetResponseHeaderLayer;

/// Everything from ourselves, nothing inline, nobody may frame us. Maps are drawn on canvases, tickets as images.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; \
     connect-src 'self' ws: wss:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Longest a browser may remember that it is allowed to call us.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);

/// What a page of ours may use of a device.
const PERMISSIONS: &str = "camera=(), microphone=(), geolocation=(self), payment=(self)";
/// The doors' scanner looks through the camera, and may use nothing else.
const PERMISSIONS_WITH_CAMERA: &str = "camera=(self), microphone=(), geolocation=(), payment=()";

/// The security headers of the public and the admin listener, unless an answer brings its own.
pub(super) fn secured(router: Router) -> Router {
    layered(router, PERMISSIONS)
}

/// Those of the doors' listener.
pub(super) fn secured_with_camera(router: Router) -> Router {
    layered(router, PERMISSIONS_WITH_CAMERA)
}

/// Refuses what names no host or more than one (RFC 9112, 3.2): somebody before us may have understood another one.
async fn with_one_host(request: Request, next: Next) -> Response {
    let hosts_n = request.headers().get_all(header::HOST).iter().count();
    let needs_one = request.version() == Version::HTTP_11;
    if hosts_n > 1 || (needs_one && hosts_n == 0) {
        return Refusal::from(bad_field("/Host", "expected one Host header")).into_response();
    }
    next.run(request).await
}

fn layered(router: Router, permissions: &'static str) -> Router {
    let router = router.layer(from_fn(with_one_host));
    [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Addresses of orders stay with us.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("permissions-policy"), permissions),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ]
    .into_iter()
    .fold(router, |router, (name, value)| {
        router.layer(SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value)))
    })
}

/// Pages of these origins may call the API from a browser; tokens travel in a header, never in cookies, so nothing is
/// sent that the page does not hold itself.
pub(super) fn cors(origins: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| HeaderValue::from_str(origin.trim_end_matches('/')).ok()).collect();
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("seatwire-admission"),
            HeaderName::from_static("seatwire-pay-secret"),
        ])
        .expose_headers([header::ETAG, header::RETRY_AFTER])
        .max_age(PREFLIGHT_MAX_AGE)
}
