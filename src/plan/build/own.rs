//! The steps that are a case's own.

use crate::spec::ReadyFormat;
use crate::step::StepId;

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

/// The steps that are a case's own.
#[derive(Clone, Copy)]
pub(super) struct StepsOfCase {
    pub(super) test: StepId,
    pub(super) run: StepId,
    pub(super) judge: StepId,
}

impl StepsOfCase {
    pub(super) fn map(self, f: impl Fn(StepId) -> StepId) -> Self {
        Self { test: f(self.test), run: f(self.run), judge: f(self.judge) }
    }
}
