//! Asks drivers' libraries how much memory those devices have whose files do not say it.

use crate::device::{BACKENDS, Backend, BackendRow};
use crate::exec::perform::bug::Bugs;

/// Asks a backend's native library.
pub trait Probe: Sync {
    /// Everything that is found, as a thorough look does; a library that crashes or hangs makes it unavailable.
    fn query(&self, backend: &str) -> Backend;
}

/// The answers for all such backends.
pub(super) fn all(probe: &dyn Probe, bugs: &Bugs<'_>) -> Vec<Backend> {
    let silent = BACKENDS.iter().filter(|row| !row.tells_memory);
    let answers = silent.map(|BackendRow { name, .. }| {
        let answer = bugs.caught_aside(&format!("probe:{name}"), || probe.query(name));
        answer.unwrap_or_else(|bug| Backend::unavailable(name, bug))
    });
    answers.collect()
}
