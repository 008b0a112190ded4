//! What hostile or careless specs, programs and files may not do.

mod disks;
mod kinds;
mod named;
#[path = "../support/mod.rs"]
mod support;
