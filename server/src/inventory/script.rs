//! The scripts: one a verb, their parts, and what Redis says to them. `master.rs` loads and calls them; the rest of the room
//! never sees the client library, so that it can be swapped. A call is sent once; a lost reply is told as unknown, never
//! run again.

use super::InventoryError;
use super::call::FLAGS;
use super::master::RedisIdentity;
use fred::error::{Error, ErrorKind};
use fred::types::Value;

/// One name a script: the enum and the list of all.
macro_rules! verbs {
    ($($verb:ident)*) => {
        /// The scripts, one a verb.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Verb { $($verb),* }

        impl Verb {
            pub(super) const ALL: &[Verb] = &[$(Verb::$verb),*];
        }
    };
}

verbs! {
    Allocate Grant Hold HoldBest HoldScan HoldArea Extend Release Lock Unlock Sell Free Expire ReadMap HoldRead Changes
    Records Begin Open Configure Resize Block EndHolds Stock Keep Kept Offer
}

/// Lets a verb that only gives back run while Redis is full.
const ALLOW_OOM: &str = "#!lua flags=allow-oom\n";
/// How a Redis alone publishes.
const ALONE: &str = "local PUBLISH = 'PUBLISH'\n";
/// How one of a cluster does.
const OF_A_CLUSTER: &str = "local PUBLISH = 'SPUBLISH'\n";
/// A look at a key that is never there: it fails while the slot is on its way to another master, so that no script stops half
/// way because some of its keys have left. Reading a key that has left fails by itself, so readers go on as long as they
/// find what they read: the journal comes to its end.
const STAYS_HERE: &str = "redis.call('EXISTS', KEYS[1] .. '-')\n";
/// The verb frees places.
const GIVES_BACK: &str = "gives_back = true\n";
/// The verb also writes records of other identities.
const TOUCHES_OTHERS: &str = "gives_back, others = true, {}\n";
/// The rules of a verb that adds nothing; `take.lua` has them for those that do.
const RULES: &str = "local rules = floor(flags / HAS_RULES) % 2 == 1 and ARGV[#ARGV]\n";
const HEAD: &str = include_str!("lua/head.lua");
const TAKE: &str = include_str!("lua/take.lua");
const ORPHAN: &str = include_str!("lua/orphan.lua");
const HOLD_LINES: &str = include_str!("lua/hold_lines.lua");
const OWNED: &str = include_str!("lua/owned.lua");
const ORDER: &str = include_str!("lua/order.lua");
const SETTLE: &str = include_str!("lua/settle.lua");
const GIVE_BACK: &str = include_str!("lua/give_back.lua");
const OTHERS: &str = include_str!("lua/others.lua");
const CAPACITY: &str = include_str!("lua/capacity.lua");
const DUE: &str = include_str!("lua/due.lua");
const BEGIN_WRITING: &str = include_str!("lua/begin_writing.lua");
const FINISH_WRITING: &str = include_str!("lua/finish_writing.lua");
const OWNED_WRITE: &str = include_str!("lua/owned_write.lua");
const ORDER_WRITE: &str = include_str!("lua/order_write.lua");
const TAIL: &str = include_str!("lua/tail.lua");
const RETURN_DONE: &str = include_str!("lua/return_done.lua");

/// Before the own part of a verb that: adds to a hold; does so and also touches other identities; names a hold of the
/// caller's; gives back; changes how many places an area has; settles an order.
const TAKES: &[&str] = &[HEAD, TAKE, SETTLE, GIVE_BACK, ORPHAN];
const TAKES_FROM_OTHERS: &[&str] = &[HEAD, TOUCHES_OTHERS, TAKE, SETTLE, GIVE_BACK, OTHERS, DUE];
const NAMES_A_HOLD: &[&str] = &[HEAD, SETTLE, OWNED];
const FREES: &[&str] = &[HEAD, GIVES_BACK, SETTLE, GIVE_BACK];
const SIZES: &[&str] = &[HEAD, GIVES_BACK, SETTLE, GIVE_BACK, CAPACITY];
const FREES_OF_OTHERS: &[&str] = &[HEAD, TOUCHES_OTHERS, SETTLE, GIVE_BACK, OTHERS];
const SETTLES: &[&str] = &[HEAD, TOUCHES_OTHERS, SETTLE, GIVE_BACK, OTHERS, ORDER];
/// Behind it: nothing but the answer; the caller's hold as it is now; what stands in an order.
const ANSWERS: &[&str] = &[TAIL, RETURN_DONE];
const WRITES_THE_HOLD: &[&str] = &[OWNED_WRITE, TAIL, RETURN_DONE];

impl Verb {
    /// Whether it changes nothing a caller could ask for.
    pub(super) const fn only_reads(self) -> bool {
        matches!(self, Verb::ReadMap | Verb::HoldRead | Verb::Changes | Verb::Records | Verb::Stock | Verb::Kept)
    }

    /// Whether it runs while Redis is full: whatever gives back, settles or only reads does.
    const fn allows_oom(self) -> bool {
        !matches!(
            self,
            Verb::Allocate
                | Verb::Grant
                | Verb::Hold
                | Verb::HoldBest
                | Verb::HoldScan
                | Verb::HoldArea
                | Verb::Open
                | Verb::Offer
        )
    }

    /// Its parts in order: what comes before its own, its own, what comes behind it.
    const fn source(self) -> (&'static [&'static str], &'static str, &'static [&'static str]) {
        match self {
            Verb::Allocate => (FREES, include_str!("lua/allocate.lua"), ANSWERS),
            Verb::Grant => (&[HEAD, SETTLE], include_str!("lua/grant.lua"), ANSWERS),
            Verb::Hold => (
                TAKES,
                include_str!("lua/hold.lua"),
                &[BEGIN_WRITING, include_str!("lua/hold_write.lua"), HOLD_LINES, FINISH_WRITING, TAIL, RETURN_DONE],
            ),
            Verb::HoldBest => (
                TAKES,
                include_str!("lua/hold_best.lua"),
                &[
                    BEGIN_WRITING,
                    include_str!("lua/hold_best_write.lua"),
                    HOLD_LINES,
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::HoldScan => (
                TAKES_FROM_OTHERS,
                include_str!("lua/hold_scan.lua"),
                &[
                    BEGIN_WRITING,
                    include_str!("lua/hold_scan_write.lua"),
                    HOLD_LINES,
                    FINISH_WRITING,
                    TAIL,
                    RETURN_DONE,
                ],
            ),
            Verb::HoldArea => (
                TAKES_FROM_OTHERS,
                include_str!("lua/hold_area.lua"),
                &[BEGIN_WRITING, include_str!("lua/hold_area_write.lua"), FINISH_WRITING, TAIL, RETURN_DONE],
            ),
            Verb::Extend => (NAMES_A_HOLD, include_str!("lua/extend.lua"), WRITES_THE_HOLD),
            Verb::Release => (
                &[HEAD, GIVES_BACK, RULES, SETTLE, GIVE_BACK, OWNED, ORPHAN],
                include_str!("lua/release.lua"),
                WRITES_THE_HOLD,
            ),
            Verb::Lock => (NAMES_A_HOLD, include_str!("lua/lock.lua"), WRITES_THE_HOLD),
            Verb::Unlock => (NAMES_A_HOLD, include_str!("lua/unlock.lua"), WRITES_THE_HOLD),
            Verb::Sell => {
                (SETTLES, include_str!("lua/sell.lua"), &[ORDER_WRITE, TAIL, include_str!("lua/return_sold.lua")])
            }
            Verb::Free => (SETTLES, include_str!("lua/free.lua"), &[ORDER_WRITE, TAIL, RETURN_DONE]),
            Verb::Expire => (
                &[HEAD, TOUCHES_OTHERS, SETTLE, GIVE_BACK, OTHERS, DUE],
                include_str!("lua/expire.lua"),
                &[TAIL, include_str!("lua/return_swept.lua")],
            ),
            Verb::ReadMap => (&[HEAD], include_str!("lua/read_map.lua"), &[]),
            Verb::HoldRead => (&[HEAD], include_str!("lua/hold_read.lua"), &[]),
            Verb::Changes => (&[HEAD], include_str!("lua/changes.lua"), &[]),
            Verb::Records => (&[HEAD], include_str!("lua/records.lua"), &[]),
            Verb::Begin => (&[], include_str!("lua/begin.lua"), &[]),
            Verb::Open => (&[], include_str!("lua/open.lua"), &[]),
            Verb::Resize => (SIZES, include_str!("lua/resize.lua"), ANSWERS),
            Verb::Configure => (SIZES, include_str!("lua/configure.lua"), ANSWERS),
            Verb::Block => (FREES, include_str!("lua/block.lua"), ANSWERS),
            Verb::EndHolds => {
                (FREES_OF_OTHERS, include_str!("lua/end_holds.lua"), &[TAIL, include_str!("lua/return_ended.lua")])
            }
            Verb::Stock => (&[HEAD], include_str!("lua/stock.lua"), &[]),
            Verb::Keep => (FREES, include_str!("lua/keep.lua"), ANSWERS),
            Verb::Kept => (&[HEAD], include_str!("lua/kept.lua"), &[]),
            Verb::Offer => (
                FREES,
                include_str!("lua/offer.lua"),
                &[BEGIN_WRITING, include_str!("lua/offer_write.lua"), FINISH_WRITING, TAIL, RETURN_DONE],
            ),
        }
    }

    /// The whole text for this Redis, `is_sharded` when it is one of a cluster.
    pub(super) fn text(self, redis: &RedisIdentity, is_sharded: bool) -> String {
        let (before, own, behind) = self.source();
        let mut text = String::from(if self.allows_oom() { ALLOW_OOM } else { "" });
        text.push_str("-- ");
        text.push_str(&redis.0);
        text.push('\n');
        text.push_str(if is_sharded { OF_A_CLUSTER } else { ALONE });
        if is_sharded && !self.only_reads() {
            text.push_str(STAYS_HERE);
        }
        for (name, flag) in FLAGS {
            text.push_str(&format!("local {name} = {flag}\n"));
        }
        for part in before.iter().chain([&own]).chain(behind) {
            text.push_str(part);
        }
        text
    }
}

/// What a script said: `{word, Redis' clock, seq, the event's time, ..}`.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) word: Word,
    pub(super) redis_ms: u64,
    pub(super) seq: u64,
    /// 0 from scripts that refuse before they look at it.
    pub(super) event_ms: u64,
    rest: Vec<Value>,
}

impl Reply {
    /// The part with this number behind the four first, empty when there is none.
    pub(super) fn bytes(&self, n: usize) -> &[u8] {
        self.rest.get(n).and_then(Value::as_bytes).unwrap_or_default()
    }

    /// The list behind the four first with this number.
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
    /// Another master of the cluster serves the event; nothing was done.
    Moved,
    /// Anything else.
    Error(InventoryError),
}

pub(super) fn read_reply(value: Value) -> Result<Reply, InventoryError> {
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
    let event_ms = parts.next().and_then(|value| value.as_u64()).unwrap_or_default();
    Ok(Reply { word, redis_ms, seq, event_ms, rest: parts.collect() })
}

/// What the client library says, without a kind of its own, of a command for which it had no connection: it was not sent.
const NOT_ROUTED: &str = "Failed to route command.";

/// What Redis says to the first look of a script while the slot is moved to another master.
const ON_ITS_WAY: &str = "attempted to access a non local key";

/// What an error of Redis tells us by the word it begins with.
pub(super) fn refusal(details: &str) -> Option<InventoryError> {
    for word in ["OOM", "BUSY", "MISCONF"] {
        if details.starts_with(word) {
            return Some(InventoryError::Overloaded(details.to_owned()));
        }
    }
    for word in
        ["LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "NOSCRIPT", "MOVED", "ASK"]
    {
        if details.starts_with(word) {
            return Some(InventoryError::Unavailable(details.to_owned()));
        }
    }
    details.contains(ON_ITS_WAY).then(|| InventoryError::Unavailable(details.to_owned()))
}

/// What a failed command tells us: the words Redis begins its errors with, then the kinds of the client library.
pub(super) fn failure(error: &Error) -> InventoryError {
    let details = error.details();
    if let Some(refused) = refusal(details) {
        return refused;
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
