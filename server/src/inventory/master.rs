//! The Redis that serves an event: connections to it, its loaded scripts, its identity and its clock. One a master in a
//! cluster, so that what happens to one ends no life elsewhere. Every script's text begins with the identity of the Redis
//! it was loaded into, so that after a restart, a promotion or a move each call meets NOSCRIPT before it can touch old data.

use super::InventoryError;
use super::far_clock::FarClock;
use super::script::{Failure, Reply, Verb, failure, read_reply, refusal};
use crate::config::InventoryConfig;
use crate::masters::line::Line;
use crate::masters::resp::encode_evalsha;
use crate::masters::{Connector, Masters};
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::Builder;
use fred::types::config::{Config, ReconnectPolicy, UnresponsiveConfig};
use parking_lot::RwLock;
use seatwire_proto::id::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Commands waiting for Redis at one connection; above it a call is refused as overloaded.
const MAX_COMMAND_BUFFER: usize = 20_000;
/// Wait between attempts to reach Redis again: short, because an event is closed meanwhile.
const RECONNECT_MIN_MS: u32 = 20;
/// Longest wait between attempts.
const RECONNECT_MAX_MS: u32 = 500;
/// A frame unanswered for so long means that the connection is dead.
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for Redis when the server starts.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One life of one Redis: its run and its replication history. Another one means that data may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedisIdentity(pub(super) String);

#[derive(Debug)]
struct Loaded {
    redis: RedisIdentity,
    /// Another one for every Redis met, also at other masters.
    generation: u64,
    shas: [String; Verb::ALL.len()],
}

/// The Redis of every event; one a node.
#[derive(Debug)]
pub(super) struct Scripts(Masters<MasterConnector>);

impl Scripts {
    pub(super) async fn connect(url: &str, config: &InventoryConfig) -> Result<Self, InventoryError> {
        let is_sharded = url.split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("-cluster"));
        let connector = MasterConnector {
            timeout: config.command_timeout,
            connections: config.connections.max(1),
            is_sharded,
            generations: Arc::new(AtomicU64::new(0)),
        };
        let masters = tokio::time::timeout(FIRST_CONNECT_TIMEOUT, Masters::connect(url, connector))
            .await
            .map_err(|_| InventoryError::Unavailable("Redis does not answer".into()))?
            .map_err(unavailable)?;
        let scripts = Self(masters);
        scripts.check().await?;
        Ok(scripts)
    }

    /// Who serves the event.
    pub(super) fn of(&self, event: EventId) -> Result<Arc<Master>, InventoryError> {
        let master = self.0.of(format_args!("{{{event}}}"));
        master.ok_or_else(|| InventoryError::Unavailable("no master serves the event".into()))
    }

    /// Which Redis serves the event, counted: a life opened in another generation is not to be trusted.
    pub(super) fn generation(&self, event: EventId) -> u64 {
        self.of(event).map_or(0, |master| master.generation())
    }

    /// A master said that another one serves the event now.
    pub(super) async fn moved(&self) {
        self.0.moved().await;
    }

    /// Asks which Redis answer now, and loads the scripts of those that are others. One that does not answer closes its own
    /// events only.
    ///
    /// # Errors
    /// When none answers.
    pub(super) async fn check(&self) -> Result<(), InventoryError> {
        let masters = self.0.all();
        let checks = masters.iter().map(|master| master.check());
        let mut failed = Some(InventoryError::Unavailable("no master is known".into()));
        for checked in futures_util::future::join_all(checks).await {
            failed = match (checked, failed) {
                (Ok(_), _) | (Err(_), None) => None,
                (Err(error), Some(_)) => Some(error),
            };
        }
        failed.map_or(Ok(()), Err)
    }

    /// Redis' clock, as far as we know it; of a cluster the one that is ahead.
    pub(super) fn now_ms(&self) -> u64 {
        self.0.all().iter().map(|master| master.now_ms()).max().unwrap_or_default()
    }
}

#[derive(Debug)]
struct MasterConnector {
    timeout: Duration,
    connections: usize,
    is_sharded: bool,
    generations: Arc<AtomicU64>,
}

impl Connector for MasterConnector {
    type Link = Master;

    async fn connect(&self, config: Config) -> Result<Master, Error> {
        let client = client_builder(config.clone(), self.timeout).build()?;
        // Connecting and waiting in one: a connection that is faster than the wait is not missed.
        client.init().await?;
        let mut lines = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let line = Line::connect(config.clone(), self.timeout).await;
            lines.push(line.map_err(|error| Error::new(ErrorKind::IO, error.to_string()))?);
        }
        Ok(Master {
            client,
            lines,
            calls: AtomicUsize::new(0),
            loaded: RwLock::new(None),
            loading: tokio::sync::Mutex::new(()),
            timeout: self.timeout,
            is_sharded: self.is_sharded,
            generations: Arc::clone(&self.generations),
            clock: FarClock::default(),
        })
    }

    async fn close(link: &Master) {
        if let Err(error) = link.client.quit().await {
            tracing::debug!(%error, "a master's connections could not be closed");
        }
    }
}

/// Connections and loaded scripts of one Redis.
#[derive(Debug)]
pub(super) struct Master {
    /// For what is rarer than calls.
    client: Client,
    lines: Vec<Line>,
    /// Calls so far: they take turns on the lines.
    calls: AtomicUsize,
    loaded: RwLock<Option<Arc<Loaded>>>,
    loading: tokio::sync::Mutex<()>,
    timeout: Duration,
    /// Whether scripts publish on sharded channels.
    is_sharded: bool,
    generations: Arc<AtomicU64>,
    clock: FarClock,
}

impl Master {
    /// A connected client for plain commands.
    pub(super) fn client(&self) -> Result<&Client, InventoryError> {
        if self.client.is_connected() {
            Ok(&self.client)
        } else {
            Err(InventoryError::Unavailable("Redis is not connected".into()))
        }
    }

    /// The Redis whose scripts are loaded.
    pub(super) fn redis(&self) -> Option<RedisIdentity> {
        self.loaded.read().as_ref().map(|loaded| loaded.redis.clone())
    }

    /// Which Redis, counted; 0 before the first.
    pub(super) fn generation(&self) -> u64 {
        self.loaded.read().as_ref().map_or(0, |loaded| loaded.generation)
    }

    /// Loads the scripts of the Redis that answers now, unless somebody did since `seen` was the one.
    pub(super) async fn reload(&self, seen: Option<&RedisIdentity>) -> Result<RedisIdentity, InventoryError> {
        let _one_at_a_time = self.loading.lock().await;
        let client = self.client()?;
        let (redis, now_ms) = identify(client).await?;
        self.clock.learn(now_ms);
        if let Some(loaded) = &*self.loaded.read()
            && loaded.redis == redis
            && seen.is_some_and(|seen| *seen != redis)
        {
            return Ok(redis);
        }
        let mut shas: [String; Verb::ALL.len()] = Default::default();
        for (sha, verb) in shas.iter_mut().zip(Verb::ALL) {
            *sha = client.script_load(verb.text(&redis, self.is_sharded)).await.map_err(|error| failure(&error))?;
        }
        let mut loaded = self.loaded.write();
        let generation = match &*loaded {
            Some(before) if before.redis == redis => before.generation,
            _ => self.generations.fetch_add(1, Ordering::Relaxed) + 1,
        };
        *loaded = Some(Arc::new(Loaded { redis: redis.clone(), generation, shas }));
        Ok(redis)
    }

    /// Asks which Redis answers now; loads its scripts when it is another one.
    pub(super) async fn check(&self) -> Result<RedisIdentity, InventoryError> {
        let (redis, now_ms) = identify(self.client()?).await?;
        self.clock.learn(now_ms);
        match self.redis() {
            Some(loaded) if loaded == redis => Ok(redis),
            seen => self.reload(seen.as_ref()).await,
        }
    }

    /// Until when a call made now may act, by Redis' clock.
    pub(super) fn deadline_ms(&self) -> u64 {
        self.now_ms() + self.timeout.as_millis() as u64
    }

    /// Redis' clock, as far as we know it; 0 before it said anything.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms().unwrap_or_default()
    }

    /// Calls a script once, in the Redis of this generation and no other.
    pub(super) async fn call(
        &self,
        generation: u64,
        verb: Verb,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Reply, Failure> {
        let loaded = self.loaded.read().clone().filter(|loaded| loaded.generation == generation);
        let loaded = loaded.ok_or(Failure::NoScript)?;
        let line = &self.lines[self.calls.fetch_add(1, Ordering::Relaxed) % self.lines.len()];
        let sha = &loaded.shas[verb as usize];
        let answer = line.ask(|out| encode_evalsha(out, sha, keys, args)).await;
        let answer = answer.map_err(|error| Failure::Error(error.into()))?;
        let value = answer.map_err(|error| {
            if error.starts_with("NOSCRIPT") {
                Failure::NoScript
            } else if error.starts_with("MOVED") {
                Failure::Moved
            } else {
                Failure::Error(refusal(&error).unwrap_or(InventoryError::Malformed(error)))
            }
        })?;
        let reply = read_reply(value).map_err(Failure::Error)?;
        self.clock.learn(reply.redis_ms);
        Ok(reply)
    }
}

/// A client of ours with the settings that keep a dead Redis from piling up work: sent once, bounded wait, bounded queue,
/// reconnecting for ever.
fn client_builder(config: Config, timeout: Duration) -> Builder {
    let mut builder = Builder::from_config(config);
    builder
        .set_policy(ReconnectPolicy::new_exponential(0, RECONNECT_MIN_MS, RECONNECT_MAX_MS, 2))
        .with_performance_config(|performance| {
            performance.default_command_timeout = timeout;
            performance.broadcast_channel_capacity = 8192;
        })
        .with_connection_config(|connection| {
            connection.connection_timeout = Duration::from_secs(2);
            connection.internal_command_timeout = Duration::from_secs(2);
            connection.max_command_attempts = 1;
            connection.max_command_buffer_len = MAX_COMMAND_BUFFER;
            connection.unresponsive =
                UnresponsiveConfig { max_timeout: Some(UNRESPONSIVE_AFTER), interval: UNRESPONSIVE_AFTER / 4 };
        });
    builder
}

async fn identify(client: &Client) -> Result<(RedisIdentity, u64), InventoryError> {
    let info: String = client.info(None).await.map_err(|error| failure(&error))?;
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
            .ok_or_else(|| InventoryError::Malformed(format!("INFO without {name}")))
    };
    let now_us: u64 = field("server_time_usec")?
        .parse()
        .map_err(|_| InventoryError::Malformed("INFO with an odd server_time_usec".into()))?;
    Ok((RedisIdentity(format!("{}.{}", field("run_id")?, field("master_replid")?)), now_us / 1000))
}

fn unavailable(error: Error) -> InventoryError {
    InventoryError::Unavailable(error.to_string())
}
