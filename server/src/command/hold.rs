//! `hold`: these seats, all or none. Checks what needs no I/O in the stated order, then asks the shelf.

use super::{Answered, Asked, check_bounds, find_event};
use crate::app::App;
use crate::catalogue::EventFacts;
use crate::error;
use crate::inventory::{Answer, HoldOutcome, Refusal, SeatRules};
use crate::seatmap;
use seatwire_proto::client::{Command, HoldSeats};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::{ErrorObject, HoldReply};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of a refusal for a map that nobody looks at: it says what else could be had, and is known already.
const MAP_WITHIN: Duration = Duration::from_millis(200);

pub(super) async fn run(
    app: &App,
    asked: &Asked,
    command: &Command,
    body: &HoldSeats,
) -> Result<Answered, ErrorObject> {
    let event = find_event(app, body.event).await?;
    check_bounds(command)?;
    if body.seats.iter().any(|seat| seat.0 >= event.seat_count()) {
        return Err(error::refuse(ErrorCode::SeatUnknown));
    }
    let caller = asked.caller(Arc::clone(&event))?;
    let layout = app.catalogue.layout(&event.layout).await.map_err(|error| error::store(&error))?;
    let rules = layout.map(|layout| SeatRules::of(&event, &layout.shape, &body.seats)).unwrap_or_default();
    let answer = app.inventory.hold_by_rules(caller, &body.seats, &rules).await;
    let answer = answer.map_err(|error| error::inventory(&error))?;
    Ok(answered(app, &event, &answer, &body.seats).await)
}

/// The reply to `hold` and `hold_area`; `wanted` are the seats asked for, near which alternatives are looked for.
pub(super) async fn answered(
    app: &App,
    event: &Arc<EventFacts>,
    answer: &Answer<HoldOutcome>,
    wanted: &[SeatIndex],
) -> Answered {
    match &answer.outcome {
        HoldOutcome::Held { hold, .. } => Answered::of_hold(answer, event, hold.id, Some(hold)),
        HoldOutcome::Refused(refusal) => {
            let alternatives = match refusal {
                // More than the identity may have would be refused again.
                Refusal::SeatTaken(taken) if wanted.len() <= event.rules.seats_per_identity as usize => {
                    alternatives(app, event, wanted, taken).await
                }
                _ => Vec::new(),
            };
            Answered::of(answer, Err::<HoldReply, _>(error::refusal(refusal, event, alternatives)))
        }
    }
}

/// Free blocks near the seats that were wanted, also where nobody looks at the map on this node yet; none rather than an error
/// when something is not at hand, and none rather than a refusal that comes late.
async fn alternatives(app: &App, event: &Arc<EventFacts>, wanted: &[SeatIndex], taken: &[SeatIndex]) -> Vec<Vec<u32>> {
    let live = match app.seatmap.live_now(event.id) {
        Some(live) => live,
        None => {
            let (seatmap, event) = (app.seatmap.clone(), Arc::clone(event));
            // By itself: a map that has begun to be followed is followed, also when nobody waits any more.
            let beginning = tokio::spawn(async move { seatmap.live(&event).await });
            let Ok(Ok(Ok(live))) = tokio::time::timeout(MAP_WITHIN, beginning).await else { return Vec::new() };
            live
        }
    };
    let Ok(Some(layout)) = app.catalogue.layout(&event.layout).await else { return Vec::new() };
    live.with_states(|states| seatmap::alternatives(event, &layout.shape, states, wanted, taken))
}
