//! The real binary, from outside: arguments and files in; files, streams and exit codes out.

mod accepted;
mod affected;
mod answer;
mod auto;
mod bench;
mod bfloat16;
mod blame;
mod cache_ci;
mod cache_gc;
mod cache_pack;
mod capabilities;
mod completed;
mod contributed;
mod commands;
mod compare;
mod crash;
mod damage;
mod device_locks;
mod devices;
mod doctor;
mod emulated;
mod errors;
mod explained;
mod exit_codes;
mod github;
mod half;
mod handed_out;
mod history;
mod history_kept;
mod interrupted;
mod ir;
mod keep_going;
mod kept;
mod lacking_model;
mod last_run;
mod last_words;
mod looks;
mod matrix;
#[cfg(feature = "mcp")]
mod mcp;
mod max_age;
mod named;
mod noise;
#[cfg(not(feature = "remote"))]
mod not_shared;
mod onnx;
mod oom;
mod other_ci;
mod pages;
mod partition;
mod phone;
mod profile;
mod proved;
mod reads;
mod ready_files;
mod ready_onnx;
mod references;
mod rerun;
mod runner;
mod memo;
mod schemas;
mod selection;
mod serve;
mod serve_browser;
mod silent;
mod site;
mod sizes;
mod states;
mod slots;
#[cfg(target_os = "linux")]
mod quiet;
#[cfg(target_os = "linux")]
mod strict;

mod workflow;
mod worn;
#[path = "../support/page.rs"]
mod page;
#[path = "../support/mod.rs"]
mod support;
mod told;
mod toolchains;
mod too_large;
mod tokens;
mod torch_index;
mod tract;
mod untimed;
mod uv;
mod verify;
#[cfg(target_os = "linux")]
mod vram;
mod watch;
