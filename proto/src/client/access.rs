//! Commands that let a buyer in: the presale code, the waiting room and its admission token.
//! None of them takes a seat.

use super::bounds::FieldError;
use crate::id::EventId;
use serde::{Deserialize, Serialize};

/// Opens an allocation with a presale code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlock {
    /// In which event.
    pub event: EventId,
    /// The code.
    pub code: String,
}

/// Shows an admission token of the waiting room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admit {
    /// To which event.
    pub event: EventId,
    /// The token.
    pub admission: String,
}

/// Watches the waiting room of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomWatch {
    /// Which event.
    pub event: EventId,
}

/// Longest admission token, in bytes: ours have about 200, and a longer one is nobody's.
const MAX_ADMISSION_LEN: usize = 1024;

pub(super) fn check_admission(admission: &str) -> Result<(), FieldError> {
    match admission.len() {
        1..=MAX_ADMISSION_LEN => Ok(()),
        _ => Err(FieldError::new("/admission", "expected 1 to 1024 characters")),
    }
}
