//! `checkout`: turns a hold into an order and pays it.

use super::{Answered, Asked, check_bounds, settled};
use crate::app::App;
use crate::checkout::CheckoutRequest;
use crate::error;
use crate::notice::is_address;
use seatwire_proto::client::{Checkout, Command, FieldError};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::server::ErrorObject;

pub(super) async fn run(app: &App, asked: &Asked, command: &Command, body: &Checkout) -> Result<Answered, ErrorObject> {
    check_bounds(command)?;
    if !is_address(&body.buyer.email) {
        let (path, message) = ("/buyer/email".into(), "expected an e-mail address".into());
        return Err(error::bad_field(&FieldError { path, message }));
    }
    let identity = asked.identity()?;
    let request = CheckoutRequest {
        identity,
        key: asked.key.clone().ok_or_else(|| error::refuse(ErrorCode::BadField))?,
        fingerprint: asked.fingerprint,
        hold: body.hold,
        buyer: body.buyer.clone(),
        method: body.payment.method.clone(),
        expect_total_minor: body.expect_total_minor,
    };
    settled(app, identity, app.checkout.checkout(request).await)
}
