//! The wire: everything that crosses a socket or an HTTP call, as plain types and pure functions.
//! Server and load generator both build on it; `vectors/` holds what every other client must pass.
//! No tokio and no I/O here. Read `client` (what a client may ask) and `server` (what it hears) first.

pub mod client;
pub mod code;
mod delta;
pub mod digest;
pub mod frame;
pub mod id;
pub mod layout;
pub mod layout_compact;
mod leb128;
pub mod money;
pub mod packed;
pub mod seat;
pub mod server;
mod snapshot;
pub mod view;
