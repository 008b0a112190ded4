//! The real binary, from outside: arguments and files in; files, streams and exit codes out.

mod commands;
mod crash;
mod damage;
mod errors;
mod pages;
mod ready_onnx;
mod rerun;
mod settled;
#[path = "../support/mod.rs"]
mod support;
