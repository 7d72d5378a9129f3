//! The generator against servers that lie in known ways (a check that never failed is unproven), and against a real one.

mod fake;
mod planted;
mod real;
