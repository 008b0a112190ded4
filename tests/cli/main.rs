//! The real binary, from outside: arguments and files in; files, streams and exit codes out.

mod affected;
mod auto;
mod bfloat16;
mod cache_ci;
mod cache_gc;
mod cache_pack;
mod commands;
mod crash;
mod damage;
mod devices;
mod errors;
mod explained;
mod half;
mod handed_out;
mod ir;
mod keep_going;
mod kept;
mod max_age;
mod noise;
#[cfg(not(feature = "remote"))]
mod not_shared;
mod onnx;
mod oom;
mod pages;
mod partition;
mod phone;
mod ready_files;
mod ready_onnx;
mod rerun;
mod memo;
mod selection;
mod sizes;
mod states;
mod slots;
mod watched;
mod worn;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod untimed;
#[cfg(target_os = "linux")]
mod vram;
mod watch;
