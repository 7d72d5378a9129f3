//! `GET /v1/layouts/{hash}`: a plan never changes, so whoever has it never asks again. JSON, or the compact form for
//! those who accept it.

use super::Front;
use super::refusal::Refusal;
use super::reply::{Answer, Shared};
use crate::error;
use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode, header};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::layout::LayoutHash;
use seatwire_proto::server::ErrorObject;

/// The media type of the compact form.
const COMPACT: &str = "application/vnd.seatwire.layout";

pub(super) async fn read(State(front): State<Front>, Path(hash): Path<String>, headers: HeaderMap) -> Answer {
    // Asked for by its one spelling only, or every spelling would be a page of its own in every cache.
    let unknown = || {
        let object = ErrorObject::new(ErrorCode::UnknownOp, "there is no such layout");
        Refusal::from(object).with_status(StatusCode::NOT_FOUND)
    };
    let hash: LayoutHash = hash.parse().map_err(|_| unknown())?;
    let found = front.app.catalogue.layout(&hash.to_string()).await.map_err(|error| error::store(&error))?;
    let layout = found.ok_or_else(unknown)?;
    let is_compact = wants_compact(&headers);
    let (bytes, gzip) = if is_compact {
        (layout.compact().await.map_err(|error| error::store(&error))?, None)
    } else {
        (layout.json.clone(), Some(layout.json_gzip().await.map_err(|error| error::store(&error))?))
    };
    let shared = Shared {
        bytes,
        gzip,
        content_type: if is_compact { COMPACT } else { "application/json" },
        cache_control: "public, max-age=31536000, immutable",
        etag: format!("\"{hash}{}\"", if is_compact { "-compact" } else { "" }),
        vary: Some("Accept, Accept-Encoding"),
    };
    Ok(shared.respond(&headers))
}

fn wants_compact(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|part| part.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(COMPACT))
}
