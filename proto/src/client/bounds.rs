//! Bounds that types cannot say (repeated entries, quantities, amounts, lengths) and the refusal that names the field.
//! Each check takes the JSON Pointer of what it looks at, since only the command knows where it stands.

use super::{MAX_SEATS_PER_COMMAND, MAX_TEXT_LEN};

/// A field that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// JSON Pointer (RFC 6901).
    pub path: String,
    /// What was expected.
    pub message: String,
}

impl FieldError {
    /// A refusal of the field at `path`.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

pub(super) fn check_distinct(path: &str, indices: impl Iterator<Item = u32>) -> Result<(), FieldError> {
    let mut seen = std::collections::HashSet::new();
    for (position, index) in indices.enumerate() {
        if !seen.insert(index) {
            return Err(FieldError::new(format!("{path}/{position}"), "named twice"));
        }
    }
    Ok(())
}

pub(super) fn check_quantity(path: &str, quantity: u32) -> Result<(), FieldError> {
    match quantity as usize {
        1..=MAX_SEATS_PER_COMMAND => Ok(()),
        _ => Err(FieldError::new(path, "expected 1 to 200")),
    }
}

pub(super) fn check_amount(path: &str, amount_minor: i64) -> Result<(), FieldError> {
    match amount_minor {
        0..=crate::money::MAX_MINOR => Ok(()),
        _ => Err(FieldError::new(path, "expected 0 to 2^53 - 1 minor units")),
    }
}

pub(super) fn check_text(path: &str, text: &str) -> Result<(), FieldError> {
    let blank = text.trim().is_empty();
    if blank || text.len() > MAX_TEXT_LEN || text.chars().any(char::is_control) {
        return Err(FieldError::new(path, "expected 1 to 254 bytes of text without control characters"));
    }
    Ok(())
}

pub(super) fn check_email(path: &str, email: &str) -> Result<(), FieldError> {
    check_text(path, email)?;
    let well_formed = email.split_once('@').is_some_and(|(local, domain)| {
        !local.is_empty()
            && domain.len() >= 3
            && domain.contains('.')
            && !domain.starts_with('.')
            && !domain.ends_with('.')
            && !domain.contains('@')
    });
    if !well_formed || email.contains(char::is_whitespace) {
        return Err(FieldError::new(path, "expected an e-mail address"));
    }
    Ok(())
}
