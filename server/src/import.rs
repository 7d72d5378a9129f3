//! From a venue's file to a layout: seats.io charts, pretix seating plans, flat manifests, and a stadium made of nothing.
//! The command line and the demo come in with bytes; out goes a validated `Layout` with what the file proposes for
//! prices and capacities, or one line that says where the file is wrong. Pure: no store, no network.

pub mod demo;
mod draft;
mod geometry;
mod json;
mod manifest;
mod pretix;
pub mod publish;
mod seatsio;
pub mod stadium;

use crate::store::layout::Proposal;
use seatwire_proto::layout::Layout;

/// Largest file that is read: the largest known charts have a tenth of it.
pub const MAX_FILE_BYTES: usize = 256 << 20;

/// What a file was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A seats.io chart.
    SeatsIo,
    /// A pretix seating plan.
    Pretix,
    /// One line a seat, comma-separated.
    Manifest,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SeatsIo => "seats.io chart",
            Self::Pretix => "pretix seating plan",
            Self::Manifest => "manifest",
        })
    }
}

/// A drawn place and what its file proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Valid.
    pub layout: Layout,
    /// Categories of seats, capacities of areas.
    pub proposal: Proposal,
}

/// Why a file is refused: one line, with the place in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct ImportError {
    /// `line 3`, `line 1 column 80`, or a JSON Pointer.
    pub at: String,
    /// What is wrong there.
    pub why: String,
}

impl ImportError {
    pub(crate) fn new(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self { at: at.into(), why: why.into() }
    }
}

/// Reads a file of any known format, recognised by its content.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn read(bytes: &[u8]) -> Result<(Format, Imported), ImportError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(ImportError::new("file", format!("larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(ImportError::new("file", "empty")),
        Some(b'{' | b'[') => {
            let root = json::parse(bytes)?;
            if root.get("subChart").is_some() || root.get("subChartFloors").is_some() {
                return Ok((Format::SeatsIo, seatsio::read(&root)?.finish()?));
            }
            if root.get("zones").is_some() {
                return Ok((Format::Pretix, pretix::read(&root)?.finish()?));
            }
            Err(ImportError::new("/", "neither a seats.io chart (no subChart) nor a pretix seating plan (no zones)"))
        }
        Some(_) => Ok((Format::Manifest, manifest::read(bytes)?.finish()?)),
    }
}
