//! `ping`: the client's clock back, and ours twice, so that it can tell the way from the waiting.

use crate::error;
use seatwire_proto::client::Ping;
use seatwire_proto::server::{PingReply, Reply};

/// The answer; `read_ms` when the command was read, `written_ms` now.
pub(crate) fn answer(id: u32, body: &Ping, read_ms: u64, written_ms: u64) -> Reply {
    let body = PingReply { t0: body.t0.clone(), t1: read_ms, t2: written_ms.max(read_ms) };
    Reply::ok(id, &body).unwrap_or_else(|failure| Reply::error(Some(id), error::internal(&failure)))
}
