//! Which Redis serves a name: the one there is, or one of the masters of a Redis Cluster, by the hash slot of the name.
//! `inventory`, `sender` and `subscriber` bring their own kind of connection and get one a master. The client library's
//! own cluster mode stops every command while it looks for one lost master; here the others never notice.

pub(crate) mod line;
pub(crate) mod resp;
pub(crate) mod stream;
mod topology;

use fred::error::Error;
use fred::types::config::Config;
use fred::util::redis_keyslot;
use parking_lot::RwLock;
use std::fmt::Display;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use topology::{Shard, Topology};

/// Between two looks at who serves what: how long an event stays closed after its replica was promoted.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Longest wait for one master when connections to it are made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Hash slots of a cluster.
const SLOTS: usize = 16_384;
/// No master serves the slot.
const NOBODY: u16 = u16::MAX;

/// Makes connections of one kind.
pub(crate) trait Connector: Send + Sync + 'static {
    /// What it makes, one a master.
    type Link: std::fmt::Debug + Send + Sync + 'static;

    /// Connects to one server; afterwards the link reconnects by itself until it is closed.
    fn connect(&self, config: Config) -> impl Future<Output = Result<Self::Link, Error>> + Send;

    /// Ends the link's connections: its server is no master any more.
    fn close(link: &Self::Link) -> impl Future<Output = ()> + Send;
}

/// The masters and who serves what; cheap to clone. Looks again every quarter second as long as somebody holds it.
#[derive(Debug)]
pub(crate) struct Masters<C: Connector>(Arc<Inner<C>>);

impl<C: Connector> Clone for Masters<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Inner<C: Connector> {
    connector: C,
    /// `None`: one Redis, which serves everything.
    topology: Option<Topology>,
    routes: RwLock<Routes<C::Link>>,
    /// Looks begun so far; one at a time.
    looks: AtomicU64,
    looking: tokio::sync::Mutex<()>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Routes<L> {
    /// `host:port` and link.
    masters: Vec<(String, Arc<L>)>,
    /// Position in `masters` by slot; one entry when there is one Redis.
    owners: Vec<u16>,
    shards: Vec<Shard>,
}

impl<C: Connector> Masters<C> {
    /// Connects to the Redis at `redis://` or `redis+unix://`, or to all masters of the cluster at
    /// `redis-cluster://host:port,host:port`, of which one must answer.
    ///
    /// # Errors
    /// A bad URL, or nobody answers.
    pub(crate) async fn connect(url: &str, connector: C) -> Result<Self, Error> {
        let topology = Topology::parse(url)?;
        let mut routes = Routes { masters: Vec::new(), owners: vec![0], shards: Vec::new() };
        if topology.is_none() {
            let link = connector.connect(Config::from_url(url)?).await?;
            routes.masters.push((String::new(), Arc::new(link)));
        } else {
            routes.owners = vec![NOBODY; SLOTS];
        }
        let is_cluster = topology.is_some();
        let masters = Self(Arc::new(Inner {
            connector,
            topology,
            routes: RwLock::new(routes),
            looks: AtomicU64::new(0),
            looking: tokio::sync::Mutex::new(()),
            changed: watch::Sender::new(()),
        }));
        if is_cluster {
            masters.0.look().await?;
            tokio::spawn(keep_looking(Arc::downgrade(&masters.0)));
        }
        Ok(masters)
    }

    /// Whether it is a cluster, where channels are sharded.
    pub(crate) fn is_cluster(&self) -> bool {
        self.0.topology.is_some()
    }

    /// Who serves a key or channel; `None` while nobody does.
    pub(crate) fn of(&self, name: impl Display) -> Option<Arc<C::Link>> {
        let slot = if self.is_cluster() { usize::from(redis_keyslot(name.to_string().as_bytes())) } else { 0 };
        let routes = self.0.routes.read();
        let owner = routes.owners.get(slot).copied().filter(|owner| *owner != NOBODY)?;
        routes.masters.get(usize::from(owner)).map(|(_, link)| Arc::clone(link))
    }

    /// Every master.
    pub(crate) fn all(&self) -> Vec<Arc<C::Link>> {
        self.0.routes.read().masters.iter().map(|(_, link)| Arc::clone(link)).collect()
    }

    /// Somebody was told that another master serves a slot: looks again. When this returns, a look that was begun after
    /// the call is over, whatever it found.
    pub(crate) async fn moved(&self) {
        if let Err(error) = self.0.look().await {
            tracing::debug!(%error, "the cluster could not be asked");
        }
    }

    /// Tells of every change in who serves what.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }
}

impl<C: Connector> Inner<C> {
    async fn look(&self) -> Result<(), Error> {
        let Some(topology) = &self.topology else { return Ok(()) };
        let begun = self.looks.load(Ordering::SeqCst);
        let _one_at_a_time = self.looking.lock().await;
        // Whoever waited here for a look that began later needs none of its own.
        if self.looks.load(Ordering::SeqCst) > begun {
            return Ok(());
        }
        self.looks.fetch_add(1, Ordering::SeqCst);
        let known: Vec<String> = self.routes.read().masters.iter().map(|(address, _)| address.clone()).collect();
        let shards = topology.ask(&known).await?;
        let is_whole = shards.iter().all(|shard| known.contains(&shard.master));
        if is_whole && self.routes.read().shards == shards {
            return Ok(());
        }
        self.follow(topology, shards).await
    }

    /// Connects to masters that are new, lets go of those that are none any more.
    async fn follow(&self, topology: &Topology, shards: Vec<Shard>) -> Result<(), Error> {
        let before = self.routes.read().masters.clone();
        let mut masters: Vec<(String, Arc<C::Link>)> = Vec::new();
        let mut owners = vec![NOBODY; SLOTS];
        let mut failed = None;
        for shard in &shards {
            let position = match masters.iter().position(|(address, _)| *address == shard.master) {
                Some(position) => position,
                None => {
                    let link = match before.iter().find(|(address, _)| *address == shard.master) {
                        Some((_, link)) => Ok(Arc::clone(link)),
                        None => self.connect_to(topology, &shard.master).await.map(Arc::new),
                    };
                    match link {
                        Ok(link) => masters.push((shard.master.clone(), link)),
                        Err(error) => {
                            tracing::warn!(master = shard.master, %error, "a master cannot be reached");
                            failed = Some(error);
                            continue;
                        }
                    }
                    masters.len() - 1
                }
            };
            owners[usize::from(shard.first)..=usize::from(shard.last)].fill(position as u16);
        }
        if let (true, Some(error)) = (masters.is_empty(), failed) {
            return Err(error);
        }
        let is_same =
            before.len() == masters.len() && before.iter().all(|(old, _)| masters.iter().any(|(new, _)| new == old));
        if is_same && self.routes.read().shards == shards {
            return Ok(());
        }
        tracing::info!(masters = ?masters.iter().map(|(address, _)| address).collect::<Vec<_>>(), "who serves what");
        let gone: Vec<_> = before.into_iter().filter(|(old, _)| masters.iter().all(|(new, _)| new != old)).collect();
        *self.routes.write() = Routes { masters, owners, shards };
        self.changed.send_replace(());
        for (_, link) in gone {
            // What still waits for an answer there gets an error, as it should; nobody here waits for it.
            tokio::spawn(async move { C::close(&link).await });
        }
        Ok(())
    }

    async fn connect_to(&self, topology: &Topology, address: &str) -> Result<C::Link, Error> {
        let connecting = self.connector.connect(topology.config_of(address)?);
        tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(topology::no_answer(address)))
    }
}

async fn keep_looking<C: Connector>(inner: Weak<Inner<C>>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.look().await {
            tracing::debug!(%error, "the cluster could not be asked");
        }
    }
}
