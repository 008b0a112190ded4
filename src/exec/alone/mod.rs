//! Jobs outside of any plan, for questions to a device: without a record, the cache or a queue.

mod bench;
pub mod profile;

pub use bench::{Bench, share_cpu};
