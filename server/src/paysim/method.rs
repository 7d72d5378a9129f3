//! Test payment methods: what a confirmation with each of them does. Stripe's documented names mean what they mean
//! there; `pm_sim_*` script the faults a real provider shows only on its worst day.

/// Why a card is declined, in the provider's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeclineWords {
    /// `error.code`.
    pub code: &'static str,
    /// `error.decline_code`.
    pub decline_code: &'static str,
    /// For people.
    pub message: &'static str,
}

/// A buyer who did not approve.
pub(super) const NOT_APPROVED: DeclineWords = DeclineWords {
    code: "payment_intent_authentication_failure",
    decline_code: "authentication_failed",
    message: "The buyer did not approve the payment.",
};

/// What a confirmation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Charges.
    Succeed,
    /// Charges after a while.
    Delay {
        /// How long.
        delay_ms: u64,
    },
    /// Declines.
    Decline(DeclineWords),
    /// Wants the buyer to approve.
    NeedAction,
    /// Never answers.
    Hang {
        /// Whether it charges all the same.
        is_charged: bool,
    },
    /// Answers 500.
    Fail {
        /// Whether it charges all the same.
        is_charged: bool,
    },
    /// Declines before anything is charged, and answers 500.
    FailDeclined,
    /// Answers 429 to the first try of an intent, then charges.
    BusyOnce,
    /// Goes to `processing` and settles later.
    Process {
        /// How long it takes.
        after_ms: u64,
        /// How it ends.
        is_charged: bool,
    },
    /// Charges, but whoever looks at the method is answered this status.
    Hidden {
        /// Which.
        status: u16,
    },
    /// Charges; the card shows no fingerprint.
    NoFingerprint,
    /// Charges; a refund of it fails.
    RefundFails,
    /// Charges; the buyer's bank wants the money back at once.
    Dispute,
    /// Charges; a refund of it is pending at first.
    RefundPends {
        /// How long.
        after_ms: u64,
    },
}

/// How long `processing` lasts where the name does not say.
const PROCESSING_MS: u64 = 3_000;

const fn decline(code: &'static str, decline_code: &'static str, message: &'static str) -> Behaviour {
    Behaviour::Decline(DeclineWords { code, decline_code, message })
}

/// What this method does; `None` for a name that is not known.
#[must_use]
pub(super) fn behaviour(method: &str) -> Option<Behaviour> {
    if let Some(name) = method.strip_prefix("pm_card_") {
        return card(name);
    }
    Some(match method.strip_prefix("pm_sim_")? {
        "timeout_charged" => Behaviour::Hang { is_charged: true },
        "timeout_not_charged" => Behaviour::Hang { is_charged: false },
        "500_charged" => Behaviour::Fail { is_charged: true },
        "500_not_charged" => Behaviour::Fail { is_charged: false },
        "500_declined" => Behaviour::FailDeclined,
        "429_then_ok" => Behaviour::BusyOnce,
        "processing_then_ok" => Behaviour::Process { after_ms: PROCESSING_MS, is_charged: true },
        "processing_then_fail" => Behaviour::Process { after_ms: PROCESSING_MS, is_charged: false },
        "refund_fails" => Behaviour::RefundFails,
        "no_fingerprint" => Behaviour::NoFingerprint,
        name => {
            if let Some(time) = name.strip_prefix("delay_") {
                Behaviour::Delay { delay_ms: span_ms(time)? }
            } else if let Some(time) = name.strip_prefix("refund_pending_") {
                Behaviour::RefundPends { after_ms: span_ms(time)? }
            } else if let Some(status) = name.strip_prefix("hidden_") {
                Behaviour::Hidden { status: status.parse().ok().filter(|status| (400..600).contains(status))? }
            } else {
                let time = name.strip_prefix("late_success_")?;
                Behaviour::Process { after_ms: span_ms(time)?, is_charged: true }
            }
        }
    })
}

fn card(name: &str) -> Option<Behaviour> {
    // Declines are documented with and without the brand.
    let name = name.strip_prefix("visa_").unwrap_or(name);
    Some(match name {
        "visa" | "visa_debit" | "mastercard" | "mastercard_debit" | "amex" | "discover" | "diners" | "jcb" | "us" => {
            Behaviour::Succeed
        }
        "createDispute" => Behaviour::Dispute,
        "chargeDeclined" => decline("card_declined", "generic_decline", "Your card was declined."),
        "chargeDeclinedInsufficientFunds" => {
            decline("card_declined", "insufficient_funds", "Your card has insufficient funds.")
        }
        "chargeDeclinedLostCard" => decline("card_declined", "lost_card", "Your card was declined."),
        "chargeDeclinedStolenCard" => decline("card_declined", "stolen_card", "Your card was declined."),
        "chargeDeclinedExpiredCard" => decline("expired_card", "expired_card", "Your card has expired."),
        "chargeDeclinedIncorrectCvc" => {
            decline("incorrect_cvc", "incorrect_cvc", "Your card's security code is incorrect.")
        }
        "chargeDeclinedProcessingError" => {
            decline("processing_error", "processing_error", "An error occurred while processing your card.")
        }
        "chargeDeclinedFraudulent" => decline("card_declined", "fraudulent", "Your card was declined."),
        "authenticationRequired" | "threeDSecure2Required" | "threeDSecureRequired" => Behaviour::NeedAction,
        _ => return None,
    })
}

/// `250ms`, `5s`, `20m`, `80h` in milliseconds; at most 30 days.
fn span_ms(text: &str) -> Option<u64> {
    const MAX_MS: u64 = 30 * 86_400_000;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_ms).filter(|&ms| ms <= MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_names_do_what_they_say() {
        assert_eq!(behaviour("pm_card_visa"), Some(Behaviour::Succeed));
        assert_eq!(behaviour("pm_card_visa_chargeDeclined"), behaviour("pm_card_chargeDeclined"));
        assert!(matches!(
            behaviour("pm_card_visa_chargeDeclinedInsufficientFunds"),
            Some(Behaviour::Decline(DeclineWords { decline_code: "insufficient_funds", .. }))
        ));
        assert_eq!(behaviour("pm_card_authenticationRequired"), Some(Behaviour::NeedAction));
        assert_eq!(behaviour("pm_sim_delay_5s"), Some(Behaviour::Delay { delay_ms: 5_000 }));
        assert_eq!(behaviour("pm_sim_refund_pending_40m"), Some(Behaviour::RefundPends { after_ms: 2_400_000 }));
        assert_eq!(behaviour("pm_sim_hidden_404"), Some(Behaviour::Hidden { status: 404 }));
        assert_eq!(
            behaviour("pm_sim_late_success_20m"),
            Some(Behaviour::Process { after_ms: 1_200_000, is_charged: true })
        );
    }

    #[test]
    fn other_names_are_unknown() {
        for name in [
            "",
            "visa",
            "pm_",
            "pm_card_",
            "pm_sim_",
            "pm_sim_delay_",
            "pm_sim_delay_5d",
            "pm_sim_delay_-1s",
            "pm_sim_hidden_200",
        ] {
            assert_eq!(behaviour(name), None, "{name:?}");
        }
    }
}
