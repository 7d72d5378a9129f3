//! What the till is asked for and what it answers, as values.

use super::CheckoutRefusal;
use super::order::OrderState;
use crate::store::dispute::DisputeRow;
use crate::store::refund::RefundRow;
use seatwire_proto::client::{Buyer, IdempotencyKey};
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use seatwire_proto::server::Order;

/// A checkout to be done.
#[derive(Debug, Clone)]
pub struct CheckoutRequest {
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention.
    pub key: IdempotencyKey,
    /// SHA-256 of op and fields.
    pub fingerprint: [u8; 32],
    /// What is bought.
    pub hold: HoldId,
    /// Who buys.
    pub buyer: Buyer,
    /// The provider's payment method.
    pub method: String,
    /// What the buyer was shown.
    pub expect_total_minor: i64,
}

/// A `pay` or `cancel` to be done.
#[derive(Debug, Clone)]
pub struct OrderRequest {
    /// Who.
    pub identity: IdentityId,
    /// The client's name for the intention.
    pub key: IdempotencyKey,
    /// SHA-256 of op and fields.
    pub fingerprint: [u8; 32],
    /// Which order.
    pub order: OrderId,
}

/// An order as an operator sees it.
#[derive(Debug, Clone)]
pub struct OrderFile {
    /// As its buyer sees it.
    pub order: Order,
    /// Where it stands in truth.
    pub state: OrderState,
    /// The provider's name for it.
    pub intent: Option<String>,
    /// Every refund of it, oldest first.
    pub refunds: Vec<RefundRow>,
    /// Every dispute of it, oldest first.
    pub disputes: Vec<DisputeRow>,
}

/// What a command of the till came to.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckoutAnswer {
    /// The order, or why not.
    pub outcome: Result<Order, CheckoutRefusal>,
    /// Given again under the same key.
    pub is_replayed: bool,
}
