//! Seatwire's rooms in walking order: a buyer comes in by `http` or `socket`, asks at the counter (`command`), takes
//! from the shelf (`inventory`), pays at the till (`checkout`) and is written into the ledger (`store`). `seatmap` shows
//! everyone what changed, `job` repairs by itself. Imports go downwards only; the README beside `src` has the map.

pub mod socket;

pub mod command;
pub mod error;

pub mod checkout;

pub mod catalogue;
pub mod import;
pub mod inventory;
pub mod seatmap;
pub mod store;

pub mod clock;
pub mod config;
pub mod embedded;
pub mod identity;
pub mod metrics;
pub mod paysim;
pub mod sender;
pub mod shutdown;
pub mod slots;
pub mod subscriber;
pub mod telemetry;
