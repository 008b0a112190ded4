//! The real binary, from outside: arguments and files in; files, streams and exit codes out.

mod cache_ci;
mod cache_gc;
mod cache_pack;
mod commands;
mod crash;
mod damage;
mod errors;
mod pages;
mod ready_onnx;
mod rerun;
#[path = "../support/mod.rs"]
mod support;
