//! The counter.

mod counter;
pub(crate) mod hello;
pub(crate) mod ping;
pub(crate) mod resync;
pub(crate) mod subscribe;

pub use counter::Counter;
pub use hello::Basket;
