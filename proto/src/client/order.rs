//! Commands at the till: from a hold to an order, and what can be done with an order before it is paid.
//! What they are answered with is in `server/order.rs`.

use super::bounds::{FieldError, check_amount, check_email, check_text};
use crate::id::{HoldId, OrderId};
use serde::{Deserialize, Serialize};

/// Who buys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buyer {
    /// Name on the order.
    pub name: String,
    /// Where tickets and notices go.
    pub email: String,
    /// The language they are written in: `de` or `en`, which any other word means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

/// How the buyer pays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// A payment method of the provider, e.g. `pm_card_visa`.
    pub method: String,
}

/// Turns a hold into an order and pays it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// Which hold.
    pub hold: HoldId,
    /// Who buys.
    pub buyer: Buyer,
    /// How.
    pub payment: Payment,
    /// What the buyer was shown; another total is refused.
    pub expect_total_minor: i64,
}

/// Pays again after a decline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pay {
    /// Which order.
    pub order: OrderId,
    /// How.
    pub payment: Payment,
}

/// Gives an order up before it is paid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Which order.
    pub order: OrderId,
}

/// Reads an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRead {
    /// Which order.
    pub order: OrderId,
}

pub(super) fn check_checkout(c: &Checkout) -> Result<(), FieldError> {
    check_text("/buyer/name", &c.buyer.name)?;
    check_email("/buyer/email", &c.buyer.email)?;
    if let Some(lang) = &c.buyer.lang {
        check_text("/buyer/lang", lang)?;
    }
    check_payment(&c.payment)?;
    check_amount("/expect_total_minor", c.expect_total_minor)
}

pub(super) fn check_payment(payment: &Payment) -> Result<(), FieldError> {
    check_text("/payment/method", &payment.method)
}
