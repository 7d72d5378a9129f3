//! Seatwire's rooms in walking order: a buyer comes in by `http` or `socket`, asks at the counter (`command`), takes
//! from the shelf (`inventory`), pays at the till (`checkout`) and is written into the ledger (`store`). `seatmap` shows
//! everyone what changed, `job` repairs by itself. Imports go downwards only; the README beside `src` has the map.

pub mod cli;

pub mod http;
pub mod job;
pub mod socket;

pub mod app;

pub mod command;
pub mod error;

pub mod checkout;
pub mod notice;
pub mod organiser;
pub mod waitlist;

pub mod catalogue;
pub mod import;
pub mod inventory;
pub mod seatmap;
pub mod store;

pub mod clock;
pub mod config;
pub mod embedded;
pub mod identity;
mod listener;
mod masters;
pub mod metrics;
pub mod outbound;
pub mod paysim;
pub mod sender;
pub mod shutdown;
pub mod slots;
pub mod subscriber;
pub mod telemetry;

use crate::app::App;
use crate::command::Counter;
use crate::shutdown::Phase;
use crate::socket::{Behind, Door};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long requests of operators and doors may take to end when the node stops.
const HOUSE_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// How long the jobs' last rounds may take when the node stops. Longer than webhooks and mails under way get. What still runs
/// then gets no more of Postgres but the answer it waits for: a question broken off leaves its connection in the middle of it.
const JOBS_END_WITHIN: Duration = Duration::from_secs(10);
/// How long the connections to Postgres are waited for. What still runs then is as if the node had died at that moment, which
/// every job is made for.
const STORE_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The listeners of a node.
#[derive(Debug)]
pub struct Listeners {
    /// Fans and apps.
    pub public: TcpListener,
    /// Operators.
    pub admin: TcpListener,
    /// Those who scan tickets.
    pub door: TcpListener,
}

/// Serves until `app.shutdown` says otherwise: doors and jobs side by side, then drain, then the jobs' last round.
///
/// # Errors
/// When a listener breaks for good.
pub async fn run(app: Arc<App>, listeners: Listeners) -> anyhow::Result<()> {
    let store = app.store.clone();
    let mut jobs = tokio::spawn(job::run(Arc::clone(&app)));
    let door = Door::open(Behind {
        node: app.node,
        config: app.config.socket.clone(),
        is_loopback_limited: app.config.http.is_loopback_limited,
        clock: app.clock.clone(),
        metrics: Arc::clone(&app.metrics),
        seatmap: app.seatmap.clone(),
        sender: app.sender.clone(),
        identities: app.identities.clone(),
        counter: Arc::clone(&app) as Arc<dyn Counter>,
    });
    let house = [
        (listeners.admin, http::admin_router(Arc::clone(&app))),
        (listeners.door, http::door_router(Arc::clone(&app))),
    ]
    .map(|(listener, router)| {
        let (stopping, is_limited) = (app.shutdown.clone(), app.config.http.is_loopback_limited);
        tokio::spawn(async move {
            listener::serve(listener, router, is_limited, stopping.reached(Phase::Stopping)).await;
        })
    });
    door.serve(listeners.public, http::router(Arc::clone(&app)), app.shutdown.reached(Phase::Draining)).await;
    door.drain().await;
    app.shutdown.advance(Phase::Stopping);
    match tokio::time::timeout(JOBS_END_WITHIN, &mut jobs).await {
        Ok(ended) => ended?,
        Err(_) => tracing::warn!("the jobs did not end in time"),
    }
    for listening in house {
        // Their connections are not waited for longer than this.
        if let Ok(ended) = tokio::time::timeout(HOUSE_ENDS_WITHIN, listening).await {
            ended?;
        }
    }
    if tokio::time::timeout(STORE_ENDS_WITHIN, store.close()).await.is_err() {
        tracing::warn!("connections to Postgres did not come back in time");
    }
    Ok(())
}
