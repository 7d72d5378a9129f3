//! An answer of the simulator before it becomes HTTP.

use serde_json::{Value, json};

/// Status and body, and whether an idempotency key remembers it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    /// HTTP status.
    pub status: u16,
    /// JSON body.
    pub body: Value,
    /// Whether the call ran: calls refused before they ran (bad parameters, too many, in use) leave the key fresh.
    pub is_stored: bool,
}

impl Reply {
    /// A 200.
    #[must_use]
    pub(super) const fn ok(body: Value) -> Self {
        Self { status: 200, body, is_stored: true }
    }

    /// An error object.
    #[must_use]
    pub(super) fn error(status: u16, kind: &str, code: Option<&str>, message: &str) -> Self {
        let mut error = json!({"type": kind, "message": message});
        if let Some(code) = code {
            error["code"] = code.into();
        }
        Self { status, body: json!({"error": error}), is_stored: true }
    }

    /// With a field in the error object.
    #[must_use]
    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.body["error"][field] = value;
        self
    }

    /// The call did not run.
    #[must_use]
    pub(super) const fn not_stored(mut self) -> Self {
        self.is_stored = false;
        self
    }
}
