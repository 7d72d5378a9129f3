//! What a script answered, read back into outcomes. The numbers are those at the head of `lua/head.lua`.

use super::record::{Reader, decode_hold};
use super::{HoldRecord, InventoryError, Refusal, Revoked};
use seatwire_proto::client::Position;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;

/// In place of a length: the hold as it is now.
const CURRENT_HOLD: u64 = 65_535;

/// An answer as it was given, or is given again.
#[derive(Debug)]
pub(super) struct ScriptAnswer<'a> {
    pub(super) position: Position,
    pub(super) server_ms: u64,
    pub(super) outcome: Result<Success<'a>, Refusal>,
}

#[derive(Debug)]
pub(super) struct Success<'a> {
    pub(super) hold: Option<HoldRecord>,
    pub(super) extra: &'a [u8],
}

pub(super) fn decode<'a>(
    identity: IdentityId,
    bytes: &'a [u8],
    current_hold: &[u8],
) -> Result<ScriptAnswer<'a>, InventoryError> {
    let mut reader = Reader(bytes);
    let code = reader.uint(1)?;
    let position = Position { epoch: reader.u32()?, seq: reader.uint(6)? };
    let server_ms = reader.uint(6)?;
    let hold_len = reader.uint(2)?;
    let hold = if hold_len == CURRENT_HOLD { current_hold } else { reader.bytes(hold_len as usize)? };
    let outcome = match code {
        1..=3 => Ok(Success { hold: decode_hold(identity, hold)?, extra: reader.0 }),
        code => Err(refusal(code, &mut reader)?),
    };
    Ok(ScriptAnswer { position, server_ms, outcome })
}

fn refusal(code: u64, reader: &mut Reader<'_>) -> Result<Refusal, InventoryError> {
    Ok(match code {
        20 => Refusal::AdmissionRequired,
        21 => Refusal::NotOnSale,
        22 => Refusal::Paused,
        23 => Refusal::SoldOut,
        24 => Refusal::HoldNotFound,
        25 => Refusal::HoldExpired,
        26 => Refusal::ExtendRefused { is_offer: reader.0.first() == Some(&1) },
        27 => Refusal::HoldLocked(OrderId::from_uuid(reader.uuid()?)),
        28 => Refusal::ModeNotAllowed,
        29 => Refusal::SeatTaken(seats(reader)?),
        30 => Refusal::NotEnough { most_together: reader.u32()? },
        31 => Refusal::AreaFull { remaining: reader.u32()? },
        32 => Refusal::LimitExceeded { limit: reader.u32()?, used: reader.u32()? },
        33 => Refusal::CompanionRule,
        34 => Refusal::OrphanSeat(seats(reader)?),
        37 => Refusal::CodeInvalid,
        38 => Refusal::Guessed { retry_after_ms: reader.u32()? },
        35 => Refusal::NotInHold { is_area: reader.uint(1)? == 1, position: reader.uint(2)? as usize },
        other => return Err(InventoryError::Malformed(format!("answer {other}"))),
    })
}

/// The seats in what is left.
pub(super) fn seats(reader: &mut Reader<'_>) -> Result<Vec<SeatIndex>, InventoryError> {
    let mut seats = Vec::with_capacity(reader.0.len() / 4);
    while !reader.0.is_empty() {
        seats.push(SeatIndex(reader.u32()?));
    }
    Ok(seats)
}

/// Holds in a row: identity, length, bytes; the identity of a hold that is gone comes with `None`.
pub(super) fn holds(bytes: &[u8]) -> Result<Vec<(IdentityId, Option<HoldRecord>)>, InventoryError> {
    let mut reader = Reader(bytes);
    let mut holds = Vec::new();
    while !reader.0.is_empty() {
        let identity = IdentityId::from_uuid(reader.uuid()?);
        let len = reader.uint(2)? as usize;
        holds.push((identity, decode_hold(identity, reader.bytes(len)?)?));
    }
    Ok(holds)
}

/// Holds that lost seats, in a row: identity, then length and bytes as it was and as it is.
pub(super) fn revoked(bytes: &[u8]) -> Result<Vec<Revoked>, InventoryError> {
    let mut reader = Reader(bytes);
    let mut revoked = Vec::new();
    while !reader.0.is_empty() {
        let identity = IdentityId::from_uuid(reader.uuid()?);
        let len = reader.uint(2)? as usize;
        let was = decode_hold(identity, reader.bytes(len)?)?;
        let len = reader.uint(2)? as usize;
        let now = decode_hold(identity, reader.bytes(len)?)?;
        let was = was.ok_or_else(|| InventoryError::Malformed("nothing was taken from nobody".into()))?;
        revoked.push(Revoked { was, now });
    }
    Ok(revoked)
}
