//! The buyer app and the doors' scanner, out of the binary. Files under `/assets` carry a hash in their name and are kept for
//! ever; every page of the app is one document that is asked for again each time.

use super::refusal::{no_method, no_route};
use super::reply::{Shared, gzip};
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use parking_lot::RwLock;
use rust_embed::RustEmbed;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

#[derive(RustEmbed)]
#[folder = "../web/dist"]
#[allow_missing = true]
struct App;

const INDEX: &str = "index.html";
/// The scanner's folder and document; the doors' listener serves them, the public one does not.
const SCANNER: &str = "scan/";
const SCANNER_INDEX: &str = "scan/scan.html";
/// The first parts of the addresses that are pages of the app.
const PAGES: [&str; 4] = ["", "events", "orders", "pay"];

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Seatwire</title>\
    <h1>Seatwire is running</h1><p>The buyer app is not part of this build: run <code>make web</code> and build the \
    server again. The API is at <code>/v1/events</code>.</p></html>";

/// Compressed forms, made once. As many as the app has files.
static FILES: LazyLock<RwLock<HashMap<String, Arc<Shared>>>> = LazyLock::new(RwLock::default);

/// A file of the app, or the app itself for the address of one of its pages.
pub(super) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response<Body> {
    if method != Method::GET && method != Method::HEAD {
        return no_method(method, uri).await.into_response();
    }
    let path = uri.path().trim_start_matches('/');
    if path != INDEX
        && !path.starts_with(SCANNER)
        && let Some(file) = file(path)
    {
        return file.respond(&headers);
    }
    let first = path.split('/').next().unwrap_or_default();
    let is_page = path == INDEX || PAGES.contains(&first);
    if !is_page && !wants_html(&headers) {
        return no_route(uri).await.into_response();
    }
    match file(INDEX) {
        Some(index) if is_page => index.respond(&headers),
        Some(index) => nothing_here(&index, &headers),
        None => not_built(),
    }
}

/// Whether a person with a browser asks.
fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|part| part.trim().starts_with("text/html"))
}

/// The app at an address that is none of its pages: it says so to people, and the status to everyone else. Whole each
/// time, since "not modified" would hide the status.
fn nothing_here(index: &Shared, headers: &HeaderMap) -> Response<Body> {
    let mut unconditional = headers.clone();
    unconditional.remove(header::IF_NONE_MATCH);
    let mut response = index.respond(&unconditional);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// The scanner's page.
pub(super) async fn scanner(headers: HeaderMap) -> Response<Body> {
    file(SCANNER_INDEX).map_or_else(not_built, |page| page.respond(&headers))
}

/// Scripts and styles of the scanner, and the worker that keeps them for when there is no network.
pub(super) async fn scanner_part(uri: Uri, headers: HeaderMap) -> Response<Body> {
    match file(uri.path().trim_start_matches('/')) {
        Some(part) => part.respond(&headers),
        None => no_route(uri).await.into_response(),
    }
}

fn not_built() -> Response<Body> {
    let mut response = Response::new(Body::from(NOT_BUILT));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn file(path: &str) -> Option<Arc<Shared>> {
    // A debug build reads the files of the source tree, which change under it.
    if !cfg!(debug_assertions)
        && let Some(known) = FILES.read().get(path)
    {
        return Some(known.clone());
    }
    let found = App::get(path)?;
    let is_text = found.metadata.mimetype().starts_with("text/")
        || ["javascript", "json", "xml", "svg"].iter().any(|kind| found.metadata.mimetype().contains(kind));
    let is_hashed = path.starts_with("assets/") || path.starts_with("scan/assets/");
    let file = Arc::new(Shared {
        gzip: if is_text { gzip(&found.data) } else { None },
        content_type: content_type(found.metadata.mimetype()),
        cache_control: if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" },
        etag: format!("\"{}\"", hex::encode(&found.metadata.sha256_hash()[..12])),
        vary: Some("Accept-Encoding"),
        bytes: Bytes::from(found.data.into_owned()),
    });
    FILES.write().insert(path.to_owned(), file.clone());
    Some(file)
}

/// Types of the app's files; text is UTF-8.
fn content_type(mime: &str) -> &'static str {
    match mime {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/javascript" | "application/javascript" => "text/javascript; charset=utf-8",
        "application/json" => "application/json",
        "application/manifest+json" => "application/manifest+json",
        "image/svg+xml" => "image/svg+xml",
        "image/png" => "image/png",
        "image/webp" => "image/webp",
        "image/jpeg" => "image/jpeg",
        "image/x-icon" | "image/vnd.microsoft.icon" => "image/x-icon",
        "font/woff2" => "font/woff2",
        "application/wasm" => "application/wasm",
        "text/plain" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
