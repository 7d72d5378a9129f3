//! The catalogue of what the log can say. Whoever subscribes names these types, or everything before their dot; the page of
//! each in server/README.md is checked against this list.

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// A basket was made. From the journal, as the other two of holds.
    HoldCreated,
    /// Its places or its end changed, or it is being paid.
    HoldChanged,
    /// It is gone: sold, given back or run out.
    HoldEnded,
    /// Somebody began to pay.
    OrderCreated,
    /// The provider wants something of the buyer, such as 3-D Secure.
    OrderActionRequired,
    /// The provider said no; the buyer may try again.
    OrderPaymentDeclined,
    /// Whether money moved is not known yet.
    OrderPaymentUnknown,
    /// Paid, tickets issued.
    OrderPaid,
    /// Over without a payment.
    OrderCancelled,
    /// Some of the money is back.
    OrderPartiallyRefunded,
    /// All of the money is back.
    OrderRefunded,
    /// The money could not be given back: a person must look.
    OrderRefundFailed,
    /// The buyer's bank took the money back.
    OrderDisputed,
    /// Money is to go back.
    RefundCreated,
    /// It went back.
    RefundSucceeded,
    /// It could not.
    RefundFailed,
    /// A ticket admits from now on.
    TicketIssued,
    /// It was passed on: another code admits.
    TicketTransferred,
    /// Somebody came in with it.
    TicketUsed,
    /// It admits nobody any more.
    TicketVoided,
    /// The organiser changed name, times or rules.
    EventChanged,
    /// Prices changed.
    EventPricesChanged,
    /// Seats were blocked, unblocked or added.
    EventSeatsChanged,
    /// The organiser or the stock changed its state.
    EventStateChanged,
    /// The presale began by time.
    EventPresale,
    /// Selling began by time.
    EventOnSale,
    /// It does not take place.
    EventCancelled,
    /// Somebody waits.
    WaitlistJoined,
    /// A place ended without an offer.
    WaitlistLeft,
    /// A place has an offer.
    WaitlistOffered,
    /// The offer was not taken.
    WaitlistLapsed,
    /// The offer was bought.
    WaitlistTaken,
}

impl LogKind {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 32] = [
        Self::HoldCreated,
        Self::HoldChanged,
        Self::HoldEnded,
        Self::OrderCreated,
        Self::OrderActionRequired,
        Self::OrderPaymentDeclined,
        Self::OrderPaymentUnknown,
        Self::OrderPaid,
        Self::OrderCancelled,
        Self::OrderPartiallyRefunded,
        Self::OrderRefunded,
        Self::OrderRefundFailed,
        Self::OrderDisputed,
        Self::RefundCreated,
        Self::RefundSucceeded,
        Self::RefundFailed,
        Self::TicketIssued,
        Self::TicketTransferred,
        Self::TicketUsed,
        Self::TicketVoided,
        Self::EventChanged,
        Self::EventPricesChanged,
        Self::EventSeatsChanged,
        Self::EventStateChanged,
        Self::EventPresale,
        Self::EventOnSale,
        Self::EventCancelled,
        Self::WaitlistJoined,
        Self::WaitlistLeft,
        Self::WaitlistOffered,
        Self::WaitlistLapsed,
        Self::WaitlistTaken,
    ];

    /// Its name outside.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HoldCreated => "hold.created",
            Self::HoldChanged => "hold.changed",
            Self::HoldEnded => "hold.ended",
            Self::OrderCreated => "order.created",
            Self::OrderActionRequired => "order.action_required",
            Self::OrderPaymentDeclined => "order.payment_declined",
            Self::OrderPaymentUnknown => "order.payment_unknown",
            Self::OrderPaid => "order.paid",
            Self::OrderCancelled => "order.cancelled",
            Self::OrderPartiallyRefunded => "order.partially_refunded",
            Self::OrderRefunded => "order.refunded",
            Self::OrderRefundFailed => "order.refund_failed",
            Self::OrderDisputed => "order.disputed",
            Self::RefundCreated => "refund.created",
            Self::RefundSucceeded => "refund.succeeded",
            Self::RefundFailed => "refund.failed",
            Self::TicketIssued => "ticket.issued",
            Self::TicketTransferred => "ticket.transferred",
            Self::TicketUsed => "ticket.used",
            Self::TicketVoided => "ticket.voided",
            Self::EventChanged => "event.changed",
            Self::EventPricesChanged => "event.prices_changed",
            Self::EventSeatsChanged => "event.seats_changed",
            Self::EventStateChanged => "event.state_changed",
            Self::EventPresale => "event.presale",
            Self::EventOnSale => "event.on_sale",
            Self::EventCancelled => "event.cancelled",
            Self::WaitlistJoined => "waitlist.joined",
            Self::WaitlistLeft => "waitlist.left",
            Self::WaitlistOffered => "waitlist.offered",
            Self::WaitlistLapsed => "waitlist.lapsed",
            Self::WaitlistTaken => "waitlist.taken",
        }
    }

    /// Whether somebody can ask for this: a type, or everything before its dot.
    #[must_use]
    pub fn is_wanted_word(word: &str) -> bool {
        Self::ALL.iter().any(|kind| {
            let name = kind.as_str();
            name == word || name.split_once('.').is_some_and(|(group, _)| group == word)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_catalogue_is_whole_and_each_type_has_its_page() {
        let names: HashSet<&str> = LogKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), LogKind::ALL.len());
        let readme = include_str!("../../../README.md");
        for name in names {
            assert!(readme.contains(&format!("| `{name}` |")), "{name} has no line in server/README.md");
        }
        assert!(LogKind::is_wanted_word("order") && LogKind::is_wanted_word("order.paid"));
        for wrong in ["", "order.", "orders", "order.lost", "*", "order.paid.x"] {
            assert!(!LogKind::is_wanted_word(wrong), "{wrong}");
        }
    }
}
