//! The contract, tested from outside: a real node, raw sockets and HTTP, and nothing known but the protocol's text.

mod best;
mod codes;
mod handshake;
mod hold;
mod map;
mod order;
mod session;
mod unlock;
