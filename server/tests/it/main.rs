//! The one integration binary.

mod support;

mod catalogue;
pub(crate) mod checkout;
mod cluster;
mod constraint;
mod embedded;
mod fault;
mod http_command;
mod http_order;
mod http_read;
mod import;
mod inventory;
mod organiser;
mod partition;
mod paysim;
mod protocol;
mod seatmap;
mod socket;
