//! What is tried when a case's own run did not do it, and which failures nobody is surprised by.
//!
//! The runs of other targets are steps like all others, with keys of their own: nothing is done twice, and nothing of
//! theirs is kept as a result of the target that was asked for.

use crate::exec::schedule::Scheduler;
use crate::exec::state::{How, StepState};
use crate::matrix::Case;
use crate::plan::{Plan, PlannedCase, PlannedFallback};
use crate::record::Outcome;
use crate::spec::{ExpectedStage, ExpectedStatus};
use crate::step::{Stage, StepId};

/// Whether another device may answer for this end. A wrong result is a finding about the device that made it, and
/// whatever was not tried may yet pass.
fn calls_for_another(outcome: Outcome) -> bool {
    outcome.is_failure() && outcome != Outcome::Numerics
        || matches!(outcome, Outcome::SkipUnavailable | Outcome::SkipUnsupported)
}

/// How far a case has come through what is tried in its place.
pub(in crate::exec) enum Course<'p> {
    /// Its own run stands, whatever it came to.
    Own,
    /// This one is to be run next.
    Next(&'p PlannedFallback),
    Answered {
        by: &'p PlannedFallback,
        /// What was tried before it in vain, besides the case's own run.
        after: Vec<&'p PlannedFallback>,
    },
}

/// `outcome`: of a verdict that is done.
pub(in crate::exec) fn course(planned: &PlannedCase, outcome: impl Fn(StepId) -> Option<Outcome>) -> Course<'_> {
    let Some(mut last) = outcome(planned.judge) else { return Course::Own };
    let mut after = Vec::new();
    for fallback in &planned.fallbacks {
        let applies = match fallback.batch {
            Some(_) => last == Outcome::Oom,
            None => calls_for_another(last),
        };
        if !applies {
            continue;
        }
        match outcome(fallback.judge) {
            None => return Course::Next(fallback),
            Some(end) if end.is_made() => return Course::Answered { by: fallback, after },
            Some(end) => last = end,
        }
        after.push(fallback);
    }
    Course::Own
}

/// The outcome that a word of the spec means.
pub(in crate::exec) fn expected_outcome(status: ExpectedStatus) -> Outcome {
    match status {
        ExpectedStatus::Fail => Outcome::Fail,
        ExpectedStatus::Numerics => Outcome::Numerics,
        ExpectedStatus::Oom => Outcome::Oom,
        ExpectedStatus::Timeout => Outcome::Timeout,
        ExpectedStatus::Crash => Outcome::Crash,
        ExpectedStatus::Unsupported => Outcome::SkipUnsupported,
    }
}

/// Whether the spec expects the case to end so.
pub(in crate::exec) fn is_as_expected(case: &Case, stage: Stage, outcome: Outcome) -> bool {
    let Some(expect) = &case.expect else { return false };
    let is_status = outcome == expected_outcome(expect.status);
    let is_stage = match expect.stage {
        None => true,
        Some(ExpectedStage::Generate) => stage == Stage::Generate,
        Some(ExpectedStage::Convert) => stage == Stage::Convert,
        Some(ExpectedStage::Run) => matches!(stage, Stage::Run | Stage::Judge),
    };
    is_status && is_stage
}

/// Whether every case that rests on this step is expected to end so.
pub(super) fn is_expected(plan: &Plan, id: StepId, outcome: Outcome) -> bool {
    let stage = plan.step(id).stage;
    let mut cases = plan.resting_on(id).peekable();
    cases.peek().is_some() && cases.all(|planned| is_as_expected(&planned.case, stage, outcome))
}

/// Whether another run may yet answer for each case that ends with this step.
fn may_be_answered(plan: &Plan, id: StepId, outcome: Outcome) -> bool {
    let mut cases = plan.resting_on(id).peekable();
    let has_others = |planned: &PlannedCase| !planned.fallbacks.is_empty();
    calls_for_another(outcome) && cases.peek().is_some() && cases.all(has_others)
}

impl Scheduler<'_> {
    /// Takes note of how a step ended. A failure that is expected, or that another run may answer for, ends no run.
    pub(super) fn note_end(&mut self, id: StepId, how: How, outcome: Outcome) {
        self.retries.has_fallen |= calls_for_another(outcome);
        self.failed |= how != How::Hit
            && outcome.is_failure()
            && !is_expected(self.world.plan, id, outcome)
            && !may_be_answered(self.world.plan, id, outcome);
    }

    /// Wants the next run of each case whose runs so far did not do it.
    pub(super) fn want_fallbacks(&mut self) {
        if !std::mem::take(&mut self.retries.has_fallen) {
            return;
        }
        let plan = self.world.plan;
        for planned in plan.cases.iter().filter(|planned| !planned.fallbacks.is_empty()) {
            // One that is wanted may be done already, and call for the one after it.
            while self.wanted.contains(&planned.judge)
                && let Course::Next(next) = course(planned, |id| self.result(id).map(|result| result.outcome))
                && !self.wanted.contains(&next.judge)
            {
                self.want(next.judge);
            }
        }
    }

    /// Adds a step to what is wanted, with what it needs.
    fn want(&mut self, id: StepId) {
        let is_new = |id| !self.wanted.contains(&id) && !self.is_done(id);
        for id in self.world.plan.upstream([id], |reader, _| is_new(reader)) {
            if !self.wanted.insert(id) {
                continue;
            }
            if matches!(self.states[id.0 as usize], StepState::Unknown) {
                self.consult(id);
            }
            // Before anything executes, what is ready is queued all at once.
            if self.is_ready(id) && self.setups.has_begun() {
                self.queue(id);
            }
        }
    }
}
