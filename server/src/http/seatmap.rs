//! `GET /v1/events/{event}/snapshot`: the map as the sockets see it, in bytes that any cache may share. Answered from the
//! live event in memory; the first who asks makes it live.

use super::Front;
use super::call::{Id, Query, bad_field};
use super::reply::{Answer, Shared, gzip};
use crate::error;
use crate::seatmap::SnapshotEncoding;
use axum::extract::State;
use http::HeaderMap;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::EventId;

/// The media type of a map frame.
const FRAME: &str = "application/vnd.seatwire.map";

pub(super) async fn snapshot(
    State(front): State<Front>,
    query: Query,
    Id(id): Id<EventId>,
    headers: HeaderMap,
) -> Answer {
    let found = front.app.catalogue.event(id).await.map_err(|error| error::store(&error))?;
    let facts = found.ok_or(ErrorCode::EventUnknown)?;
    let live = front.app.seatmap.live(&facts).await.map_err(|error| error::inventory(&error))?;
    let is_json = match query.text("format") {
        None | Some("frame") => false,
        Some("json") => true,
        Some(_) => return Err(bad_field("/format", "expected frame or json").into()),
    };
    let accepts: Vec<String> = query.text("accepts").unwrap_or_default().split(',').map(str::to_owned).collect();
    let encoding = SnapshotEncoding::of(&accepts);
    let (snapshot, suffix) = match (is_json, encoding) {
        (true, _) => (live.json_snapshot(), "-json"),
        (false, SnapshotEncoding::Packed2) => (live.http_snapshot(encoding), "-packed2"),
        (false, SnapshotEncoding::Roaring) => (live.http_snapshot(encoding), ""),
    };
    let shared = Shared {
        // A frame brings its own compression; digits do not.
        gzip: if is_json { gzip(&snapshot.bytes) } else { None },
        bytes: snapshot.bytes,
        content_type: if is_json { "application/json" } else { FRAME },
        cache_control: "public, max-age=1, stale-while-revalidate=1",
        etag: format!("\"{}-{}{suffix}\"", snapshot.position.epoch, snapshot.position.seq),
        vary: is_json.then_some("Accept-Encoding"),
    };
    Ok(shared.respond(&headers))
}
