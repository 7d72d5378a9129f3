//! `cancel`: gives an order up before it is paid.

use super::{Answered, Asked, settled};
use crate::app::App;
use seatwire_proto::client::Cancel;
use seatwire_proto::server::ErrorObject;

pub(super) async fn run(app: &App, asked: &Asked, body: &Cancel) -> Result<Answered, ErrorObject> {
    let request = asked.order_request(body.order)?;
    settled(app, request.identity, app.checkout.cancel(request).await)
}
