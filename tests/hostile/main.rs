//! What hostile or careless specs, programs and files may not do.

#[cfg(target_os = "linux")]
mod bombs;
mod disks;
mod kinds;
mod named;
#[path = "../support/mod.rs"]
mod support;
