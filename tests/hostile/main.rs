//! Programs, people and machines that do what nobody asked for; and what orch leaves alone all the same.

mod current;
mod foreign;
mod mounts;
mod permission;
mod read_only;
mod unfinished;
#[path = "../support/mod.rs"]
mod support;
