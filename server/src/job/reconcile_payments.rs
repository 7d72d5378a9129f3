//! Orders that are not settled: looks at those whose time has come, a bounded number a round, and undoes checkouts that
//! died before they made an order. Takes no input and may run on every node: each look is claimed.

use super::Round;
use crate::app::App;
use crate::checkout::{CheckoutError, Looked};
use crate::inventory::key::event_number_of;
use crate::store::order_command::{self, DeadCheckout};
use crate::store::{StoreError, order};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::sync::Arc;

/// Orders read in one round. How many of them are looked at is the node's pace, whatever nudges a round.
const MAX_DUE: u32 = 200;
/// Orders looked at before it is seen whether the provider still answers.
const PART: usize = 10;
/// Questions open at the provider at once.
const CONCURRENCY: usize = 8;
/// A checkout without an order is given up this long after it began; longer than any that still runs.
const DEAD_AFTER_MS: u64 = 60_000;
/// Dead checkouts undone in one round.
const DEAD_BATCH: u32 = 50;
/// How long first answers are kept: 72 h.
const KEEP_ANSWERS_MS: u64 = 72 * 3_600_000;
/// Old answers forgotten in one round.
const PRUNE_BATCH: u32 = 200;

pub(super) async fn run(app: &Arc<App>) -> anyhow::Result<Round> {
    let now_ms = app.clock.now_ms();
    let pool = app.store.pool();
    let due = order::list_due(pool, now_ms, MAX_DUE).await?;
    let mut counts: HashMap<Looked, u32> = HashMap::new();
    for part in due.chunks(PART) {
        let looks_n = app.checkout.take_looks(part.len());
        let mut looks = futures_util::stream::iter(part[..looks_n].iter().copied().map(|id| async move {
            let looked = app.checkout.look_at(id).await;
            (id, looked)
        }))
        .buffer_unordered(CONCURRENCY);
        while let Some((id, looked)) = looks.next().await {
            match looked {
                Ok(looked) => *counts.entry(looked).or_default() += 1,
                Err(CheckoutError::Store(error @ StoreError::Unavailable(_))) => return Err(error.into()),
                Err(error) => tracing::error!(order = %id, %error, "a look at an order failed"),
            }
        }
        if looks_n < part.len() || counts.contains_key(&Looked::Unanswered) {
            // The budget is spent, or the provider is away or too busy: what is left waits for the next round.
            break;
        }
    }
    if !counts.is_empty() {
        tracing::debug!(?counts, "looked at orders");
    }
    for dead in order_command::list_dead(pool, now_ms.saturating_sub(DEAD_AFTER_MS), DEAD_BATCH).await? {
        if let Err(error) = bury(app, &dead).await {
            tracing::warn!(order = %dead.order, error = %format!("{error:#}"), "a dead checkout is undone later");
        }
    }
    order_command::prune(pool, now_ms.saturating_sub(KEEP_ANSWERS_MS), PRUNE_BATCH).await?;
    Ok(Round { is_full: false })
}

/// Unlocks the hold of a checkout that died before it made an order. Its claim is taken over first, so that nobody who
/// repeats the key locks the hold again meanwhile, and forgotten last, so that a failure is found again.
async fn bury(app: &Arc<App>, dead: &DeadCheckout) -> anyhow::Result<()> {
    let now_ms = app.clock.now_ms();
    if !order_command::take_over(app.store.pool(), dead, now_ms + DEAD_AFTER_MS).await? {
        return Ok(());
    }
    if let Some(event) = app.catalogue.event_by_number(event_number_of(dead.hold)).await? {
        tracing::info!(order = %dead.order, hold = %dead.hold, "a checkout died before its order: the hold is unlocked");
        app.inventory.unlock(&event, dead.identity, dead.hold, dead.order).await?;
    }
    order_command::forget(app.store.pool(), dead).await?;
    Ok(())
}
