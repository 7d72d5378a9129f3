//! `GET /v1/events` and `GET /v1/events/{event}`: what is on sale. Bodies are built at most once a second an event (or a
//! question), then shared; how many seats are left comes from the live map in memory, or, where nobody looks at the
//! event, from the ledger.

use super::Front;
use super::call::{Id, Query, bad_field};
use super::reply::{Answer, Shared, cut, gzip};
use crate::catalogue::EventPage;
use crate::error;
use crate::seatmap::LiveEvent;
use crate::store::event::{EventFilter, Near};
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dashmap::DashMap;
use http::HeaderMap;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;
use seatwire_proto::server::{ErrorObject, Event, EventSummary};
use sha2::{Digest as _, Sha256};
use std::hash::Hash;
use std::sync::Arc;
use uuid::Uuid;

/// How long a body is given again: what its `max-age` says.
const FRESH_MS: u64 = 1_000;
/// A crowd never waits for a cache that asks anew. With the second of [`FRESH_MS`] no copy is older than three: pages that
/// heard of a change read the event again after that, once, so a longer time here would leave them with the old one.
const CACHE_CONTROL: &str = "max-age=1, stale-while-revalidate=1";
/// Most event bodies kept; a stadium's takes about 110 kB.
const MAX_EVENT_BODIES: usize = 256;
/// Most list bodies kept: the first pages; further ones are asked for rarely.
const MAX_LIST_BODIES: usize = 256;
/// Most words of a search, and the longest search in characters: each word is a look through names.
const MAX_WORDS: usize = 8;
const MAX_QUERY_CHARS: usize = 100;
/// Half around the earth: beyond this `near` says nothing.
const MAX_WITHIN_KM: f64 = 20_000.0;
/// Without `within_km`.
const DEFAULT_WITHIN_KM: f64 = 50.0;

/// Bodies that were built within the last second.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    events: DashMap<EventId, Arc<(u64, Shared)>>,
    lists: DashMap<String, Arc<(u64, Shared)>>,
}

/// The body, if it is young enough.
fn fresh<K: Eq + Hash>(bodies: &DashMap<K, Arc<(u64, Shared)>>, key: &K, now_ms: u64) -> Option<Arc<(u64, Shared)>> {
    let body = bodies.get(key)?.clone();
    (now_ms.saturating_sub(body.0) < FRESH_MS).then_some(body)
}

/// Keeps a body; when there are too many, old ones go, and if all are young this one is not kept.
fn keep<K: Eq + Hash>(
    bodies: &DashMap<K, Arc<(u64, Shared)>>,
    key: K,
    now_ms: u64,
    body: Shared,
    max: usize,
) -> Arc<(u64, Shared)> {
    let body = Arc::new((now_ms, body));
    if bodies.len() >= max {
        bodies.retain(|_, kept| now_ms.saturating_sub(kept.0) < FRESH_MS);
    }
    if bodies.len() < max {
        bodies.insert(key, body.clone());
    }
    body
}

fn shared(bytes: Vec<u8>) -> Shared {
    let tag = hex::encode(&Sha256::digest(&bytes)[..12]);
    Shared {
        gzip: gzip(&bytes),
        bytes: Bytes::from(bytes),
        content_type: "application/json",
        cache_control: CACHE_CONTROL,
        etag: format!("\"{tag}\""),
        vary: Some("Accept-Encoding"),
    }
}

pub(super) async fn read(State(front): State<Front>, Id(id): Id<EventId>, headers: HeaderMap) -> Answer {
    let now_ms = front.app.clock.now_ms();
    if let Some(body) = fresh(&front.bodies.events, &id, now_ms) {
        return Ok(body.1.respond(&headers));
    }
    let found = front.app.catalogue.page(id).await.map_err(|error| error::store(&error))?;
    let page = found.ok_or(ErrorCode::EventUnknown)?;
    // Whoever reads the event is about to look at its map.
    let body = match front.app.seatmap.live(&page.facts).await {
        Ok(live) => counted(&page, &live),
        Err(error) => {
            tracing::warn!(event = %id, %error, "event without its live map");
            let taken = front.app.catalogue.taken(&[id]).await.map_err(|error| error::store(&error))?;
            let mut body = Event::clone(&page.body);
            body.summary.available = body.summary.available.saturating_sub(taken.first().copied().unwrap_or(0));
            body
        }
    };
    let bytes = serde_json::to_vec(&body).map_err(|error| error::internal(&error))?;
    Ok(keep(&front.bodies.events, id, now_ms, shared(bytes), MAX_EVENT_BODIES).1.respond(&headers))
}

/// The event with what is left of it just now.
fn counted(page: &EventPage, live: &LiveEvent) -> Event {
    let counts = live.counts();
    let mut body = Event::clone(&page.body);
    body.sections.iter_mut().zip(&counts.available).for_each(|(section, available)| section.available = *available);
    body.areas.iter_mut().zip(&counts.remaining).for_each(|(area, remaining)| area.remaining = *remaining);
    body.summary.available = left(live);
    body
}

fn left(live: &LiveEvent) -> u32 {
    let counts = live.counts();
    counts.available.iter().chain(&counts.remaining).fold(0, |sum: u32, count| sum.saturating_add(*count))
}

pub(super) async fn list(State(front): State<Front>, query: Query, headers: HeaderMap) -> Answer {
    let filter = filter(&query)?;
    let key = format!("{filter:?}");
    let now_ms = front.app.clock.now_ms();
    if let Some(body) = fresh(&front.bodies.lists, &key, now_ms) {
        return Ok(body.1.respond(&headers));
    }
    let limit = filter.limit;
    let wider = EventFilter { limit: limit + 1, ..filter };
    let mut items = front.app.catalogue.list(&wider).await.map_err(|error| error::store(&error))?;
    let next_cursor = cut(&mut items, limit).map(cursor);
    for item in &mut items {
        if let Some(live) = front.app.seatmap.live_now(item.id) {
            item.available = left(&live);
        }
    }
    let bytes = serde_json::to_vec(&Listed { items, next_cursor }).map_err(|error| error::internal(&error))?;
    Ok(keep(&front.bodies.lists, key, now_ms, shared(bytes), MAX_LIST_BODIES).1.respond(&headers))
}

#[derive(serde::Serialize)]
struct Listed {
    items: Vec<EventSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn filter(query: &Query) -> Result<EventFilter, ErrorObject> {
    let words: Vec<String> = match query.text("q") {
        Some(text) if text.chars().count() > MAX_QUERY_CHARS => {
            return Err(bad_field("/q", &format!("expected at most {MAX_QUERY_CHARS} characters")));
        }
        Some(text) => text.split_whitespace().take(MAX_WORDS).map(str::to_lowercase).collect(),
        None => Vec::new(),
    };
    if words.iter().any(|word| word.contains('\0')) {
        return Err(bad_field("/q", "expected text"));
    }
    let ms = |name: &str| -> Result<Option<u64>, ErrorObject> {
        let ms = query.parse::<u64>(name, "expected epoch milliseconds")?;
        match ms {
            Some(ms) if ms >= 1 << 53 => Err(bad_field(&format!("/{name}"), "expected epoch milliseconds")),
            other => Ok(other),
        }
    };
    Ok(EventFilter {
        words,
        near: near(query)?,
        from_ms: ms("from_ms")?,
        to_ms: ms("to_ms")?,
        after: query.text("cursor").map(after).transpose()?,
        limit: query.limit()?,
    })
}

fn near(query: &Query) -> Result<Option<Near>, ErrorObject> {
    let within_km = query.parse::<f64>("within_km", "expected kilometres")?;
    if within_km.is_some_and(|km| !(0.0..=MAX_WITHIN_KM).contains(&km)) {
        return Err(bad_field("/within_km", "expected 0 to 20000 kilometres"));
    }
    let Some(text) = query.text("near") else { return Ok(None) };
    let number = |text: &str, most: f64| text.trim().parse::<f64>().ok().filter(|number| number.abs() <= most);
    let point = text.split_once(',').and_then(|(lat, lon)| Some((number(lat, 90.0)?, number(lon, 180.0)?)));
    let (lat, lon) = point.ok_or_else(|| bad_field("/near", "expected lat,lon in degrees"))?;
    Ok(Some(Near { lat, lon, within_km: within_km.unwrap_or(DEFAULT_WITHIN_KM) }))
}

/// The place of the last item in the order of the list.
pub(super) fn cursor(item: &EventSummary) -> String {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&item.starts_ms.to_be_bytes());
    bytes[8..].copy_from_slice(item.id.uuid().as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What such a cursor says.
pub(super) fn after(cursor: &str) -> Result<(u64, EventId), ErrorObject> {
    let bad = || bad_field("/cursor", "expected the next_cursor of an earlier answer");
    let bytes: [u8; 24] =
        URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(bad)?;
    let (ms, id) = bytes.split_at(8);
    let ms = u64::from_be_bytes(ms.try_into().map_err(|_| bad())?);
    let id = Uuid::from_slice(id).map_err(|_| bad())?;
    if ms >= 1 << 53 {
        return Err(bad());
    }
    Ok((ms, EventId::from_uuid(id)))
}
