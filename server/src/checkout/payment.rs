//! What the till asks of a payment provider and how its answers are to be read: definite, busy, or unknown. `stripe` is
//! the client of every provider that speaks Stripe's HTTP shape, our simulator included.

mod breaker;
mod busy;
pub mod signature;
pub mod stripe;

use seatwire_proto::id::OrderId;
use seatwire_proto::money::Currency;

/// Where an intent stands at the provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentStatus {
    /// Nothing runs: made, or declined.
    Open,
    /// The buyer must approve.
    ActionRequired,
    /// The provider needs time.
    Processing,
    /// Charged. Final.
    Succeeded,
    /// Will never be charged. Final.
    Canceled,
}

/// A decline as an intent remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenDecline {
    /// The provider's decline code.
    pub reason: String,
    /// The failed charge, where there was one.
    pub charge: Option<String>,
}

/// An intent as the provider tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The provider's name for it.
    pub id: String,
    /// Where it stands.
    pub status: IntentStatus,
    /// What it is about.
    pub amount_minor: i64,
    /// ISO 4217 in capitals.
    pub currency: String,
    /// The charge that stands for it.
    pub charge: Option<String>,
    /// Where the buyer approves.
    pub action_url: Option<String>,
    /// Lets the provider's own script finish it in the browser.
    pub client_secret: Option<String>,
    /// The last decline.
    pub decline: Option<SeenDecline>,
}

/// An intent to be made.
#[derive(Debug, Clone)]
pub struct NewIntent<'a> {
    /// For which order; travels as metadata.
    pub order: OrderId,
    /// For people who look at the provider's pages.
    pub reference: &'a str,
    /// How much.
    pub amount_minor: i64,
    /// Of what.
    pub currency: Currency,
    /// The idempotency key.
    pub key: &'a str,
}

/// A confirmation to be asked for.
#[derive(Debug, Clone)]
pub struct Confirmation<'a> {
    /// Which intent.
    pub intent: &'a str,
    /// The payment method.
    pub method: &'a str,
    /// Where the buyer comes back to after an action.
    pub return_url: &'a str,
    /// The idempotency key.
    pub key: &'a str,
}

/// A refund to be asked for.
#[derive(Debug, Clone)]
pub struct NewRefund<'a> {
    /// Of which intent.
    pub intent: &'a str,
    /// How much.
    pub amount_minor: i64,
    /// Our name for it; travels as metadata, so that it is found again when its answer is lost.
    pub name: &'a str,
    /// The idempotency key.
    pub key: &'a str,
}

/// What became of a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundAnswer {
    /// The provider's name for it.
    pub id: String,
    /// How it stands.
    pub status: RefundStatus,
    /// Why it failed.
    pub failure: Option<String>,
}

/// How a refund stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundStatus {
    /// On its way.
    Pending,
    /// Back.
    Succeeded,
    /// Not possible.
    Failed,
}

/// Why the provider gave no definite answer of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Refused before anything happened: the reason is definite.
    #[error("refused: {reason}")]
    Refused {
        /// The provider's code.
        reason: String,
        /// The failed charge, where there was one.
        charge: Option<String>,
    },
    /// The intent stands elsewhere than the call assumed.
    #[error("the intent has moved to {:?}", .0.status)]
    Moved(Box<Intent>),
    /// It never reached the provider: the same key may ask again.
    #[error("not begun: {0}")]
    NotBegun(String),
    /// The provider is there, but too busy to begin: the same key may ask again, later.
    #[error("busy: {0}")]
    Busy(String),
    /// The provider did not begin because another call is at work on the same intent or charge. That says nothing of its
    /// load: the same key may ask again.
    #[error("locked: {0}")]
    Locked(String),
    /// Another call by the same key is being worked on: asking again by that key will tell.
    #[error("in flight: {0}")]
    InFlight(String),
    /// It may or may not have happened.
    #[error("unknown: {0}")]
    Unknown(String),
    /// The provider remembers a failure under this key and says so again: the first call is over, and asking again by the
    /// same key will never tell more.
    #[error("a failure is remembered under this key: {0}")]
    Remembered(String),
    /// Our key is not taken: nothing will work until an operator looks.
    #[error("the provider does not take our key: {0}")]
    Unauthorized(String),
}
