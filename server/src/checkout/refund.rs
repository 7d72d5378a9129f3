//! Money on its way back. A refund is recorded with its key before the provider is asked; the sum of what goes back is
//! bounded by the database. For now an order goes back whole, when it was charged and its seats could not be had.

use super::order::{OrderEvent, OrderState};
use super::payment::{NewRefund, ProviderError, RefundStatus};
use super::resolve::Looked;
use super::step::{News, Stepped};
use super::{CheckoutError, Inner};
use crate::store::order::OrderRow;

impl Inner {
    /// Takes a due refund one step further. Asking twice by the same key is asking once.
    pub(super) async fn look_refund(&self, row: &OrderRow) -> Result<Looked, CheckoutError> {
        let amount_minor = row.captured_minor - row.refunded_minor;
        let Some(intent) = &row.intent else { return Ok(Looked::Nothing) };
        let key = format!("{}:refund:{}", row.id, row.refunded_minor);
        let new = NewRefund { intent, amount_minor, key: &key };
        let event = match self.provider.refund(&new).await {
            Ok(answer) => match answer.status {
                RefundStatus::Succeeded => OrderEvent::RefundedInFull,
                RefundStatus::Pending if row.state == OrderState::RefundPending => return Ok(Looked::Waiting),
                RefundStatus::Pending => OrderEvent::RefundDelayed,
                RefundStatus::Failed => OrderEvent::RefundRejected,
            },
            Err(ProviderError::Refused { reason, .. }) if reason == "charge_already_refunded" => {
                OrderEvent::RefundedInFull
            }
            Err(ProviderError::Refused { reason, .. }) => {
                tracing::error!(order = %row.id, reason, "a refund was refused; a person must look");
                OrderEvent::RefundRejected
            }
            Err(error) => {
                tracing::warn!(order = %row.id, %error, "a refund waits for the provider");
                return Ok(Looked::Unanswered);
            }
        };
        Ok(match self.step(row.id, &[News::Plain(event)]).await? {
            Stepped::Moved(_) => Looked::Moved,
            Stepped::Stays(_) => Looked::Nothing,
        })
    }
}
