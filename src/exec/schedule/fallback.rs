//! Fallbacks of a case whose own run failed, and which failures the spec expects.
//!
//! The runs of other targets are ordinary steps with keys of their own, so none is done twice, and none counts as a
//! result of the requested target.

use crate::matrix::Case;
use crate::plan::{Plan, PlannedCase, PlannedFallback};
use crate::record::Outcome;
use crate::spec::{ExpectedStage, ExpectedStatus};
use crate::step::{Stage, StepId};

/// Whether a case that ended so may fall back to another device. A wrong result is a finding about its device, and what
/// was interrupted may yet pass.
pub(super) fn calls_for_another(outcome: Outcome) -> bool {
    outcome.is_failure() && outcome != Outcome::Numerics
        || matches!(outcome, Outcome::SkipUnavailable | Outcome::SkipUnsupported)
}

/// How far a case is with its fallbacks.
pub(crate) enum Course<'p> {
    /// Its own run stands, whatever it came to.
    Own,
    /// This one is to be run next.
    Next(&'p PlannedFallback),
    Answered {
        by: &'p PlannedFallback,
        /// Fallbacks that failed before it.
        after: Vec<&'p PlannedFallback>,
    },
}

/// `outcome` gives that of a verdict, if it is done.
pub(crate) fn course(
    planned: &PlannedCase,
    outcome: impl Fn(StepId) -> Option<Outcome>,
) -> Course<'_> {
    let Some(mut last) = outcome(planned.judge) else {
        return Course::Own;
    };
    let mut after = Vec::new();
    for fallback in &planned.fallbacks {
        if !fallback
            .batch
            .map_or_else(|| calls_for_another(last), |_| last == Outcome::Oom)
        {
            continue;
        }
        match outcome(fallback.judge) {
            None => return Course::Next(fallback),
            Some(end) if end.is_made() => {
                return Course::Answered {
                    by: fallback,
                    after,
                };
            }
            Some(end) => last = end,
        }
        after.push(fallback);
    }
    Course::Own
}

/// The outcome of a word in the spec.
pub(crate) fn expected_outcome(status: ExpectedStatus) -> Outcome {
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
pub(crate) fn is_as_expected(case: &Case, stage: Stage, outcome: Outcome) -> bool {
    let Some(expect) = &case.expect else {
        return false;
    };
    let is_status = outcome == expected_outcome(expect.status);
    let is_stage = |expected| match expected {
        ExpectedStage::Generate => stage == Stage::Generate,
        ExpectedStage::Convert => stage == Stage::Convert,
        ExpectedStage::Run => matches!(stage, Stage::Run | Stage::Judge),
    };
    is_status && expect.stage.is_none_or(is_stage)
}

/// Whether every case that rests on this step is expected to end so.
pub(super) fn is_expected(plan: &Plan, id: StepId, outcome: Outcome) -> bool {
    let stage = plan.step(id).stage;
    let mut cases = plan.resting_on(id).peekable();
    cases.peek().is_some() && cases.all(|planned| is_as_expected(&planned.case, stage, outcome))
}

/// Whether another run may yet answer for each case that ends with this step.
pub(super) fn may_be_answered(plan: &Plan, id: StepId, outcome: Outcome) -> bool {
    let mut cases = plan.resting_on(id).peekable();
    let has_others = |planned: &PlannedCase| !planned.fallbacks.is_empty();
    calls_for_another(outcome) && cases.peek().is_some() && cases.all(has_others)
}
