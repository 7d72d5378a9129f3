//! The states of an order by the names the database knows. What may follow what is the till's to say
//! (`checkout/order.rs`).

/// Where an order stands. Names are those of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderState {
    /// Seats are reserved; the provider does not know of the order yet.
    Creating,
    /// The provider may be asked for money.
    Payable,
    /// The provider was asked; its answer is due.
    Confirming,
    /// The buyer must approve at the provider's.
    ActionRequired,
    /// The provider needs time.
    Processing,
    /// Money may have moved: the answer was lost.
    PaymentUnknown,
    /// The provider was asked to cancel, as the fence before seats are given back.
    Cancelling,
    /// No answer until the hard deadline: the seats are back on sale, the question stays open.
    ReleasedUnresolved,
    /// Charged after the seats were given back.
    LateSuccess,
    /// Charged and sold; tickets are due.
    Paid,
    /// Charged, sold, tickets issued.
    Fulfilled,
    /// Money must go back.
    RefundDue,
    /// The provider was asked to give it back.
    RefundSubmitted,
    /// The provider needs time to give it back.
    RefundPending,
    /// The provider could not give it back: a person must look.
    RefundFailed,
    /// Part of the money went back; the rest of the tickets stand.
    PartiallyRefunded,
    /// All of it went back.
    Refunded,
    /// The buyer's bank took it back.
    Disputed,
    /// Given up before anything was charged.
    Cancelled,
}

impl OrderState {
    /// Every state.
    pub const ALL: &'static [OrderState] = &[
        Self::Creating,
        Self::Payable,
        Self::Confirming,
        Self::ActionRequired,
        Self::Processing,
        Self::PaymentUnknown,
        Self::Cancelling,
        Self::ReleasedUnresolved,
        Self::LateSuccess,
        Self::Paid,
        Self::Fulfilled,
        Self::RefundDue,
        Self::RefundSubmitted,
        Self::RefundPending,
        Self::RefundFailed,
        Self::PartiallyRefunded,
        Self::Refunded,
        Self::Disputed,
        Self::Cancelled,
    ];

    /// The name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Payable => "payable",
            Self::Confirming => "confirming",
            Self::ActionRequired => "action_required",
            Self::Processing => "processing",
            Self::PaymentUnknown => "payment_unknown",
            Self::Cancelling => "cancelling",
            Self::ReleasedUnresolved => "released_unresolved",
            Self::LateSuccess => "late_success",
            Self::Paid => "paid",
            Self::Fulfilled => "fulfilled",
            Self::RefundDue => "refund_due",
            Self::RefundSubmitted => "refund_submitted",
            Self::RefundPending => "refund_pending",
            Self::RefundFailed => "refund_failed",
            Self::PartiallyRefunded => "partially_refunded",
            Self::Refunded => "refunded",
            Self::Disputed => "disputed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|state| state.as_str() == name)
    }
}
