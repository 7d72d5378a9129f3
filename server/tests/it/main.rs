//! The one integration binary.

mod support;

mod catalogue;
mod checkout;
mod embedded;
mod import;
mod inventory;
mod paysim;
mod socket;
