//! `pay`: pays an order again after a decline.

use super::{Answered, Asked, check_bounds, settled};
use crate::app::App;
use seatwire_proto::client::{Command, Pay};
use seatwire_proto::server::ErrorObject;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Pay) -> Result<Answered, ErrorObject> {
    check_bounds(command)?;
    let request = asked.order_request(body.order)?;
    settled(app, request.identity, app.checkout.pay(request, body.payment.method.clone()).await)
}
