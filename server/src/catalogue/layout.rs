//! A plan in the forms in which it travels: JSON, JSON compressed, compact. Each is made once, when it is first asked for,
//! and shared by all who ask.

use super::{SeatNames, SeatShape};
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
    gzip: OnceCell<Bytes>,
    compact: OnceCell<Bytes>,
    /// Neighbours and places of its seats.
    pub shape: SeatShape,
    /// What its seats are called.
    pub names: SeatNames,
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
        Ok(Self {
            hash: LayoutHash::of(stored_json).to_string(),
            json: Bytes::from(json),
            gzip: OnceCell::new(),
            compact: OnceCell::new(),
            shape: SeatShape::of(&layout),
            names: SeatNames::of(&layout),
        })
    }

    /// The JSON compressed, when somebody first asks for it: commands need the plan but none of its forms.
    ///
    /// # Errors
    /// `Malformed` when the packing dies.
    pub async fn json_gzip(&self) -> Result<Bytes, StoreError> {
        let json = self.json.clone();
        let pack = || {
            off_the_sockets(move || {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
                gzip.write_all(&json).and_then(|()| gzip.finish()).map_err(|error| error.to_string())
            })
        };
        self.gzip.get_or_try_init(pack).await.cloned()
    }

    /// The compact form, packed when somebody first asks for it: it takes several tries at the smallest one.
    ///
    /// # Errors
    /// `Malformed`, which the making excludes.
    pub async fn compact(&self) -> Result<Bytes, StoreError> {
        let json = self.json.clone();
        let pack = || {
            off_the_sockets(move || {
                let layout = Layout::from_json(&json).map_err(|error| error.to_string())?;
                Ok(layout_compact::encode(&layout))
            })
        };
        self.compact.get_or_try_init(pack).await.cloned()
    }
}

/// Runs what takes milliseconds on a thread that drives no sockets.
async fn off_the_sockets(pack: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static) -> Result<Bytes, StoreError> {
    let packed = tokio::task::spawn_blocking(pack).await.map_err(|error| StoreError::Malformed(error.to_string()))?;
    packed.map(Bytes::from).map_err(|error| StoreError::Malformed(format!("layout: {error}")))
}
