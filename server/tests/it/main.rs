//! The one integration binary.

mod support;

mod catalogue;
mod embedded;
mod import;
mod inventory;
mod paysim;
mod socket;
