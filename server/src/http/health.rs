//! For load balancers and operators: is the process there, may it be sent buyers, what has it counted.

use super::Front;
use crate::app::App;
use crate::shutdown::Phase;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderValue, Response, StatusCode, header};
use std::time::{Duration, Instant};

/// A store that does not answer within this is down, for a load balancer's purposes.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How long an answer of the stores stands.
const FRESH: Duration = Duration::from_millis(500);

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

/// What was found when the stores were last asked. Anyone may ask whether the node is ready; the stores are asked once for
/// all who ask within [`FRESH`].
#[derive(Debug, Default)]
pub(super) struct Readiness(tokio::sync::Mutex<Option<(Instant, Vec<&'static str>)>>);

/// Both stores answer and the node is not on its way out; one line a thing that is wrong.
pub(super) async fn ready(State(front): State<Front>) -> Response<Body> {
    let app = &front.app;
    let mut known = front.readiness.0.lock().await;
    let mut wrong = match &*known {
        Some((asked, wrong)) if asked.elapsed() < FRESH => wrong.clone(),
        _ => {
            let wrong = ask_stores(app).await;
            *known = Some((Instant::now(), wrong.clone()));
            wrong
        }
    };
    drop(known);
    if app.shutdown.phase() != Phase::Serving {
        wrong.push("draining");
    }
    if wrong.is_empty() {
        return plain(StatusCode::OK, "ready\n".to_owned());
    }
    plain(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", wrong.join("\n")))
}

async fn ask_stores(app: &App) -> Vec<&'static str> {
    let mut wrong = Vec::new();
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
    wrong
}

/// Everything counted, for Prometheus.
pub(super) async fn metrics(State(front): State<Front>) -> Response<Body> {
    let mut response = plain(StatusCode::OK, front.app.metrics.encode().unwrap_or_default());
    let text = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
