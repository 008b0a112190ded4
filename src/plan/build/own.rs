//! The steps that are a case's own: besides those that every case has, further rounds of its run, each in a process of its
//! own (docs/design/rounds.md), and what its quantisation is calibrated on.

use serde_json::json;

use super::{Builder, measure};
use crate::matrix::Case;
use crate::plan::sizes::{recipes, resolved_inputs};
use crate::spec::ReadyFormat;
use crate::step::{self, Params, RunParams, Source, Stage, Step, StepId};

/// The steps that make a model.
#[derive(Clone, Copy)]
pub(super) struct Made {
    pub(super) model: StepId,
    pub(super) ready: Option<ReadyFormat>,
}

/// What a generated test is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// It runs by itself, and judges.
    Person,
    /// orch runs it, and judges in a step of its own: so another tolerance is no reason to measure again.
    Run,
}

impl Builder<'_> {
    /// `calibration:<instance>`: sets of the model's inputs; None where no recipe makes any.
    pub(super) fn calibration(&mut self, case: &Case) -> Option<StepId> {
        let model = &self.spec.models[&case.model];
        let recipes = recipes(&resolved_inputs(model, case));
        if recipes.is_empty() {
            return None;
        }
        let params = json!({"seed": model.seed, "inputs": recipes, "sets": model.calibration_sets});
        let name = format!("calibration:{}", case.instance());
        Some(self.add(
            name,
            Stage::Generate,
            &step::CALIBRATION,
            params,
            vec![],
            600,
        ))
    }

    /// The rounds from the second on; none of a run that is not timed.
    ///
    /// Each reads what the first one gave, so that none begins before that has passed.
    pub(super) fn rounds(&mut self, case: &Case, run: StepId) -> Vec<StepId> {
        let first = self.steps[run.0 as usize].clone();
        if !first.run().measure.is_timed() {
            return Vec::new();
        }
        let target = &self.spec.targets[&case.target];
        let rounds = self
            .clock
            .rounds
            .unwrap_or(measure(self.spec, target).rounds);
        let again = |round| {
            let params = Params::Run(
                RunParams {
                    round: Some(round),
                    ..first.run().clone()
                }
                .into(),
            );
            let first_result = ("first".into(), Source::Step(run));
            let inputs = first.inputs.iter().cloned().chain([first_result]).collect();
            Step {
                name: format!("{}:round-{round}", first.name),
                params,
                inputs,
                ..first.clone()
            }
        };
        (2..=rounds)
            .map(|round| self.add_new(again(round)))
            .collect()
    }
}
