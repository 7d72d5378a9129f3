//! Random ways to take: seats, blocks, scans, places; and what the scripts may say to each.

use super::super::model::{KEEP_MS, Model};
use super::{DOUBT_MS, Remembered, Run, SEATS};
use rand::RngExt;
use seatwire::inventory::{
    Answer, BestTry, Block, Caller, HoldLine, HoldOutcome, Looked, Nothing, Place, Refusal, SeatRules, Stretches,
};
use seatwire_proto::id::{HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::OrphanRule;

impl Run {
    pub(super) async fn hold(&mut self, identity: IdentityId) {
        let mut seats: Vec<SeatIndex> = Vec::new();
        // Neighbours most of the time, as people choose.
        let first = self.seat();
        for n in 0..self.random.random_range(1..=3) {
            let seat = if self.random.random_bool(0.7) { SeatIndex((first.0 + n) % SEATS) } else { self.seat() };
            if !seats.contains(&seat) {
                seats.push(seat);
            }
        }
        let body = format!("hold {seats:?}");
        let (mut caller, key) = self.caller(identity, &body);
        let rule = self.rule(&mut caller);
        let rules = SeatRules::of(&caller.event, &self.shape, &seats);
        let answer = self.shelf.inventory.hold_by_rules(caller, &seats, &rules).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body} {rule:?}"));
        let lines: Vec<HoldLine> = seats.iter().map(|&seat| self.line(Place::Seat(seat), 1)).collect();
        self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
            model.hold(identity, &lines, rule, new_id, now_ms)
        });
    }

    /// The event with an orphan rule, which one is up to chance.
    fn rule(&mut self, caller: &mut Caller) -> OrphanRule {
        let rule =
            [OrphanRule::Off, OrphanRule::Off, OrphanRule::Lenient, OrphanRule::Strict][self.random.random_range(0..4)];
        if rule != OrphanRule::Off {
            std::sync::Arc::make_mut(&mut caller.event).rules.orphans = rule;
        }
        rule
    }

    pub(super) async fn hold_best(&mut self, identity: IdentityId) {
        let (size, is_together) = (self.random.random_range(1..=3), self.random.random_bool(0.5));
        let blocks_n = self.random.random_range(1..=6);
        let firsts: Vec<u32> = (0..blocks_n).map(|_| self.random.random_range(0..=SEATS - size)).collect();
        let body = format!("best {size} {is_together} {firsts:?}");
        let (mut caller, key) = self.caller(identity, &body);
        let rule = self.rule(&mut caller);
        let blocks: Vec<Block> = firsts
            .iter()
            .map(|&first| {
                let seats: Vec<SeatIndex> = (first..first + size).map(SeatIndex).collect();
                let orphans = SeatRules::of(&caller.event, &self.shape, &seats).orphans;
                Block { seats, is_together, orphans }
            })
            .collect();
        let looked = Looked { seq: self.model.seq, opened: 0 };
        let tried = self.shelf.inventory.hold_best(&caller, &blocks, looked, None).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body} {rule:?}"));
        let lines: Vec<Vec<HoldLine>> = blocks
            .iter()
            .map(|block| block.seats.iter().map(|&seat| self.line(Place::Seat(seat), 1)).collect())
            .collect();
        match tried {
            BestTry::Answered(answer) => self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
                let expected = model.hold_best(identity, &lines, is_together, rule, new_id, now_ms);
                expected.unwrap_or(HoldOutcome::Refused(Refusal::SoldOut))
            }),
            BestTry::Missed { seq, .. } => {
                self.agree("the seq of a miss", &seq, &self.model.seq);
                let now_ms = self.shelf.now_ms();
                let expected = self.model.hold_best(identity, &lines, is_together, rule, HoldId::generate(), now_ms);
                self.agree("a miss", &None, &expected);
            }
        }
    }

    pub(super) async fn hold_scanned(&mut self, identity: IdentityId) {
        self.sweep().await;
        let (wanted, takes_any) = (self.random.random_range(1..=4), self.random.random_bool(0.4));
        let first = self.random.random_range(0..SEATS - 1);
        let end = self.random.random_range(first + 1..=SEATS);
        let mut stretches: Vec<(u32, u16)> = Vec::new();
        let mut at = first;
        while at < end {
            let len = self.random.random_range(1..=end - at);
            stretches.push((at, len as u16));
            at += len + self.random.random_range(0..2);
        }
        let body = format!("scan {wanted} {takes_any} {stretches:?}");
        let (caller, key) = self.caller(identity, &body);
        let part = Stretches { stretches: stretches.clone(), ..Stretches::default() };
        let most_before = self.random.random_range(0..3);
        let tried = self.shelf.inventory.hold_scanned(&caller, wanted, takes_any, &part, Some(most_before)).await;
        self.note(format!("{identity} {key:?} {body}"));
        let wanted = usize::from(wanted);
        let BestTry::Answered(answer) = tried.expect("Redis answers") else {
            // The caller's own old hold is due: no last word before it is ended.
            let now_ms = self.shelf.now_ms();
            let is_over = self.model.people.get(&identity).is_some_and(|person| person.is_over(now_ms));
            self.model.expire_due(identity, now_ms);
            self.model.seq = self.shelf.position().await.1;
            let found = self.model.find(&stretches, wanted, takes_any);
            return self.agree("a miss of a scan", &(found, is_over), &(None, true));
        };
        let lines: Vec<HoldLine> = (0..SEATS).map(|seat| self.line(Place::Seat(SeatIndex(seat)), 1)).collect();
        let is_together = !takes_any || wanted == 1;
        self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
            let before = model.seq;
            // Whoever may not add anything ends nothing either.
            let changes = model.may_add(identity, now_ms).is_ok() && model.expire_due(identity, now_ms);
            let found = model.find(&stretches, wanted, takes_any);
            let block: Option<Vec<HoldLine>> =
                found.map(|seats| seats.iter().map(|seat| lines[seat.position()]).collect());
            let expected = model.hold_best(identity, block.as_slice(), is_together, OrphanRule::Off, new_id, now_ms);
            // All of it is one change of the map.
            model.seq = model.seq.max(before + u64::from(changes));
            let most_together = most_before.max(model.longest(&stretches));
            let told = if most_together == 0 { Refusal::SoldOut } else { Refusal::NotEnough { most_together } };
            expected.unwrap_or(HoldOutcome::Refused(told))
        });
    }

    /// Asks for the word that there is nothing, after a look at the map as it is or at an older one.
    pub(super) async fn nothing(&mut self, identity: IdentityId) {
        let behind = self.random.random_range(0..2).min(self.model.seq);
        let (caller, _) = self.caller(identity, "nothing");
        let caller = Caller { key: None, ..caller };
        // What the caller has unlocked, or what the node knew of it a moment ago.
        let unlocked = self.model.unlocked(identity);
        let opened = if self.random.random_bool(0.8) { unlocked } else { 0 };
        let looked = Looked { seq: self.model.seq - behind, opened };
        let tried = self.shelf.inventory.hold_best(&caller, &[], looked, Some(Nothing::SoldOut)).await;
        self.note(format!("{identity} nothing {behind}"));
        let now_ms = self.shelf.now_ms();
        match tried.expect("Redis answers") {
            BestTry::Answered(answer) if answer.outcome == HoldOutcome::Refused(Refusal::SoldOut) => {
                self.agree("the map that was looked at", &(behind, opened), &(0, unlocked));
                let due = self.model.people.values().filter(|person| person.must_have_ended(now_ms - DOUBT_MS));
                self.agree("what is due", &due.count(), &0);
            }
            BestTry::Answered(answer) => {
                let expected = self.model.hold_best(identity, &[], true, OrphanRule::Off, HoldId::generate(), now_ms);
                self.agree("a refusal", &Some(answer.outcome), &expected);
            }
            BestTry::Missed { seq, .. } => self.agree("the seq of a miss", &seq, &self.model.seq),
        }
    }

    pub(super) async fn hold_area(&mut self, identity: IdentityId) {
        let (area, quantity) = (AreaIndex(self.random.random_range(0..2)), self.random.random_range(1..=3));
        // Lazy expiry in the middle of it is a sweep of its own; the model sweeps first.
        self.sweep().await;
        let body = format!("area {area} {quantity}");
        let (caller, key) = self.caller(identity, &body);
        let answer = self.shelf.inventory.hold_area(caller, area, quantity).await.expect("Redis answers");
        self.note(format!("{identity} {key:?} {body}"));
        let line = self.line(Place::Area(area), quantity);
        self.judge_hold(identity, key, body, answer, |model, new_id, now_ms| {
            model.hold_area(identity, line, new_id, now_ms)
        });
    }

    fn judge_hold(
        &mut self,
        identity: IdentityId,
        key: Option<String>,
        body: String,
        answer: Answer<HoldOutcome>,
        ask: impl FnOnce(&mut Model, HoldId, u64) -> HoldOutcome,
    ) {
        let now_ms = answer.server_ms;
        let named = key.map(|key| (identity, key));
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_holds.get(named)) {
            // Kept for ten minutes at least; afterwards either is right.
            let is_reused = answer.outcome == HoldOutcome::Refused(Refusal::KeyReused);
            if known.body != body && (is_reused || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("another body", &answer.outcome, &HoldOutcome::Refused(Refusal::KeyReused));
            }
            if known.body == body && (answer.is_replayed || now_ms < known.at_ms + KEEP_MS) {
                return self.agree("a replay", &answer, &Answer { is_replayed: true, ..known.answer.clone() });
            }
        }
        // The same key was used by a verb of the other kind.
        if let Some(known) = named.as_ref().and_then(|named| self.remembered_changes.get(named))
            && (now_ms < known.at_ms + KEEP_MS || answer.outcome == HoldOutcome::Refused(Refusal::KeyReused))
        {
            return self.agree("another verb", &answer.outcome, &HoldOutcome::Refused(Refusal::KeyReused));
        }
        let new_id = match &answer.outcome {
            HoldOutcome::Held { hold, .. } => hold.id,
            HoldOutcome::Refused(_) => HoldId::generate(),
        };
        let expected = ask(&mut self.model, new_id, now_ms);
        self.agree("a hold", &answer.outcome, &expected);
        self.agree("the seq", &answer.position.seq, &self.model.seq);
        if let HoldOutcome::Held { hold, .. } = &answer.outcome
            && !self.holds.contains(&(identity, hold.id))
        {
            self.holds.push((identity, hold.id));
            if self.holds.len() > 20 {
                self.holds.remove(0);
            }
        }
        if let Some(named) = named {
            self.remembered_changes.remove(&named);
            self.remembered_holds.insert(named, Remembered { body, answer, at_ms: now_ms });
        }
    }
}
