//! Who is asking: guest identities and the signed tokens that carry them. A token is checked without any store, so that
//! fifteen thousand viewers may come back at once. Doors (`http`, `socket`) verify; nothing behind them sees a token.

use crate::clock::Clock;
use crate::config::Secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use seatwire_proto::id::IdentityId;
use sha2::Sha256;
use std::time::Duration;
use uuid::Uuid;

/// Life of a guest's token. A guest's basket and orders hang on it, so it outlives any on-sale.
const TOKEN_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Version, identity, expiry.
const BODY_LEN: usize = 1 + 16 + 8;
/// HMAC-SHA256.
const MAC_LEN: usize = 32;
const VERSION: u8 = 1;

/// Why a token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not ours, edited, or of another version: one answer for all.
    #[error("the token is not valid")]
    Invalid,
    /// Ours, but its time is over.
    #[error("the token has expired")]
    Expired,
}

/// A fresh identity.
#[derive(Debug, Clone)]
pub struct Issued {
    /// Who.
    pub identity: IdentityId,
    /// The bearer token.
    pub token: String,
    /// When it ends.
    pub expires_ms: u64,
}

/// Whom a token names, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Who.
    pub identity: IdentityId,
    /// When the token ends.
    pub expires_ms: u64,
}

/// Issues and verifies tokens; cheap to clone.
#[derive(Clone)]
pub struct Identities {
    key: Secret,
    clock: Clock,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identities").finish_non_exhaustive()
    }
}

impl Identities {
    /// Signs with `key`, which all nodes share.
    #[must_use]
    pub const fn new(key: Secret, clock: Clock) -> Self {
        Self { key, clock }
    }

    /// A new guest.
    #[must_use]
    pub fn issue(&self) -> Issued {
        self.issue_for(IdentityId::generate(), TOKEN_LIFE)
    }

    /// A token for a known identity.
    #[must_use]
    pub fn issue_for(&self, identity: IdentityId, life: Duration) -> Issued {
        let expires_ms = self.clock.now_ms() + life.as_millis() as u64;
        let mut bytes = Vec::with_capacity(BODY_LEN + MAC_LEN);
        bytes.push(VERSION);
        bytes.extend_from_slice(identity.uuid().as_bytes());
        bytes.extend_from_slice(&expires_ms.to_be_bytes());
        let mac = self.mac(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&mac);
        Issued { identity, token: URL_SAFE_NO_PAD.encode(bytes), expires_ms }
    }

    /// Whom the token names.
    ///
    /// # Errors
    /// `Invalid` for anything that is not ours, `Expired` once its time is over.
    pub fn verify(&self, token: &str) -> Result<Verified, TokenError> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| TokenError::Invalid)?;
        if bytes.len() != BODY_LEN + MAC_LEN || bytes[0] != VERSION {
            return Err(TokenError::Invalid);
        }
        let (body, mac) = bytes.split_at(BODY_LEN);
        self.mac(body).verify_slice(mac).map_err(|_| TokenError::Invalid)?;
        let identity: [u8; 16] = body[1..17].try_into().map_err(|_| TokenError::Invalid)?;
        let expires_ms = u64::from_be_bytes(body[17..].try_into().map_err(|_| TokenError::Invalid)?);
        if expires_ms <= self.clock.now_ms() {
            return Err(TokenError::Expired);
        }
        Ok(Verified { identity: IdentityId::from_uuid(Uuid::from_bytes(identity)), expires_ms })
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.key.reveal().as_bytes()).expect("HMAC takes a key of any length");
        mac.update(b"seatwire-identity");
        mac.update(body);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identities(now_ms: u64) -> Identities {
        Identities::new(Secret::new("key"), Clock::manual(now_ms))
    }

    #[test]
    fn a_token_names_its_identity_until_it_ends() {
        let identities = identities(1_000);
        let issued = identities.issue();
        let verified = identities.verify(&issued.token).expect("fresh");
        assert_eq!((verified.identity, verified.expires_ms), (issued.identity, issued.expires_ms));
        identities.clock.advance_ms(TOKEN_LIFE.as_millis() as u64);
        assert_eq!(identities.verify(&issued.token), Err(TokenError::Expired));
    }

    #[test]
    fn an_edited_token_or_another_key_is_refused() {
        let ours = identities(0);
        let token = ours.issue().token;
        for position in 0..token.len() - 1 {
            let mut edited = token.clone().into_bytes();
            edited[position] = if edited[position] == b'A' { b'B' } else { b'A' };
            let edited = String::from_utf8(edited).expect("ASCII");
            assert_eq!(ours.verify(&edited), Err(TokenError::Invalid), "{position}");
        }
        let other = Identities::new(Secret::new("another"), Clock::manual(0));
        assert_eq!(other.verify(&token), Err(TokenError::Invalid));
        for text in ["", "x", "ä", &"A".repeat(5000)] {
            assert_eq!(ours.verify(text), Err(TokenError::Invalid));
        }
    }
}
