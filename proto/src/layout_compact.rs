//! The compact form of a layout: the same plan, without loss, in well below a byte a seat, so that a
//! phone on a bad network has the map first. `GET /v1/layouts/{hash}` serves it; clients decode it.
//! Rows are smooth curves with corrections, labels are rules; every byte is told in proto/README.

mod curve;
mod labels;
mod read;
mod write;

pub use read::decode;
pub use write::encode;

use crate::layout::{MAX_ROWS, MAX_SEATS, MAX_SECTIONS};

/// First bytes of the form, and its version.
const MAGIC: [u8; 3] = *b"SL\x01";
/// Magic, a reserved 0, and the length after inflating (u32, little-endian).
const HEADER_BYTES: usize = 8;
/// Most bytes after inflating; more are refused. 70,000 seats take about 100 KB.
const MAX_INFLATED_BYTES: usize = 8 << 20;
/// Most bytes all seat and row labels of a foreign layout may expand to; more are refused, because a
/// rule of a few bytes can stand for a million long labels.
const MAX_LABELS_BYTES: usize = 16 << 20;
/// Most rules for labels: each row may have its own, and each section one. More are refused.
const MAX_RULES: usize = MAX_ROWS + MAX_SECTIONS;
/// Most runs in all rules together: each seat's and row's label may be a word. More are refused.
const MAX_RUNS: usize = MAX_SEATS as usize + MAX_ROWS;

/// Most fractional bits of a curve's numbers.
const MAX_FRACTION_BITS: u8 = 8;

/// Row flag: corrections follow (else every seat lies on its curve).
const ROW_CORRECTED: u8 = 1;
/// Row flag: seats follow each other instead of a curve.
const ROW_CHAINED: u8 = 2;
/// Row flags for the four lists of positions, in the order of `Row`'s fields.
const ROW_LISTS: [u8; 4] = [4, 8, 16, 32];
const ROW_FLAGS: u8 = 63;

/// Corrections of x and y, zigzag, that share a byte: both below this.
const SMALL: u32 = 15;
/// A byte that says: two numbers follow instead.
const LARGE: u8 = 255;

/// Signed to unsigned, small to small: 0, -1, 1, -2 ...
const fn zigzag(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

/// Back from `zigzag`.
const fn unzigzag(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}
