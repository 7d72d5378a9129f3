//! Commands about the socket itself: who is there, and what time it is.
//! `hello` is the first of every socket; `ping` may come at any time.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a client may say of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClientName {
    /// The program.
    #[serde(default)]
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
}

/// First command of a socket; later ones refresh the token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hello {
    /// Who; absent = anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Which program.
    #[serde(default)]
    pub client: ClientName,
    /// Encodings beyond roaring; `"packed2"` is the only one known, others are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// Language of notices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

/// Measures the round trip and the server's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ping {
    /// The client's clock; comes back untouched.
    #[serde(default)]
    pub t0: Value,
}
