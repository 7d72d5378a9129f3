//! `waitlist_join`: a place in the list of a sold-out event, or another wish for the one that is there.

use super::{Answered, Asked, check_bounds, find_event};
use crate::app::App;
use crate::error;
use crate::waitlist::{WaitlistAnswer, WaitlistError, WaitlistRequest};
use seatwire_proto::client::{Command, FieldError, Waitlist};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Waitlist) -> Result<Answered, ErrorObject> {
    let request = request(app, asked, command, body).await?;
    if body.price_tiers.as_ref().is_some_and(Vec::is_empty) {
        return Err(error::bad_field(&FieldError::new("/price_tiers", "expected at least one, or none at all")));
    }
    let price_tiers = body.price_tiers.clone().unwrap_or_default();
    answered(app.waitlist.join(request, body.quantity, price_tiers).await)
}

pub(super) async fn request(
    app: &App,
    asked: &Asked,
    command: &Command,
    body: &Waitlist,
) -> Result<WaitlistRequest, ErrorObject> {
    let event = find_event(app, body.event).await?;
    check_bounds(command)?;
    let key = asked.key.clone().ok_or_else(|| error::refuse(ErrorCode::BadField))?;
    Ok(WaitlistRequest { event, identity: asked.identity()?, key, fingerprint: asked.fingerprint })
}

pub(super) fn answered(answer: Result<WaitlistAnswer, WaitlistError>) -> Result<Answered, ErrorObject> {
    let answer = answer.map_err(|error| error::waitlist(&error))?;
    let mut answered = match answer.outcome {
        Ok(reply) => Answered::ok(&reply),
        Err(refusal) => Answered::from(error::waitlist_refusal(&refusal)),
    };
    answered.is_replayed = answer.is_replayed;
    Ok(answered)
}
