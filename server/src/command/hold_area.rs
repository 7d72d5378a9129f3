//! `hold_area`: places in a general-admission area, all or none.

use super::{Answered, Asked, check_bounds, find_event, hold};
use crate::app::App;
use crate::error;
use seatwire_proto::client::{Command, HoldArea};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;
use std::sync::Arc;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &HoldArea) -> Result<Answered, ErrorObject> {
    let event = find_event(app, body.event).await?;
    check_bounds(command)?;
    if body.area.0 >= event.area_count() {
        return Err(error::refuse(ErrorCode::SeatUnknown));
    }
    let caller = asked.caller(Arc::clone(&event))?;
    let answer = app.inventory.hold_area(caller, body.area, body.quantity).await;
    let answer = answer.map_err(|error| error::inventory(&error))?;
    Ok(hold::answered(app, &event, &answer, &[]).await)
}
