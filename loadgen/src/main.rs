//! The `seatwire-loadgen` command.
fn main() {}
