//! The only door to Redis' scripts: loads them, calls them, says what a failure means. The rest of the room never sees the
//! client library, so that it can be swapped. A call is sent once; a lost reply is told as unknown, never run again.
//! Every script's text begins with the identity of the Redis it was loaded into, so that after a restart or a promotion
//! each call meets NOSCRIPT before it can touch old data.

use super::InventoryError;
use crate::config::InventoryConfig;
use fred::clients::{Client, Pool};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::{Config, ReconnectPolicy, UnresponsiveConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Commands waiting for Redis at one connection; above it a call is refused as overloaded.
const MAX_COMMAND_BUFFER: usize = 20_000;
/// Wait between attempts to reach Redis again: short, because an event is closed meanwhile.
const RECONNECT_MIN_MS: u32 = 20;
/// Longest wait between attempts.
const RECONNECT_MAX_MS: u32 = 500;
/// A frame unanswered for so long means that the connection is dead.
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(1);
/// A step of Redis' clock above this is believed at once; below it the fastest reply so far knows best.
const CLOCK_STEP_MS: i64 = 1_000;

/// The scripts, one a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Allocate,
    Grant,
    Hold,
    HoldBest,
    HoldScan,
    HoldArea,
    Extend,
    Release,
    Lock,
    Unlock,
    Sell,
    Free,
    Expire,
    ReadMap,
    HoldRead,
    Changes,
    Records,
    Begin,
    Open,
    Configure,
    Block,
    EndHolds,
    Stock,
    Keep,
    Kept,
    Offer,
}

/// Lets a verb that only gives back run while Redis is full.
const ALLOW_OOM: &str = "#!lua flags=allow-oom\n";
/// The verb frees places.
const GIVES_BACK: &str = "gives_back = true\n";
/// The verb also writes records of other identities.
const TOUCHES_OTHERS: &str = "gives_back, others = true, {}\n";
const HEAD: &str = include_str!("lua/head.lua");
const TAKE: &str = include_str!("lua/take.lua");
const ORPHAN: &str = include_str!("lua/orphan.lua");
const HOLD_LINES: &str = include_str!("lua/hold_lines.lua");
const OWNED: &str = include_str!("lua/owned.lua");
const ORDER: &str = include_str!("lua/order.lua");
const SETTLE: &str = include_str!("lua/settle.lua");
const GIVE_BACK: &str = include_str!("lua/give_back.lua");
const OTHERS: &str = include_str!("lua/others.lua");
const DUE: &str = include_str!("lua/due.lua");
const BEGIN_WRITING: &str = include_str!("lua/begin_writing.lua");
const FINISH_WRITING: &str = include_str!("lua/finish_writing.lua");
const OWNED_WRITE: &str = include_str!("lua/owned_write.lua");
const ORDER_WRITE: &str = include_str!("lua/order_write.lua");
const TAIL: &str = include_str!("lua/tail.lua");
const RETURN_DONE: &str = include_str!("lua/return_done.lua");

impl Verb {
    const ALL: [Verb; 26] = [
        Verb::Allocate,
        Verb::Grant,
        Verb::Hold,
        Verb::HoldBest,
        Verb::HoldScan,
        Verb::HoldArea,
        Verb::Extend,
        Verb::Release,
        Verb::Lock,
        Verb::Unlock,
        Verb::Sell,
        Verb::Free,
        Verb::Expire,
        Verb::ReadMap,
        Verb::HoldRead,
        Verb::Changes,
        Verb::Records,
        Verb::Begin,
        Verb::Open,
        Verb::Configure,
        Verb::Block,
        Verb::EndHolds,
        Verb::Stock,
        Verb::Keep,
        Verb::Kept,
        Verb::Offer,
    ];

    /// Whether it runs while Redis is full, and its parts in order.
    const fn source(self) -> (bool, &'static [&'static str]) {
        match self {
            Verb::Allocate => {
                (false, &[HEAD, GIVES_BACK, SETTLE, GIVE_BACK, include_str!("lua/allocate.lua"), TAIL, RETURN_DONE])
            }
            Verb::Grant => (false, &[HEAD, SETTLE, include_str!("lua/grant.lua"), TAIL, RETURN_DONE]),
            Verb::Hold => (
                false,
                &[
                    HEAD,
                    TAKE,
                    SETTLE,
                    GIVE_BACK,
                    ORPHAN,
                    include_str!("lua/hold.lua"),
                    BEGIN_WRITING,
                    include_str!("lua/hold_write.lua"),
                    HOLD_LINES,
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::HoldBest => (
                false,
                &[
                    HEAD,
                    TAKE,
                    SETTLE,
                    GIVE_BACK,
                    ORPHAN,
                    include_str!("lua/hold_best.lua"),
                    BEGIN_WRITING,
                    include_str!("lua/hold_best_write.lua"),
                    HOLD_LINES,
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::HoldScan => (
                false,
                &[
                    HEAD,
                    TOUCHES_OTHERS,
                    TAKE,
                    SETTLE,
                    GIVE_BACK,
                    OTHERS,
                    DUE,
                    include_str!("lua/hold_scan.lua"),
                    BEGIN_WRITING,
                    include_str!("lua/hold_scan_write.lua"),
                    HOLD_LINES,
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::HoldArea => (
                false,
                &[
                    HEAD,
                    TOUCHES_OTHERS,
                    TAKE,
                    SETTLE,
                    GIVE_BACK,
                    OTHERS,
                    DUE,
                    include_str!("lua/hold_area.lua"),
                    BEGIN_WRITING,
                    include_str!("lua/hold_area_write.lua"),
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::Extend => {
                (true, &[HEAD, SETTLE, OWNED, include_str!("lua/extend.lua"), OWNED_WRITE, TAIL, RETURN_DONE])
            }
            Verb::Release => (
                true,
                &[
                    HEAD,
                    GIVES_BACK,
                    SETTLE,
                    GIVE_BACK,
                    OWNED,
                    include_str!("lua/release.lua"),
                    OWNED_WRITE,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::Lock => (true, &[HEAD, SETTLE, OWNED, include_str!("lua/lock.lua"), OWNED_WRITE, TAIL, RETURN_DONE]),
            Verb::Unlock => {
                (true, &[HEAD, SETTLE, OWNED, include_str!("lua/unlock.lua"), OWNED_WRITE, TAIL, RETURN_DONE])
            }
            Verb::Sell => (
                true,
                &[
                    HEAD,
                    TOUCHES_OTHERS,
                    SETTLE,
                    GIVE_BACK,
                    OTHERS,
                    ORDER,
                    include_str!("lua/sell.lua"),
                    ORDER_WRITE,
                    TAIL,
                    include_str!("lua/return_sold.lua"),
                ],
            ),
            Verb::Free => (
                true,
                &[
                    HEAD,
                    TOUCHES_OTHERS,
                    SETTLE,
                    GIVE_BACK,
                    OTHERS,
                    ORDER,
                    include_str!("lua/free.lua"),
                    ORDER_WRITE,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::Expire => (
                true,
                &[
                    HEAD,
                    TOUCHES_OTHERS,
                    SETTLE,
                    GIVE_BACK,
                    OTHERS,
                    DUE,
                    include_str!("lua/expire.lua"),
                    TAIL,
                    include_str!("lua/return_swept.lua"),
                ],
            ),
            Verb::ReadMap => (true, &[HEAD, include_str!("lua/read_map.lua")]),
            Verb::HoldRead => (true, &[HEAD, include_str!("lua/hold_read.lua")]),
            Verb::Changes => (true, &[HEAD, include_str!("lua/changes.lua")]),
            Verb::Records => (true, &[HEAD, include_str!("lua/records.lua")]),
            Verb::Begin => (true, &[include_str!("lua/begin.lua")]),
            Verb::Open => (false, &[include_str!("lua/open.lua")]),
            Verb::Configure => {
                (true, &[HEAD, GIVES_BACK, SETTLE, GIVE_BACK, include_str!("lua/configure.lua"), TAIL, RETURN_DONE])
            }
            Verb::Block => {
                (true, &[HEAD, GIVES_BACK, SETTLE, GIVE_BACK, include_str!("lua/block.lua"), TAIL, RETURN_DONE])
            }
            Verb::EndHolds => (
                true,
                &[
                    HEAD,
                    TOUCHES_OTHERS,
                    SETTLE,
                    GIVE_BACK,
                    OTHERS,
                    include_str!("lua/end_holds.lua"),
                    TAIL,
                    include_str!("lua/return_ended.lua"),
                ],
            ),
            Verb::Stock => (true, &[HEAD, include_str!("lua/stock.lua")]),
            Verb::Keep => {
                (true, &[HEAD, GIVES_BACK, SETTLE, GIVE_BACK, include_str!("lua/keep.lua"), TAIL, RETURN_DONE])
            }
            Verb::Kept => (true, &[HEAD, include_str!("lua/kept.lua")]),
            Verb::Offer => (
                false,
                &[
                    HEAD,
                    GIVES_BACK,
                    SETTLE,
                    GIVE_BACK,
                    include_str!("lua/offer.lua"),
                    BEGIN_WRITING,
                    include_str!("lua/offer_write.lua"),
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
        }
    }

    fn text(self, redis: &RedisIdentity) -> String {
        let (allows_oom, parts) = self.source();
        let mut text = String::from(if allows_oom { ALLOW_OOM } else { "" });
        text.push_str("-- ");
        text.push_str(&redis.0);
        text.push('\n');
        for part in parts {
            text.push_str(part);
        }
        text
    }
}

/// One life of one Redis: its run and its replication history. Another one means that data may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RedisIdentity(pub(super) String);

#[derive(Debug)]
struct Loaded {
    redis: RedisIdentity,
    /// Grows with every other Redis met.
    generation: u64,
    shas: [String; Verb::ALL.len()],
}

/// What a script said: `{word, Redis' clock, seq, ..}`.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) word: Word,
    pub(super) redis_ms: u64,
    pub(super) seq: u64,
    rest: Vec<Value>,
}

impl Reply {
    /// The part with this number behind the three first, empty when there is none.
    pub(super) fn bytes(&self, n: usize) -> &[u8] {
        self.rest.get(n).and_then(Value::as_bytes).unwrap_or_default()
    }

    /// The list behind the three first with this number.
    pub(super) fn list(&self, n: usize) -> &[Value] {
        match self.rest.get(n) {
            Some(Value::Array(values)) => values,
            _ => &[],
        }
    }

    pub(super) fn int(&self, n: usize) -> i64 {
        self.rest.get(n).and_then(Value::as_i64).unwrap_or_default()
    }
}

/// First word of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Lost,
    Behind,
    Late,
    KeyReused,
    Replayed,
    Done,
    Swept,
    Map,
    Read,
    Begun,
    Opened,
    Overtaken,
    Stale,
}

/// How a call ended without a reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// The script is not there: Redis lost its scripts, and maybe more.
    NoScript,
    /// Anything else.
    Error(InventoryError),
}

/// Connections and loaded scripts; one a node.
#[derive(Debug)]
pub(super) struct Scripts {
    pool: Pool,
    loaded: RwLock<Option<Arc<Loaded>>>,
    loading: tokio::sync::Mutex<()>,
    timeout: Duration,
    started: Instant,
    /// Redis' clock less the milliseconds since `started`.
    clock_offset_ms: AtomicI64,
}

impl Scripts {
    pub(super) async fn connect(url: &str, config: &InventoryConfig) -> Result<Self, InventoryError> {
        let timeout = config.command_timeout;
        let pool = client_builder(url, timeout)?.build_pool(config.connections.max(1)).map_err(unavailable)?;
        let scripts = Self {
            pool,
            loaded: RwLock::new(None),
            loading: tokio::sync::Mutex::new(()),
            timeout,
            started: Instant::now(),
            clock_offset_ms: AtomicI64::new(0),
        };
        // Connecting and waiting in one: a connection that is faster than the wait is not missed.
        tokio::time::timeout(FIRST_CONNECT_TIMEOUT, scripts.pool.init())
            .await
            .map_err(|_| InventoryError::Unavailable("Redis does not answer".into()))?
            .map_err(unavailable)?;
        scripts.reload(None).await?;
        Ok(scripts)
    }

    /// A connected client for plain commands.
    pub(super) fn client(&self) -> Result<&Client, InventoryError> {
        let client = self.pool.next_connected();
        if client.is_connected() {
            Ok(client)
        } else {
            Err(InventoryError::Unavailable("Redis is not connected".into()))
        }
    }

    /// The Redis whose scripts are loaded.
    pub(super) fn redis(&self) -> Option<RedisIdentity> {
        self.loaded.read().as_ref().map(|loaded| loaded.redis.clone())
    }

    /// Which Redis, counted: a life opened in another generation is not to be trusted.
    pub(super) fn generation(&self) -> u64 {
        self.loaded.read().as_ref().map_or(0, |loaded| loaded.generation)
    }

    /// Loads the scripts of the Redis that answers now, unless somebody did since `seen` was the one.
    pub(super) async fn reload(&self, seen: Option<&RedisIdentity>) -> Result<RedisIdentity, InventoryError> {
        let _one_at_a_time = self.loading.lock().await;
        let client = self.client()?;
        let (redis, now_ms) = identify(client).await?;
        self.learn_clock(now_ms);
        if let Some(loaded) = &*self.loaded.read()
            && loaded.redis == redis
            && seen.is_some_and(|seen| *seen != redis)
        {
            return Ok(redis);
        }
        let mut shas: [String; Verb::ALL.len()] = Default::default();
        for (sha, verb) in shas.iter_mut().zip(Verb::ALL) {
            *sha = client.script_load(verb.text(&redis)).await.map_err(|error| failure(&error))?;
        }
        let mut loaded = self.loaded.write();
        let generation = match &*loaded {
            Some(before) if before.redis == redis => before.generation,
            Some(before) => before.generation + 1,
            None => 1,
        };
        *loaded = Some(Arc::new(Loaded { redis: redis.clone(), generation, shas }));
        Ok(redis)
    }

    /// Asks which Redis answers now; loads its scripts when it is another one.
    pub(super) async fn check(&self) -> Result<RedisIdentity, InventoryError> {
        let (redis, now_ms) = identify(self.client()?).await?;
        self.learn_clock(now_ms);
        match self.redis() {
            Some(loaded) if loaded == redis => Ok(redis),
            seen => self.reload(seen.as_ref()).await,
        }
    }

    /// Until when a call made now may act, by Redis' clock.
    pub(super) fn deadline_ms(&self) -> u64 {
        self.now_ms() + self.timeout.as_millis() as u64
    }

    /// Redis' clock, as far as we know it.
    pub(super) fn now_ms(&self) -> u64 {
        let elapsed = self.started.elapsed().as_millis() as i64;
        (self.clock_offset_ms.load(Ordering::Relaxed) + elapsed).max(0) as u64
    }

    /// A reply is late by its way back, so the largest offset is the best, until the clock steps.
    fn learn_clock(&self, redis_ms: u64) {
        let offset = redis_ms as i64 - self.started.elapsed().as_millis() as i64;
        let known = self.clock_offset_ms.load(Ordering::Relaxed);
        if offset > known || offset < known - CLOCK_STEP_MS {
            self.clock_offset_ms.store(offset, Ordering::Relaxed);
        }
    }

    /// Calls a script once, in the Redis of this generation and no other.
    pub(super) async fn call(
        &self,
        generation: u64,
        verb: Verb,
        keys: &[&str],
        args: Vec<Value>,
    ) -> Result<Reply, Failure> {
        let client = self.client().map_err(Failure::Error)?;
        let loaded = self.loaded.read().clone().filter(|loaded| loaded.generation == generation);
        let loaded = loaded.ok_or(Failure::NoScript)?;
        let mut values = Vec::with_capacity(2 + keys.len() + args.len());
        values.push(Value::from(loaded.shas[verb as usize].as_str()));
        values.push(Value::from(keys.len() as i64));
        values.extend(keys.iter().map(|&key| Value::from(key)));
        values.extend(args);
        let command = CustomCommand::new_static("EVALSHA", ClusterHash::Offset(2), false);
        let value: Value = client.custom(command, values).await.map_err(|error| {
            if error.details().starts_with("NOSCRIPT") { Failure::NoScript } else { Failure::Error(failure(&error)) }
        })?;
        let reply = read_reply(value).map_err(Failure::Error)?;
        self.learn_clock(reply.redis_ms);
        Ok(reply)
    }
}

/// Longest wait for Redis when the server starts.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of ours with the settings that keep a dead Redis from piling up work: sent once, bounded wait, bounded queue,
/// reconnecting for ever.
pub(super) fn client_builder(url: &str, timeout: Duration) -> Result<Builder, InventoryError> {
    let config = Config::from_url(url).map_err(unavailable)?;
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
    Ok(builder)
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

fn read_reply(value: Value) -> Result<Reply, InventoryError> {
    let Value::Array(parts) = value else {
        return Err(InventoryError::Malformed(format!("a script answered {value:?}")));
    };
    let mut parts = parts.into_iter();
    let word = parts.next();
    let word = match word.as_ref().and_then(Value::as_bytes).unwrap_or_default() {
        b"lost" => Word::Lost,
        b"behind" => Word::Behind,
        b"late" => Word::Late,
        b"key_reused" => Word::KeyReused,
        b"replayed" => Word::Replayed,
        b"done" => Word::Done,
        b"swept" => Word::Swept,
        b"map" => Word::Map,
        b"read" => Word::Read,
        b"begun" => Word::Begun,
        b"opened" => Word::Opened,
        b"overtaken" => Word::Overtaken,
        b"stale" => Word::Stale,
        _ => return Err(InventoryError::Malformed(format!("a script answered {word:?}"))),
    };
    let redis_ms = parts.next().and_then(|value| value.as_u64()).unwrap_or_default();
    let seq = parts.next().and_then(|value| value.as_u64()).unwrap_or_default();
    Ok(Reply { word, redis_ms, seq, rest: parts.collect() })
}

fn unavailable(error: Error) -> InventoryError {
    InventoryError::Unavailable(error.to_string())
}

/// What the client library says, without a kind of its own, of a command for which it had no connection: it was not sent.
const NOT_ROUTED: &str = "Failed to route command.";

/// What a failed command tells us: the words Redis begins its errors with, then the kinds of the client library.
pub(super) fn failure(error: &Error) -> InventoryError {
    let details = error.details();
    for word in ["OOM", "BUSY", "MISCONF"] {
        if details.starts_with(word) {
            return InventoryError::Overloaded(details.to_owned());
        }
    }
    for word in ["LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "NOSCRIPT"] {
        if details.starts_with(word) {
            return InventoryError::Unavailable(details.to_owned());
        }
    }
    if details == NOT_ROUTED {
        return InventoryError::Unavailable(details.to_owned());
    }
    match error.kind() {
        ErrorKind::Timeout | ErrorKind::IO | ErrorKind::Canceled => InventoryError::TimeoutUnknown,
        ErrorKind::Backpressure => InventoryError::Overloaded(details.to_owned()),
        ErrorKind::Routing | ErrorKind::Cluster | ErrorKind::Auth | ErrorKind::Sentinel => {
            InventoryError::Unavailable(details.to_owned())
        }
        _ => InventoryError::Malformed(error.to_string()),
    }
}
