//! The one integration binary.

mod support;

mod embedded;
mod import;
mod paysim;
