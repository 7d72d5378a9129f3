//! States of an event: opened, paused, closed, cancelled by the organiser; sold out and back by the stock. Pausing and
//! closing let nobody begin and leave open holds alone: they live out their time and may be paid. Cancelling ends them, and
//! says so. Whoever is paying already goes on: an order is the till's.

use super::{Operator, Organiser, OrganiserError};
use crate::catalogue::EventFacts;
use crate::store::event_change;
use seatwire_proto::id::EventId;
use seatwire_proto::server::{EventState, Push};
use std::sync::Arc;

/// Longest reason, in characters: it stands in a banner.
const MAX_REASON_CHARS: usize = 200;
/// Holds ended by one call of the script.
const MAX_ENDED_PER_CALL: u32 = 64;
/// Calls in one go: 64,000 holds; what is left is ended by the job's next round.
const MAX_CALLS: usize = 1_000;

impl Organiser {
    /// Sets the state. `scheduled`, `presale` and `on_sale` give the event back to its times; `sold_out` is the stock's.
    ///
    /// # Errors
    /// `Refused` for `sold_out`, for an event that was cancelled, for a reason that is too long.
    pub async fn set_state(
        &self,
        by: Operator,
        event: EventId,
        state: EventState,
        reason: Option<String>,
    ) -> Result<Arc<EventFacts>, OrganiserError> {
        if state == EventState::SoldOut {
            return Err(OrganiserError::refused("/state", "sold_out follows from the stock"));
        }
        if reason
            .as_ref()
            .is_some_and(|text| text.chars().count() > MAX_REASON_CHARS || text.chars().any(char::is_control))
        {
            return Err(OrganiserError::refused("/reason", format!("expected at most {MAX_REASON_CHARS} characters")));
        }
        let organiser = self.clone();
        Self::whole(async move {
            let (mut transaction, locked) = organiser.begin(event).await?;
            if locked.state == EventState::Cancelled && state != EventState::Cancelled {
                return Err(OrganiserError::refused("/state", "the event was cancelled"));
            }
            event_change::set_state(&mut *transaction, event, state, reason.as_deref()).await?;
            let detail = serde_json::json!({"from": locked.state, "to": state, "reason": reason});
            organiser.commit(transaction, &by, "event.state", event, detail).await?;
            if matches!(state, EventState::Closed | EventState::Cancelled) {
                organiser.over.notify_one();
            }
            organiser.tell_now(event).await
        })
        .await
    }

    /// Says `sold_out` when nothing is left that could become available by itself, and takes it back when something is.
    ///
    /// # Errors
    /// When a store does not answer; the next round looks again.
    pub async fn follow_stock(&self, facts: &Arc<EventFacts>) -> Result<(), OrganiserError> {
        use EventState::{OnSale, Presale, Scheduled, SoldOut};
        if !matches!(facts.state, OnSale | SoldOut) {
            return Ok(());
        }
        let stock = self.inventory.stock(facts).await?;
        let (from, to): (&[EventState], _) = match facts.state {
            OnSale if stock.is_gone() => (&[Scheduled, Presale, OnSale], SoldOut),
            SoldOut if stock.has_some() => (&[SoldOut], OnSale),
            _ => return Ok(()),
        };
        let (organiser, event) = (self.clone(), facts.id);
        Self::whole(async move {
            let (mut transaction, _) = organiser.begin(event).await?;
            if !event_change::move_state(&mut *transaction, event, from, to).await? {
                return Ok(());
            }
            let detail = serde_json::json!({"to": to});
            organiser.commit(transaction, &Operator::server(), "event.state", event, detail).await?;
            organiser.tell_now(event).await.map(drop)
        })
        .await
    }

    /// Ends the open holds of a cancelled event, which nobody should pay for, and tells their owners why.
    ///
    /// # Errors
    /// When Redis does not answer; the job tries again.
    pub async fn end_holds(&self, facts: &Arc<EventFacts>) -> Result<(), OrganiserError> {
        if facts.state != EventState::Cancelled {
            return Ok(());
        }
        let mut from = 0;
        for _ in 0..MAX_CALLS {
            let (ended, next) = self.inventory.end_holds(facts, from, MAX_ENDED_PER_CALL).await?;
            let server_ms = self.inventory.event_ms(facts.id);
            for hold in ended {
                let push = Push::HoldRevoked { hold: hold.to_wire(facts, server_ms), reason: "cancelled".to_owned() };
                self.sender.to_identity(hold.identity, &push);
                self.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: None });
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(())
    }
}
