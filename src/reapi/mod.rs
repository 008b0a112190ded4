//! Servers of Bazel's Remote Execution API v2, as a client sees them: blobs by digest, results of actions, executions.
//! Built with the feature `remote` only.
//!
//! Nothing that arrives is believed: a blob is hashed with the server's digest function before it counts as read. Knows
//! nothing of steps, keys and the store; docs/remote-execution.md says what these make of it.

mod action;
mod address;
mod blobs;
mod client;
mod connect;
mod credentials;
mod execute;
mod executor;
mod fault;
mod hash;
mod results;
mod transfer;
#[cfg(test)]
mod tests;

pub use action::{Input, Task};
pub use address::{Address, OPTIONS};
pub use bazel_remote_apis::build::bazel::remote::execution::v2 as proto;
pub use blobs::{Blob, Content, Wanted};
pub use client::{Client, Patience};
pub use execute::{Bounds, Ending};
pub use executor::{Came, Executor, Left};
pub use fault::Fault;
pub use hash::Function;

/// What requests are made in. Two threads: one may be hashing what arrives while the other keeps the rest going.
pub(crate) fn runtime(name: &str) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
}
