//! `extend`: 120 s more for a hold, once.

use super::{Answered, Asked, find_event_of_hold, push_hold};
use crate::app::App;
use crate::catalogue::EventFacts;
use crate::error;
use crate::inventory::{Answer, ChangeOutcome};
use seatwire_proto::client::Extend;
use seatwire_proto::id::HoldId;
use seatwire_proto::server::{ErrorObject, HoldReply};
use std::sync::Arc;

pub(super) async fn run(app: &App, asked: &Asked, body: &Extend) -> Result<Answered, ErrorObject> {
    asked.identity()?;
    let event = find_event_of_hold(app, body.hold).await?;
    let caller = asked.caller(Arc::clone(&event))?;
    let answer = app.inventory.extend(caller, body.hold).await.map_err(|error| error::inventory(&error))?;
    answered(app, asked, &event, body.hold, &answer)
}

/// The reply to `extend` and `release`.
pub(super) fn answered(
    app: &App,
    asked: &Asked,
    event: &EventFacts,
    id: HoldId,
    answer: &Answer<ChangeOutcome>,
) -> Result<Answered, ErrorObject> {
    let result = match &answer.outcome {
        ChangeOutcome::Done(hold) => {
            if !answer.is_replayed {
                push_hold(app, event, asked.identity()?, id, hold.as_ref(), answer.server_ms);
            }
            Ok(HoldReply { hold: hold.as_ref().map(|hold| hold.to_wire(event, answer.server_ms)) })
        }
        ChangeOutcome::Refused(refusal) => Err(error::refusal(refusal, event, Vec::new())),
    };
    Ok(Answered::of(answer, result))
}
