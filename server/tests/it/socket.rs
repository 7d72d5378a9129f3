//! The door alone: real sockets, and behind them an inventory in memory that each test plays by hand. What needs stores
//! is tested with whole nodes elsewhere; here are order, pace, slow viewers, holes in the feed and the way out.

mod door;
mod foyer;
mod map;
mod session;
mod slow;
