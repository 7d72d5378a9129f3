//! Losing Redis in the middle of a sale: what was promised to a buyer is still true afterwards.

pub(crate) mod audit;
mod clock;
mod dead_node;
mod fence;
pub(crate) mod journal;
mod offer;
mod pause;
mod race;
mod rebuild;
pub(crate) mod redis;
mod seen;
mod told;
mod writer;
