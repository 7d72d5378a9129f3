//! A layout: the drawn plan of a venue, as stored, served as JSON and pinned by every event.
//! Importers and the generator build a `Layout`, `validate` it and store `stored_json`; the map and
//! the list view read it back. What it must keep to is in `layout/check.rs`; `layout_compact` is the same plan in far
//! fewer bytes.

mod check;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::seat::{AreaIndex, SeatIndex, SectionIndex};

/// Most seats one layout may have: a frame's record 6 (4 seats a byte) stays far below the 4 MiB a
/// frame may inflate to, and indices fit every client's typed arrays. Larger layouts are refused.
pub const MAX_SEATS: u32 = 1 << 20;
/// Most sections, and most areas, of one layout. More are refused.
pub const MAX_SECTIONS: usize = 4096;
/// Most rows of one layout. More are refused.
pub const MAX_ROWS: usize = 1 << 17;
/// Most points of one outline, of all shapes together, and most texts. More are refused.
pub const MAX_POINTS: usize = 1 << 16;
/// Longest name or label, in bytes. Longer ones are refused: they are drawn on a map.
pub const MAX_LABEL_BYTES: usize = 200;
/// Coordinates lie within +- this, so that differences of differences fit 32 bits.
pub const MAX_COORDINATE: i32 = 1 << 26;

/// Names a layout by content: the first 16 bytes of SHA-256 of its stored JSON; 32 hex digits in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutHash(pub [u8; 16]);

impl LayoutHash {
    /// The hash of a layout's stored JSON bytes (without the `hash` member).
    pub fn of(stored_json: &[u8]) -> Self {
        let sum = Sha256::digest(stored_json);
        let mut hash = [0; 16];
        hash.copy_from_slice(&sum[..16]);
        Self(hash)
    }
}

impl fmt::Display for LayoutHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for LayoutHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayoutHash({self})")
    }
}

impl FromStr for LayoutHash {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let mut hash = [0; 16];
        // Upper case is refused so that one layout has one URL.
        if text.bytes().any(|b| b.is_ascii_uppercase()) || hex::decode_to_slice(text, &mut hash).is_err() {
            return Err(LayoutError::Hash);
        }
        Ok(Self(hash))
    }
}

impl Serialize for LayoutHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LayoutHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A point in layout units, x to the right and y downwards.
pub type Point = [i32; 2];

/// The plan of a venue. Field order is the order of the stored JSON; changing it changes every hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Name of the plan, for people.
    pub name: String,
    /// Seats of all rows together; seat indices are 0..seat_count.
    pub seat_count: u32,
    /// Millimetres in one layout unit.
    pub unit_mm: u32,
    /// x0, y0, x1, y1 around everything drawn.
    pub bounds: [i32; 4],
    /// Where the audience looks: stage, pitch, finish line.
    pub focal: Point,
    /// Sections, by section index.
    pub sections: Vec<Section>,
    /// General-admission areas, by area index.
    pub areas: Vec<Area>,
    /// Drawn things nobody can buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<Shape>,
    /// Lettering nobody can buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<Text>,
}

/// A named part of the venue with rows of seats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Its place in `Layout::sections`.
    pub index: SectionIndex,
    /// Name as on the ticket.
    pub name: String,
    /// Zone it belongs to, for grouping and colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Floor, where a venue has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// Its outline; the last point joins the first. May be empty.
    pub outline: Vec<Point>,
    /// Door or gate to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrance: Option<String>,
    /// Where this section looks, if not at the layout's focal point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focal: Option<Point>,
    /// Rows, front to back where the source says so.
    pub rows: Vec<Row>,
}

/// Seats side by side: neighbours by position are physically adjacent except across `gaps`.
/// All `Vec<u32>` fields are strictly increasing positions in the row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Label as on the ticket; may be empty.
    pub label: String,
    /// Seat index of position 0; the others follow.
    pub first: SeatIndex,
    /// Seat labels by position.
    pub seats: Vec<String>,
    /// x of each seat's centre, by position.
    pub x: Vec<i32>,
    /// y of each seat's centre, by position.
    pub y: Vec<i32>,
    /// Positions after which an aisle comes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<u32>,
    /// Wheelchair places and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accessible: Vec<u32>,
    /// Seats kept for those who come with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub companion: Vec<u32>,
    /// Seats with a restricted view.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restricted: Vec<u32>,
}

/// A general-admission area: places are counted, not numbered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its place in `Layout::areas`.
    pub index: AreaIndex,
    /// Name as on the ticket.
    pub name: String,
    /// Its outline; the last point joins the first. May be empty.
    pub outline: Vec<Point>,
}

/// How the points of a shape are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeKind {
    /// Closed, filled.
    Polygon,
    /// Open, a line.
    Polyline,
    /// Two points: the centre, then the two radii.
    Ellipse,
}

/// A drawn thing: stage, pitch, wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How `points` are meant.
    pub kind: ShapeKind,
    /// Corner points, or centre and radii of an ellipse.
    pub points: Vec<Point>,
    /// What it is, for people; may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Lettering on the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// What it says.
    pub text: String,
    /// Middle of the lettering.
    pub at: Point,
    /// Height of the letters in layout units.
    pub size: u32,
    /// Turned clockwise by so many degrees; 0 when absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub angle_deg: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// Why a layout is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not a layout hash.
    #[error("a layout hash is 32 lower-case hex digits")]
    Hash,
    /// Not JSON of the right shape.
    #[error("layout JSON: {0}")]
    Json(String),
    /// JSON of the right shape that contradicts itself; `at` is a JSON Pointer.
    #[error("layout {at}: {why}")]
    Invalid {
        /// JSON Pointer of the offending member.
        at: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The compact form is damaged.
    #[error("compact layout: {0}")]
    Compact(&'static str),
}

impl Layout {
    /// The bytes that are stored and hashed: JSON without `hash`.
    pub fn stored_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and integers always serialise")
    }

    /// The layout's hash, of its stored JSON. Serialises; keep the result.
    pub fn hash(&self) -> LayoutHash {
        LayoutHash::of(&self.stored_json())
    }

    /// The bytes that are served: the stored JSON with `hash` as its first member.
    pub fn served_json(stored_json: &[u8]) -> Vec<u8> {
        let hash = LayoutHash::of(stored_json);
        let mut served = format!("{{\"hash\":\"{hash}\",").into_bytes();
        served.extend_from_slice(stored_json.get(1..).unwrap_or_default());
        served
    }

    /// Reads stored or served JSON and validates it.
    ///
    /// # Errors
    /// [`LayoutError::Json`] when it is not a layout at all, [`LayoutError::Invalid`] when it
    /// contradicts itself.
    pub fn from_json(json: &[u8]) -> Result<Self, LayoutError> {
        let layout: Self = serde_json::from_slice(json).map_err(|error| LayoutError::Json(error.to_string()))?;
        layout.validate()?;
        Ok(layout)
    }

    /// All rows in seat order, with the index of their section.
    pub fn rows(&self) -> impl Iterator<Item = (SectionIndex, &Row)> {
        self.sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section.index, row)))
    }
}
