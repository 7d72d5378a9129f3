//! `hold_best`: N good seats. Blocks are chosen from the map in memory and tried in one call; when none of them is free any
//! more, the look is repeated with a newer map, and at last the script itself looks through the sections. "Nothing left" is
//! only said after a look at the map as it is, with nothing skipped.

use super::{Answered, Asked, check_bounds, find_event};
use crate::app::App;
use crate::catalogue::{EventFacts, SeatShape};
use crate::error;
use crate::inventory::{Answer, BestTry, Caller, HoldOutcome, InventoryError, Looked, Stretches};
use crate::seatmap::{Choice, LiveEvent, Picked, Wish};
use roaring::RoaringBitmap;
use seatwire_proto::client::{Command, HoldBest, Together};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::{ErrorObject, HoldBestReply, OrphanRule};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Calls with blocks before the script looks for itself: collisions of several nodes are over after one or two.
const MAX_TRIES: usize = 4;
/// The same where the script cannot look for itself.
const MAX_TRIES_BY_MAP: usize = 16;
/// Looks through all sections before the last word; another round is due to holds that end meanwhile.
const MAX_SCANS: usize = 3;
/// Longest wait for seats that are about to go to others, somewhat above the life of a mark.
const MAX_WAIT: Duration = Duration::from_millis(300);
/// A whole command, from its first search to the last turn with newer facts: behind it the buyer is told to ask again.
const MAX_SEARCH: Duration = Duration::from_secs(10);
/// Between two looks at the map while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Longest wait for the map in memory to reach what a call has seen.
const MAX_LAG: Duration = Duration::from_millis(100);
/// Between two scans: a sweep ends what the caller's own old hold keeps.
const SCAN_AGAIN: Duration = Duration::from_millis(250);

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &HoldBest) -> Result<Answered, ErrorObject> {
    let event = find_event(app, body.event).await?;
    check_bounds(command)?;
    let wish = wish(&event, body)?;
    let caller = asked.caller(Arc::clone(&event))?;
    let answer = try_all(app, &caller, wish, (asked.began + MAX_SEARCH).into()).await?;
    Ok(match &answer.outcome {
        HoldOutcome::Held { hold, added, is_together } => {
            let wire = hold.to_wire(&event, answer.server_ms);
            let json = serde_json::to_string(&wire).map_err(|failure| error::internal(&failure))?;
            let reply = HoldBestReply { hold: wire, added: added.clone(), together: *is_together };
            Answered::of(&answer, Ok(reply)).telling(hold.id, Some(&json))
        }
        HoldOutcome::Refused(refusal) => {
            Answered::of(&answer, Err::<HoldBestReply, _>(error::refusal(refusal, &event, Vec::new())))
        }
    })
}

/// What will do for the buyer, by numbers.
fn wish(event: &EventFacts, body: &HoldBest) -> Result<Wish, ErrorObject> {
    let is_wished = |code: &String| body.price_tiers.as_ref().is_none_or(|wished| wished.contains(code));
    if let Some(wished) = &body.price_tiers
        && let Some(position) = wished.iter().position(|code| event.price_tiers.iter().all(|tier| tier.code != *code))
    {
        let field = seatwire_proto::client::FieldError::new(format!("/price_tiers/{position}"), "no such price tier");
        return Err(error::bad_field(&field));
    }
    if let Some(wished) = &body.price_tiers
        && let Some(position) = (1..wished.len()).find(|&position| wished[..position].contains(&wished[position]))
    {
        let field = seatwire_proto::client::FieldError::new(format!("/price_tiers/{position}"), "named twice");
        return Err(error::bad_field(&field));
    }
    let tiers = event.price_tiers.iter().map(|tier| {
        let within = |most: i64| tier.price_minor.saturating_add(tier.fee_minor) <= most;
        is_wished(&tier.code) && body.max_price_minor.is_none_or(within)
    });
    let sections = body.sections.as_ref().map(|wished| {
        let mut ranges = Vec::with_capacity(wished.len());
        for index in wished {
            let section = event.sections.get(index.0 as usize).ok_or_else(|| error::refuse(ErrorCode::SeatUnknown))?;
            ranges.push(section.first.0..section.end.0);
        }
        ranges.sort_by_key(|range: &Range<u32>| range.start);
        ranges.retain(|range| !range.is_empty());
        Ok::<_, ErrorObject>(ranges)
    });
    Ok(Wish {
        quantity: body.quantity,
        together: body.together,
        tiers: tiers.collect(),
        sections: sections.transpose()?,
        accessible: body.accessible.unwrap_or(0),
        unlocked: RoaringBitmap::new(),
    })
}

/// One buyer's way to seats.
struct Search<'a> {
    app: &'a App,
    caller: &'a Caller,
    live: Arc<LiveEvent>,
    shape: &'a SeatShape,
    wish: Wish,
    /// Allocations taken into account.
    opened: u32,
    /// Where this buyer begins among equally good blocks.
    requester: u64,
    /// Nothing new is begun behind it.
    until: Instant,
}

async fn try_all(app: &App, caller: &Caller, wish: Wish, until: Instant) -> Result<Answer<HoldOutcome>, ErrorObject> {
    let event = &caller.event;
    let live = app.seatmap.live(event).await.map_err(|error| error::inventory(&error))?;
    let layout = app.catalogue.layout(&event.layout).await.map_err(|error| error::store(&error))?;
    let layout = layout.ok_or_else(|| error::internal(&"an event without its layout"))?;
    let requester = caller.identity.uuid().as_u128() as u64;
    let mut search = Search { app, caller, live, shape: &layout.shape, wish, opened: 0, requester, until };
    search.run().await.map_err(|error| error::inventory(&error))
}

impl Search<'_> {
    async fn run(&mut self) -> Result<Answer<HoldOutcome>, InventoryError> {
        let live = Arc::clone(&self.live);
        for tries in 0..MAX_TRIES_BY_MAP {
            if tries >= MAX_TRIES && !self.is_by_map() {
                break;
            }
            // Never closed: the event outlives whoever looks at it.
            let _turn = self.in_time(live.choosing.acquire()).await?.ok();
            let picked = self.pick().await?;
            let (blocks, nothing) = match picked.choice {
                Choice::Try(blocks) => (blocks, None),
                Choice::Nothing(nothing) => (Vec::new(), Some(nothing)),
                // Waited in vain: the script knows.
                Choice::Wait => break,
            };
            let looked = Looked { seq: picked.position.seq, opened: self.opened };
            let tried = self.app.inventory.hold_best(self.caller, &blocks, looked, nothing).await;
            let marked = blocks.first().map_or(&[][..], |block| &block.seats);
            match tried {
                Ok(BestTry::Answered(answer)) => return Ok(self.settle(answer, marked)),
                Ok(BestTry::Missed { seq, opened, .. }) => {
                    self.live.left(marked);
                    let is_known = blocks.is_empty() && seq == looked.seq && opened == self.opened;
                    if is_known && !self.is_by_map() {
                        // There was nothing in this very map, but holds in it are due: the script ends them and looks.
                        break;
                    }
                    self.open(opened);
                    self.catch_up(seq).await;
                }
                // Without an answer the seats may be gone: the mark stays for its time, but for an event that had changed.
                Err(error) => {
                    if matches!(error, InventoryError::Stale) {
                        self.live.left(marked);
                    }
                    return Err(error);
                }
            }
        }
        self.scan().await
    }

    /// Waits for a turn, but not without end.
    async fn in_time<T>(&self, turn: impl Future<Output = T>) -> Result<T, InventoryError> {
        let waited = tokio::time::timeout_at(self.until, turn).await;
        waited.map_err(|_| InventoryError::Overloaded("too many choose at once".into()))
    }

    /// A choice; while everything is about to go to others, one buyer looks again and the rest queue behind.
    async fn pick(&self) -> Result<Picked, InventoryError> {
        let look = |looks_at_marked| self.live.pick(self.shape, &self.wish, self.requester, looks_at_marked);
        let picked = look(false);
        if picked.choice != Choice::Wait {
            return Ok(picked);
        }
        let _turn = self.in_time(self.live.waiting.lock()).await?;
        let until = Instant::now() + MAX_WAIT;
        loop {
            let picked = look(false);
            if picked.choice != Choice::Wait {
                return Ok(picked);
            }
            if Instant::now() >= until {
                return Ok(look(true));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Tells the marks what became of the block they stood for.
    fn settle(&self, answer: Answer<HoldOutcome>, marked: &[SeatIndex]) -> Answer<HoldOutcome> {
        match &answer.outcome {
            HoldOutcome::Held { added, .. } if !answer.is_replayed => {
                if added != marked {
                    self.live.left(marked);
                }
                self.live.taken(added, answer.position);
            }
            _ => self.live.left(marked),
        }
        answer
    }

    /// Takes allocations into account that the caller has unlocked.
    fn open(&mut self, opened: u32) {
        if opened != self.opened {
            self.opened = opened;
            let allocations = &self.caller.event.allocations;
            let open = allocations.iter().filter(|allocation| opened >> allocation.slot & 1 == 1);
            self.wish.unlocked = open.fold(RoaringBitmap::new(), |all, allocation| all | &allocation.seats);
        }
    }

    /// Waits for the map in memory to know what the call has seen.
    async fn catch_up(&self, seq: u64) {
        let until = Instant::now() + MAX_LAG;
        while self.live.position().seq < seq && Instant::now() < until {
            sleep(LOOK_EVERY).await;
        }
    }

    /// The last looks for a wish of which the script does not know what will do (which seats are for wheelchair users, which
    /// are unlocked, which may stay behind): it ends what is due, and then decides on a choice from exactly the map that
    /// there is.
    async fn scan_by_map(&mut self) -> Result<Answer<HoldOutcome>, InventoryError> {
        let wanted = self.wish.quantity as u16;
        for round in 0..MAX_SCANS {
            if round > 0 {
                sleep(SCAN_AGAIN).await;
            }
            let swept =
                self.app.inventory.hold_scanned(self.caller, wanted, false, &Stretches::default(), None).await?;
            match swept {
                BestTry::Answered(answer) => return Ok(self.settle(answer, &[])),
                BestTry::Missed { seq, opened, .. } => {
                    self.open(opened);
                    self.catch_up(seq).await;
                }
            }
            let picked = self.live.pick(self.shape, &self.wish, self.requester, true);
            let looked = Looked { seq: picked.position.seq, opened: self.opened };
            let (blocks, nothing) = match picked.choice {
                Choice::Try(blocks) => (blocks, None),
                Choice::Nothing(nothing) => (Vec::new(), Some(nothing)),
                Choice::Wait => continue,
            };
            let marked = blocks.first().map_or(&[][..], |block| &block.seats);
            match self.app.inventory.hold_best(self.caller, &blocks, looked, nothing).await {
                Ok(BestTry::Answered(answer)) => return Ok(self.settle(answer, marked)),
                Ok(BestTry::Missed { .. }) => self.live.left(marked),
                Err(error) => {
                    if matches!(error, InventoryError::Stale) {
                        self.live.left(marked);
                    }
                    return Err(error);
                }
            }
        }
        Err(InventoryError::Overloaded("the seats change faster than they can be looked at".into()))
    }

    /// The script looks for itself, section by section.
    async fn scan(&mut self) -> Result<Answer<HoldOutcome>, InventoryError> {
        if self.is_by_map() {
            return self.scan_by_map().await;
        }
        let wanted = self.wish.quantity as u16;
        let passes = if self.wish.together == Together::Required { &[false][..] } else { &[false, true] };
        for round in 0..MAX_SCANS {
            if round > 0 {
                sleep(SCAN_AGAIN).await;
            }
            let mut parts = self.live.stretches(self.shape, &self.wish);
            if parts.is_empty() {
                parts = vec![Stretches::default()];
            }
            let looks: Vec<_> = passes.iter().flat_map(|&any| parts.iter().map(move |part| (any, part))).collect();
            let mut longest = 0;
            for (at, &(any, part)) in looks.iter().enumerate() {
                let most_before = (at + 1 == looks.len()).then_some(longest);
                match self.app.inventory.hold_scanned(self.caller, wanted, any, part, most_before).await? {
                    BestTry::Answered(answer) => return Ok(self.settle(answer, &[])),
                    BestTry::Missed { most_together, .. } => longest = longest.max(most_together),
                }
            }
        }
        Err(InventoryError::Overloaded("the seats change faster than they can be looked at".into()))
    }

    /// Whether only the map in memory tells what will do: for split seats under an orphan rule no stretch decides alone.
    fn is_by_map(&self) -> bool {
        let is_ruled_split =
            self.wish.together != Together::Required && self.caller.event.rules.orphans != OrphanRule::Off;
        self.wish.accessible > 0 || self.opened != 0 || is_ruled_split
    }
}
