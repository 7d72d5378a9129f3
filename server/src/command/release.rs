//! `release`: gives seats or places back; with neither list, all of the hold.

use super::{Answered, Asked, check_bounds, extend, find_event_of_hold};
use crate::app::App;
use crate::error;
use crate::inventory::{ReleaseRules, ReleaseWhat};
use seatwire_proto::client::{Command, Release};
use seatwire_proto::server::ErrorObject;
use std::sync::Arc;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Release) -> Result<Answered, ErrorObject> {
    check_bounds(command)?;
    asked.identity()?;
    let event = find_event_of_hold(app, body.hold).await?;
    let what = match (&body.seats, &body.areas) {
        (None, None) => ReleaseWhat::All,
        (seats, areas) => {
            ReleaseWhat::Parts { seats: seats.clone().unwrap_or_default(), areas: areas.clone().unwrap_or_default() }
        }
    };
    let caller = asked.caller(Arc::clone(&event))?;
    // Giving back never waits for a plan that cannot be read: then the rules are left alone.
    let layout = match body.seats {
        Some(_) => app.catalogue.layout(&event.layout).await.unwrap_or_default(),
        None => None,
    };
    let leaving = body.seats.as_deref().unwrap_or_default();
    let rules = layout.map(|layout| ReleaseRules::of(&event, &layout.shape, leaving)).unwrap_or_default();
    let answer = app
        .inventory
        .release_by_rules(caller, body.hold, what, &rules)
        .await
        .map_err(|error| error::inventory(&error))?;
    Ok(extend::answered(&event, body.hold, &answer))
}
