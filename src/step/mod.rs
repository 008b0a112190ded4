//! Step kinds, one file each.

pub mod generate;
