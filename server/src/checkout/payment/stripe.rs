//! Client of a provider that speaks Stripe's HTTP shape: form-encoded bodies, `Idempotency-Key`, JSON back. One call,
//! one reading of its answer; what follows from it is the purchase's business. Only what was not
//! begun is asked again here, by the same key and within the caller's time.

mod wire;

pub use wire::{EventsPage, read_intent};

use super::breaker::{Breaker, Call, Heard, Turned};
use super::busy::Busy;
use super::{Confirmation, Intent, NewIntent, NewRefund, ProviderError, RefundAnswer};
use crate::clock::Clock;
use crate::config::Secret;
use crate::outbound::{Outbound, OutboundError, Reach};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::Full;
use parking_lot::Mutex;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use wire::{RawCharge, RawIntent, RawMethod, RawPage, RawRefund, read_error};

/// First wait before a call that was not begun is sent again; doubles.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Longest such wait.
const MAX_BACKOFF: Duration = Duration::from_secs(4);
/// Largest answer read; a provider's objects are far smaller.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The API as of which answers are read; the provider keeps it for those who name it.
const API_VERSION: &str = "2024-06-20";
/// Refunds of one intent on a page: the most the API shows, far more than an order has.
const MAX_REFUNDS: u32 = 100;

/// The provider could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("payment provider: {0}")]
pub struct SetupError(#[from] std::io::Error);

/// The client; cheap to clone.
#[derive(Debug, Clone)]
pub struct Provider {
    http: Outbound,
    base_url: String,
    key: Secret,
    timeout: Duration,
    clock: Clock,
    breaker: Arc<Mutex<Breaker>>,
    busy: Arc<Mutex<Busy>>,
    back: Arc<Notify>,
    is_back: Arc<AtomicBool>,
}

/// A buyer's leave to begin to pay. While the circuit is open there is one at a time, and the calls on the way to a charge
/// are its alone; one that ends before it asked anything is the next buyer's.
#[derive(Debug)]
pub struct Turn {
    /// `None`: the circuit was closed.
    number: Option<u64>,
    breaker: Arc<Mutex<Breaker>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.breaker.lock().give_back(number);
        }
    }
}

/// A buyer's call that was told to come again, until it ends.
struct Wait<'a> {
    number: u64,
    busy: &'a Mutex<Busy>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.busy.lock().end_wait(self.number);
    }
}

impl Provider {
    /// A client of the API at `base_url` (`http://host:port`), which waits at most `timeout` for an answer. How long it is left
    /// alone when it fails or is busy is read from `clock`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(base_url: &str, key: Secret, timeout: Duration, clock: Clock) -> Result<Self, SetupError> {
        let http = Outbound::new(Reach::Anywhere)?;
        Ok(Self {
            http,
            base_url: base_url.trim_end_matches('/').to_owned(),
            key,
            timeout,
            breaker: Arc::default(),
            busy: Arc::new(Mutex::new(Busy::new(clock.instant()))),
            clock,
            back: Arc::default(),
            is_back: Arc::default(),
        })
    }

    /// Makes an intent.
    ///
    /// # Errors
    /// As [`ProviderError`] says; no money can have moved.
    pub async fn create_intent(&self, new: &NewIntent<'_>, turn: Option<&Turn>) -> Result<Intent, ProviderError> {
        let form = [
            ("amount", new.amount_minor.to_string()),
            ("currency", new.currency.as_str().to_ascii_lowercase()),
            ("payment_method_types[]", "card".to_owned()),
            ("description", format!("Order {}", new.reference)),
            ("metadata[order]", new.order.to_string()),
        ];
        self.post_money::<RawIntent>(Call::Write, turn, "/v1/payment_intents", new.key, &form).await?.try_into()
    }

    /// Asks for the money.
    ///
    /// # Errors
    /// `Refused` is a definite no; `Unknown` means that money may have moved.
    pub async fn confirm(&self, confirmation: &Confirmation<'_>, turn: Option<&Turn>) -> Result<Intent, ProviderError> {
        let form =
            [("payment_method", confirmation.method.to_owned()), ("return_url", confirmation.return_url.to_owned())];
        let path = format!("/v1/payment_intents/{}/confirm", confirmation.intent);
        self.post_money::<RawIntent>(Call::Charge, turn, &path, confirmation.key, &form).await?.try_into()
    }

    /// Looks at an intent.
    ///
    /// # Errors
    /// Any but success says nothing of the intent.
    pub async fn intent(&self, id: &str) -> Result<Intent, ProviderError> {
        let path = format!("/v1/payment_intents/{}", plain(id)?);
        self.call::<RawIntent>(Call::Read, &path, None, &[]).await?.try_into()
    }

    /// Makes sure that an intent will never be charged. Sent without a key: a second cancellation does no harm, and a
    /// remembered failure would stand in the way.
    ///
    /// # Errors
    /// `Moved` tells where it stands instead.
    pub async fn cancel_intent(&self, id: &str) -> Result<Intent, ProviderError> {
        let path = format!("/v1/payment_intents/{id}/cancel");
        self.call::<RawIntent>(Call::Write, &path, None, &[]).await?.try_into()
    }

    /// Gives money back.
    ///
    /// # Errors
    /// `Refused` when it cannot be given back.
    pub async fn refund(&self, new: &NewRefund<'_>) -> Result<RefundAnswer, ProviderError> {
        let form = [
            ("payment_intent", new.intent.to_owned()),
            ("amount", new.amount_minor.to_string()),
            ("metadata[refund]", new.name.to_owned()),
        ];
        self.post::<RawRefund>(Call::Write, "/v1/refunds", new.key, &form, false).await?.try_into()
    }

    /// Looks at a refund.
    ///
    /// # Errors
    /// Any but success says nothing of the refund.
    pub async fn refund_by_id(&self, id: &str) -> Result<RefundAnswer, ProviderError> {
        self.call::<RawRefund>(Call::Read, &format!("/v1/refunds/{}", plain(id)?), None, &[]).await?.try_into()
    }

    /// The refund of an intent that carries our name, if the provider has it.
    ///
    /// # Errors
    /// Any but success says nothing of the refund.
    pub async fn refund_by_name(&self, intent: &str, name: &str) -> Result<Option<RefundAnswer>, ProviderError> {
        let path = format!("/v1/refunds?payment_intent={intent}&limit={MAX_REFUNDS}");
        let page: RawPage<RawRefund> = self.call(Call::Read, &path, None, &[]).await?;
        let found = page.data.into_iter().find(|refund| refund.is_named(name));
        match found {
            Some(refund) => refund.try_into().map(Some),
            None if page.has_more => Err(ProviderError::Unknown("more refunds than one page shows".into())),
            None => Ok(None),
        }
    }

    /// How much of a charge went back, whoever asked for it, in minor units.
    ///
    /// # Errors
    /// Any but success says nothing of the charge.
    pub async fn given_back_minor(&self, charge: &str) -> Result<i64, ProviderError> {
        let path = format!("/v1/charges/{}", plain(charge)?);
        Ok(self.call::<RawCharge>(Call::Read, &path, None, &[]).await?.amount_refunded)
    }

    /// A dispute, as its events carry it.
    ///
    /// # Errors
    /// Any but success says nothing of the dispute.
    pub async fn dispute(&self, id: &str) -> Result<serde_json::Value, ProviderError> {
        self.call(Call::Read, &format!("/v1/disputes/{}", plain(id)?), None, &[]).await
    }

    /// The fingerprint of the card behind a payment method; `None`: it has none.
    ///
    /// # Errors
    /// `Refused`: there is no such method, or it is not shown.
    pub async fn fingerprint(&self, method: &str) -> Result<Option<String>, ProviderError> {
        let path = format!("/v1/payment_methods/{}", plain(method)?);
        Ok(self.call::<RawMethod>(Call::Read, &path, None, &[]).await?.fingerprint())
    }

    /// Events of these kinds that came after this one; without one, the newest.
    ///
    /// # Errors
    /// When the list cannot be read now.
    pub async fn events_after(
        &self,
        id: Option<&str>,
        kinds: &[&str],
        limit: u32,
    ) -> Result<EventsPage, ProviderError> {
        let mut path = format!("/v1/events?limit={limit}");
        for kind in kinds {
            path.push_str("&types[]=");
            path.push_str(kind);
        }
        if let Some(id) = id {
            path.push_str("&ending_before=");
            path.push_str(plain(id)?);
        }
        self.call(Call::Read, &path, None, &[]).await
    }

    /// Told when it answers again after it failed again and again.
    #[must_use]
    pub fn back(&self) -> Arc<Notify> {
        self.back.clone()
    }

    /// Whether it is back and nobody has caught up with what was missed.
    #[must_use]
    pub fn is_back(&self) -> bool {
        self.is_back.load(Ordering::Relaxed)
    }

    /// What was missed is caught up with.
    pub fn caught_up(&self) {
        self.is_back.store(false, Ordering::Relaxed);
    }

    /// Whether a buyer could begin to pay now: not while it fails again and again, but for one each time who tries.
    #[must_use]
    pub fn has_turn(&self) -> bool {
        self.breaker.lock().has_turn(self.clock.instant())
    }

    /// A buyer begins to pay; `None`: not now, as [`Self::has_turn`] says.
    #[must_use]
    pub fn take_turn(&self) -> Option<Turn> {
        let number = self.breaker.lock().take_turn(self.clock.instant())?;
        Some(Turn { number, breaker: self.breaker.clone() })
    }

    /// Whether it says that it is busy and buyers wait long to be let through: nobody should begin to pay now.
    #[must_use]
    pub fn is_jammed(&self) -> bool {
        self.busy.lock().is_jammed(self.clock.instant())
    }

    /// The share of this node's own questions that it may ask now: less than 1 while the provider says that it is busy.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.busy.lock().share(self.clock.instant())
    }

    /// Whether it is asked for money now: false while it fails again and again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.breaker.lock().is_closed()
    }

    /// A call that leads to a charge: not made while the circuit is open, but by the one whose turn it is.
    async fn post_money<T: for<'de> Deserialize<'de>>(
        &self,
        call: Call,
        turn: Option<&Turn>,
        path: &str,
        key: &str,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        let turn = turn.and_then(|turn| turn.number);
        if !self.breaker.lock().admits(call, turn, self.clock.instant()) {
            return Err(ProviderError::NotBegun("the provider has failed again and again".into()));
        }
        self.post(call, path, key, form, true).await
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        call: Call,
        path: &str,
        key: Option<&str>,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        let method = if call == Call::Read { Method::GET } else { Method::POST };
        let answer = self.call_once(method, path, key, form).await;
        let heard = match &answer {
            Err(ProviderError::Unknown(_) | ProviderError::NotBegun(_)) => Heard::Failure,
            Err(ProviderError::Unauthorized(_)) => Heard::Stranger,
            // Also when it is busy: a provider that limits our rate is there. It is asked less, as `busy` says.
            _ => Heard::Answer,
        };
        if matches!(answer, Err(ProviderError::Busy(_))) {
            self.busy.lock().told(self.clock.instant());
        }
        let turned = self.breaker.lock().hear(call, heard, self.clock.instant());
        if turned != Turned::Not {
            tracing::error!(?turned, ?call, "the circuit to the payment provider has changed");
        }
        if matches!(turned, Turned::Answering | Turned::Closed) {
            self.is_back.store(true, Ordering::Relaxed);
            self.back.notify_one();
        }
        answer
    }

    /// Asks for a change, and again by the same key while it was not begun and time is left. `is_of_buyer`: somebody waits for
    /// it, and others who would are kept out while it is told to come again for long.
    async fn post<T: for<'de> Deserialize<'de>>(
        &self,
        call: Call,
        path: &str,
        key: &str,
        form: &[(&str, String)],
        is_of_buyer: bool,
    ) -> Result<T, ProviderError> {
        let began = Instant::now();
        let mut backoff = FIRST_BACKOFF;
        // A request of ours by this key was at work: from then on only an answer by the key says what became of it.
        let mut was_in_flight = false;
        let mut wait: Option<Wait<'_>> = None;
        loop {
            if let Some(wait) = &wait {
                self.busy.lock().tries(wait.number, self.clock.instant());
            }
            let answer = self.call::<T>(call, path, Some(key), form).await;
            was_in_flight |= matches!(answer, Err(ProviderError::InFlight(_)));
            let is_in_time = began.elapsed() + backoff < self.timeout;
            if is_of_buyer {
                match &answer {
                    Err(ProviderError::Busy(_)) if is_in_time => {
                        let wait = wait.get_or_insert_with(|| self.begin_wait());
                        self.busy.lock().waits_on(wait.number);
                    }
                    Err(ProviderError::Busy(_)) => self.busy.lock().gave_up(self.clock.instant()),
                    // It was not reached, or said nothing: nothing is known of how busy it is.
                    Err(
                        ProviderError::NotBegun(_)
                        | ProviderError::Unknown(_)
                        | ProviderError::InFlight(_)
                        | ProviderError::Locked(_),
                    ) => {}
                    _ => self.busy.lock().let_through(),
                }
            }
            match answer {
                Err(
                    ProviderError::NotBegun(why)
                    | ProviderError::Busy(why)
                    | ProviderError::Locked(why)
                    | ProviderError::InFlight(why),
                ) if is_in_time => {
                    tracing::debug!(%why, path, "the provider did not begin; asking again by the same key");
                    tokio::time::sleep(backoff.mul_f64(rand::random_range(0.5..1.0))).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
                Err(ProviderError::NotBegun(why) | ProviderError::Busy(why) | ProviderError::Locked(why))
                    if was_in_flight =>
                {
                    return Err(ProviderError::Unknown(why));
                }
                done => return done,
            }
        }
    }

    fn begin_wait(&self) -> Wait<'_> {
        Wait { number: self.busy.lock().begin_wait(self.clock.instant()), busy: &self.busy }
    }

    async fn call_once<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        form: &[(&str, String)],
    ) -> Result<T, ProviderError> {
        let body = if method == Method::POST {
            Bytes::from(form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish())
        } else {
            Bytes::new()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header(AUTHORIZATION, format!("Bearer {}", self.key.reveal()))
            .header("Stripe-Version", API_VERSION)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let request = request.body(Full::new(body)).map_err(|error| ProviderError::NotBegun(error.to_string()))?;
        let response = match self.http.send(request, self.timeout, MAX_ANSWER_BYTES).await {
            Ok(response) => response,
            // The connection was never made, so nothing was sent.
            Err(error @ (OutboundError::NotConnected(_) | OutboundError::NotPublic)) => {
                return Err(ProviderError::NotBegun(error.to_string()));
            }
            Err(error) => return Err(ProviderError::Unknown(error.to_string())),
        };
        let status = response.status();
        let is_replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        let body = response.into_body();
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|error| ProviderError::Unknown(format!("bad answer: {error}")));
        }
        Err(match read_error(status, &body) {
            ProviderError::Unknown(why) if is_replayed => ProviderError::Remembered(why),
            error => error,
        })
    }
}

/// A name of the provider's as part of a path. What a buyer or a webhook calls one must not lead anywhere else: a name is
/// one plain part, or nobody's.
fn plain(id: &str) -> Result<&str, ProviderError> {
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(ProviderError::Refused { reason: "resource_missing".to_owned(), charge: None });
    }
    Ok(id)
}
