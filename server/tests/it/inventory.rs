//! The scripts on a real Redis: what was, what was asked, what came back, what is, what was published.

mod allocation;
mod best;
mod differential;
mod ending;
mod holding;
mod keeping;
mod losing;
mod lost_reply;
mod model;
mod order;
mod organise;
mod reading;
pub(crate) mod shelf;
mod telling;
