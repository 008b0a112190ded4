//! What a step occupies of this machine against other orch processes: the devices on which it executes a model.
//!
//! It is the rule that holds within a process (`schedule/resources.rs`), but for work that executes no model: that goes on
//! beside another process's timed run, which records how much the machine computed besides.

use std::time::Duration;

use crate::device::Lease;
use crate::device::machine_lock::{DeviceUse, MachineLock, Share, Wait};
use crate::event::Event;
use crate::exec::perform::performer::Performer;
use crate::exec::perform::task::Task;

/// The longest wait for another process that is not reported.
const SILENT: Duration = Duration::from_secs(2);

/// The devices that the execution of a model uses: what was leased, and the processor, which has it to itself only if
/// nothing was leased.
pub(in crate::exec) fn uses(lease: Option<&Lease>, share: Share) -> Vec<DeviceUse> {
    match lease {
        Some(lease) => vec![
            DeviceUse::leased(lease, share),
            DeviceUse::cpu(Share::Together),
        ],
        None => vec![DeviceUse::cpu(share)],
    }
}

/// Takes machine-wide locks; None if `is_cancelled` ends the wait. A wait that lasts is reported once, and again every
/// second to `progress`.
pub(in crate::exec) fn occupy(
    uses: Vec<DeviceUse>,
    is_cancelled: impl Fn() -> bool,
    report: impl Fn(&str),
    progress: impl Fn(&str),
) -> Option<MachineLock> {
    let mut reported = 0;
    let lock = MachineLock::take(uses, |wait: &Wait<'_>| {
        let seconds = wait.waited.as_secs();
        if wait.waited >= SILENT && seconds > reported {
            let text = wait.to_string();
            if reported == 0 {
                report(&text);
            }
            progress(&format!("{text} ({seconds} s)"));
            reported = seconds;
        }
        !is_cancelled()
    });
    if reported > 0 && lock.is_some() {
        progress("its turn");
    }
    lock
}

impl Performer<'_> {
    /// Waits until no other process of this machine uses what the step needs. None if the user interrupts.
    pub(in crate::exec) fn occupy(&self, task: &Task<'_>) -> Option<MachineLock> {
        let kind = task.step.kind;
        if !kind.runs_models() {
            return Some(MachineLock::none());
        }
        let share = if kind.is_timed(task.step) {
            Share::Alone
        } else {
            Share::Together
        };
        let report = |text: &str| {
            self.listener.tell(Event::StepWaiting {
                step: task.step.name.clone(),
                text: text.to_owned(),
            });
        };
        let lock = occupy(
            uses(task.lease.as_ref(), share),
            || self.cancel.is_cancelled(),
            report,
            |text| self.tell(task, text),
        )?;
        if let Some(text) = lock.note.clone() {
            self.listener.tell(Event::Warning { text });
        }
        Some(lock)
    }
}
