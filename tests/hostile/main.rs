//! What hostile or careless specs, programs and files may not do.

mod mounts;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
