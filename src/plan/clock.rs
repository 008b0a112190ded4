//! Which runs are timed, by the spec, the command line and what the devices of this host are.

use std::collections::BTreeSet;

use crate::device::{Backend, DeviceKind};
use crate::spec::{Model, Target, Timing};

/// What decides of times besides the spec.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// `--check`: nothing is timed, whatever the spec says.
    pub is_stopped: bool,
    /// `--rounds`: of every timed case, whatever the spec says.
    pub rounds: Option<u32>,
    /// Backends that are here without the hardware that they are made for. Not known where no host is.
    pub stand_ins: BTreeSet<String>,
}

impl Clock {
    /// As the devices of a host are.
    pub fn on(inventory: &[Backend], is_stopped: bool, rounds: Option<u32>) -> Self {
        let is_stand_in = |found: &&Backend| {
            let mut kinds = found.devices.iter().map(|device| device.kind).peekable();
            found.available && kinds.peek().is_some() && kinds.all(|kind| kind != DeviceKind::Hardware)
        };
        let stand_ins = inventory.iter().filter(is_stand_in).map(|found| found.name.clone()).collect();
        Self { is_stopped, rounds, stand_ins }
    }

    pub(super) fn times(&self, timing: Timing, model: &Model, target: &Target) -> bool {
        let is_real = !self.stand_ins.contains(target.backend.name) && !asks_for_software(target);
        !self.is_stopped && !model.untimed && (timing == Timing::All || (timing == Timing::Hardware && is_real))
    }
}

/// Whether a target names the software that stands for a GPU, where there may be a GPU too.
fn asks_for_software(target: &Target) -> bool {
    target.device == "software" || target.options.get("adapter").is_some_and(|adapter| adapter == "software")
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
