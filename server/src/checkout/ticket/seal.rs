//! What a ticket's QR code says, signed so that a door without a network can tell that we issued it: `SW1.<body>.<signature>`,
//! both base64url; the body is version, event, ticket, place and code; the signature Ed25519 (RFC 8032) over the text before
//! the second dot. Whether the ticket was used, passed on or refunded only the check-in knows.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use seatwire_proto::id::{EventId, TicketId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::Ticket;

const PREFIX: &str = "SW1";
const VERSION: u8 = 1;
/// Version, event, ticket, kind of place, index.
const HEAD_LEN: usize = 1 + 16 + 16 + 1 + 4;
/// Longest code in a body.
const MAX_CODE_LEN: usize = 64;

/// Why a text is not one of our tickets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Not of this form.
    #[error("this is not a ticket")]
    Unreadable,
    /// Of this form, but signed by somebody else or edited.
    #[error("the signature is not ours")]
    Forged,
}

/// What a ticket says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Of which event.
    pub event: EventId,
    /// Which ticket.
    pub ticket: TicketId,
    /// The seat, or...
    pub seat: Option<SeatIndex>,
    /// ...the area.
    pub area: Option<AreaIndex>,
    /// The code the door asks about.
    pub code: String,
}

/// Signs tickets.
pub struct Seal(Ed25519KeyPair);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

impl Seal {
    /// Signs with this seed of 32 bytes in hex, which all nodes share; `None` when it is not one.
    #[must_use]
    pub fn from_hex(seed: &str) -> Option<Self> {
        let seed = hex::decode(seed).ok()?;
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(Self)
    }

    /// The public key, base64: what a door needs to know.
    #[must_use]
    pub fn public_key(&self) -> String {
        STANDARD.encode(self.0.public_key().as_ref())
    }

    /// The text of a ticket's QR code.
    #[must_use]
    pub fn sign(&self, event: EventId, ticket: &Ticket) -> String {
        let (kind, index) = match (ticket.seat, ticket.area) {
            (Some(seat), _) => (0, seat.0),
            (None, Some(area)) => (1, area.0),
            (None, None) => (2, 0),
        };
        let mut body = Vec::with_capacity(HEAD_LEN + ticket.code.len());
        body.push(VERSION);
        body.extend(event.uuid().as_bytes());
        body.extend(ticket.id.uuid().as_bytes());
        body.push(kind);
        body.extend(index.to_be_bytes());
        body.extend(ticket.code.as_bytes());
        let signed = format!("{PREFIX}.{}", URL_SAFE_NO_PAD.encode(body));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

/// Reads a ticket and checks that `public_key` (base64) signed it. Needs nothing else: no store, no network.
///
/// # Errors
/// Why it is not one of ours.
pub fn verify(public_key: &str, text: &str) -> Result<Claims, SealError> {
    let key = STANDARD.decode(public_key.trim()).map_err(|_| SealError::Forged)?;
    let (signed, signature) = text.trim().rsplit_once('.').ok_or(SealError::Unreadable)?;
    let body = signed.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.')).ok_or(SealError::Unreadable)?;
    let body = URL_SAFE_NO_PAD.decode(body).map_err(|_| SealError::Unreadable)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| SealError::Unreadable)?;
    UnparsedPublicKey::new(&ED25519, key).verify(signed.as_bytes(), &signature).map_err(|_| SealError::Forged)?;
    read(&body).ok_or(SealError::Unreadable)
}

fn read(body: &[u8]) -> Option<Claims> {
    let (head, code) = body.split_at_checked(HEAD_LEN)?;
    if head[0] != VERSION || code.len() > MAX_CODE_LEN {
        return None;
    }
    let uuid = |at: usize| uuid::Uuid::from_slice(&head[at..at + 16]).ok();
    let index = u32::from_be_bytes(head[HEAD_LEN - 4..].try_into().ok()?);
    let kind = head[HEAD_LEN - 5];
    Some(Claims {
        event: EventId::from_uuid(uuid(1)?),
        ticket: TicketId::from_uuid(uuid(17)?),
        seat: (kind == 0).then_some(SeatIndex(index)),
        area: (kind == 1).then_some(AreaIndex(index)),
        code: String::from_utf8(code.to_vec()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::server::TicketState;

    fn ticket() -> Ticket {
        Ticket {
            id: TicketId::generate(),
            code: "ABCDEFGH23456789ABCDEFGH2345".into(),
            seat: Some(SeatIndex(70_000)),
            area: None,
            state: TicketState::Valid,
            qr: None,
        }
    }

    #[test]
    fn a_ticket_is_verified_with_the_public_key_alone() {
        let seal = Seal::from_hex(&"07".repeat(32)).expect("a seed");
        let (event, ticket) = (EventId::generate(), ticket());
        let text = seal.sign(event, &ticket);
        let claims = verify(&seal.public_key(), &text).expect("ours");
        assert_eq!((claims.event, claims.ticket, claims.seat), (event, ticket.id, ticket.seat));
        assert_eq!(claims.code, ticket.code);
        // It fits a QR code that a phone reads from a creased sheet.
        assert!(text.len() < 200, "{}", text.len());
    }

    #[test]
    fn every_edited_letter_is_noticed() {
        let seal = Seal::from_hex(&"07".repeat(32)).expect("a seed");
        let text = seal.sign(EventId::generate(), &ticket());
        for at in 0..text.len() {
            let mut edited = text.clone().into_bytes();
            edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
            let edited = String::from_utf8(edited).expect("ASCII");
            assert!(verify(&seal.public_key(), &edited).is_err(), "{at}");
        }
        let other = Seal::from_hex(&"08".repeat(32)).expect("a seed");
        assert_eq!(verify(&other.public_key(), &text), Err(SealError::Forged));
        for nonsense in ["", "SW1", "SW1..", "SW2.AA.AA", "ABCDEFGH", "SW1.!.!"] {
            assert!(verify(&seal.public_key(), nonsense).is_err(), "{nonsense}");
        }
        assert_eq!(Seal::from_hex("07").map(|_| ()), None);
    }
}
