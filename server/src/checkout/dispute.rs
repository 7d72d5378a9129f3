//! A buyer's bank wants the money back. While it is open the order and its tickets stand and a person is told; won, nothing
//! has happened; lost, the order is over: its tickets are void and its places free, as if the money had been refunded.
//! `webhook` comes in here with what the provider says of a dispute; won and lost are final.

use super::order::OrderEvent;
use super::payment::ProviderError;
use super::step::{News, Stepped};
use super::webhook::Applied;
use super::{CheckoutError, Inner};
use crate::store::StoreError;
use crate::store::dispute::{self, DisputeRow, Word};
use crate::store::order::OrderRow;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct RawDispute {
    id: String,
    amount: i64,
    currency: String,
    charge: Option<Value>,
    reason: Option<String>,
    status: String,
}

fn read(object: &Value) -> Option<DisputeRow> {
    let raw = RawDispute::deserialize(object).ok()?;
    let charge = raw.charge.and_then(|charge| charge.as_str().or_else(|| charge["id"].as_str()).map(str::to_owned));
    let said = DisputeRow {
        id: raw.id,
        charge,
        amount_minor: raw.amount,
        currency: raw.currency.to_ascii_uppercase(),
        reason: raw.reason.unwrap_or_else(|| "general".to_owned()),
        status: raw.status,
        is_withdrawn: false,
        created_ms: 0,
    };
    let is_text = [&said.id, &said.currency, &said.reason, &said.status].iter().all(|text| !text.contains('\0'));
    (is_text && said.amount_minor >= 0).then_some(said)
}

impl Inner {
    /// The dispute as the provider has it: what a webhook says of it makes us ask and nothing else, or whoever learnt a
    /// secret could void tickets by it. `Err`: what becomes of the event instead.
    pub(super) async fn dispute_at_provider(&self, row: &OrderRow, intent: &str, id: &str) -> Result<Value, Applied> {
        match self.provider.dispute(id).await {
            Ok(object) if object["payment_intent"] == intent => Ok(object),
            Ok(_) | Err(ProviderError::Refused { .. }) => Err(Applied::Contradicted),
            Err(error) => {
                tracing::warn!(order = %row.id, %error, "how a dispute stands is not known yet");
                Err(Applied::NotYet)
            }
        }
    }

    /// Takes note of what the provider says of a dispute. False: it cannot be read.
    /// `said_s` is when it happened, by the provider's clock.
    pub(super) async fn see_dispute(
        &self,
        row: &OrderRow,
        kind: &str,
        said_s: i64,
        object: &Value,
    ) -> Result<bool, CheckoutError> {
        let Some(said) = read(object) else { return Ok(false) };
        let withdrawn = match kind {
            "charge.dispute.funds_withdrawn" => Some(true),
            "charge.dispute.funds_reinstated" => Some(false),
            _ => None,
        };
        let word = Word { said_s, is_first: kind == "charge.dispute.created", withdrawn };
        let mut connection = self.store.pool().acquire().await.map_err(StoreError::from)?;
        let is_news =
            dispute::upsert(&mut connection, &row.provider, row.id, row.event, &said, word, self.clock.now_ms())
                .await?;
        drop(connection);
        if is_news && !said.is_final() {
            tracing::error!(order = %row.id, dispute = said.id, reason = said.reason, "a payment is disputed; a person must look");
        }
        self.settle_disputes(row).await?;
        Ok(true)
    }

    /// Brings an order to what its disputes say. Twice is once.
    async fn settle_disputes(&self, row: &OrderRow) -> Result<(), CheckoutError> {
        let all = dispute::list_of_order(self.store.pool(), row.id).await?;
        let lost_minor: i64 =
            all.iter().filter(|dispute| dispute.status == "lost").map(|dispute| dispute.amount_minor).sum();
        // An order whose money is on its way back already, or was, keeps its state: a person must look at both.
        if lost_minor > 0
            && lost_minor >= row.captured_minor - row.refunded_minor
            && let Stepped::Moved(row) = self.step(row.id, None, &[News::Plain(OrderEvent::DisputeLost)]).await?
        {
            tracing::error!(order = %row.id, "a dispute is lost: its tickets are void");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dispute_is_read_with_its_charge_by_name_or_whole_and_nonsense_is_not() {
        let object = json!({"id": "du_1", "amount": 4750, "currency": "eur", "charge": "ch_1", "reason": "fraudulent",
            "status": "needs_response"});
        let read_one = read(&object).expect("a dispute");
        assert_eq!((read_one.charge.as_deref(), read_one.currency.as_str()), (Some("ch_1"), "EUR"));
        assert!(!read_one.is_final());
        let mut whole = object.clone();
        whole["charge"] = json!({"id": "ch_1"});
        whole["status"] = "lost".into();
        let read_one = read(&whole).expect("a dispute");
        assert_eq!((read_one.charge.as_deref(), read_one.is_final()), (Some("ch_1"), true));
        for (field, value) in
            [("amount", json!(-1)), ("amount", json!("x")), ("id", json!(null)), ("status", json!("a\u{0}"))]
        {
            let mut wrong = object.clone();
            wrong[field] = value;
            assert_eq!(read(&wrong), None, "{field}");
        }
    }
}
