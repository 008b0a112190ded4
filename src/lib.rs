//! orch: a build system for model tests.
//!
//! Data flows one way: YAML becomes a [`spec::Spec`], that a [`matrix::Matrix`] of cases, that a [`plan::Plan`] of steps;
//! [`exec`] performs the steps that the [`store`] does not already hold and leaves [`record::Record`]s, from which
//! [`report`] makes pages. A [`session::Session`] composes all that. A module uses only what stands above it in this list
//! (`tests/architecture.rs`).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::disallowed_methods))]

pub mod base;
pub mod confine;
pub mod config;

pub mod template;
pub mod toolchain;
pub mod browser;
pub mod openvino;
pub mod device;
pub mod runtime;
pub mod catalogue;
pub mod spec;
pub mod judge;
pub mod key;
pub mod record;
#[cfg(feature = "remote")]
pub mod reapi;
pub mod store;

pub mod matrix;
pub mod report;
pub mod capability;
pub mod step;
pub mod plan;

pub mod event;
pub mod journal;
pub mod trace;
pub mod worker;
#[expect(
    clippy::disallowed_methods,
    reason = "starts the programs that install"
)]
pub mod provision;
pub mod exec;
pub mod cases;
pub mod explain;
pub mod memo;
pub mod history;

pub mod session;

pub mod cli;
