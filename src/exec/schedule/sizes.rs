//! How much memory devices have that only their driver's library can tell: NVIDIA's cards.
//!
//! The look before a run reads files, which do not say it. So a run in which a step must hold such a device asks the
//! library, in a child and beside whatever else it begins with; steps that would claim memory there wait for the answer.
//! A run without such a step asks nothing. Without an answer nothing limits the claims, and a warning says so.

use crate::device::{Backend, BackendRow};
use crate::event::Event;
use crate::exec::schedule::resources::Lack;
use crate::exec::schedule::{Effect, Scheduler};
use crate::step::{Needs, StepId};

#[derive(Debug, Default)]
pub(super) struct Sizes {
    asking: bool,
    /// Steps that wait for the answer.
    waiting: Vec<StepId>,
}

impl Sizes {
    pub(super) fn is_asking(&self) -> bool {
        self.asking
    }

    /// How many steps wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Scheduler<'_> {
    /// Begins to ask, where a step that must run holds a device whose memory is not known.
    pub(super) fn ask_sizes(&mut self) {
        let to_run: Vec<_> = self.wanted.iter().copied().filter(|id| !self.is_done(*id)).collect();
        if to_run.into_iter().any(|id| self.is_unsized(id)) {
            self.sizes.asking = true;
            self.effects.push_back(Effect::AskSizes);
        }
    }

    /// Whether a step is to wait for the answer before it waits for its turn.
    pub(super) fn needs_size(&self, id: StepId) -> bool {
        self.sizes.asking && self.is_unsized(id)
    }

    pub(super) fn wait_for_size(&mut self, id: StepId) {
        self.slots.ready(id, self.now);
        self.sizes.waiting.push(id);
    }

    fn is_unsized(&self, id: StepId) -> bool {
        let step = self.world.plan.step(id);
        let Needs::Device { backend, device, .. } = step.kind.needs(step) else { return false };
        let units = &self.slots.machine.capacity.units;
        BackendRow::named(&backend).is_some_and(|row| !row.tells_memory)
            && self.devices.any_of(&backend, &device).iter().any(|at| units[*at].vram.is_none())
    }

    /// The answer is there.
    pub(super) fn sized(&mut self, answers: &[Backend]) {
        self.sizes.asking = false;
        for (at, size) in answers.iter().flat_map(|answer| self.devices.sizes(answer)).collect::<Vec<_>>() {
            let unit = &mut self.slots.machine.capacity.units[at];
            match size {
                Ok(bytes) => unit.vram = Some(bytes),
                Err(why) => {
                    let token = &unit.token;
                    let text =
                        format!("the memory of {token} is unknown: {why}; nothing limits what steps claim of it");
                    self.tell(Event::Warning { text });
                }
            }
        }
        for id in std::mem::take(&mut self.sizes.waiting) {
            self.line_up(id, Some(Lack::Size));
        }
    }
}
