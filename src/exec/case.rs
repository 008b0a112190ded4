//! The result of one case, made from the results of its steps, the spec's expectation and its fallbacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::base::shell;
use crate::catalogue::RUNTIMES;
use crate::device::DeviceKind;
use crate::exec::schedule::fallback::{Course, course, expected_outcome, is_as_expected};
use crate::exec::state::{How, StepResult};
use crate::exec::{Context, reproducer};
use crate::plan::{Plan, PlannedCase, PlannedFallback};
use crate::record::{Outcome, Record};
use crate::report::stats::{self, Ran};
use crate::report::{CaseResult, Converted, Expected, FallbackResult, FlakyStep, Tried};
use crate::spec::Expect;
use crate::step::{Source, Stage, Step, StepId};

/// In how many of the last executions a figure of the requested target is looked for.
const MEMORY: usize = 50;

pub(super) fn result(context: &Context<'_>, results: &[StepResult], planned: &PlannedCase) -> CaseResult {
    let plan = context.plan;
    let case = &planned.case;
    let own = &results[planned.judge.0 as usize];
    let params = plan.step(planned.run).run();
    let model = &plan.model_facts[&case.model];
    let at = own.blamed.or_else(|| failed_round(results, planned)).unwrap_or(planned.judge);
    let expected = case.expect.as_ref().map(|expect| expected(expect));
    let course = course(planned, |id| Some(results[id.0 as usize].outcome));
    let (answered, after) = match course {
        Course::Answered { by, after } if !is_as_expected(case, plan.step(at).stage, own.outcome) => (Some(by), after),
        _ => (None, Vec::new()),
    };
    let (status, reason) = judged(plan, results, planned, answered);
    // The figures are those of what ran: of the fallback, if one answered.
    let (run, judge) = answered.map_or((planned.run, planned.judge), |fallback| (fallback.run, fallback.judge));
    let shown = &results[run.0 as usize];
    let record = shown.record.as_deref();
    let verdict = results[judge.0 as usize].record.as_deref();
    // A case that ended before its run has only that step to tell of.
    let end = if answered.is_none() && own.blamed.is_some() { &results[at.0 as usize] } else { shown };
    let measure = record.and_then(|record| record.measure.as_ref());
    let rounds = rounds(results, planned, run);
    let own_run = results[planned.run.0 as usize].record.as_deref();
    let requested = own_run.and_then(|record| record.measure.as_ref());
    CaseResult {
        case: case.id(),
        dims: case.dims.clone(),
        model: case.model.clone(),
        row: Some(format!("{}:{}", model.row.file.display(), model.row.line)),
        family: model.family.clone(),
        task: model.task.clone(),
        pipeline: case.pipeline.clone(),
        weights: Some(model.weights),
        parameters: parameters(plan, results, planned),
        target: case.target.clone(),
        precision: case.precision.word().into(),
        chosen: case.chosen.clone(),
        half: case.half.clone(),
        backend: params.backend.name.to_owned(),
        status,
        stage: (status != Outcome::Pass && status != Outcome::Xpass).then(|| stage(plan, results, planned, at)),
        reason,
        requested_device: requested.map_or_else(|| params.requested_device(), |m| m.requested_device.clone()),
        actual_device: measure.map(|measure| measure.actual_device.clone()),
        cached: end.how == How::Hit,
        measured: record.map(|record| record.started.clone()),
        host: None,
        ended: end.record.as_ref().filter(|_| record.is_none()).map(|record| record.started.clone()),
        known_since: known_since(&results[at.0 as usize], record).filter(|_| answered.is_none()),
        untimed: measure.is_some_and(|measure| measure.times.is_none()),
        metrics: stats::metrics(&rounds, case.dims.get("batch").copied()),
        numerics: verdict.and_then(|record| record.numerics.clone()),
        placement: measure.map(|measure| measure.placement.clone()).unwrap_or_default(),
        facts: facts(context, results, planned, answered.map(|fallback| fallback.run)),
        repro: repro(context, results, planned, at),
        steps: planned.chain.iter().map(|id| plan.step(*id).name.clone()).collect(),
        took: took(plan, results, planned),
        converted: converted(context, results, planned),
        // A run reads the artefact first.
        loaded_bytes: source(plan.step(planned.run)).and_then(|id| size(context, results, id)),
        expected,
        fallback: answered.map(|fallback| fallback_result(context, results, planned, fallback, &after)),
        attempts: own_run.map(|record| record.attempts.clone()).unwrap_or_default(),
    }
}

/// What measured the case: its run, or that of the fallback that answered, and the further rounds of its own.
fn rounds<'r>(results: &'r [StepResult], planned: &PlannedCase, run: StepId) -> Vec<Ran<'r>> {
    let further = planned.rounds.iter().filter(|_| run == planned.run);
    let ran = |(id, round): (&StepId, u32)| {
        let record = results[id.0 as usize].record.as_deref()?;
        Some(Ran { round, started: &record.started, raw: record.measure.as_ref()? })
    };
    [run].iter().chain(further).zip(1..).filter_map(ran).collect()
}

/// The first round after a right run that failed by itself: a model that runs sometimes does not run.
fn failed_round(results: &[StepResult], planned: &PlannedCase) -> Option<StepId> {
    let is_made = results[planned.judge.0 as usize].outcome.is_made();
    planned.rounds.iter().copied().filter(|_| is_made).find(|id| results[id.0 as usize].outcome.is_failure())
}

/// How many the model has, by the step that made it.
fn parameters(plan: &Plan, results: &[StepResult], planned: &PlannedCase) -> Option<u64> {
    let mut made = planned.chain.iter().filter(|id| plan.step(**id).stage == Stage::Generate);
    made.find_map(|id| results[id.0 as usize].record.as_ref()?.facts.get("parameters")?.as_u64())
}

/// What each step took when it was executed, in this run or in an earlier one.
fn took(plan: &Plan, results: &[StepResult], planned: &PlannedCase) -> IndexMap<String, f64> {
    let record = |id: &StepId| results[id.0 as usize].record.as_ref().map(|record| (*id, record.seconds));
    planned.chain.iter().filter_map(record).map(|(id, seconds)| (plan.step(id).name.clone(), seconds)).collect()
}

/// How large what a step made is. None if nothing, or if it cannot be read.
fn size(context: &Context<'_>, results: &[StepResult], id: StepId) -> Option<u64> {
    Some(context.store.manifest(&results[id.0 as usize].output()?).ok()?.size())
}

/// The first step that a step reads from.
fn source(step: &Step) -> Option<StepId> {
    step.inputs.iter().find_map(|(_, source)| if let Source::Step(id) = source { Some(*id) } else { None })
}

fn converted(context: &Context<'_>, results: &[StepResult], planned: &PlannedCase) -> IndexMap<String, Converted> {
    let conversions = planned.chain.iter().filter(|id| context.plan.step(**id).stage == Stage::Convert);
    let made = conversions.filter_map(|id| {
        let step = context.plan.step(*id);
        let from_bytes = source(step).and_then(|from| size(context, results, from));
        Some((step.name.clone(), Converted { bytes: size(context, results, *id)?, from_bytes }))
    });
    made.collect()
}

/// When the step at which a case ended failed, if that was in an earlier run. The verdict may be older than the run:
/// equal outputs of another case were judged before this one's were `measured`. Then the time of the measurement
/// counts.
fn known_since(end: &StepResult, measured: Option<&Record>) -> Option<String> {
    let record = end.record.as_deref().filter(|_| end.failed_before)?;
    let measured = measured.map(|record| record.started.clone()).unwrap_or_default();
    Some(record.started.clone().max(measured))
}

/// The state of a case, and why.
fn judged(
    plan: &Plan,
    results: &[StepResult],
    planned: &PlannedCase,
    answered: Option<&PlannedFallback>,
) -> (Outcome, Option<String>) {
    let own = &results[planned.judge.0 as usize];
    let reason = own.reason.clone();
    if answered.is_some() {
        return (Outcome::PassFallback, reason);
    }
    let stage = plan.step(own.blamed.unwrap_or(planned.judge)).stage;
    match &planned.case.expect {
        Some(_) if is_as_expected(&planned.case, stage, own.outcome) => return (Outcome::Xfail, reason),
        Some(expect) if own.outcome.is_made() && failed_round(results, planned).is_none() => {
            let told = expected(expect).told();
            let at = &expect.rule.loc;
            return (Outcome::Xpass, Some(format!("it passed, but {at} expects {told}; `orch accept` takes that out")));
        }
        Some(expect) if own.outcome.is_failure() => {
            let reason = reason.as_deref().unwrap_or("no reason was given");
            return (own.outcome, Some(format!("{reason} (the spec expects {})", expected(expect).told())));
        }
        _ => {}
    }
    if let Some(id) = failed_round(results, planned) {
        let (round, failed) = (plan.step(id).run().round.unwrap_or(1), &results[id.0 as usize]);
        let why = failed.reason.as_deref().unwrap_or("no reason was given");
        return (failed.outcome, Some(format!("round {round} of {}: {why}", planned.rounds.len() + 1)));
    }
    // If a step above needed several attempts, the case is flaky as well.
    match flaky(results, planned) {
        Some(id) if own.outcome == Outcome::Pass => (Outcome::Flaky, results[id.0 as usize].reason.clone()),
        _ => (own.outcome, reason),
    }
}

fn flaky(results: &[StepResult], planned: &PlannedCase) -> Option<StepId> {
    planned.chain.iter().copied().find(|id| results[id.0 as usize].outcome == Outcome::Flaky)
}

fn stage(plan: &Plan, results: &[StepResult], planned: &PlannedCase, at: StepId) -> String {
    let is_made = results[planned.judge.0 as usize].outcome.is_made() && failed_round(results, planned).is_none();
    let at = if is_made { flaky(results, planned).unwrap_or(at) } else { at };
    // A verdict is reported as the stage of the run that it judges.
    let stage = if at == planned.judge { Stage::Run } else { plan.step(at).stage };
    stage.name().to_owned()
}

fn expected(expect: &Expect) -> Expected {
    Expected {
        status: expected_outcome(expect.status),
        stage: expect.stage.map(|stage| stage.word().to_owned()),
        reason: expect.rule.reason.clone(),
        since: expect.since.clone(),
        strict: expect.strict,
    }
}

fn fallback_result(
    context: &Context<'_>,
    results: &[StepResult],
    planned: &PlannedCase,
    fallback: &PlannedFallback,
    after: &[&PlannedFallback],
) -> FallbackResult {
    let plan = context.plan;
    let tried = |id: StepId, name: &str| {
        let result = &results[id.0 as usize];
        Tried { name: name.to_owned(), status: result.outcome, reason: result.reason.clone() }
    };
    let mut all = vec![tried(planned.judge, &planned.case.name)];
    all.extend(after.iter().map(|other| tried(other.judge, &other.case.name)));
    // A smaller batch takes less time, which says nothing of its cost.
    let known = match fallback.batch {
        Some(_) => None,
        // Figures of emulators and software drivers are not compared either.
        None if is_stand_in(context, plan.step(planned.run).run().backend.name) => None,
        None => known_median(context, &plan.step(planned.run).name),
    };
    let measure = results[fallback.run.0 as usize].record.as_deref().and_then(|record| record.measure.as_ref());
    let median = measure.and_then(stats::median);
    FallbackResult {
        name: fallback.case.name.clone(),
        batch: fallback.batch,
        step: plan.step(fallback.run).name.clone(),
        tried: all,
        slowdown: median.zip(known.as_ref()).map(|(own, (real, _))| own / real),
        against: known.map(|(_, date)| date),
    }
}

/// Whether an emulator or a software driver stands in for the hardware of a backend.
fn is_stand_in(context: &Context<'_>, backend: &str) -> bool {
    let found = context.inventory.iter().find(|known| known.name == backend && known.available);
    found.is_some_and(|found| found.devices.iter().all(|device| device.kind != DeviceKind::Hardware))
}

/// The newest figure that the requested target itself has given on this machine, in milliseconds, and its date.
fn known_median(context: &Context<'_>, step: &str) -> Option<(f64, String)> {
    let records = context.store.history(step, MEMORY).ok()?;
    let is_real = |record: &Record| record.outcome.is_made() && record.host == context.host.report.name;
    records.into_iter().filter(is_real).find_map(|record| {
        let median = stats::median(record.measure.as_ref()?)?;
        (median > 0.0).then_some((median, record.started))
    })
}

/// Failed steps that no case reports: those that a case rests on are reported by the case.
pub(super) fn failed_steps(plan: &Plan, results: &[StepResult]) -> BTreeSet<StepId> {
    let mut is_told = vec![false; results.len()];
    for planned in plan.cases.iter().filter(|planned| results[planned.judge.0 as usize].how != How::NotNeeded) {
        let spare = |fallback: &PlannedFallback| [Some(fallback.judge), results[fallback.judge.0 as usize].blamed];
        let spare = planned.fallbacks.iter().flat_map(spare).flatten();
        for id in planned.chain.iter().copied().chain(spare) {
            is_told[id.0 as usize] = true;
        }
    }
    let untold = plan.ids().filter(|id| results[id.0 as usize].outcome.is_failure() && !is_told[id.0 as usize]);
    untold.map(|id| results[id.0 as usize].blamed.unwrap_or(id)).collect()
}

/// Steps of the user's own that passed after failures, in this run or in the one whose result is used.
pub(super) fn flaky_steps(context: &Context<'_>, results: &[StepResult]) -> Vec<FlakyStep> {
    let is_own = |id: &StepId| {
        results[id.0 as usize].outcome == Outcome::Flaky && context.plan.step(*id).stage == Stage::Command
    };
    let told = |id: StepId| {
        let result = &results[id.0 as usize];
        FlakyStep {
            step: context.plan.step(id).name.clone(),
            reason: result.reason.clone(),
            executed: result.record.as_ref().map(|record| record.started.clone()),
            cached: result.how == How::Hit,
            attempts: result.record.as_deref().map(|record| record.attempts.clone()).unwrap_or_default(),
        }
    };
    context.plan.ids().filter(is_own).map(told).collect()
}

/// Facts of the run, of the steps above it and of the run in its place, by step; and the versions that they name, together.
fn facts(
    context: &Context<'_>,
    results: &[StepResult],
    planned: &PlannedCase,
    instead: Option<StepId>,
) -> IndexMap<String, Arc<Value>> {
    let mut by_step = IndexMap::new();
    let mut versions = serde_json::Map::new();
    let judged = planned.chain.iter().filter(|id| !planned.rounds.contains(id));
    for id in judged.chain(&instead) {
        let Some(record) = &results[id.0 as usize].record else { continue };
        if record.facts.is_null() {
            continue;
        }
        versions.extend(record.facts["versions"].as_object().cloned().unwrap_or_default());
        // Native runtimes name their library's version beside what else they say.
        for name in RUNTIMES.iter().flat_map(|runtime| runtime.versions) {
            if let Some(version) = record.facts.get(*name).filter(|value| value.is_string()) {
                versions.insert((*name).to_owned(), version.clone());
            }
        }
        by_step.insert(context.plan.step(*id).name.clone(), record.facts.clone());
    }
    by_step.insert("versions".into(), Value::Object(versions).into());
    by_step
}

/// The generated test is the reproducer of its cell, as soon as there is something for it to load; before that it is
/// the step at which the cell ended.
fn repro(context: &Context<'_>, results: &[StepResult], planned: &PlannedCase, at: StepId) -> Option<String> {
    let run = &results[planned.run.0 as usize];
    if run.outcome == Outcome::SkipUnavailable {
        return None;
    }
    if at != planned.run && at != planned.judge {
        let name = &context.plan.step(at).name;
        return Some(reproducer(&context.options.again(), name));
    }
    let file = crate::step::test_file_name(&planned.case.model, &planned.case.name);
    let step = context.plan.step(planned.run);
    let python = context.provision.env(crate::step::test_env(step.run())).ok()?.python;
    let variables = step.kind.requires(step).into_iter().flat_map(|needed| context.provision.variables(needed));
    let variables: String = variables.map(|variable| format!("{} ", shell::word(&variable))).collect();
    let env = if variables.is_empty() { "" } else { "env " };
    let python = shown(&python);
    Some(format!("{env}{variables}{python} {}/tests/{file}", context.options.out_dir.display()))
}

/// A path relative to where the user stands, if it lies there.
fn shown(path: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}
