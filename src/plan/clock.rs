//! Runs that are timed, by the spec, the command line and what the devices of this host are.

use std::collections::BTreeSet;

use crate::catalogue::TestMeasure;
use crate::device::{Backend, DeviceKind};
use crate::spec::{Model, Target, Timing};

/// So many samples, or so many seconds, whichever comes first.
const LONGER: (u32, f64) = (1000, 0.2);

/// What decides of times besides the spec.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// `--check`: nothing is timed, whatever the spec says.
    pub is_stopped: bool,
    /// `--rounds`: of every timed case, whatever the spec says.
    pub rounds: Option<u32>,
    /// Cases of which a round samples for longer than usual, by their ids.
    pub longer: BTreeSet<String>,
    /// Backends that are here without the hardware that they are made for. Not known where no host is.
    pub stand_ins: BTreeSet<String>,
}

impl Clock {
    /// The clock with the devices of a host.
    pub fn on(self, inventory: &[Backend]) -> Self {
        let is_stand_in = |found: &&Backend| {
            let mut kinds = found.devices.iter().map(|device| device.kind).peekable();
            found.available
                && kinds.peek().is_some()
                && kinds.all(|kind| kind != DeviceKind::Hardware)
        };
        let stand_ins = inventory
            .iter()
            .filter(is_stand_in)
            .map(|found| found.name.clone())
            .collect();
        Self { stand_ins, ..self }
    }

    /// How a round of this case is timed. One that samples for longer goes on for five times what a short case usually gets: the
    /// more of a round's samples there are, the likelier is a quiet moment among them.
    pub(super) fn measure(&self, case: &str, usual: TestMeasure) -> TestMeasure {
        let TestMeasure::Times {
            warmup,
            samples,
            max_seconds,
        } = usual
        else {
            return usual;
        };
        if !self.longer.contains(case) {
            return usual;
        }
        let samples = samples.max(LONGER.0);
        let max_seconds = max_seconds.min(LONGER.1);
        TestMeasure::Times {
            warmup,
            samples,
            max_seconds,
        }
    }

    pub(super) fn times(&self, timing: Timing, model: &Model, target: &Target) -> bool {
        // This machine's stand-ins say nothing of another one.
        let is_stand_in =
            target.properties.is_empty() && self.stand_ins.contains(target.backend.name);
        let is_real =
            !is_stand_in && !asks_for_software(&target.device, target.options.get("adapter"));
        !self.is_stopped
            && !model.untimed
            && (timing == Timing::All || (timing == Timing::Hardware && is_real))
    }
}

/// Whether a target names the software that stands for a GPU, where there may be a GPU too.
pub fn asks_for_software(device: &str, adapter: Option<&serde_json::Value>) -> bool {
    device == "software" || adapter.is_some_and(|adapter| adapter == "software")
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
