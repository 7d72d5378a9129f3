//! The door: the public listener, and one session for each socket that comes in by it. `accept` takes connections,
//! `handshake` makes them sockets, `task` and `wire` read, `session` decides, `conn` and `out` write; `heartbeat` ends
//! what has died. Commands go down to the counter, maps come up from `seatmap`, pushes from `sender`.

mod accept;
mod budget;
mod conn;
mod handshake;
mod heartbeat;
mod out;
mod session;
mod task;
mod transport;
mod wire;

use crate::clock::Clock;
use crate::command::Counter;
use crate::config::SocketConfig;
use crate::identity::Identities;
use crate::metrics::Metrics;
use crate::seatmap::SeatMap;
use crate::sender::{Everyone, Sender};
use crate::slots::Slots;
use accept::Gate;
use axum::Router;
use budget::Bucket;
use bytes::Bytes;
use conn::Conn;
use dashmap::DashMap;
use seatwire_proto::code::CloseCode;
use seatwire_proto::id::{IdentityId, NodeId};
use seatwire_proto::server::Push;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use transport::Transport;

/// An identity may do on all its sockets together what so many sessions may do.
const SESSIONS_WORTH: u32 = 4;
/// Identities whose budget is remembered; beyond, full buckets are forgotten.
const MAX_BUDGETS: usize = 100_000;
/// Sockets closed at once in a drain; then the others get their turn.
const DRAIN_CHUNK: usize = 64;
/// How long a drain waits for commands that still run, above all checkouts: as long as an answer may take, and a little.
const ANSWERS_WITHIN: Duration = Duration::from_secs(8);
/// Between two looks whether they are answered.
const ANSWERS_PAUSE: Duration = Duration::from_millis(20);
/// How long closing handshakes may take at the end of a drain.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// What sessions need of the rooms behind.
#[derive(Clone)]
pub struct Behind {
    /// Which node this is.
    pub node: NodeId,
    /// Settings.
    pub config: SocketConfig,
    /// Whether loopback addresses fall under the limits per address.
    pub is_loopback_limited: bool,
    /// The wall clock.
    pub clock: Clock,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Maps.
    pub seatmap: SeatMap,
    /// Pushes.
    pub sender: Sender,
    /// Tokens.
    pub identities: Identities,
    /// Commands.
    pub counter: Arc<dyn Counter>,
}

/// The public listener and its sessions.
pub struct Door {
    node: NodeId,
    config: SocketConfig,
    is_loopback_limited: bool,
    clock: Clock,
    metrics: Arc<Metrics>,
    seatmap: SeatMap,
    sender: Sender,
    identities: Identities,
    counter: Arc<dyn Counter>,
    sessions: Slots<Arc<Conn>>,
    gate: Gate,
    budgets: DashMap<IdentityId, Bucket>,
    opened: Instant,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("session_count", &self.sessions.count()).finish_non_exhaustive()
    }
}

impl Door {
    /// A door with nobody inside; begins to look after its sessions.
    #[must_use]
    pub fn open(behind: Behind) -> Arc<Self> {
        let Behind { node, config, is_loopback_limited, clock, metrics, seatmap, sender, identities, counter } = behind;
        let door = Arc::new(Self {
            node,
            gate: Gate::new(config.handshakes_per_s),
            config,
            is_loopback_limited,
            clock,
            metrics,
            seatmap,
            sender,
            identities,
            counter,
            sessions: Slots::default(),
            budgets: DashMap::new(),
            opened: Instant::now(),
        });
        tokio::spawn(heartbeat::run(Arc::clone(&door)));
        door.sender.set_everyone(Arc::clone(&door) as Arc<dyn Everyone>);
        door
    }

    /// Serves the public listener: `/v1/socket` here, everything else by `router`. Returns when `draining` is over and
    /// the HTTP requests in flight are answered; sockets stay until [`Door::drain`].
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, router: Router, draining: impl Future<Output = ()>) {
        accept::run(Arc::clone(self), listener, router, draining).await;
    }

    /// How many sockets are open.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Asks everyone to leave and then closes, in random order, over the window of the settings; who waits for an answer
    /// gets it first. Returns when all are gone or out of time.
    pub async fn drain(&self) {
        let window = self.config.drain;
        let window_ms = window.as_millis() as u64;
        self.sender.to_all(&Push::ServerDrain { after_ms: 0, jitter_ms: window_ms });
        let mut conns = Vec::new();
        self.sessions.copy(0..self.sessions.place_count(), &mut conns);
        for at in (1..conns.len()).rev() {
            conns.swap(at, rand::random_range(0..=at));
        }
        let began = Instant::now();
        let count = conns.len();
        let chunk = DRAIN_CHUNK.min(count.div_ceil(DRAIN_CHUNK)).max(1);
        for (index, conns) in conns.chunks(chunk).enumerate() {
            let due = window.mul_f64((index + 1) as f64 * chunk as f64 / (count + chunk) as f64);
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            for conn in conns {
                if conn.session().lock().is_at_rest() {
                    conn.close(CloseCode::Drain);
                }
            }
        }
        let patience = began + ANSWERS_WITHIN.max(window);
        while !conns.is_empty() {
            let is_over = Instant::now() >= patience;
            conns.retain(|conn| {
                let stays = !is_over && !conn.session().lock().is_at_rest();
                if !stays {
                    // A second close says nothing.
                    conn.close(CloseCode::Drain);
                }
                stays
            });
            if !conns.is_empty() {
                tokio::time::sleep(ANSWERS_PAUSE).await;
            }
        }
        drop(conns);
        let deadline = Instant::now() + DRAIN_GRACE;
        while self.sessions.count() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Milliseconds since the door opened, at least 1: 0 means never.
    fn now_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + 1
    }

    fn is_limited(&self, address: IpAddr) -> bool {
        self.is_loopback_limited || !address.to_canonical().is_loopback()
    }

    /// Spends of an identity's budget over all its sockets on this node.
    fn spend_identity(&self, identity: IdentityId, now_ms: u64) -> Result<(), u64> {
        let burst = self.config.command_burst.saturating_mul(SESSIONS_WORTH);
        let per_s = self.config.commands_per_s.saturating_mul(SESSIONS_WORTH);
        if self.budgets.len() >= MAX_BUDGETS {
            let full_after_ms = u64::from(burst) * 1_000 / u64::from(per_s.max(1)) + 1;
            self.budgets.retain(|_, bucket| !bucket.is_idle(full_after_ms, now_ms));
        }
        self.budgets.entry(identity).or_insert_with(|| Bucket::full(burst, now_ms)).spend(burst, per_s, now_ms)
    }
}

impl Everyone for Door {
    fn tell_all(&self, text: &Bytes) {
        let mut conns = Vec::new();
        self.sessions.copy(0..self.sessions.place_count(), &mut conns);
        for conn in conns {
            conn.send(text.clone());
        }
    }
}
