//! The `seatwire` command.
fn main() {}
