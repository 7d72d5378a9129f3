//! People who wait for seats of a sold-out event. `command` and `http` come in to join and leave; the job
//! `offer_waitlist` comes in to make offers. Places stand in Postgres. While somebody waits, whatever becomes free is kept
//! aside in Redis in the step that frees it, shown as held, and becomes a hold of the first it fits: nobody else can get
//! it in between, and no seat is offered to two.

mod offers;
mod owe;

use crate::catalogue::EventFacts;
use crate::clock::Clock;
use crate::config::WaitlistConfig;
use crate::inventory::{self, Caller, ChangeOutcome, HoldLine, HoldRecord, Inventory, InventoryError, ReleaseWhat};
use crate::sender::Sender;
use crate::store::waitlist::{self, Place};
use crate::store::{Store, StoreError, identity_use};
use parking_lot::Mutex;
use seatwire_proto::client::{AreaQuantity, FieldError, IdempotencyKey};
use seatwire_proto::id::{EventId, IdentityId};
use seatwire_proto::server::{EventState, Push, WaitlistPlace, WaitlistReply, WaitlistState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Why somebody did not get a place, or could not give it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitlistRefusal {
    /// No list, or nothing to wait for: seats are on sale, or the event is over.
    Closed,
    /// No such place.
    PlaceUnknown,
    /// The key was used with another body.
    KeyReused,
    /// More than an identity may have.
    LimitExceeded {
        /// Seats and places allowed.
        limit: u32,
        /// Held, reserved and bought.
        used: u32,
    },
    /// A field that cannot be taken.
    BadField(FieldError),
}

/// An answer, and whether it is a remembered one.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitlistAnswer {
    /// What came of it.
    pub outcome: Result<WaitlistReply, WaitlistRefusal>,
    /// Given again under the same key.
    pub is_replayed: bool,
}

impl From<WaitlistRefusal> for WaitlistAnswer {
    fn from(refusal: WaitlistRefusal) -> Self {
        Self { outcome: Err(refusal), is_replayed: false }
    }
}

/// Why the list could not answer.
#[derive(Debug, thiserror::Error)]
pub enum WaitlistError {
    /// Postgres.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The work ended under us.
    #[error("interrupted: {0}")]
    Interrupted(String),
}

impl From<sqlx::Error> for WaitlistError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Who asks, about which event, under which key.
#[derive(Debug, Clone)]
pub struct WaitlistRequest {
    /// The event's facts.
    pub event: Arc<EventFacts>,
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention.
    pub key: IdempotencyKey,
    /// SHA-256 of op and fields.
    pub fingerprint: [u8; 32],
}

/// Kept places of an area that fit nobody: how many, and since when this node has seen just so many.
type LeftOver = HashMap<(EventId, u32), (u32, Instant)>;

/// Handle to the waitlists; cheap to clone.
#[derive(Debug, Clone)]
pub struct Waitlist(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: WaitlistConfig,
    store: Store,
    inventory: Inventory,
    sender: Sender,
    clock: Clock,
    left_over: Mutex<LeftOver>,
    /// How far a list was looked through behind its first places, where all of these are in the way.
    passed: Mutex<HashMap<EventId, i64>>,
}

impl Waitlist {
    /// The waitlists on these rooms.
    #[must_use]
    pub fn new(config: WaitlistConfig, store: Store, inventory: Inventory, sender: Sender, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            config,
            store,
            inventory,
            sender,
            clock,
            left_over: Mutex::default(),
            passed: Mutex::default(),
        }))
    }

    /// Takes a place, or changes what the one that is there waits for: it stays where it is in the list. One whose offer is over
    /// has ended: whoever asks then gets another, at the end.
    ///
    /// # Errors
    /// When Postgres does not answer, or Redis where it is asked of an offer or of an open hold.
    pub async fn join(
        &self,
        request: WaitlistRequest,
        quantity: u32,
        price_tiers: Vec<String>,
    ) -> Result<WaitlistAnswer, WaitlistError> {
        let facts = &request.event;
        if let Some(field) = bad_tiers(&price_tiers) {
            return Ok(WaitlistRefusal::BadField(field).into());
        }
        let known = |code: &String| facts.price_tiers.iter().any(|tier| tier.code == *code);
        if let Some(at) = price_tiers.iter().position(|code| !known(code)) {
            let field = FieldError::new(format!("/price_tiers/{at}"), "no such price tier");
            return Ok(WaitlistRefusal::BadField(field).into());
        }
        let waitlist = self.clone();
        whole(async move {
            let WaitlistRequest { event, identity, .. } = &request;
            let Inner { store, clock, inventory, .. } = &*waitlist.0;
            let mut transaction = crate::store::begin(store.pool()).await?;
            waitlist::lock(&mut transaction, event.id).await?;
            if let Some(first) = first_answer(&mut transaction, &request).await? {
                return Ok(first);
            }
            let limit = event.rules.seats_per_identity;
            let bought = identity_use::of_identity(&mut *transaction, event.id, *identity).await?;
            if quantity.saturating_add(bought) > limit {
                // An open hold may end; what is bought stands in the way.
                let held = inventory.open_hold(event, *identity).await?.filter(|hold| hold.locked_by.is_none());
                let held: u32 = held.iter().flat_map(|hold| &hold.lines).map(|line| line.quantity).sum();
                let used = bought + held;
                remember(&mut transaction, &request, &Remembered::LimitExceeded { limit, used }, clock.now_ms())
                    .await?;
                transaction.commit().await?;
                return Ok(WaitlistRefusal::LimitExceeded { limit, used }.into());
            }
            if let Some(offered) = waitlist::offered_to(&mut *transaction, event.id, *identity).await? {
                // It may have had its turn, and the job has not looked yet: then this is another place.
                waitlist.follow_offer(&mut transaction, event, &offered).await?;
            }
            let before = waitlist::find(&mut *transaction, event.id, *identity).await?;
            let is_open = event.has_waitlist && event.state == EventState::SoldOut;
            if !is_open && before.is_none() {
                return Ok(WaitlistRefusal::Closed.into());
            }
            let now_ms = clock.now_ms();
            // Of a place that was given up: no offer of the new one, which would end with it.
            let earlier = match before {
                None => inventory.open_hold(event, *identity).await?.filter(|hold| hold.is_offer).map(|hold| hold.id),
                Some(_) => None,
            };
            waitlist::begin_keeping(&mut *transaction, event.id).await?;
            waitlist::join(&mut *transaction, event.id, *identity, quantity, &price_tiers, earlier, now_ms).await?;
            if before.is_none() {
                owe::joined(&mut transaction, event.id, *identity, quantity, &price_tiers, now_ms).await?;
            }
            let place = waitlist::find(&mut *transaction, event.id, *identity).await?;
            let reply = WaitlistReply { place: place.map(|place| shown(&place)) };
            remember(&mut transaction, &request, &Remembered::Done(reply.clone()), now_ms).await?;
            transaction.commit().await?;
            // From here on what becomes free is kept; the job says it again.
            if let Err(error) = waitlist.keep(event).await {
                tracing::warn!(event = %event.id, %error, "seats are kept for the waitlist later");
            }
            Ok(WaitlistAnswer { outcome: Ok(reply), is_replayed: false })
        })
        .await
    }

    /// Tells the shelf to keep, with the list's lock: whoever gave the last place up meanwhile has not ended it yet.
    async fn keep(&self, event: &Arc<EventFacts>) -> Result<(), WaitlistError> {
        let mut transaction = crate::store::begin(self.0.store.pool()).await?;
        waitlist::lock(&mut transaction, event.id).await?;
        if waitlist::keeps(&mut *transaction, event.id).await? {
            self.0.inventory.keep_for_waitlist(event, true).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Gives the place up. With the last one the job ends the keeping. An offer that came of it goes to the next, unless it is
    /// being paid for, or the basket has more or less than was offered.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn leave(&self, request: WaitlistRequest) -> Result<WaitlistAnswer, WaitlistError> {
        let waitlist = self.clone();
        whole(async move {
            let mut transaction = crate::store::begin(waitlist.0.store.pool()).await?;
            waitlist::lock(&mut transaction, request.event.id).await?;
            if let Some(first) = first_answer(&mut transaction, &request).await? {
                return Ok(first);
            }
            let place = waitlist::find(&mut *transaction, request.event.id, request.identity).await?;
            if !waitlist::leave(&mut *transaction, request.event.id, request.identity).await? {
                return Ok(WaitlistRefusal::PlaceUnknown.into());
            }
            let reply = WaitlistReply { place: None };
            let now_ms = waitlist.0.clock.now_ms();
            owe::left(&mut transaction, request.event.id, &[request.identity], "left", now_ms).await?;
            remember(&mut transaction, &request, &Remembered::Done(reply.clone()), now_ms).await?;
            transaction.commit().await?;
            if let Some(place) = place
                && let Err(error) = waitlist.give_offer_back(&request, &place).await
            {
                tracing::warn!(event = %request.event.id, %error, "an offer to one who left stands until its time is over");
            }
            Ok(WaitlistAnswer { outcome: Ok(reply), is_replayed: false })
        })
        .await
    }

    /// Releases the offer of a place that was given up, as long as the basket is just what was offered, and tells its owner.
    async fn give_offer_back(&self, request: &WaitlistRequest, place: &Place) -> Result<(), WaitlistError> {
        let WaitlistRequest { event, identity, .. } = request;
        let Some(offer) = place.hold else { return Ok(()) };
        let Inner { inventory, sender, .. } = &*self.0;
        let hold = inventory.open_hold(event, *identity).await?.filter(|hold| hold.id == offer && hold.is_offer);
        let Some(hold) = hold.filter(|hold| is_as_offered(hold, place)) else { return Ok(()) };
        let quantity = place.quantity;
        // By name: what is added in this moment stays. A hold whose payment has begun says no by itself.
        let what = ReleaseWhat::Parts {
            seats: place.offered.seats.clone(),
            areas: place.offered.area.into_iter().map(|area| AreaQuantity { area, quantity }).collect(),
        };
        let caller = Caller { event: Arc::clone(event), identity: *identity, key: None, fingerprint: [0; 32] };
        if let ChangeOutcome::Done(left) = inventory.release(caller, hold.id, what).await?.outcome {
            let left = left.map(|hold| hold.to_wire(event, inventory.event_ms(event.id)));
            sender.to_identity(*identity, &Push::HoldUpdate { id: offer, hold: left });
        }
        Ok(())
    }

    /// The identity's place.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn place(
        &self,
        event: EventId,
        identity: IdentityId,
    ) -> Result<Result<WaitlistReply, WaitlistRefusal>, WaitlistError> {
        let place = waitlist::find(self.0.store.pool(), event, identity).await?;
        Ok(match place {
            Some(place) => Ok(WaitlistReply { place: Some(shown(&place)) }),
            None => Err(WaitlistRefusal::PlaceUnknown),
        })
    }
}

/// What is wrong with a wish that names a tier twice.
fn bad_tiers(price_tiers: &[String]) -> Option<FieldError> {
    let at = (1..price_tiers.len()).find(|&at| price_tiers[..at].contains(&price_tiers[at]))?;
    Some(FieldError::new(format!("/price_tiers/{at}"), "named twice"))
}

/// Runs by itself, so that a client that goes away does not drop a transaction half way.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, WaitlistError>> + Send + 'static,
) -> Result<T, WaitlistError> {
    tokio::spawn(work).await.map_err(|error| WaitlistError::Interrupted(error.to_string()))?
}

/// Whether the basket has what was offered and nothing else; `false` where that is not known.
fn is_as_offered(hold: &HoldRecord, place: &Place) -> bool {
    let offered = &place.offered;
    let is_offered = |line: &HoldLine| match line.place {
        inventory::Place::Seat(seat) => offered.seats.contains(&seat),
        inventory::Place::Area(area) => offered.area == Some(area) && line.quantity == place.quantity,
    };
    let lines_n = offered.seats.len() + usize::from(offered.area.is_some());
    hold.lines.len() == lines_n && hold.lines.iter().all(is_offered)
}

fn shown(place: &Place) -> WaitlistPlace {
    WaitlistPlace {
        place: place.ahead + 1,
        state: if place.hold.is_some() { WaitlistState::Offered } else { WaitlistState::Waiting },
        quantity: place.quantity,
        price_tiers: place.price_tiers.clone(),
        hold: place.hold,
    }
}

/// A first answer as it is stored: a refusal of the 2000s is one too.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum Remembered {
    LimitExceeded { limit: u32, used: u32 },
    Done(WaitlistReply),
}

async fn first_answer(
    transaction: &mut sqlx::PgConnection,
    request: &WaitlistRequest,
) -> Result<Option<WaitlistAnswer>, WaitlistError> {
    let first = waitlist::first_answer(transaction, request.identity, request.key.as_str()).await?;
    let Some((fingerprint, answer)) = first else { return Ok(None) };
    if fingerprint != request.fingerprint {
        return Ok(Some(WaitlistRefusal::KeyReused.into()));
    }
    let first = serde_json::from_value(answer).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let outcome = match first {
        Remembered::LimitExceeded { limit, used } => Err(WaitlistRefusal::LimitExceeded { limit, used }),
        Remembered::Done(reply) => Ok(reply),
    };
    Ok(Some(WaitlistAnswer { outcome, is_replayed: true }))
}

async fn remember(
    transaction: &mut sqlx::PgConnection,
    request: &WaitlistRequest,
    first: &Remembered,
    now_ms: u64,
) -> Result<(), WaitlistError> {
    let answer = serde_json::to_value(first).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let WaitlistRequest { event, identity, key, fingerprint } = request;
    waitlist::remember(transaction, event.id, *identity, key.as_str(), fingerprint, &answer, now_ms).await?;
    Ok(())
}
