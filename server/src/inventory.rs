//! The shelf: who holds which seat, in Redis, changed only by atomic scripts (`lua/`). Truth about sales is Postgres'.
//! `command` and `checkout` come in with a request; outcomes go back as values, refusals included; the change itself
//! reaches the map by the event's feed, never through the caller.

use crate::catalogue::EventFacts;
use seatwire_proto::client::{AreaQuantity, IdempotencyKey, Position};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use std::sync::Arc;

mod wire;

/// Who asks, in which event, under which key.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The event's facts at the time of asking.
    pub event: Arc<EventFacts>,
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention; `None` for our own jobs.
    pub key: Option<IdempotencyKey>,
    /// SHA-256 of op and fields: the same key with another one is `KeyReused`.
    pub fingerprint: [u8; 32],
}

/// A hold as Redis keeps it, prices as they were when each line was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRecord {
    /// Its id.
    pub id: HoldId,
    /// Whose.
    pub identity: IdentityId,
    /// When it ends, Redis' clock; while locked, when the lock ends.
    pub expires_ms: u64,
    /// Whether its one extension is used.
    pub is_extended: bool,
    /// The order whose checkout has begun.
    pub locked_by: Option<OrderId>,
    /// Whether it is a waitlist offer.
    pub is_offer: bool,
    /// Seats in the order they were added, then areas.
    pub lines: Vec<HoldLine>,
}

/// One seat, or some places of one area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldLine {
    /// What.
    pub place: Place,
    /// 1 for a seat.
    pub quantity: u32,
    /// Index into the event's price tiers.
    pub price_tier: u8,
    /// Per unit.
    pub price_minor: i64,
    /// Per unit.
    pub fee_minor: i64,
}

/// A seat or an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A seat.
    Seat(SeatIndex),
    /// An area.
    Area(AreaIndex),
}

/// An outcome, where the map stood, and whether it is a remembered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// What came of it.
    pub outcome: T,
    /// Position of the map at that moment.
    pub position: Position,
    /// Redis' clock at that moment; a remembered answer keeps its first one, so that it is given again byte for byte.
    pub server_ms: u64,
    /// Given again under the same key.
    pub is_replayed: bool,
}

/// What came of `hold`, `hold_best`, `hold_area`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldOutcome {
    /// Held: the whole basket, and the seats this command added.
    Held {
        /// The basket now.
        hold: HoldRecord,
        /// Seats added by this command.
        added: Vec<SeatIndex>,
        /// `hold_best`: whether they are one block.
        is_together: bool,
    },
    /// Not now.
    Refused(Refusal),
}

/// What came of `extend` and `release`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Done: the basket now, `None` when nothing is left of it.
    Done(Option<HoldRecord>),
    /// Not now.
    Refused(Refusal),
}

/// What came of `lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockOutcome {
    /// Locked for the order: the basket as it will be paid.
    Locked(HoldRecord),
    /// Not now.
    Refused(Refusal),
}

/// Why an inventory command was refused; in the order in which the scripts look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Same key, other body.
    KeyReused,
    /// The event has a waiting room and the identity is not admitted.
    AdmissionRequired,
    /// Selling has not begun or is over.
    NotOnSale,
    /// Selling is paused.
    Paused,
    /// Nothing is left.
    SoldOut,
    /// No such hold of this identity.
    HoldNotFound,
    /// Its time is over.
    HoldExpired,
    /// Extended already.
    ExtendRefused,
    /// Being paid for.
    HoldLocked(OrderId),
    /// One of the sections sells best available only.
    ModeNotAllowed,
    /// These seats are not available.
    SeatTaken(Vec<SeatIndex>),
    /// `hold_best`: the longest block there is.
    NotEnough {
        /// Seats in the longest block.
        most_together: u32,
    },
    /// The area has fewer places than asked for.
    AreaFull {
        /// Places left.
        remaining: u32,
    },
    /// The identity's limit.
    LimitExceeded {
        /// Seats and places allowed.
        limit: u32,
        /// Held and bought already.
        used: u32,
    },
    /// Companion seats go with an accessible seat.
    CompanionRule,
    /// These single seats would be left.
    OrphanSeat(Vec<SeatIndex>),
    /// A released seat or place is not in the hold; its position in the list.
    NotInHold {
        /// `seats` or `areas`.
        is_area: bool,
        /// Position in the command's list.
        position: usize,
    },
}

/// What to give back of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseWhat {
    /// All of it.
    All,
    /// These.
    Parts {
        /// Seats.
        seats: Vec<SeatIndex>,
        /// Places.
        areas: Vec<AreaQuantity>,
    },
}

/// Why the shelf could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InventoryError {
    /// Redis or Postgres is down, or the event is being rebuilt: safe to try again later.
    #[error("the inventory is unavailable: {0}")]
    Unavailable(String),
    /// The script may or may not have run; the same key will tell.
    #[error("no answer in time")]
    TimeoutUnknown,
    /// Redis says it is full or busy: releases and sales still work.
    #[error("the inventory is overloaded: {0}")]
    Overloaded(String),
    /// A reply we cannot read: a defect of ours.
    #[error("unexpected reply: {0}")]
    Malformed(String),
}
