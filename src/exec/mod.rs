//! Performs a plan: consults the store, schedules what is missing, and keeps a record of everything that happened.
//!
//! One loop on the calling thread owns all state (`driver`); job threads execute steps and send back results. Listeners
//! show events to the user; kinds of steps say what a step does.
//!
//! | wing | what it does | wings that it uses |
//! |---|---|---|
//! | `perform/` | one execution of one step, on this machine | none |
//! | `schedule/` | decides which steps execute, when and on which device | `perform/` |
//! | `away/` | performs steps on other machines, and serves those that other machines send | `perform/` |
//! | `alone/` | one job outside of a plan, for questions to a device | `perform/` |
//!
//! The files beside the wings are the ground that all of them stand on, and `driver`, `install`, `preview`, which use them
//! (`tests/architecture.rs`).

mod age;
mod backoff;
mod host;
mod options;
mod routing;
mod state;

mod world;
mod keys;

mod perform;

pub mod alone;
pub mod away;
mod schedule;

mod context;
mod driver;
mod install;
mod preview;
mod probe;

pub use age::MaxAge;
pub use alone::Bench;
pub use backoff::Backoff;
pub use context::Context;
pub use driver::{Ended, run};
pub use host::{HostFacts, variable_digest};
pub use options::{KeepGoing, OUT_DIR, Options, Settings, reproducer};
pub use preview::{Preview, held};
pub use probe::Probe;
pub use routing::{DEVICE, Routing};
pub(crate) use schedule::fallback::{Course, course, expected_outcome, is_as_expected};
pub use schedule::steps::usually_wanted;
pub use state::{How, StepResult};

#[cfg(test)]
mod tests;
