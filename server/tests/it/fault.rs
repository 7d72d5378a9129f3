//! Losing Redis in the middle of a sale: what was promised to a buyer is still true afterwards.

mod audit;
mod fence;
mod journal;
mod race;
mod rebuild;
mod redis;
mod told;
mod writer;
