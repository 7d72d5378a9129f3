//! The one integration binary.
fn main() {}
