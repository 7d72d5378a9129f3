//! What repairs itself: jobs that take no input, are safe twice and bounded per run. Each is one file; this one runs them
//! side by side until the node stops. A run that fails is logged and tried again at its next time.

mod apply_webhooks;
mod audit_money;
mod expire_holds;
mod forget_told;
mod journal_holds;
mod keep_allocations;
mod offer_waitlist;
mod poll_provider;
mod probe_provider;
mod reconcile_payments;
mod refund_cancelled;
mod relay_outbox;
mod send_mails;
mod send_webhooks;
mod tell_changes;
mod tell_restored;

use crate::app::App;
use crate::metrics::JobLabels;
use crate::shutdown::Phase;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Between two looks at the outbox when nobody nudges: finds what a node that died left behind.
const RELAY_PAUSE: Duration = Duration::from_millis(250);

/// Between two looks at what organisers say of allocations: those who have a code wait no longer for it.
const KEEP_PAUSE: Duration = Duration::from_secs(1);

/// Between two looks at the inbox when nobody nudges: finds what a node that died left behind.
const INBOX_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at what organisers and time have changed; a change made on another node nudges.
const TELL_PAUSE: Duration = Duration::from_millis(500);

/// Between two looks at the waitlists: how long a freed seat stands before it is offered.
const OFFER_PAUSE: Duration = Duration::from_millis(500);

/// Between two batches of refunds of cancelled events: with the batch, the rate at which the provider is asked.
const CANCELLED_PAUSE: Duration = Duration::from_secs(1);

/// Between two questions to a provider that is away: how long buyers wait once it is back.
const PROBE_PAUSE: Duration = Duration::from_secs(2);

/// Between two comparisons of money and seats; the end of a sale nudges.
const AUDIT_PAUSE: Duration = Duration::from_secs(300);

/// Between two looks for mails and webhooks that are due.
const SEND_PAUSE: Duration = Duration::from_secs(1);

/// Between two looks for what is older than it is kept: that it is a few seconds older does not matter.
const FORGET_PAUSE: Duration = Duration::from_secs(15);

/// What one run of a nudged job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Round {
    /// There may be more to do at once.
    is_full: bool,
}

/// Runs every job until the node stops.
pub async fn run(app: Arc<App>) {
    let sweep = app.config.inventory.sweep_interval;
    let (poll, provider_back) = (app.config.checkout.poll_interval, app.checkout.provider_back());
    let reconcile = app.config.checkout.reconcile_interval;
    let inbox_nudge = app.checkout.inbox_nudge();
    // Nobody nudges: a mail may wait a second.
    let send_nudge = Notify::new();
    let (relay_nudge, check_nudge) = (app.checkout.relay_nudge(), app.checkout.check_nudge());
    let (changed, over) = (app.seatmap.outdated(), app.organiser.over());
    tokio::join!(
        every(&app, "expire_holds", sweep, || expire_holds::run(&app)),
        nudged(&app, "apply_webhooks", INBOX_PAUSE, &inbox_nudge, || apply_webhooks::run(&app)),
        nudged(&app, "poll_provider", poll, &provider_back, || poll_provider::run(&app)),
        every(&app, "probe_provider", PROBE_PAUSE, || probe_provider::run(&app)),
        nudged(&app, "audit_money", AUDIT_PAUSE, &over, || audit_money::run(&app)),
        nudged(&app, "send_mails", SEND_PAUSE, &send_nudge, || send_mails::run(&app)),
        nudged(&app, "send_webhooks", SEND_PAUSE, &send_nudge, || send_webhooks::run(&app)),
        nudged(&app, "forget_told", FORGET_PAUSE, &send_nudge, || forget_told::run(&app)),
        every(&app, "refund_cancelled", CANCELLED_PAUSE, || refund_cancelled::run(&app)),
        every(&app, "keep_allocations", KEEP_PAUSE, || keep_allocations::run(&app)),
        journal_holds::run(&app),
        tell_restored::run(&app),
        nudged(&app, "relay_outbox", RELAY_PAUSE, &relay_nudge, || relay_outbox::run(&app)),
        every(&app, "offer_waitlist", OFFER_PAUSE, || offer_waitlist::run(&app)),
        nudged(&app, "tell_changes", TELL_PAUSE, &changed, || tell_changes::run(&app)),
        nudged(&app, "reconcile_payments", reconcile, &check_nudge, || reconcile_payments::run(&app)),
    );
}

/// Runs `job` again and again with `pause` between two runs, a tenth more or less, so that nodes do not march in step.
async fn every<F>(app: &App, name: &'static str, pause: Duration, job: impl Fn() -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    let stopping = app.shutdown.reached(Phase::Stopping);
    tokio::pin!(stopping);
    loop {
        let ended = job().await;
        app.metrics.job_runs.get_or_create(&JobLabels { job: name }).inc();
        if let Err(error) = ended {
            tracing::warn!(job = name, error = %format!("{error:#}"), "a job failed; it runs again");
        }
        let pause = pause.mul_f64(rand::random_range(0.9..1.1));
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// As [`every`], but also at once when nudged, and again at once while there is more to do and the node serves.
async fn nudged<F>(app: &App, name: &'static str, pause: Duration, nudge: &Notify, job: impl Fn() -> F)
where
    F: Future<Output = anyhow::Result<Round>>,
{
    let stopping = app.shutdown.reached(Phase::Stopping);
    tokio::pin!(stopping);
    loop {
        let ended = job().await;
        app.metrics.job_runs.get_or_create(&JobLabels { job: name }).inc();
        let is_full = match ended {
            Ok(round) => round.is_full,
            Err(error) => {
                tracing::warn!(job = name, error = %format!("{error:#}"), "a job failed; it runs again");
                tokio::select! {
                    () = &mut stopping => return,
                    // A nudge must not turn an outage into a busy loop.
                    () = tokio::time::sleep(pause) => {}
                }
                false
            }
        };
        // What is left are rows: the next start goes on with them, or another node.
        if is_full && app.shutdown.phase() < Phase::Stopping {
            continue;
        }
        tokio::select! {
            biased;
            () = &mut stopping => return,
            () = nudge.notified() => {}
            () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.9..1.1))) => {}
        }
    }
}
