//! All rooms, built and wired once. Doors take an `App`; rooms take only what they use.

use crate::catalogue::Catalogue;
use crate::checkout::payment::stripe::Provider;
use crate::checkout::{Checkout, CheckoutParts, Seal};
use crate::clock::Clock;
use crate::config::Config;
use crate::identity::Identities;
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::notice::Notices;
use crate::organiser::Organiser;
use crate::organiser::key::Keyring;
use crate::seatmap::{Feed, SeatMap};
use crate::sender::Sender;
use crate::shutdown::Shutdown;
use crate::store::{Store, server_key};
use crate::waitlist::Waitlist;
use anyhow::Context;
use seatwire_proto::id::NodeId;
use std::sync::Arc;

/// One node.
#[derive(Debug)]
pub struct App {
    /// Which.
    pub node: NodeId,
    /// Its settings.
    pub config: Config,
    /// Its clock.
    pub clock: Clock,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// The ledger.
    pub store: Store,
    /// What is on sale.
    pub catalogue: Catalogue,
    /// The shelf.
    pub inventory: Inventory,
    /// What everyone sees.
    pub seatmap: SeatMap,
    /// The till.
    pub checkout: Checkout,
    /// Mails and outgoing webhooks.
    pub notices: Notices,
    /// Who waits for sold-out seats.
    pub waitlist: Waitlist,
    /// What the organiser changes.
    pub organiser: Organiser,
    /// Keys of operators and doors.
    pub keyring: Keyring,
    /// Pushes to identities, events and all.
    pub sender: Sender,
    /// Tokens.
    pub identities: Identities,
    /// The way out.
    pub shutdown: Shutdown,
}

/// Where the stores and the payment provider are.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Postgres.
    pub database_url: String,
    /// Redis.
    pub redis_url: String,
    /// The payment provider's API.
    pub payment_url: String,
}

impl App {
    /// Connects to both stores and builds every room.
    ///
    /// # Errors
    /// The store that does not answer, in one line.
    pub async fn start(
        config: Config,
        clock: Clock,
        addresses: &Addresses,
        shutdown: Shutdown,
    ) -> anyhow::Result<Arc<Self>> {
        let metrics = Arc::new(Metrics::new());
        let mut store = Store::connect(&addresses.database_url, &config.store).await.context("Postgres")?;
        if let Some(url) = &config.database_read_url {
            store = store.with_replica(url.reveal(), &config.store)?;
        }
        let identity_key = server_key::current(store.pool(), "identity", clock.now_ms()).await?;
        let catalogue = Catalogue::new(store.clone(), clock.clone());
        let inventory =
            Inventory::connect(&config.inventory, &addresses.redis_url, store.clone(), Arc::clone(&metrics))
                .await
                .context("Redis")?;
        inventory.follow(catalogue.clone());
        let payment_key = config.checkout.payment_key.clone();
        let ticket_seed = server_key::current(store.pool(), "ticket", clock.now_ms()).await?;
        let seal = Seal::from_hex(ticket_seed.reveal()).context("the key of tickets is not one")?;
        let sender = Sender::connect(&addresses.redis_url, Arc::clone(&metrics)).await?;
        let node = NodeId::generate();
        let checkout = Checkout::new(CheckoutParts {
            node: node.uuid(),
            seal,
            config: config.checkout.clone(),
            public_url: config.public_url(),
            provider_name: config.checkout.provider_name().to_owned(),
            provider: Provider::new(
                &addresses.payment_url,
                payment_key,
                config.checkout.payment_timeout,
                clock.clone(),
            )?,
            clock: clock.clone(),
            store: store.clone(),
            catalogue: catalogue.clone(),
            inventory: inventory.clone(),
            sender: sender.clone(),
        });
        let feed = Feed::connect(&addresses.redis_url).await?;
        let source = Arc::new(inventory.clone());
        let seatmap = SeatMap::new(config.seatmap.clone(), clock.clone(), Arc::clone(&metrics), source, Some(feed));
        let organiser = Organiser::new(
            store.clone(),
            catalogue.clone(),
            inventory.clone(),
            seatmap.clone(),
            sender.clone(),
            clock.clone(),
        );
        let waitlist =
            Waitlist::new(config.waitlist.clone(), store.clone(), inventory.clone(), sender.clone(), clock.clone());
        let notices = Notices::new(
            config.notice.clone(),
            config.public_url(),
            store.clone(),
            catalogue.clone(),
            checkout.clone(),
            clock.clone(),
        )?;
        Ok(Arc::new(Self {
            node,
            identities: Identities::new(identity_key, clock.clone()),
            keyring: Keyring::new(store.clone()),
            config,
            clock,
            metrics,
            store,
            catalogue,
            inventory,
            seatmap,
            checkout,
            notices,
            organiser,
            waitlist,
            sender,
            shutdown,
        }))
    }
}
