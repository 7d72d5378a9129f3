//! The idempotency key: a client's own name for one intention, so that a repeated command is one command.
//! Every mutating command carries one; over HTTP it travels as a header.

use super::MAX_KEY_LEN;
use serde::{Deserialize, Serialize};

/// A client's name for one intention: 1 to 64 printable ASCII characters, scoped to the identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key, if it keeps to the alphabet and the length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=MAX_KEY_LEN).contains(&text.len()) && text.bytes().all(|b| (0x20..0x7f).contains(&b));
        fits.then(|| Self(text.to_owned()))
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected 1 to 64 printable ASCII characters"))
    }
}
