//! A payment provider to run against: Stripe's HTTP shape, real idempotency, test cards and scripted faults
//! (`method`). `seatwire paysim` serves it alone, the embedded mode and tests start it inside. It shares nothing with the
//! checkout but the wire, so that checkout cannot cheat; its ledger (`GET /_sim/ledger`) is the judge of money.

mod api;
mod bank;
mod fault;
mod form;
mod ledger;
mod list;
mod method;
mod object;
mod page;
mod read;
mod reply;
mod webhook;

use crate::clock::Clock;
use crate::config::Secret;
use crate::shutdown::{Phase, Shutdown};
use bank::Bank;
use fault::Faults;
use ledger::Ledger;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use webhook::{Endpoint, Webhooks};

/// How often intents that settle later are looked at.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);

/// Settings of the simulator.
#[derive(Debug, Clone)]
pub struct PaysimConfig {
    /// Folder of the ledger; `None` forgets everything at the end.
    pub data: Option<PathBuf>,
    /// Where a buyer's browser reaches the simulator; by default the host the API was called by.
    pub public_url: Option<String>,
    /// Whom to tell what happens; `None` nobody, until `POST /_sim/webhooks` says otherwise.
    pub webhook: Option<WebhookConfig>,
    /// How long a call that never answers is kept open.
    pub hang: Duration,
}

/// The shop that is told what happens.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// Where.
    pub url: String,
    /// Signs what is told.
    pub secret: Secret,
    /// Which kinds of events; empty = all.
    pub events: Vec<String>,
}

impl Default for PaysimConfig {
    fn default() -> Self {
        // Longer than any client waits.
        Self { data: None, public_url: None, webhook: None, hang: Duration::from_secs(120) }
    }
}

/// Why the simulator did not start.
#[derive(Debug, thiserror::Error)]
pub enum PaysimError {
    /// The ledger cannot be opened, or the port cannot be used.
    #[error("paysim: {0}")]
    Io(#[from] std::io::Error),
    /// The ledger is not one of ours.
    #[error("paysim: the ledger cannot be read: {0}")]
    Ledger(#[from] serde_json::Error),
}

/// A running simulator.
#[derive(Debug, Clone)]
pub struct Paysim {
    address: SocketAddr,
}

impl Paysim {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for the checkout.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// What every call works on.
#[derive(Debug)]
struct Sim {
    bank: Bank,
    faults: Faults,
    public_url: Option<String>,
    hang: Duration,
    clock: Clock,
}

/// Opens the ledger and serves until the node stops.
///
/// # Errors
/// When the ledger or the port cannot be used.
pub async fn start(
    listener: TcpListener,
    config: PaysimConfig,
    clock: Clock,
    shutdown: Shutdown,
) -> Result<Paysim, PaysimError> {
    let (ledger, lines) = match &config.data {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            Ledger::open(&folder.join("ledger.jsonl"))?
        }
        None => (Ledger::forgetful(), Vec::new()),
    };
    let endpoint = config.webhook.map_or_else(Endpoint::default, |webhook| Endpoint {
        url: Some(webhook.url),
        secret: webhook.secret.reveal().to_owned(),
        enabled: webhook.events,
        ..Endpoint::default()
    });
    let webhooks = Webhooks::start(endpoint, clock.clone());
    let bank = Bank::open(ledger, &lines, webhooks, clock.clone())?;
    let sim =
        Arc::new(Sim { bank, faults: Faults::default(), public_url: config.public_url, hang: config.hang, clock });
    let paysim = Paysim { address: listener.local_addr()? };
    tokio::spawn(settle(sim.clone(), shutdown.clone()));
    let router = api::router(sim);
    tokio::spawn(async move {
        let stopped = async move { shutdown.reached(Phase::Stopping).await };
        // Calls that hang on purpose must not keep the process: they are dropped with it.
        tokio::select! {
            served = axum::serve(listener, router) => {
                if let Err(error) = served {
                    tracing::error!(%error, "paysim stopped serving");
                }
            }
            () = stopped => {}
        }
    });
    Ok(paysim)
}

async fn settle(sim: Arc<Sim>, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SETTLE_INTERVAL) => sim.bank.settle_due(),
            () = shutdown.reached(Phase::Stopping) => return,
        };
    }
}
