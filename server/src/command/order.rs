//! `order`: reads an order of the identity.

use super::{Answered, Asked};
use crate::app::App;
use crate::error;
use seatwire_proto::client::OrderRead;
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::{ErrorObject, OrderReply};

pub(super) async fn run(app: &App, asked: &Asked, body: &OrderRead) -> Result<Answered, ErrorObject> {
    let identity = asked.identity()?;
    let found = app.checkout.order(identity, body.order).await.map_err(|error| error::checkout(&error))?;
    let order = found.ok_or_else(|| error::refuse(ErrorCode::OrderNotFound))?;
    app.sender.shows_order(identity, &order);
    Ok(Answered::ok(&OrderReply { order }))
}
