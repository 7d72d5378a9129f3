//! `extend`: 120 s more for a hold, once.

use super::{Answered, Asked, find_event_of_hold};
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
    Ok(answered(&event, body.hold, &answer))
}

/// The reply to `extend` and `release`.
pub(super) fn answered(event: &EventFacts, id: HoldId, answer: &Answer<ChangeOutcome>) -> Answered {
    match &answer.outcome {
        ChangeOutcome::Done(hold) => Answered::of_hold(answer, event, id, hold.as_ref()),
        ChangeOutcome::Refused(refusal) => {
            Answered::of(answer, Err::<HoldReply, _>(error::refusal(refusal, event, Vec::new())))
        }
    }
}
