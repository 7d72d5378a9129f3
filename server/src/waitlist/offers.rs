//! Offers: what is kept becomes holds of those who wait, in order; the first whom the seats fit gets them. One node at a
//! time does it for an event. Taking goes Redis first: a crash behind the offer is found by the next round, which meets
//! the offered hold and writes it down.

use super::{Waitlist, WaitlistError, owe, whole};
use crate::catalogue::{EventFacts, SeatShape, StoredLayout};
use crate::inventory::{FoundHold, HoldRecord, Kept, NewOffer, OfferOutcome, Refusal};
use crate::store::event_log::LogKind;
use crate::store::waitlist::{self, KeptOfTier, OfferFate, OfferedPlace, OfferedWhat, Wish};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::{EventState, Push};
use sqlx::PgConnection;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Places looked at together; of those who wait, the first whom what is kept may fit. When all of them are in the way (they have
/// baskets of their own), a round looks at as many again farther back, another part of the list each time.
const MAX_PLACES: u32 = 200;
/// Offers made in one round: bounds how long the list is locked.
const MAX_OFFERS: usize = 20;
/// Calls that put kept seats on the map in one round when the list is empty: 50,000 seats.
const MAX_SHOWINGS: usize = 100;
/// Places of an event that is over ended in one round.
const MAX_ENDED: u32 = 5_000;
/// An event is over so long after its beginning: late comers buy until then.
const SOLD_AFTER_START_MS: u64 = 24 * 3_600_000;
/// First answers are kept so long.
const KEEP_ANSWERS_MS: u64 = 72 * 3_600_000;
/// Old answers forgotten in one round.
const MAX_FORGOTTEN: u32 = 200;

impl Waitlist {
    /// One round for an event: ends places whose offer is over, makes offers of what is kept, and puts on the map what fits
    /// nobody. Nothing where another node is at it.
    ///
    /// # Errors
    /// When a store does not answer; the next round goes on.
    pub async fn round(&self, facts: &Arc<EventFacts>, layout: Arc<StoredLayout>) -> Result<(), WaitlistError> {
        let (waitlist, facts) = (self.clone(), Arc::clone(facts));
        whole(async move { waitlist.locked_round(&facts, &layout.shape).await }).await
    }

    /// Forgets first answers nobody will ask for again.
    ///
    /// # Errors
    /// When Postgres does not answer.
    pub async fn forget_answers(&self) -> Result<(), WaitlistError> {
        let before_ms = self.0.clock.now_ms().saturating_sub(KEEP_ANSWERS_MS);
        Ok(waitlist::forget_answers(self.0.store.pool(), before_ms, MAX_FORGOTTEN).await?)
    }

    async fn locked_round(&self, facts: &Arc<EventFacts>, shape: &SeatShape) -> Result<(), WaitlistError> {
        let event = facts.id;
        let inventory = &self.0.inventory;
        let mut transaction = crate::store::begin(self.0.store.pool()).await?;
        if !waitlist::try_lock(&mut transaction, event).await? {
            return Ok(());
        }
        let now_ms = self.0.clock.now_ms();
        let over_before_ms = now_ms.saturating_sub(SOLD_AFTER_START_MS);
        let ended = waitlist::end_if_over(&mut *transaction, event, over_before_ms, MAX_ENDED).await?;
        owe::left(&mut transaction, event, &ended, "event_over", now_ms).await?;
        let known = waitlist::offered(&mut *transaction, event, MAX_PLACES).await?;
        for offered in &known {
            self.follow_offer(&mut transaction, facts, offered).await?;
        }
        let waiting = waitlist::waiting(&mut *transaction, event, MAX_PLACES).await?;
        let keeps = !waiting.is_empty() && waitlist::keeps(&mut *transaction, event).await?;
        if !keeps {
            if self.show_kept(facts).await? {
                waitlist::end_keeping(&mut *transaction, event).await?;
            }
            transaction.commit().await?;
            return Ok(());
        }
        inventory.keep_for_waitlist(facts, true).await?;
        // Behind the places looked at somebody may want any tier.
        let is_all = waiting.len() < MAX_PLACES as usize;
        // Before any of them is made: one that is written down with an older life is looked for again, not given up.
        let epoch = inventory.epoch(facts);
        let mut offered = Vec::new();
        let mut waiting = waiting;
        if inventory.stock(facts).await?.open_holds as usize > known.len() {
            // Somebody has a hold that is no offer we know of: one of an earlier round that ended before its note?
            let mut still_waiting = Vec::with_capacity(waiting.len());
            for place in waiting {
                match inventory.open_hold(facts, place.identity).await? {
                    Some(hold)
                        if hold.is_offer
                            && waitlist::set_offered(&mut *transaction, event, place.identity, hold.id, epoch)
                                .await? =>
                    {
                        let kind = LogKind::WaitlistOffered;
                        owe::offer(&mut transaction, kind, event, place.identity, hold.id, now_ms).await?;
                        offered.push(hold);
                    }
                    _ => still_waiting.push(place),
                }
            }
            waiting = still_waiting;
        }
        if matches!(facts.state, EventState::OnSale | EventState::SoldOut) {
            let mut kept = inventory.kept(facts).await?;
            // Seats for wheelchair users and their companions are for whoever picks them.
            let special = take_special(&mut kept, shape);
            inventory.give_up_kept(facts, &special, &[]).await?;
            let mut round = Round { facts, shape, epoch, now_ms, kept, offered };
            self.offer_in_order(&mut transaction, &mut round).await?;
            if round.offered.len() < MAX_OFFERS {
                self.give_up(facts, &round.kept, &waiting, is_all).await?;
            }
            offered = round.offered;
        }
        transaction.commit().await?;
        for hold in &offered {
            self.tell(facts, hold).await;
        }
        Ok(())
    }

    /// Offers to those whom what is kept fits: the first ones always, so that whoever gave a basket up has their turn; when
    /// enough is left behind all of these, also to a part of the list farther back.
    async fn offer_in_order(&self, transaction: &mut PgConnection, round: &mut Round<'_>) -> Result<(), WaitlistError> {
        let event = round.facts.id;
        let first = self.fitting(transaction, round, 0).await?;
        let mut goes_on = self.offer_to(transaction, round, &first).await?;
        let mut next = None;
        if let Some(last) = first.last().filter(|_| goes_on && first.len() == MAX_PLACES as usize) {
            let after = self.0.passed.lock().get(&event).map_or(last.place_n, |passed| last.place_n.max(*passed));
            let behind = self.fitting(transaction, round, after).await?;
            goes_on = self.offer_to(transaction, round, &behind).await?;
            // From the end of the list it begins again behind the first ones.
            next = behind.last().filter(|_| goes_on && behind.len() == MAX_PLACES as usize).map(|wish| wish.place_n);
        }
        let mut passed = self.0.passed.lock();
        match next {
            Some(place_n) => passed.insert(event, place_n),
            None => passed.remove(&event),
        };
        Ok(())
    }

    async fn fitting(
        &self,
        transaction: &mut PgConnection,
        round: &Round<'_>,
        after: i64,
    ) -> Result<Vec<Wish>, WaitlistError> {
        let kept = by_tier(round.facts, &round.kept);
        Ok(waitlist::fitting(transaction, round.facts.id, &kept, after, MAX_PLACES).await?)
    }

    /// Offers to these in order; whether there is something for others behind them.
    async fn offer_to(
        &self,
        transaction: &mut PgConnection,
        round: &mut Round<'_>,
        wishes: &[Wish],
    ) -> Result<bool, WaitlistError> {
        let event = round.facts.id;
        for wish in wishes {
            if round.is_done() {
                return Ok(false);
            }
            let Some(mut offer) = fitting(round.facts, round.shape, &round.kept, wish) else { continue };
            offer.life_ms = u32::try_from(self.0.config.offer_life.as_millis()).unwrap_or(u32::MAX);
            let (hold, what) = match self.0.inventory.offer(round.facts, wish.identity, &offer).await? {
                OfferOutcome::Offered(hold) => {
                    round.take(&offer);
                    let area = offer.areas.first().map(|(area, _)| *area);
                    (hold, OfferedWhat { seats: offer.seats, area })
                }
                // An offer of an earlier round that ended before its note.
                OfferOutcome::InTheWay(hold) if hold.is_offer => (hold, OfferedWhat::default()),
                // A basket of their own, or one that just ended: their turn stays.
                OfferOutcome::InTheWay(_) => continue,
                OfferOutcome::Refused(Refusal::LimitExceeded { .. }) => {
                    waitlist::leave(&mut *transaction, event, wish.identity).await?;
                    owe::left(transaction, event, &[wish.identity], "limit", round.now_ms).await?;
                    continue;
                }
                // Not kept any more, or not on sale: the next round reads anew.
                OfferOutcome::Refused(_) => return Ok(false),
            };
            if waitlist::set_offered(&mut *transaction, event, wish.identity, hold.id, round.epoch).await? {
                waitlist::note_offered(&mut *transaction, event, wish.identity, hold.id, &what).await?;
                owe::offer(transaction, LogKind::WaitlistOffered, event, wish.identity, hold.id, round.now_ms).await?;
                round.offered.push(hold);
            }
        }
        Ok(!round.is_done())
    }

    /// Stops keeping and puts what is kept on the map; whether that is all of it, else the next round goes on.
    async fn show_kept(&self, facts: &Arc<EventFacts>) -> Result<bool, WaitlistError> {
        for _ in 0..MAX_SHOWINGS {
            if !self.0.inventory.keep_for_waitlist(facts, false).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What became of an offer: it stands, it has had its turn, or it was lost with a life of the inventory; then the place
    /// waits again.
    pub(super) async fn follow_offer(
        &self,
        transaction: &mut PgConnection,
        facts: &Arc<EventFacts>,
        offered: &OfferedPlace,
    ) -> Result<(), WaitlistError> {
        let (event, &OfferedPlace { identity, hold, epoch }) = (facts.id, offered);
        let inventory = &self.0.inventory;
        let found = inventory.find_hold(facts, identity, hold).await?;
        let now = inventory.epoch(facts);
        match found {
            FoundHold::Open(_) if now == epoch => {}
            FoundHold::Open(_) => {
                waitlist::set_offered(transaction, event, identity, hold, now).await?;
            }
            FoundHold::Unknown | FoundHold::Ended => match waitlist::fate_of(&mut *transaction, hold).await? {
                // Its turn lasts until the provider has said what became of the money.
                OfferFate::Undecided => {}
                OfferFate::NotBought if found == FoundHold::Unknown && now != epoch => {
                    tracing::info!(%event, %identity, %hold, "an offer was lost: its place waits again");
                    waitlist::put_back(transaction, event, identity, hold).await?;
                }
                fate => {
                    waitlist::leave(&mut *transaction, event, identity).await?;
                    let is_bought = fate == OfferFate::Bought;
                    let kind = if is_bought { LogKind::WaitlistTaken } else { LogKind::WaitlistLapsed };
                    owe::offer(transaction, kind, event, identity, hold, self.0.clock.now_ms()).await?;
                }
            },
        }
        Ok(())
    }

    async fn tell(&self, facts: &EventFacts, hold: &HoldRecord) {
        let wire = hold.to_wire(facts, self.0.inventory.event_ms(facts.id));
        tracing::info!(event = %facts.id, identity = %hold.identity, hold = %hold.id, "an offer to the waitlist");
        self.0.sender.to_identity(hold.identity, &Push::WaitlistOffer { hold: wire.clone() });
        self.0.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: Some(wire) });
    }

    /// What fits nobody who waits goes on the map: at once where nobody wants its tier, else after a while. `is_all`: nobody
    /// waits but these.
    async fn give_up(
        &self,
        facts: &Arc<EventFacts>,
        kept: &Kept,
        waiting: &[Wish],
        is_all: bool,
    ) -> Result<(), WaitlistError> {
        let now_ms = self.0.inventory.event_ms(facts.id);
        let keep_ms = self.0.config.keep_longest.as_millis() as u64;
        let is_wanted = |code: &str| !is_all || waiting.iter().any(|place| wants(place, code));
        let seats: Vec<SeatIndex> = kept
            .seats
            .iter()
            .filter(|(seat, since_ms)| {
                let is_old = now_ms.saturating_sub(*since_ms) >= keep_ms;
                is_old || facts.seat_tier(*seat).is_none_or(|(_, tier)| !is_wanted(&tier.code))
            })
            .map(|(seat, _)| *seat)
            .collect();
        let mut areas = Vec::new();
        {
            let mut left_over = self.0.left_over.lock();
            for (area, &left) in (0..).map(AreaIndex).zip(&kept.places) {
                let name = (facts.id, area.0);
                if left == 0 {
                    left_over.remove(&name);
                    continue;
                }
                let (seen, since) = *left_over.entry(name).or_insert((left, Instant::now()));
                if seen != left {
                    left_over.insert(name, (left, Instant::now()));
                }
                let is_old = seen == left && since.elapsed() >= self.0.config.keep_longest;
                if is_old || facts.area_tier(area).is_none_or(|(_, tier)| !is_wanted(&tier.code)) {
                    areas.push(area);
                    left_over.remove(&name);
                }
            }
        }
        Ok(self.0.inventory.give_up_kept(facts, &seats, &areas).await?)
    }
}

/// One round of offers.
struct Round<'a> {
    facts: &'a Arc<EventFacts>,
    shape: &'a SeatShape,
    epoch: Option<u32>,
    now_ms: u64,
    /// What is still kept.
    kept: Kept,
    offered: Vec<HoldRecord>,
}

impl Round<'_> {
    /// Whether there is nothing more to offer now.
    fn is_done(&self) -> bool {
        let is_nothing_kept = self.kept.seats.is_empty() && self.kept.places.iter().all(|left| *left == 0);
        self.offered.len() >= MAX_OFFERS || is_nothing_kept
    }

    fn take(&mut self, offer: &NewOffer) {
        self.kept.seats.retain(|(seat, _)| !offer.seats.contains(seat));
        for (area, quantity) in &offer.areas {
            self.kept.places[area.position()] -= quantity;
        }
    }
}

/// Takes the seats for wheelchair users and their companions out of what is kept. Nobody on the list has asked for one, as
/// a `hold_best` does by `accessible`; a companion seat alone would be refused to whoever picks it.
fn take_special(kept: &mut Kept, shape: &SeatShape) -> Vec<SeatIndex> {
    let is_special = |(seat, _): &(SeatIndex, u64)| shape.special.contains(seat.0);
    let (special, ordinary): (Vec<_>, Vec<_>) = kept.seats.iter().copied().partition(is_special);
    kept.seats = ordinary;
    special.into_iter().map(|(seat, _)| seat).collect()
}

fn wants(wish: &Wish, code: &str) -> bool {
    wish.price_tiers.is_empty() || wish.price_tiers.iter().any(|wanted| wanted == code)
}

/// How much of each tier is kept.
fn by_tier(facts: &EventFacts, kept: &Kept) -> Vec<KeptOfTier> {
    let mut tiers: Vec<KeptOfTier> = Vec::new();
    let mut add = |code: &str, seats_n: u32, places_n: u32| {
        if let Some(tier) = tiers.iter_mut().find(|tier| tier.code == code) {
            tier.seats_n += seats_n;
            tier.places_n = tier.places_n.max(places_n);
        } else {
            tiers.push(KeptOfTier { code: code.into(), seats_n, places_n });
        }
    };
    for (seat, _) in &kept.seats {
        facts.seat_tier(*seat).into_iter().for_each(|(_, tier)| add(&tier.code, 1, 0));
    }
    for (area, &left) in (0..).map(AreaIndex).zip(&kept.places) {
        facts.area_tier(area).into_iter().for_each(|(_, tier)| add(&tier.code, 0, left));
    }
    tiers
}

/// What of the kept seats and places this one could have: neighbours of one row where there are, else the longest kept seats, else
/// places of one area; `None` when there is too little.
fn fitting(facts: &EventFacts, shape: &SeatShape, kept: &Kept, wish: &Wish) -> Option<NewOffer> {
    let quantity = wish.quantity as usize;
    let fits = |seat: SeatIndex| facts.seat_tier(seat).is_some_and(|(_, tier)| wants(wish, &tier.code));
    let seats: Vec<SeatIndex> = kept.seats.iter().map(|(seat, _)| *seat).filter(|seat| fits(*seat)).collect();
    if seats.len() >= quantity {
        let sorted: Vec<SeatIndex> = seats.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let together = sorted.windows(quantity).find(|run| {
            let (first, last) = (run[0], run[quantity - 1]);
            (last.0 - first.0) as usize == quantity - 1 && shape.run_of(first) == shape.run_of(last)
        });
        let seats = together.map_or_else(|| seats[..quantity].to_vec(), <[SeatIndex]>::to_vec);
        return Some(NewOffer { seats, ..NewOffer::default() });
    }
    let area = (0..).map(AreaIndex).zip(&kept.places).find(|(area, left)| {
        **left >= wish.quantity && facts.area_tier(*area).is_some_and(|(_, tier)| wants(wish, &tier.code))
    });
    area.map(|(area, _)| NewOffer { areas: vec![(area, wish.quantity)], ..NewOffer::default() })
}
