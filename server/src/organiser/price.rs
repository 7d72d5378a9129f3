//! Prices: a tier costs something else from now on. Open holds keep what they were told, and are paid at that.

use super::{Operator, Organiser, OrganiserError};
use crate::catalogue::EventFacts;
use crate::store::event_change;
use seatwire_proto::id::EventId;
use seatwire_proto::money::{MAX_MINOR, total_minor};
use std::sync::Arc;

/// What a tier costs from now on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewPrice {
    /// Code of the tier.
    pub code: String,
    /// Per seat.
    pub price_minor: i64,
    /// Per seat.
    pub fee_minor: i64,
}

impl Organiser {
    /// Sets prices of some tiers.
    ///
    /// # Errors
    /// `Refused` for an unknown tier or an impossible price; nothing is changed then.
    pub async fn set_prices(
        &self,
        by: Operator,
        event: EventId,
        prices: Vec<NewPrice>,
    ) -> Result<Arc<EventFacts>, OrganiserError> {
        if prices.is_empty() {
            return Err(OrganiserError::refused("/price_tiers", "expected at least one"));
        }
        for (at, price) in prices.iter().enumerate() {
            let bounds = 0..=MAX_MINOR;
            if !bounds.contains(&price.price_minor) || !bounds.contains(&price.fee_minor) {
                return Err(OrganiserError::refused(format!("/price_tiers/{at}"), "a price is not negative"));
            }
            if prices[..at].iter().any(|other| other.code == price.code) {
                return Err(OrganiserError::refused(format!("/price_tiers/{at}/code"), "named twice"));
            }
        }
        let organiser = self.clone();
        Self::whole(async move {
            let (mut transaction, _) = organiser.begin(event).await?;
            let facts = organiser.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
            let limit = facts.rules.seats_per_identity;
            let costs = |price: &NewPrice| total_minor([(limit, price.price_minor, price.fee_minor)]);
            if let Some(at) = prices.iter().position(|price| costs(price).is_none()) {
                let why = format!("{limit} seats would cost more than {MAX_MINOR}");
                return Err(OrganiserError::refused(format!("/price_tiers/{at}"), why));
            }
            for (at, price) in prices.iter().enumerate() {
                let NewPrice { code, price_minor, fee_minor } = price;
                if !event_change::set_price(&mut *transaction, event, code, *price_minor, *fee_minor).await? {
                    return Err(OrganiserError::refused(format!("/price_tiers/{at}/code"), "no such price tier"));
                }
            }
            organiser.commit(transaction, &by, "event.prices", event, serde_json::json!(prices)).await?;
            organiser.tell_now(event).await
        })
        .await
    }
}
