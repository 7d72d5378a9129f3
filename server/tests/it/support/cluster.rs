//! A real Redis Cluster: three masters with a replica each, on free ports of this machine. Members are killed, and slots
//! moved, at will; everything is gone when it is dropped.

use super::eventually;
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ServerConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);
/// Members 0 to 2 begin as masters, 3 to 5 as their replicas in the same order.
pub(crate) const MASTERS: usize = 3;
/// First slots of the masters, and the end.
const SLOTS: [u16; MASTERS + 1] = [0, 5461, 10923, 16384];
/// Silence after which a member counts as dead: how long a failover takes, about. Long enough for a machine on which a member
/// may not run for a while, or masters that are well are replaced.
const NODE_TIMEOUT_MS: &str = "6000";
/// No command of an operator takes longer.
const ANSWERS_WITHIN: std::time::Duration = super::PATIENCE;

/// A cluster.
pub(crate) struct Cluster {
    folder: PathBuf,
    members: Vec<Member>,
}

struct Member {
    port: u16,
    bus: u16,
    guard: Option<Child>,
    client: Client,
    id: String,
}

impl Cluster {
    /// Starts one and waits until it is well and every replica follows its master.
    pub(crate) async fn start() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/tmp/seatwire-it-{}-cluster{number}", std::process::id()));
        let mut cluster = Self { folder, members: Vec::new() };
        for n in 0..2 * MASTERS {
            let member = cluster.start_member(n).await;
            cluster.members.push(member);
        }
        for n in 0..2 * MASTERS {
            cluster.say(n, &format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1)).await;
            cluster.members[n].id = cluster.say(n, "CLUSTER MYID").await.as_string().expect("an id");
        }
        for n in 0..MASTERS {
            let (first, end) = (SLOTS[n], SLOTS[n + 1]);
            cluster.say(n, &format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1)).await;
        }
        for n in 1..2 * MASTERS {
            let Member { port, bus, .. } = cluster.members[n];
            cluster.say(0, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}")).await;
        }
        for n in 0..2 * MASTERS {
            eventually("the members to know each other", || async {
                let nodes = cluster.say(n, "CLUSTER NODES").await.as_string()?;
                let is_known = nodes.lines().filter(|line| !line.contains("handshake")).count() == 2 * MASTERS;
                is_known.then_some(())
            })
            .await;
        }
        for n in MASTERS..2 * MASTERS {
            cluster.say(n, &format!("CLUSTER REPLICATE {}", cluster.members[n - MASTERS].id)).await;
        }
        for n in 0..2 * MASTERS {
            eventually("the cluster to be well", || async {
                let info = cluster.say(n, "CLUSTER INFO").await.as_string()?;
                let replication = cluster.say(n, "INFO replication").await.as_string()?;
                let slots = cluster.say(n, "CLUSTER SLOTS").await;
                let is_linked = n < MASTERS || replication.contains("master_link_status:up");
                let Value::Array(slots) = slots else { return None };
                let have_replicas = slots.iter().all(|range| matches!(range, Value::Array(parts) if parts.len() == 4));
                (info.contains("cluster_state:ok") && is_linked && slots.len() == MASTERS && have_replicas)
                    .then_some(())
            })
            .await;
        }
        cluster
    }

    async fn start_member(&self, n: usize) -> Member {
        loop {
            // Held until just before the server takes them; if somebody else is faster, two others.
            let free = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
            let [port, bus] = free.each_ref().map(|listener| listener.local_addr().expect("bound").port());
            drop(free);
            let folder = self.folder.join(format!("{n}-{port}"));
            std::fs::create_dir_all(&folder).expect("a folder for redis");
            let mut command = Command::new(super::program());
            command.args(["guard", "--", "redis", "-", "redis-server", "--save", "", "--appendonly", "no"]);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--cluster-port", &bus.to_string()]);
            command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS]);
            command.args(["--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]);
            command.args(["--repl-diskless-sync-delay", "0", "--pidfile"]).arg(folder.join("redis.pid"));
            command.arg("--dir").arg(&folder);
            let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut guard = child.expect("the guard starts");
            let config = Config { server: ServerConfig::new_centralized("127.0.0.1", port), ..Config::default() };
            let client = Builder::from_config(config)
                .with_performance_config(|performance| {
                    performance.default_command_timeout = ANSWERS_WITHIN;
                })
                .build()
                .expect("a client");
            let began = std::time::Instant::now();
            while began.elapsed() < super::PATIENCE {
                if guard.try_wait().expect("our child").is_some() {
                    break;
                }
                // The pid tells that it is ours that listens there, not somebody who was faster.
                let has_pid = folder.join("redis.pid").exists();
                if has_pid && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() && client.init().await.is_ok() {
                    return Member { port, bus, guard: Some(guard), client, id: String::new() };
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            let _ = guard.kill();
            let _ = guard.wait();
            assert!(
                began.elapsed() < super::PATIENCE,
                "redis-server does not start (is it installed, version 7 or later?)"
            );
        }
    }

    /// One command to one member, words parted by spaces.
    pub(crate) async fn say(&self, member: usize, command: &str) -> Value {
        let mut words = command.split(' ').map(str::to_owned);
        let name = words.next().expect("a command");
        let custom = CustomCommand::new(name, ClusterHash::Random, false);
        let words: Vec<String> = words.collect();
        let said = self.members[member].client.custom(custom, words).await;
        said.unwrap_or_else(|error| panic!("{command} to {member}: {error}"))
    }

    /// For `REDIS_URL`: two of the masters, so that the third must be found.
    pub(crate) fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", self.members[0].port, self.members[1].port)
    }

    /// The slot of an event.
    pub(crate) fn slot(event: &str) -> u16 {
        redis_keyslot(event.as_bytes())
    }

    /// Which master has the event when nothing was moved.
    pub(crate) fn master_of(event: &str) -> usize {
        SLOTS.iter().rposition(|first| *first <= Self::slot(event)).expect("the first is 0")
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, member: usize) {
        let folder = self.folder.join(format!("{member}-{}", self.members[member].port));
        let pid = std::fs::read_to_string(folder.join("redis.pid")).expect("redis wrote its pid");
        let sent = Command::new("kill").args(["-s", "KILL", pid.trim()]).status().expect("kill is there");
        assert!(sent.success(), "redis runs");
        let mut guard = self.members[member].guard.take().expect("killed once");
        guard.wait().expect("reaped");
    }

    /// Waits until the replica of a dead master has taken its place.
    pub(crate) async fn promoted(&self, master: usize) {
        let replica = master + MASTERS;
        eventually("the replica to be promoted", || async {
            let role = self.say(replica, "INFO replication").await.as_string()?;
            role.contains("role:master").then_some(())
        })
        .await;
    }

    /// Begins to move a slot: from here on keys may be on either side.
    pub(crate) async fn begin_move(&self, slot: u16, from: usize, to: usize) {
        self.say(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.members[from].id)).await;
        self.say(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.members[to].id)).await;
    }

    /// Moves at most so many keys of the slot; how many there were.
    pub(crate) async fn move_keys(&self, slot: u16, from: usize, to: usize, most: usize) -> usize {
        let Value::Array(keys) = self.say(from, &format!("CLUSTER GETKEYSINSLOT {slot} {most}")).await else {
            return 0;
        };
        let keys: Vec<String> = keys.iter().filter_map(Value::as_string).collect();
        if !keys.is_empty() {
            let port = self.members[to].port;
            // The empty word stands where a single key would.
            self.say(from, &format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {}", keys.join(" "))).await;
        }
        keys.len()
    }

    /// Ends the move: the slot belongs to its new master.
    pub(crate) async fn end_move(&self, slot: u16, from: usize, to: usize) {
        for member in [to, from] {
            self.say(member, &format!("CLUSTER SETSLOT {slot} NODE {}", self.members[to].id)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The guard ends its program when its standard input closes.
            if let Some(guard) = &mut member.guard {
                drop(guard.stdin.take());
            }
        }
        for member in &mut self.members {
            if let Some(mut guard) = member.guard.take() {
                let _ = guard.wait();
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
