//! A plan in the forms in which it travels: JSON, JSON compressed, compact. Made once, shared by all who ask.

use super::SeatShape;
use crate::store::StoreError;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use seatwire_proto::layout::{Layout, LayoutHash};
use seatwire_proto::layout_compact;
use std::io::Write as _;
use tokio::sync::OnceCell;

/// A plan ready to be served.
#[derive(Debug)]
pub struct StoredLayout {
    /// 32 hex digits.
    pub hash: String,
    /// JSON with `hash` as its first member.
    pub json: Bytes,
    /// The same, gzip.
    pub json_gzip: Bytes,
    compact: OnceCell<Bytes>,
    /// Neighbours and places of its seats.
    pub shape: SeatShape,
}

impl StoredLayout {
    /// Makes all forms from the JSON as it was hashed.
    ///
    /// # Errors
    /// `Malformed` when it is not a valid layout.
    pub fn from_stored_json(stored_json: &[u8]) -> Result<Self, StoreError> {
        let malformed = |error: &dyn std::fmt::Display| StoreError::Malformed(format!("layout: {error}"));
        let layout = Layout::from_json(stored_json).map_err(|error| malformed(&error))?;
        let json = Layout::served_json(stored_json);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&json).map_err(|error| malformed(&error))?;
        let json_gzip = gzip.finish().map_err(|error| malformed(&error))?;
        Ok(Self {
            hash: LayoutHash::of(stored_json).to_string(),
            json: Bytes::from(json),
            json_gzip: Bytes::from(json_gzip),
            compact: OnceCell::new(),
            shape: SeatShape::of(&layout),
        })
    }

    /// The compact form, packed when somebody first asks for it: it takes several tries at the smallest one.
    ///
    /// # Errors
    /// `Malformed`, which the making excludes.
    pub async fn compact(&self) -> Result<Bytes, StoreError> {
        let pack = || async {
            let json = self.json.clone();
            // Not on a thread that drives sockets.
            let packed = tokio::task::spawn_blocking(move || {
                Layout::from_json(&json).map(|layout| Bytes::from(layout_compact::encode(&layout)))
            });
            let packed = packed.await.map_err(|error| StoreError::Malformed(error.to_string()))?;
            packed.map_err(|error| StoreError::Malformed(format!("layout: {error}")))
        };
        self.compact.get_or_try_init(pack).await.cloned()
    }
}
