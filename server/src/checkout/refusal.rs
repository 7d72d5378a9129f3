//! Why the till said no, why it could not answer, and where a test may end it.

use crate::inventory::InventoryError;
use crate::store::StoreError;
use seatwire_proto::id::OrderId;
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::TicketState;
use serde::{Deserialize, Serialize};

/// Why a command of the till was refused. Serialised under its key, so names and fields are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "snake_case")]
pub enum CheckoutRefusal {
    /// No such hold of this identity.
    HoldNotFound,
    /// Its time is over.
    HoldExpired,
    /// Another order has it.
    HoldLocked {
        /// Which.
        order: OrderId,
    },
    /// Selling is over or has not begun.
    NotOnSale {
        /// When it begins.
        on_sale_ms: u64,
    },
    /// The total is another than the buyer was shown.
    PriceChanged {
        /// The total now.
        total_minor: i64,
    },
    /// Somebody else has these seats after all.
    SeatTaken {
        /// Which.
        seats: Vec<SeatIndex>,
    },
    /// The area is full after all.
    AreaFull {
        /// Places left.
        remaining: u32,
    },
    /// The identity has its fill after all.
    LimitExceeded {
        /// Seats and places allowed.
        limit: u32,
        /// Had already.
        used: u32,
    },
    /// The card has its fill.
    CardLimitExceeded {
        /// Seats and places allowed.
        limit: u32,
        /// Had already.
        used: u32,
    },
    /// The event limits seats a card, and the provider shows no card behind this payment method.
    MethodNotCounted,
    /// No such order of this identity.
    OrderNotFound,
    /// The ticket no longer admits, so it cannot be passed on.
    TicketOver {
        /// How it stands.
        state: TicketState,
    },
    /// It is paid.
    AlreadyPaid,
    /// A payment is open; its outcome comes by itself.
    PaymentOpen,
    /// No further payment is taken.
    PayRefused,
    /// It cannot be cancelled now.
    CancelRefused,
    /// It cannot be given back so.
    RefundRefused,
    /// Same key, other fields.
    KeyReused,
    /// The command with this key is still running.
    KeyInUse,
}

/// Why the till could not answer. Any but `TimeoutUnknown` and `Internal` means that no order was made or changed.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// Postgres.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The payment provider is not there: nothing was begun.
    #[error("the payment provider does not answer")]
    ProviderAway,
    /// The payment provider says that it is busy, and those who pay already wait for it: nothing was begun.
    #[error("the payment provider is busy")]
    ProviderBusy,
    /// It may have happened; the same key will tell.
    #[error("the outcome is not known yet")]
    TimeoutUnknown,
    /// A defect of ours.
    #[error("{0}")]
    Internal(String),
    /// A test ended the purchase here.
    #[error("interrupted at {0:?}")]
    Interrupted(CrashPoint),
}

/// Places between two durable steps where a process may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashPoint {
    /// The key is claimed.
    Claimed,
    /// The hold is locked.
    Locked,
    /// The order stands, its seats are reserved.
    Reserved,
    /// The provider knows the order; we have not written so.
    IntentCreated,
    /// The attempt is recorded; the provider was not asked.
    AttemptRecorded,
    /// The provider has answered; we have not written so.
    Confirmed,
    /// The provider has cancelled; we have not written so.
    Fenced,
    /// A refund is recorded; the provider was not asked.
    RefundRecorded,
    /// The provider has given money back; we have not written so.
    RefundAnswered,
}

impl CrashPoint {
    /// Those of a purchase.
    pub const ALL: &'static [CrashPoint] = &[
        Self::Claimed,
        Self::Locked,
        Self::Reserved,
        Self::IntentCreated,
        Self::AttemptRecorded,
        Self::Confirmed,
        Self::Fenced,
    ];
    /// Those of a refund.
    pub const REFUND: &'static [CrashPoint] = &[Self::RefundRecorded, Self::RefundAnswered];

    /// Where this process is to die, for tests of recovery that look from outside: the name of a point in
    /// `SEATWIRE_DIE_AT`. A program that is built for use knows of no such thing.
    pub(super) fn of_this_process() -> Option<Self> {
        if !cfg!(debug_assertions) {
            return None;
        }
        let name = std::env::var("SEATWIRE_DIE_AT").ok()?;
        Self::ALL.iter().chain(Self::REFUND).copied().find(|point| format!("{point:?}") == name)
    }
}
