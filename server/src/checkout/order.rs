//! The life of an order: its states, what can happen to it, and the one function that says what comes next.
//! The purchase, the reconciler, webhooks and refunds all move orders by [`next`] and by nothing else. No I/O here:
//! what a step does to seats, tickets and Redis follows from the pair of states (see [`seats_after`]).

pub use crate::store::order_state::OrderState;
use seatwire_proto::server::OrderState as PublicState;

/// Most definite declines of an order; the buyer must begin anew after that. Bounds what a stolen-card tester can do
/// with one set of seats.
pub const MAX_ATTEMPTS: u32 = 5;

/// What can happen to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderEvent {
    /// The provider knows the order.
    IntentCreated,
    /// Creating at the provider failed or was interrupted before money could move.
    IntentFailed,
    /// An attempt was recorded; the provider is about to be asked.
    AttemptStarted,
    /// There is nothing to pay.
    NothingToPay,
    /// The provider has the money.
    Succeeded,
    /// The provider says no, definitely.
    Declined,
    /// The provider wants the buyer to do something.
    ActionNeeded,
    /// The provider needs time.
    ProcessingStarted,
    /// The answer was lost.
    AnswerLost,
    /// The buyer gives up.
    BuyerCancelled,
    /// Time to pay is over, or the answer stays away too long.
    DeadlinePassed,
    /// No answer to the cancellation either.
    HardDeadlinePassed,
    /// The provider will never charge this order.
    CancelConfirmed,
    /// A late charge got its seats back.
    SeatsRetaken,
    /// A late charge came too late: the seats are gone.
    SeatsGone,
    /// Tickets exist.
    TicketsIssued,
    /// Money is to go back.
    RefundAsked,
    /// The provider needs time for the refund.
    RefundDelayed,
    /// Part of the money is back.
    RefundedInPart,
    /// All of the money is back.
    RefundedInFull,
    /// The provider cannot give it back.
    RefundRejected,
    /// The buyer's bank took the money back.
    DisputeLost,
}

/// What a step does to the seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeatEffect {
    /// They stay as they are.
    Keep,
    /// Reserved seats become sold.
    Sell,
    /// Reserved seats become available.
    Free,
}

impl OrderState {
    /// What the buyer is told. `was_declined`: a definite decline (or a failed start) stands, so that the buyer may pay
    /// again.
    #[must_use]
    pub const fn public(self, was_declined: bool) -> PublicState {
        match self {
            Self::Payable if was_declined => PublicState::PaymentDeclined,
            Self::Creating | Self::Payable | Self::Confirming | Self::Processing => PublicState::PaymentPending,
            Self::ActionRequired => PublicState::ActionRequired,
            Self::PaymentUnknown | Self::Cancelling | Self::ReleasedUnresolved | Self::LateSuccess => {
                PublicState::PaymentUnknown
            }
            Self::Paid | Self::Fulfilled => PublicState::Paid,
            Self::RefundDue | Self::RefundSubmitted | Self::RefundPending | Self::RefundFailed => {
                PublicState::RefundDue
            }
            Self::PartiallyRefunded => PublicState::PartiallyRefunded,
            Self::Refunded | Self::Disputed => PublicState::Refunded,
            Self::Cancelled => PublicState::Cancelled,
        }
    }

    /// Whether seats of the order stand in `taken_seats` as reserved.
    #[must_use]
    pub const fn is_reserving(self) -> bool {
        matches!(
            self,
            Self::Creating
                | Self::Payable
                | Self::Confirming
                | Self::ActionRequired
                | Self::Processing
                | Self::PaymentUnknown
                | Self::Cancelling
        )
    }

    /// Whether an answer given now would not be overtaken within moments: the buyer's command may be answered.
    #[must_use]
    pub const fn is_settled(self, was_declined: bool) -> bool {
        match self {
            Self::Payable => was_declined,
            Self::Creating | Self::Confirming | Self::Cancelling | Self::Paid => false,
            _ => true,
        }
    }

    /// Whether the order is one a buyer still has to care for (listed in the answer to `hello`).
    #[must_use]
    pub const fn is_open(self) -> bool {
        self.is_reserving() || matches!(self, Self::ReleasedUnresolved | Self::LateSuccess)
    }

    /// Whether another attempt to pay may be open at the provider's.
    #[must_use]
    pub const fn has_open_payment(self) -> bool {
        self.is_open() && !matches!(self, Self::Payable)
    }
}

/// The state that follows; `None` when the event changes nothing there: a repeated, late or contradicted word.
/// Succeeded and cancelled are never overwritten, except that money which arrives after all must go back.
#[must_use]
pub const fn next(state: OrderState, event: OrderEvent) -> Option<OrderState> {
    use OrderEvent as E;
    use OrderState as S;
    Some(match (state, event) {
        (S::Creating, E::IntentCreated | E::IntentFailed) => S::Payable,
        (S::Creating, E::NothingToPay) => S::Paid,
        (S::Creating | S::Payable, E::BuyerCancelled | E::DeadlinePassed) => S::Cancelling,
        (S::Payable, E::AttemptStarted) => S::Confirming,

        // The provider's word counts in every state in which it may still come.
        (
            S::Payable | S::Confirming | S::ActionRequired | S::Processing | S::PaymentUnknown | S::Cancelling,
            E::Succeeded,
        ) => S::Paid,
        (S::Confirming | S::ActionRequired | S::Processing | S::PaymentUnknown, E::Declined) => S::Payable,
        (S::Confirming | S::Processing | S::PaymentUnknown, E::ActionNeeded) => S::ActionRequired,
        (S::Confirming | S::ActionRequired | S::PaymentUnknown, E::ProcessingStarted) => S::Processing,
        (S::Confirming, E::AnswerLost) => S::PaymentUnknown,
        (S::ActionRequired, E::BuyerCancelled) => S::Cancelling,
        (S::ActionRequired | S::Processing | S::PaymentUnknown, E::DeadlinePassed) => S::Cancelling,
        (S::Cancelling, E::HardDeadlinePassed) => S::ReleasedUnresolved,
        (
            S::Payable
            | S::Confirming
            | S::ActionRequired
            | S::Processing
            | S::PaymentUnknown
            | S::Cancelling
            | S::ReleasedUnresolved,
            E::CancelConfirmed,
        ) => S::Cancelled,

        (S::ReleasedUnresolved, E::Succeeded) => S::LateSuccess,
        (S::LateSuccess, E::SeatsRetaken) => S::Paid,
        (S::LateSuccess, E::SeatsGone) => S::RefundDue,
        // The provider took money for what it had called cancelled: it goes back.
        (S::Cancelled, E::Succeeded) => S::RefundDue,

        (S::Paid, E::TicketsIssued) => S::Fulfilled,
        (S::Paid | S::Fulfilled | S::PartiallyRefunded | S::RefundFailed, E::RefundAsked) => S::RefundDue,
        (S::RefundDue | S::RefundSubmitted, E::RefundDelayed) => S::RefundPending,
        (
            S::RefundDue
            | S::RefundSubmitted
            | S::RefundPending
            | S::RefundFailed
            | S::Fulfilled
            | S::PartiallyRefunded,
            E::RefundedInFull,
        ) => S::Refunded,
        (
            S::RefundDue
            | S::RefundSubmitted
            | S::RefundPending
            | S::RefundFailed
            | S::Fulfilled
            | S::PartiallyRefunded,
            E::RefundedInPart,
        ) => S::PartiallyRefunded,
        // Also of a refund that had succeeded and came back.
        (
            S::RefundDue | S::RefundSubmitted | S::RefundPending | S::PartiallyRefunded | S::Refunded,
            E::RefundRejected,
        ) => S::RefundFailed,
        (S::Paid | S::Fulfilled | S::PartiallyRefunded, E::DisputeLost) => S::Disputed,
        _ => return None,
    })
}

/// What a step from one state to the next does to the seats.
#[must_use]
pub const fn seats_after(from: OrderState, to: OrderState) -> SeatEffect {
    match (from.is_reserving(), to) {
        (true, OrderState::Paid | OrderState::Fulfilled) => SeatEffect::Sell,
        (true, OrderState::Cancelled | OrderState::ReleasedUnresolved) => SeatEffect::Free,
        _ => SeatEffect::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OrderEvent as E;
    use OrderState as S;

    const EVENTS: &[OrderEvent] = &[
        E::IntentCreated,
        E::IntentFailed,
        E::AttemptStarted,
        E::NothingToPay,
        E::Succeeded,
        E::Declined,
        E::ActionNeeded,
        E::ProcessingStarted,
        E::AnswerLost,
        E::BuyerCancelled,
        E::DeadlinePassed,
        E::HardDeadlinePassed,
        E::CancelConfirmed,
        E::SeatsRetaken,
        E::SeatsGone,
        E::TicketsIssued,
        E::RefundAsked,
        E::RefundDelayed,
        E::RefundedInPart,
        E::RefundedInFull,
        E::RefundRejected,
        E::DisputeLost,
    ];

    /// Every move there is, written down a second time: whatever is not here must change nothing.
    const MOVES: &[(OrderState, OrderEvent, OrderState)] = &[
        (S::Creating, E::IntentCreated, S::Payable),
        (S::Creating, E::IntentFailed, S::Payable),
        (S::Creating, E::NothingToPay, S::Paid),
        (S::Creating, E::BuyerCancelled, S::Cancelling),
        (S::Creating, E::DeadlinePassed, S::Cancelling),
        (S::Payable, E::BuyerCancelled, S::Cancelling),
        (S::Payable, E::DeadlinePassed, S::Cancelling),
        (S::Payable, E::AttemptStarted, S::Confirming),
        (S::Payable, E::Succeeded, S::Paid),
        (S::Payable, E::CancelConfirmed, S::Cancelled),
        (S::Confirming, E::Succeeded, S::Paid),
        (S::Confirming, E::Declined, S::Payable),
        (S::Confirming, E::ActionNeeded, S::ActionRequired),
        (S::Confirming, E::ProcessingStarted, S::Processing),
        (S::Confirming, E::AnswerLost, S::PaymentUnknown),
        (S::Confirming, E::CancelConfirmed, S::Cancelled),
        (S::ActionRequired, E::Succeeded, S::Paid),
        (S::ActionRequired, E::Declined, S::Payable),
        (S::ActionRequired, E::ProcessingStarted, S::Processing),
        (S::ActionRequired, E::BuyerCancelled, S::Cancelling),
        (S::ActionRequired, E::DeadlinePassed, S::Cancelling),
        (S::ActionRequired, E::CancelConfirmed, S::Cancelled),
        (S::Processing, E::Succeeded, S::Paid),
        (S::Processing, E::Declined, S::Payable),
        (S::Processing, E::ActionNeeded, S::ActionRequired),
        (S::Processing, E::DeadlinePassed, S::Cancelling),
        (S::Processing, E::CancelConfirmed, S::Cancelled),
        (S::PaymentUnknown, E::Succeeded, S::Paid),
        (S::PaymentUnknown, E::Declined, S::Payable),
        (S::PaymentUnknown, E::ActionNeeded, S::ActionRequired),
        (S::PaymentUnknown, E::ProcessingStarted, S::Processing),
        (S::PaymentUnknown, E::DeadlinePassed, S::Cancelling),
        (S::PaymentUnknown, E::CancelConfirmed, S::Cancelled),
        (S::Cancelling, E::Succeeded, S::Paid),
        (S::Cancelling, E::HardDeadlinePassed, S::ReleasedUnresolved),
        (S::Cancelling, E::CancelConfirmed, S::Cancelled),
        (S::ReleasedUnresolved, E::CancelConfirmed, S::Cancelled),
        (S::ReleasedUnresolved, E::Succeeded, S::LateSuccess),
        (S::LateSuccess, E::SeatsRetaken, S::Paid),
        (S::LateSuccess, E::SeatsGone, S::RefundDue),
        (S::Cancelled, E::Succeeded, S::RefundDue),
        (S::Paid, E::TicketsIssued, S::Fulfilled),
        (S::Paid, E::RefundAsked, S::RefundDue),
        (S::Paid, E::DisputeLost, S::Disputed),
        (S::Fulfilled, E::RefundAsked, S::RefundDue),
        (S::Fulfilled, E::RefundedInFull, S::Refunded),
        (S::Fulfilled, E::RefundedInPart, S::PartiallyRefunded),
        (S::Fulfilled, E::DisputeLost, S::Disputed),
        (S::PartiallyRefunded, E::RefundAsked, S::RefundDue),
        (S::PartiallyRefunded, E::RefundedInPart, S::PartiallyRefunded),
        (S::PartiallyRefunded, E::RefundedInFull, S::Refunded),
        (S::PartiallyRefunded, E::DisputeLost, S::Disputed),
        (S::RefundDue, E::RefundDelayed, S::RefundPending),
        (S::RefundDue, E::RefundedInFull, S::Refunded),
        (S::RefundDue, E::RefundedInPart, S::PartiallyRefunded),
        (S::RefundDue, E::RefundRejected, S::RefundFailed),
        (S::RefundSubmitted, E::RefundDelayed, S::RefundPending),
        (S::RefundSubmitted, E::RefundedInFull, S::Refunded),
        (S::RefundSubmitted, E::RefundedInPart, S::PartiallyRefunded),
        (S::RefundSubmitted, E::RefundRejected, S::RefundFailed),
        (S::RefundPending, E::RefundedInFull, S::Refunded),
        (S::RefundPending, E::RefundedInPart, S::PartiallyRefunded),
        (S::RefundPending, E::RefundRejected, S::RefundFailed),
        (S::PartiallyRefunded, E::RefundRejected, S::RefundFailed),
        (S::Refunded, E::RefundRejected, S::RefundFailed),
        (S::RefundFailed, E::RefundAsked, S::RefundDue),
        (S::RefundFailed, E::RefundedInFull, S::Refunded),
        (S::RefundFailed, E::RefundedInPart, S::PartiallyRefunded),
    ];

    #[test]
    fn exactly_the_listed_moves_exist() {
        for &state in S::ALL {
            for &event in EVENTS {
                let listed = MOVES.iter().find(|m| (m.0, m.1) == (state, event)).map(|m| m.2);
                assert_eq!(next(state, event), listed, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn money_that_arrived_always_ends_as_tickets_or_goes_back() {
        for &state in S::ALL {
            if let Some(after) = next(state, E::Succeeded) {
                assert!(matches!(after, S::Paid | S::LateSuccess | S::RefundDue), "{state:?} -> {after:?}");
            }
        }
        // Before the provider knows the order, and once the money is ours, the word can only be a repetition.
        for &state in S::ALL {
            let repeats = matches!(
                state,
                S::Creating
                    | S::LateSuccess
                    | S::Paid
                    | S::Fulfilled
                    | S::RefundDue
                    | S::RefundSubmitted
                    | S::RefundPending
                    | S::RefundFailed
                    | S::PartiallyRefunded
                    | S::Refunded
                    | S::Disputed
            );
            assert_eq!(next(state, E::Succeeded).is_none(), repeats, "{state:?}");
        }
    }

    #[test]
    fn seats_are_freed_once_and_never_while_money_may_still_come_unnoticed() {
        for &from in S::ALL {
            for &event in EVENTS {
                let Some(to) = next(from, event) else { continue };
                if seats_after(from, to) == SeatEffect::Free {
                    assert!(matches!(event, E::CancelConfirmed | E::HardDeadlinePassed), "{from:?} on {event:?}");
                }
                // Whoever leaves the reserving states either sells or frees.
                assert_eq!(
                    from.is_reserving() && !to.is_reserving(),
                    seats_after(from, to) != SeatEffect::Keep,
                    "{from:?} -> {to:?}"
                );
            }
        }
    }

    #[test]
    fn a_failed_charge_is_never_shown_before_it_is_definite() {
        for &state in S::ALL {
            let shows_decline = state.public(true) == PublicState::PaymentDeclined;
            assert_eq!(shows_decline, state == S::Payable, "{state:?}");
        }
    }

    #[test]
    fn names_survive_the_database() {
        for &state in S::ALL {
            assert_eq!(OrderState::parse(state.as_str()), Some(state));
        }
        assert_eq!(OrderState::parse("sold"), None);
    }
}
