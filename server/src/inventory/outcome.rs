//! What comes back from the shelf, as values: holds, answers, outcomes and refusals, in the order in which the scripts look.
//! Every verb's file ends here; `command` and `checkout` read them.

use seatwire_proto::client::{AreaQuantity, Position};
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};

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
    /// The event's time at that moment; a remembered answer keeps its first one, so that it is given again byte for byte.
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
    /// It cannot be made longer, or not again.
    ExtendRefused {
        /// Because it is an offer of the waitlist; else it was extended already.
        is_offer: bool,
    },
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
    /// The code opens nothing.
    CodeInvalid,
    /// Too many codes that opened nothing.
    Guessed {
        /// Until another one is listened to.
        retry_after_ms: u32,
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

/// The whole map at one position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapState {
    /// Life of the inventory.
    pub epoch: u32,
    /// Counter within it.
    pub seq: u64,
    /// The event's time.
    pub server_ms: u64,
    /// Public state of each seat, by the numbers of the wire.
    pub states: Vec<u8>,
    /// What is left of each area.
    pub areas: Vec<u32>,
}

/// What came of `sell`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SellOutcome {
    /// The buyer's hold after it: none, unless another one was opened meanwhile.
    pub hold: Option<HoldRecord>,
    /// Open holds that lost seats to a late success.
    pub revoked: Vec<Revoked>,
}

/// An open hold that lost seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// As it was.
    pub was: HoldRecord,
    /// What is left of it; `None`: nothing.
    pub now: Option<HoldRecord>,
}

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Holds that ended, as they were.
    pub expired: Vec<HoldRecord>,
    /// Holds that have come to 60 s or to 15 s before their end; each is named once for each.
    pub expiring: Vec<HoldRecord>,
    /// Holds still open.
    pub open_holds: u32,
}

/// What a rebuild made of the baskets of the life before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Which event.
    pub event: EventId,
    /// Holds that go on, maybe with fewer places.
    pub holds: Vec<(IdentityId, HoldId)>,
    /// Holds of which nothing could be given back, as they were.
    pub revoked: Vec<HoldRecord>,
}
