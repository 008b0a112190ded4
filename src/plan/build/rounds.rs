//! The further rounds of a case: its run again, each time in a process of its own (docs/design.md, "Rounds").

use super::{Builder, measure};
use crate::matrix::Case;
use crate::step::{Params, Source, Step, StepId};

impl Builder<'_> {
    /// From the second round on; none of a run that is not timed.
    ///
    /// Each reads what the first one gave, so that none begins before that has passed.
    pub(super) fn rounds(&mut self, case: &Case, run: StepId) -> Vec<StepId> {
        let first = self.steps[run.0 as usize].clone();
        if !first.run().measure.is_timed() {
            return Vec::new();
        }
        let target = &self.spec.targets[&case.target];
        let rounds = self.clock.rounds.unwrap_or(measure(self.spec, target).rounds);
        let again = |round| {
            let params = Params::Run(crate::step::RunParams { round: Some(round), ..first.run().clone() }.into());
            let first_result = ("first".into(), Source::Step(run));
            let inputs = first.inputs.iter().cloned().chain([first_result]).collect();
            Step { name: format!("{}:round-{round}", first.name), params, inputs, ..first.clone() }
        };
        (2..=rounds).map(|round| self.add_new(again(round))).collect()
    }
}
