//! Answers about the socket itself: who is there, what the clock says, and where a subscription begins.
//! The commands are in `client/session.rs` and `client/subscription.rs`.

use super::hold::Hold;
use super::order::Order;
use crate::id::{EventId, IdentityId, NodeId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Command budget of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Commands at once.
    pub burst: u32,
    /// Commands a second after that.
    pub per_s: u32,
}

/// Answer to `hello`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelloReply {
    /// This socket.
    pub session: SessionId,
    /// This process.
    pub node: NodeId,
    /// The server's clock.
    pub server_ms: u64,
    /// Who, or null.
    pub identity: Option<IdentityId>,
    /// Between WebSocket pings.
    pub heartbeat_ms: u64,
    /// Commands allowed.
    pub budget: Budget,
    /// Largest message.
    pub max_command_bytes: usize,
    /// Open holds of the identity.
    pub holds: Vec<Hold>,
    /// Open orders of the identity.
    pub orders: Vec<Order>,
}

/// Answer to `ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingReply {
    /// As it came.
    pub t0: Value,
    /// When it was read.
    pub t1: u64,
    /// When this was written.
    pub t2: u64,
}

/// Answer to `subscribe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeReply {
    /// Number in the map frames.
    pub channel: u32,
    /// Which event.
    pub event: EventId,
    /// Hash of its layout.
    pub layout: String,
    /// Seats in it.
    pub seat_count: u32,
    /// Areas in it.
    pub area_count: u32,
    /// Life of the inventory.
    pub epoch: u32,
    /// Counter within it.
    pub seq: u64,
    /// Deltas behind `from` follow, no snapshot.
    pub recovered: bool,
}
