//! What hostile or careless specs, programs and files may not do.

mod kinds;
mod named;
#[path = "../support/mod.rs"]
mod support;
