//! The signature of a provider's webhook: `t=<seconds>,v1=<hex>` where v1 = HMAC-SHA256(secret, "<t>.<raw body>"). Several
//! v1 may stand there while a secret is rotated, and several of our secrets may be live.

use crate::config::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Clocks may differ this much, both ways; older words may be replayed ones.
const TOLERANCE_S: u64 = 300;
/// Signatures looked at in one header.
const MAX_SIGNATURES: usize = 8;

/// Why a webhook is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// No header, or not of this form.
    #[error("no signature")]
    Missing,
    /// The time is not near ours.
    #[error("signed too long ago, or in the future")]
    Stale,
    /// None of our secrets made it.
    #[error("the signature is not ours")]
    Wrong,
}

fn mac(secret: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

/// Whether one of our secrets signed this body near this time.
///
/// # Errors
/// Why not.
pub fn verify(secrets: &[Secret], header: &str, body: &[u8], now_s: u64) -> Result<(), SignatureError> {
    let mut timestamp = None;
    let (mut tags, mut tags_n) = (Vec::new(), 0);
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", text)) => timestamp = Some(text),
            Some(("v1", tag)) if tags_n < MAX_SIGNATURES => {
                tags_n += 1;
                tags.extend(hex::decode(tag).ok());
            }
            _ => {}
        }
    }
    let timestamp = timestamp.ok_or(SignatureError::Missing)?;
    let signed_s: u64 = timestamp.parse().map_err(|_| SignatureError::Missing)?;
    if tags.is_empty() {
        return Err(SignatureError::Missing);
    }
    // The time is a part of what is signed, but a forger must not learn anything from the order of the checks.
    let is_ours = secrets.iter().fold(false, |found, secret| {
        // The body is read once for each secret, however many signatures the header brings.
        let mac = mac(secret.reveal(), timestamp, body);
        tags.iter().fold(found, |found, tag| found | mac.clone().verify_slice(tag).is_ok())
    });
    if !is_ours {
        return Err(SignatureError::Wrong);
    }
    if signed_s.abs_diff(now_s) > TOLERANCE_S {
        return Err(SignatureError::Stale);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn sign(secret: &str, now_s: u64, body: &[u8]) -> String {
        let timestamp = now_s.to_string();
        format!("t={timestamp},v1={}", hex::encode(mac(secret, &timestamp, body).finalize().into_bytes()))
    }

    #[test]
    fn either_of_two_secrets_is_taken_and_no_other() {
        let secrets = [Secret::new("whsec_new"), Secret::new("whsec_old")];
        let body = br#"{"id":"evt_1"}"#;
        for secret in ["whsec_new", "whsec_old"] {
            assert_eq!(verify(&secrets, &sign(secret, NOW_S, body), body, NOW_S), Ok(()));
        }
        assert_eq!(verify(&secrets, &sign("whsec_x", NOW_S, body), body, NOW_S), Err(SignatureError::Wrong));
        assert_eq!(verify(&[], &sign("whsec_new", NOW_S, body), body, NOW_S), Err(SignatureError::Wrong));
        let rotating = format!("{},{}", sign("whsec_x", NOW_S, body), &sign("whsec_old", NOW_S, body)[13..]);
        assert_eq!(verify(&secrets, &rotating, body, NOW_S), Ok(()));
    }

    #[test]
    fn an_edited_old_or_future_word_is_not_believed() {
        let secrets = [Secret::new("whsec")];
        let body = b"{}";
        let header = sign("whsec", NOW_S, body);
        assert_eq!(verify(&secrets, &header, b"{ }", NOW_S), Err(SignatureError::Wrong));
        for (now_s, result) in [
            (NOW_S + 300, Ok(())),
            (NOW_S + 301, Err(SignatureError::Stale)),
            (NOW_S - 300, Ok(())),
            (NOW_S - 301, Err(SignatureError::Stale)),
        ] {
            assert_eq!(verify(&secrets, &header, body, now_s), result, "{now_s}");
        }
        for missing in ["", "t=1", "v1=00", "t=x,v1=00", "nonsense", "t=1,v1=zz"] {
            assert_eq!(verify(&secrets, missing, body, NOW_S), Err(SignatureError::Missing), "{missing:?}");
        }
    }

    #[test]
    fn the_form_is_the_documented_one() {
        // Computed with: printf '1700000000.{}' | openssl dgst -sha256 -hmac whsec
        assert_eq!(
            sign("whsec", NOW_S, b"{}"),
            "t=1700000000,v1=7d44587dddbaf4c7f70fef20f48cd594834ffea1641e3ac227b84408298738af"
        );
    }
}
