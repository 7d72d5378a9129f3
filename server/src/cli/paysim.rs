//! `seatwire paysim`: the payment simulator by itself, for tests and for two nodes that share one.

use super::{Failed, say};
use crate::clock::Clock;
use crate::config::{Config, Secret};
use crate::paysim::{self, PaysimConfig, WebhookConfig};
use crate::shutdown::{self, Phase, Shutdown};
use anyhow::Context;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Runs the payment simulator by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where it listens.
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Where a buyer's browser reaches it, when that is another address.
    #[arg(long)]
    public_url: Option<String>,
    /// Where the shop takes webhooks, e.g. http://127.0.0.1:8080/v1/webhooks/payment.
    #[arg(long, requires = "webhook_secret")]
    webhook_url: Option<String>,
    /// Which kinds of events are told, comma-separated; all without it.
    #[arg(long, value_delimiter = ',')]
    webhook_events: Vec<String>,
    /// Signs the webhooks; the shop knows it as SEATWIRE_WEBHOOK_SECRETS.
    #[arg(long, env = "SEATWIRE_PAYSIM_WEBHOOK_SECRET", hide_env_values = true)]
    webhook_secret: Option<String>,
}

pub(super) async fn run(config: Config, args: Args) -> Result<(), Failed> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let shutdown = Shutdown::new();
    let webhook = args.webhook_url.zip(args.webhook_secret).map(|(url, secret)| WebhookConfig {
        url,
        secret: Secret::new(secret),
        events: args.webhook_events,
    });
    let settings = PaysimConfig {
        data: Some(config.data.join("paysim")),
        public_url: args.public_url,
        webhook,
        ..PaysimConfig::default()
    };
    let paysim = paysim::start(listener, settings, Clock::system(), shutdown.clone()).await?;
    say(&format!("seatwire: payment simulator at {}", paysim.url()));
    shutdown::signal().await?;
    shutdown.advance(Phase::Stopping);
    Ok(())
}
