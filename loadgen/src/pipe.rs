//! What coordinator and workers say to each other: one JSON object a line, instructions in, reports out.
//! Workers are children of the coordinator because one process holds only so many sockets.

use crate::check::{Entry, PaidOrder};
use crate::delivery::Commit;
use crate::scenario::{Arrivals, Buying, Phase};
use crate::tally::WindowLine;
use seatwire_proto::id::EventId;
use serde::{Deserialize, Serialize};

/// What every worker must know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) worker: u32,
    /// Changes from run to run; chooses source addresses.
    pub(crate) run: u32,
    pub(crate) seed: u64,
    /// Wall-clock microseconds at which the run's time is 0.
    pub(crate) base_us: u64,
    /// `http://host:port`, without a path.
    pub(crate) url: String,
    pub(crate) event: EventId,
    pub(crate) role: Role,
}

/// What a worker does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(crate) enum Role {
    Viewers(ViewerPlan),
    Buyers(BuyerPlan),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ViewerPlan {
    pub(crate) viewers: u32,
    /// The first so many keep the whole map.
    pub(crate) whole_maps: u32,
    pub(crate) connects_per_s: f64,
    pub(crate) accepts_packed2: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BuyerPlan {
    pub(crate) buyers: u32,
    pub(crate) connects_per_s: f64,
    pub(crate) seats_per_identity: u32,
    pub(crate) arrivals: Arrivals,
    pub(crate) phases: Vec<Phase>,
    pub(crate) buying: Buying,
}

/// Coordinator to worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Instruction {
    Plan(Box<Plan>),
    /// Say what time it is.
    Clock,
    /// The phases begin.
    Start {
        at_us: u64,
    },
    /// What buyers were told, for the viewers.
    Commits {
        commits: Vec<Commit>,
    },
    /// More viewers, so that there are this many.
    Grow {
        viewers: u32,
    },
    /// Every viewer asks for a snapshot.
    ResyncAll,
    /// Say where all viewers stand.
    Stand,
    /// Tell the rest and end.
    Finish,
}

/// Worker to coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum Report {
    Clock {
        now_us: u64,
    },
    /// Once a second.
    Progress(Progress),
    Windows {
        windows: Vec<WindowLine>,
    },
    Commits {
        commits: Vec<Commit>,
    },
    Log {
        entries: Vec<Entry>,
    },
    /// All arrivals are served.
    Served,
    Stand {
        standings: Vec<Stood>,
        absent: u32,
    },
    /// The last line.
    Final {
        paid: Vec<PaidOrder>,
    },
    /// The worker cannot go on.
    Failed {
        reason: String,
    },
}

/// How a worker is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Viewers with a map, or buyers that have said hello.
    pub(crate) ready: u32,
    pub(crate) gone: u32,
    /// CPU used so far.
    pub(crate) cpu_us: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) at_us: u64,
    /// Why the first socket that failed did.
    pub(crate) first_failure: Option<String>,
}

/// Viewers that stand at one place with one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stood {
    pub(crate) epoch: u32,
    pub(crate) seq: u64,
    pub(crate) digest: u32,
    pub(crate) viewers: u32,
    /// Of those, how many computed the digest from a map of their own.
    pub(crate) whole_maps: u32,
}
