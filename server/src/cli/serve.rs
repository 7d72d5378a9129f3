//! `seatwire serve`: stores, listeners, demo, then the node until a signal; drains and stops what it started.

use super::stores::Stores;
use super::{Failed, say};
use crate::Listeners;
use crate::app::{Addresses, App};
use crate::checkout::APPLIED_EVENTS;
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::paysim::{self, PaysimConfig, WebhookConfig};
use crate::shutdown::{self, Phase, Shutdown};
use anyhow::Context;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use tokio::net::TcpListener;

/// Settings come from the environment; see server/README.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Load the demo venues and events when the catalogue is empty; on by itself with embedded stores.
    #[arg(long)]
    demo: bool,
    /// Never load the demo.
    #[arg(long, conflicts_with = "demo")]
    no_demo: bool,
}

pub(super) async fn run(mut config: Config, args: Args) -> Result<(), Failed> {
    let listen = |address, setting| async move {
        let bound = TcpListener::bind(address).await;
        bound.with_context(|| format!("cannot listen on {address} ({setting} chooses another)"))
    };
    let listeners = Listeners {
        public: listen(config.listen, "SEATWIRE_LISTEN").await?,
        admin: listen(config.admin_listen, "SEATWIRE_ADMIN_LISTEN").await?,
        door: listen(config.door_listen, "SEATWIRE_DOOR_LISTEN").await?,
    };
    config.listen = listeners.public.local_addr()?;
    config.admin_listen = listeners.admin.local_addr()?;
    config.door_listen = listeners.door.local_addr()?;

    let stores = Stores::open(&config).await?;
    let shutdown = Shutdown::new();
    let payment_url = match &config.checkout.payment_url {
        Some(url) => url.clone(),
        None => {
            let data = config.data.join("paysim");
            let listener = paysim_listener(&data).await.context("cannot listen for the payment simulator")?;
            // The secret lives as long as both ends of it.
            let secret = Secret::new(format!("whsec_{:032x}", rand::random::<u128>()));
            config.checkout.webhook_secrets.push(secret.clone());
            let url = format!("http://{}/v1/webhooks/payment", reachable(config.listen));
            let events = APPLIED_EVENTS.iter().map(|&kind| kind.to_owned()).collect();
            let webhook = Some(WebhookConfig { url, secret, events });
            let settings = PaysimConfig { data: Some(data), webhook, ..PaysimConfig::default() };
            paysim::start(listener, settings, Clock::system(), shutdown.clone()).await?.url()
        }
    };
    let addresses = Addresses {
        database_url: stores.database_url.reveal().to_owned(),
        redis_url: stores.redis_url.reveal().to_owned(),
        payment_url,
    };
    let wants_demo = !args.no_demo && (args.demo || stores.are_embedded());
    let (listen, admin_listen, public_url) = (config.listen, config.admin_listen, config.public_url());
    let door_listen = config.door_listen;
    let app = App::start(config, Clock::system(), &addresses, shutdown.clone()).await?;
    if wants_demo && crate::import::demo::load_if_empty(&app.store, app.clock.now_ms()).await? {
        say("seatwire: loaded the demo: a race track of 8,897 seats and a stadium of 70,000");
    }

    let out = shutdown.clone();
    let signals = tokio::spawn(async move {
        if let Err(error) = shutdown::signal().await {
            tracing::error!(%error, "cannot listen for signals");
        }
        tracing::info!("draining");
        out.advance(Phase::Draining);
    });
    say(&format!("seatwire: listening on {listen}, admin on {admin_listen}"));
    say(&format!("seatwire: doors scan at http://{door_listen}/scan/"));
    say(&format!("seatwire: open {public_url}"));
    let served = crate::run(app, listeners).await;
    shutdown.advance(Phase::Stopping);
    signals.abort();
    stores.close().await;
    served?;
    Ok(())
}

/// The port of the last start where it is still free: links to the simulator's pages stand in open orders.
async fn paysim_listener(data: &Path) -> std::io::Result<TcpListener> {
    let file = data.join("port");
    let last = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let listener = match TcpListener::bind(("127.0.0.1", last.unwrap_or(0))).await {
        Err(_) if last.is_some() => TcpListener::bind(("127.0.0.1", 0)).await?,
        bound => bound?,
    };
    std::fs::create_dir_all(data)?;
    std::fs::write(&file, listener.local_addr()?.port().to_string())?;
    Ok(listener)
}

/// The address at which this machine reaches a listener of its own.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen.ip() {
        ip if !ip.is_unspecified() => listen,
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, listen.port()).into(),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, listen.port()).into(),
    }
}
