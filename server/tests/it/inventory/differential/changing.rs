//! Random things that happen to a hold: given back, made longer, locked, unlocked, sold, freed.

use super::super::model::{AreaPlaces, KEEP_MS, Model};
use super::{Order, Remembered, Run};
use rand::RngExt;
use seatwire::inventory::{Answer, ChangeOutcome, LockOutcome, Place, Refusal, ReleaseWhat};
use seatwire_proto::client::AreaQuantity;
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::SeatIndex;

impl Run {
    pub(super) async fn release(&mut self, identity: IdentityId) {
        let hold = self.some_hold(identity);
        let mut parts: Option<(Vec<SeatIndex>, AreaPlaces)> = None;
        if self.random.random_bool(0.7) {
            let places = self.model.places(identity);
            let (mut seats, mut areas) = (Vec::new(), Vec::new());
            for (place, quantity) in places {
                match place {
                    Place::Seat(seat) if self.random.random_bool(0.4) => seats.push(seat),
                    Place::Area(area) if self.random.random_bool(0.4) => {
                        areas.push((area, self.random.random_range(1..=quantity + u32::from(quantity > 2))));
                    }
                    _ => {}
                }
            }
            if self.random.random_bool(0.05) {
                let seat = self.seat();
                if !seats.contains(&seat) {
                    seats.push(seat);
                }
            }
            if !(seats.is_empty() && areas.is_empty()) {
                parts = Some((seats, areas));
            }
        }
        let what = match &parts {
            None => ReleaseWhat::All,
            Some((seats, areas)) => ReleaseWhat::Parts {
                seats: seats.clone(),
                areas: areas.iter().map(|&(area, quantity)| AreaQuantity { area, quantity }).collect(),
            },
        };
        let body = format!("release {hold} {what:?}");
        let (caller, key) = self.caller(identity, &body);
        let answer = self.shelf.inventory.release(caller, hold, what).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body}"));
        self.judge_change(identity, key, body, answer, |model, now_ms| {
            let parts = parts.as_ref().map(|(seats, areas)| (&seats[..], &areas[..]));
            model.release(identity, hold, parts, now_ms)
        });
    }

    pub(super) async fn extend(&mut self, identity: IdentityId) {
        let hold = self.some_hold(identity);
        let body = format!("extend {hold}");
        let (caller, key) = self.caller(identity, &body);
        let answer = self.shelf.inventory.extend(caller, hold).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body}"));
        self.judge_change(identity, key, body, answer, |model, now_ms| model.extend(identity, hold, now_ms));
    }

    fn judge_change(
        &mut self,
        identity: IdentityId,
        key: Option<String>,
        body: String,
        answer: Answer<ChangeOutcome>,
        ask: impl FnOnce(&mut Model, u64) -> ChangeOutcome,
    ) {
        let now_ms = answer.server_ms;
        let named = key.map(|key| (identity, key));
        let reused = ChangeOutcome::Refused(Refusal::KeyReused);
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_changes.get(named)) {
            if known.body != body && (answer.outcome == reused || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("another body", &answer.outcome, &reused);
            }
            if known.body == body && (answer.is_replayed || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("a replay", &answer, &Answer { is_replayed: true, ..known.answer.clone() });
            }
        }
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_holds.get(named))
            && (now_ms < known.at_ms + KEEP_MS || answer.outcome == reused)
        {
            return self.agree("another verb", &answer.outcome, &reused);
        }
        let expected = ask(&mut self.model, now_ms);
        self.agree("a change", &answer.outcome, &expected);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
        let is_remembered = !matches!(answer.outcome, ChangeOutcome::Refused(Refusal::NotInHold { .. }));
        if let Some(named) = named
            && is_remembered
        {
            self.remembered_holds.remove(&named);
            self.remembered_changes.insert(named, Remembered { body, answer, at_ms: now_ms });
        }
    }

    pub(super) async fn lock(&mut self, identity: IdentityId) {
        let hold = self.some_hold(identity);
        // An order is of one hold as it was.
        let places = self.model.places(identity);
        let is_same = |order: &&Order| order.hold == hold && order.places == places;
        let of_hold = self.orders.iter().rev().find(is_same).map(|order| order.id);
        let again = of_hold.filter(|_| self.random.random_bool(0.5));
        let order = again.unwrap_or_else(OrderId::generate);
        let until_ms = self.shelf.now_ms() + self.random.random_range(0..200_000);
        let answer = self.shelf.inventory.lock(&self.shelf.event, identity, hold, order, until_ms).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} lock {hold} {order}"));
        let expected = self.model.lock(identity, hold, order, until_ms, answer.server_ms);
        self.agree("a lock", &answer.outcome, &expected);
        if matches!(expected, LockOutcome::Locked(_)) && again.is_none() {
            let places = self.model.places(identity);
            self.orders.push(Order { id: order, identity, hold, places });
            if self.orders.len() > 12 {
                self.orders.remove(0);
            }
        }
    }

    fn some_order(&mut self) -> Option<Order> {
        (!self.orders.is_empty()).then(|| self.orders[self.random.random_range(0..self.orders.len())].clone())
    }

    pub(super) async fn unlock(&mut self, identity: IdentityId) {
        let Some(Order { id: order, identity: owner, .. }) = self.some_order() else { return };
        let identity = if self.random.random_bool(0.9) { owner } else { identity };
        let hold = self.some_hold(identity);
        let answer = self.shelf.inventory.unlock(&self.shelf.event, identity, hold, order).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} unlock {hold} {order}"));
        let expected = self.model.unlock(identity, hold, order, answer.server_ms);
        self.agree("an unlock", &answer.outcome, &expected);
    }

    /// Sales of orders whose hold is locked, and now and then a late success.
    pub(super) async fn sell(&mut self) {
        let Some(Order { id: order, identity, places, .. }) = self.some_order() else { return };
        let answer = self.shelf.inventory.sell(&self.shelf.event, order, identity, &places).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} sell {order} {places:?}"));
        self.model.sell(order, identity, &places);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
    }

    pub(super) async fn free(&mut self) {
        let Some(Order { id: order, identity, mut places, .. }) = self.some_order() else { return };
        if self.random.random_bool(0.3) {
            places.truncate(1);
        }
        let answer = self.shelf.inventory.free(&self.shelf.event, order, identity, &places).await;
        let answer = answer.expect("Redis answers");
        self.note(format!("{identity} free {order} {places:?}"));
        self.model.free(order, identity, &places);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
    }
}
