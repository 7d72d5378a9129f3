//! `waitlist_leave`: gives the place up.

use super::waitlist_join::{answered, request};
use super::{Answered, Asked};
use crate::app::App;
use seatwire_proto::client::{Command, Waitlist};
use seatwire_proto::server::ErrorObject;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Waitlist) -> Result<Answered, ErrorObject> {
    answered(app.waitlist.leave(request(app, asked, command, body).await?).await)
}
