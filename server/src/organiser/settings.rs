//! Names, times, limits, how sections sell: what an event says of itself and how much one buyer may have. New holds go by the new limits; a
//! hold that is open keeps what it has and its time.

use super::{Operator, Organiser, OrganiserError};
use crate::catalogue::EventFacts;
use crate::store::event_change::{self, EventPatch};
use seatwire_proto::id::EventId;
use seatwire_proto::money::{MAX_MINOR, total_minor};
use seatwire_proto::seat::SectionIndex;
use seatwire_proto::server::SalesMode;
use std::sync::Arc;

/// Longest name, in characters: what a page can show.
const MAX_NAME_CHARS: usize = 200;
/// Longest description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 20_000;
/// Times stay exact in every client's numbers.
const MAX_MS: u64 = 1 << 53;

impl Organiser {
    /// Sets what the patch names.
    ///
    /// # Errors
    /// `Refused` for a value that cannot be; nothing is changed then.
    pub async fn change_settings(
        &self,
        by: Operator,
        event: EventId,
        patch: EventPatch,
    ) -> Result<Arc<EventFacts>, OrganiserError> {
        check(&patch)?;
        let organiser = self.clone();
        Self::whole(async move {
            let (mut transaction, _) = organiser.begin(event).await?;
            let facts = organiser.catalogue.refresh(event).await?.ok_or(OrganiserError::EventUnknown)?;
            check_with(&patch, &facts)?;
            event_change::patch(&mut transaction, event, &patch).await?;
            organiser.commit(transaction, &by, "event.settings", event, detail(&patch)).await?;
            organiser.tell_now(event).await
        })
        .await
    }
}

fn check(patch: &EventPatch) -> Result<(), OrganiserError> {
    let refuse = |path: &str, why: String| Err(OrganiserError::refused(path, why));
    if let Some(name) = &patch.name
        && (name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control))
    {
        return refuse("/name", format!("expected 1 to {MAX_NAME_CHARS} characters"));
    }
    if patch
        .description
        .as_ref()
        .is_some_and(|text| text.chars().count() > MAX_DESCRIPTION_CHARS || text.contains('\0'))
    {
        return refuse("/description", format!("expected at most {MAX_DESCRIPTION_CHARS} characters"));
    }
    for (path, ms) in [
        ("/starts_ms", patch.starts_ms),
        ("/on_sale_ms", patch.on_sale_ms),
        ("/presale_ms", patch.presale_ms.flatten()),
    ] {
        if ms.is_some_and(|ms| ms >= MAX_MS) {
            return refuse(path, "expected epoch milliseconds".into());
        }
    }
    if patch.seats_per_identity.is_some_and(|limit| !(1..=200).contains(&limit)) {
        return refuse("/rules/seats_per_identity", "expected 1 to 200".into());
    }
    if patch.seats_per_instrument.flatten().is_some_and(|limit| !(1..=10_000).contains(&limit)) {
        return refuse("/rules/seats_per_instrument", "expected 1 to 10,000, or null".into());
    }
    if patch.hold_ttl_ms.is_some_and(|ms| !(1_000..=86_400_000).contains(&ms)) {
        return refuse("/rules/hold_ttl_ms", "expected 1,000 to 86,400,000".into());
    }
    Ok(())
}

/// What cannot be together with what the event has.
fn check_with(patch: &EventPatch, facts: &EventFacts) -> Result<(), OrganiserError> {
    let presale_ms = patch.presale_ms.unwrap_or(facts.presale_ms);
    let on_sale_ms = patch.on_sale_ms.unwrap_or(facts.on_sale_ms);
    if (patch.presale_ms.is_some() || patch.on_sale_ms.is_some()) && presale_ms.is_some_and(|ms| ms > on_sale_ms) {
        let path = if patch.presale_ms.is_some() { "/presale_ms" } else { "/on_sale_ms" };
        return Err(OrganiserError::refused(path, "the presale begins before the sale"));
    }
    for (at, (section, _)) in patch.sales_modes.iter().enumerate() {
        if section.0 as usize >= facts.sections.len() {
            return Err(OrganiserError::refused(format!("/sections/{at}/index"), "no such section"));
        }
        if patch.sales_modes[..at].iter().any(|(other, _)| other == section) {
            return Err(OrganiserError::refused(format!("/sections/{at}/index"), "named twice"));
        }
    }
    if let Some(limit) = patch.seats_per_identity
        && facts.price_tiers.iter().any(|tier| total_minor([(limit, tier.price_minor, tier.fee_minor)]).is_none())
    {
        let why = format!("so many seats would cost more than {MAX_MINOR}");
        return Err(OrganiserError::refused("/rules/seats_per_identity", why));
    }
    Ok(())
}

fn detail(patch: &EventPatch) -> serde_json::Value {
    let all = serde_json::json!({
        "name": patch.name,
        "description": patch.description,
        "starts_ms": patch.starts_ms,
        "on_sale_ms": patch.on_sale_ms,
        "seats_per_identity": patch.seats_per_identity,
        "hold_ttl_ms": patch.hold_ttl_ms,
        "orphans": patch.orphans,
        "waitlist": patch.has_waitlist,
    });
    let serde_json::Value::Object(mut fields) = all else { return all };
    fields.retain(|_, value| !value.is_null());
    if let Some(limit) = patch.seats_per_instrument {
        fields.insert("seats_per_instrument".into(), limit.into());
    }
    if !patch.sales_modes.is_empty() {
        let section =
            |(index, mode): &(SectionIndex, SalesMode)| serde_json::json!({"index": index, "sales_mode": mode});
        fields.insert("sections".into(), patch.sales_modes.iter().map(section).collect());
    }
    if let Some(presale_ms) = patch.presale_ms {
        fields.insert("presale_ms".into(), presale_ms.into());
    }
    fields.into()
}
