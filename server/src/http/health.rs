//! For load balancers and operators: is the process there, may it be sent buyers, what has it counted.

use super::Front;
use crate::shutdown::Phase;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderValue, Response, StatusCode, header};
use std::time::Duration;

/// A store that does not answer within this is down, for a load balancer's purposes.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The process answers.
pub(super) async fn alive() -> Response<Body> {
    plain(StatusCode::OK, "ok\n".to_owned())
}

/// Both stores answer and the node is not on its way out; one line a thing that is wrong.
pub(super) async fn ready(State(front): State<Front>) -> Response<Body> {
    let app = &front.app;
    let mut wrong = Vec::new();
    if app.shutdown.phase() != Phase::Serving {
        wrong.push("draining");
    }
    let (postgres, redis) = tokio::join!(
        tokio::time::timeout(ANSWER_WITHIN, app.store.ping()),
        tokio::time::timeout(ANSWER_WITHIN, app.inventory.check_redis()),
    );
    if !matches!(postgres, Ok(Ok(()))) {
        wrong.push("postgres does not answer");
    }
    if !matches!(redis, Ok(Ok(()))) {
        wrong.push("redis does not answer");
    }
    if wrong.is_empty() {
        return plain(StatusCode::OK, "ready\n".to_owned());
    }
    plain(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", wrong.join("\n")))
}

/// Everything counted, for Prometheus.
pub(super) async fn metrics(State(front): State<Front>) -> Response<Body> {
    let mut response = plain(StatusCode::OK, front.app.metrics.encode().unwrap_or_default());
    let text = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
