//! `checkout`: turns a hold into an order and pays it.

use super::{Answered, Asked, check_bounds, settled};
use crate::app::App;
use crate::checkout::CheckoutRequest;
use crate::error;
use seatwire_proto::client::{Checkout, Command};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Checkout) -> Result<Answered, ErrorObject> {
    check_bounds(command)?;
    let request = CheckoutRequest {
        identity: asked.identity()?,
        key: asked.key.clone().ok_or_else(|| error::refuse(ErrorCode::BadField))?,
        fingerprint: asked.fingerprint,
        hold: body.hold,
        buyer: body.buyer.clone(),
        method: body.payment.method.clone(),
        expect_total_minor: body.expect_total_minor,
    };
    settled(app.checkout.checkout(request).await)
}
