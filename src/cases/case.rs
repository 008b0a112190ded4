//! The result of one case, made from the results of its steps, the spec's expectation and its fallbacks.

mod facts;

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::base::glob;
use crate::base::precision::Precision;
use crate::base::shell;
use crate::base::text::without_secrets;
use crate::device::DeviceKind;
use crate::exec::{
    Context, Course, How, StepResult, course, expected_outcome, is_as_expected, reproducer,
};
use crate::plan::{Plan, PlannedCase, PlannedFallback};
use crate::record::{Outcome, Record};
use crate::report::stats::{self, MeasuredRound};
use crate::report::{CaseResult, Converted, Expected, FallbackResult, FlakyStep, Tried};
use crate::runtime::RawMeasure;
use crate::spec::Expect;
use crate::step::{MATERIALISE, Stage, StepId, StepKind as _};
use crate::worker::tail;

/// How many of the last executions are searched for a figure of the requested target.
const MEMORY: usize = 50;
/// The lines of a failure's log that are shown, and the characters of each.
const LINES: usize = 20;
const LETTERS: usize = 2000;
/// Records keep whole seconds, s.
const SLACK: f64 = 1.5;

pub(super) fn result(
    context: &Context<'_>,
    results: &[StepResult],
    planned: &PlannedCase,
) -> CaseResult {
    Ended {
        context,
        results,
        planned,
    }
    .result()
}

/// A case whose steps have all ended.
struct Ended<'a> {
    context: &'a Context<'a>,
    results: &'a [StepResult],
    planned: &'a PlannedCase,
}

impl<'a> Ended<'a> {
    fn of(&self, id: StepId) -> &'a StepResult {
        &self.results[id.0 as usize]
    }

    fn record(&self, id: StepId) -> Option<&'a Record> {
        self.of(id).record.as_deref()
    }

    fn measure(&self, id: StepId) -> Option<&'a RawMeasure> {
        self.record(id)?.measure.as_ref()
    }

    fn name(&self, id: StepId) -> String {
        self.context.plan.step(id).name.clone()
    }

    fn result(&self) -> CaseResult {
        let plan = self.context.plan;
        let planned = self.planned;
        let case = &planned.case;
        let own = self.of(planned.judge);
        let params = plan.step(planned.run).run();
        let model = &plan.model_facts[&case.model];
        let at = own
            .blamed
            .or_else(|| self.failed_round())
            .unwrap_or(planned.judge);
        let expected = case.expect.as_ref().map(|expect| expected(expect));
        let course = course(planned, |id| Some(self.of(id).outcome));
        let (answered, after) = match course {
            Course::Answered { by, after }
                if !is_as_expected(case, plan.step(at).stage, own.outcome) =>
            {
                (Some(by), after)
            }
            _ => (None, Vec::new()),
        };
        let (status, reason) = self.judged(answered);
        // The figures are those of what ran: of the fallback, if one answered.
        let (run, judge) = answered.map_or((planned.run, planned.judge), |fallback| {
            (fallback.run, fallback.judge)
        });
        let record = self.record(run);
        // A case that ended before its run has only that step to report.
        let end = self.of(if answered.is_none() && own.blamed.is_some() {
            at
        } else {
            run
        });
        let measure = self.measure(run);
        let requested = self
            .measure(planned.run)
            .map(|measure| measure.requested_device.clone());
        CaseResult {
            case: case.id(),
            dims: case.dims.clone(),
            model: case.model.clone(),
            row: Some(format!("{}:{}", model.row.file.display(), model.row.line)),
            model_type: model.model_type.map(str::to_owned),
            family: model.family.clone(),
            task: model.task.clone(),
            pipeline: case.pipeline.clone(),
            weights: Some(model.weights),
            parameters: self.parameters(),
            target: case.target.clone(),
            precision: case.precision.word().into(),
            chosen: case.chosen.clone(),
            half: case.half.clone(),
            runtime: Some(params.runtime.name.to_owned()),
            backend: params.backend.name.to_owned(),
            status,
            stage: (status != Outcome::Pass && status != Outcome::Xpass).then(|| self.stage(at)),
            reason,
            requested_device: requested.unwrap_or_else(|| params.requested_device()),
            actual_device: measure.map(|measure| measure.actual_device.clone()),
            cached: end.how == How::Hit,
            measured: record.map(|record| record.started.clone()),
            host: self.host(run),
            cpu: record.and_then(|record| record.cpu.clone()),
            part: None,
            ended: end
                .record
                .as_ref()
                .filter(|_| record.is_none())
                .map(|record| record.started.clone()),
            known_since: known_since(self.of(at), record).filter(|_| answered.is_none()),
            untimed: measure.is_some_and(|measure| measure.times.is_none()),
            metrics: stats::metrics(&self.rounds(run), case.dims.get("batch").copied()),
            numerics: self
                .record(judge)
                .and_then(|record| record.numerics.clone()),
            placement: measure
                .map(|measure| measure.placement.clone())
                .unwrap_or_default(),
            facts: self.facts(answered.map(|fallback| fallback.run), status),
            repro: self.repro(at),
            log: self.last_words(at).filter(|_| status.is_failure()),
            steps: planned.chain.iter().map(|id| self.name(*id)).collect(),
            took: self.took(),
            converted: self.converted(),
            // A run reads the artefact first.
            loaded_bytes: plan
                .dependencies(planned.run)
                .next()
                .and_then(|id| self.size(id)),
            expected,
            fallback: answered.map(|fallback| self.fallback_result(fallback, &after)),
            attempts: self
                .record(planned.run)
                .map(|record| record.attempts.clone())
                .unwrap_or_default(),
        }
    }

    /// What measured the case: its run, or that of the fallback that answered, and the further rounds of its own.
    fn rounds(&self, run: StepId) -> Vec<MeasuredRound<'a>> {
        let further = self
            .planned
            .rounds
            .iter()
            .filter(|_| run == self.planned.run);
        let ran = |(id, round): (&StepId, u32)| {
            Some(MeasuredRound {
                round,
                started: &self.record(*id)?.started,
                raw: self.measure(*id)?,
            })
        };
        [run]
            .iter()
            .chain(further)
            .zip(1..)
            .filter_map(ran)
            .collect()
    }

    /// The machine that executed the run and its further rounds; all of them, where the store holds rounds of several.
    fn host(&self, run: StepId) -> Option<String> {
        let further = self
            .planned
            .rounds
            .iter()
            .filter(|_| run == self.planned.run);
        let mut hosts: Vec<&str> = [&run]
            .into_iter()
            .chain(further)
            .filter_map(|id| Some(self.record(*id)?.host.as_str()))
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        (!hosts.is_empty()).then(|| hosts.join(" + "))
    }

    /// The first round after a right run that failed by itself: a model that runs sometimes does not run.
    fn failed_round(&self) -> Option<StepId> {
        let is_made = self.of(self.planned.judge).outcome.is_made();
        self.planned
            .rounds
            .iter()
            .copied()
            .find(|id| is_made && self.of(*id).outcome.is_failure())
    }

    /// How many the model has, or those that it is made of together, by the steps that made them. None if one does not tell.
    fn parameters(&self) -> Option<u64> {
        let kind = |id: &StepId| self.context.plan.step(*id).kind.name();
        let makers = self
            .planned
            .chain
            .iter()
            .filter(|id| kind(id).starts_with(MATERIALISE.name()));
        let counts = makers.map(|id| self.record(*id)?.facts.get("parameters")?.as_u64());
        counts.sum::<Option<u64>>().filter(|all| *all > 0)
    }

    /// What each step took when it was executed, in this run or in an earlier one.
    fn took(&self) -> IndexMap<String, f64> {
        self.planned
            .chain
            .iter()
            .filter_map(|id| Some((self.name(*id), self.record(*id)?.seconds)))
            .collect()
    }

    /// How large what a step made is. None if nothing, or if it cannot be read.
    fn size(&self, id: StepId) -> Option<u64> {
        self.context.tree_bytes(&self.of(id).output()?)
    }

    fn converted(&self) -> IndexMap<String, Converted> {
        let conversions = self
            .planned
            .chain
            .iter()
            .filter(|id| self.context.plan.step(**id).stage == Stage::Convert);
        let made = conversions.filter_map(|id| {
            let from_bytes = self
                .context
                .plan
                .dependencies(*id)
                .next()
                .and_then(|from| self.size(from));
            Some((
                self.name(*id),
                Converted {
                    bytes: self.size(*id)?,
                    from_bytes,
                },
            ))
        });
        made.collect()
    }

    /// The state of a case, and why.
    fn judged(&self, answered: Option<&PlannedFallback>) -> (Outcome, Option<String>) {
        let own = self.of(self.planned.judge);
        let reason = self.with_finding(own.outcome, own.reason.clone());
        if answered.is_some() {
            return (Outcome::PassFallback, reason);
        }
        let stage = self
            .context
            .plan
            .step(own.blamed.unwrap_or(self.planned.judge))
            .stage;
        match &self.planned.case.expect {
            Some(expect) if is_as_expected(&self.planned.case, stage, own.outcome) => {
                let other = self.other_signature(expect);
                return match other {
                    None => (Outcome::Xfail, reason),
                    Some(why) => (own.outcome, reason.map(|reason| format!("{reason}; {why}"))),
                };
            }
            Some(expect) if own.outcome.is_made() && self.failed_round().is_none() => {
                let told = expected(expect).summary();
                let at = &expect.rule.loc;
                let reason =
                    format!("it passed, but {at} expects {told}; `orch accept` removes that");
                return (Outcome::Xpass, Some(reason));
            }
            Some(expect) if own.outcome.is_failure() => {
                let reason = reason.as_deref().unwrap_or("no reason was given");
                return (
                    own.outcome,
                    Some(format!(
                        "{reason} (the spec expects {})",
                        expected(expect).summary()
                    )),
                );
            }
            _ => {}
        }
        if let Some(id) = self.failed_round() {
            let round = self.context.plan.step(id).run().round.unwrap_or(1);
            let failed = self.of(id);
            let why = failed.reason.as_deref().unwrap_or("no reason was given");
            return (
                failed.outcome,
                Some(format!(
                    "round {round} of {}: {why}",
                    self.planned.rounds.len() + 1
                )),
            );
        }
        // If a step above needed several attempts, the case is flaky as well.
        match self.flaky() {
            Some(id) if own.outcome == Outcome::Pass => {
                (Outcome::Flaky, self.of(id).reason.clone())
            }
            _ => (own.outcome, reason),
        }
    }

    /// How the fault that `orch blame` found differs from the expected one.
    fn other_signature(&self, expect: &Expect) -> Option<String> {
        let expected = expect.fault.signature.as_ref()?;
        let (_, finding) = self.blamed()?;
        let found = finding.get("signature")?.as_str()?;
        (!glob::matches(expected, found)).then(|| {
            let at = &expect.rule.loc;
            format!(
                "its fault is `{found}`, but {at} expects `{expected}`; `orch accept` takes that over"
            )
        })
    }

    /// The reason of a wrong result, and what the export found out of it: it computes its file node by node too, in fp32
    /// on the CPU.
    fn with_finding(&self, outcome: Outcome, reason: Option<String>) -> Option<String> {
        let runs_on_cpu = |record: &Record| {
            record
                .facts
                .get("provider")
                .is_some_and(|name| name == "CPUExecutionProvider")
        };
        let is_found = outcome == Outcome::Numerics
            && self.planned.case.precision == Precision::Fp32
            && self.record(self.planned.run).is_some_and(runs_on_cpu)
            && self
                .planned
                .chain
                .iter()
                .filter_map(|id| self.record(*id))
                .any(|record| record.facts.get("optimised_wrong").is_some());
        let finding = "; node by node ONNX Runtime computes the file rightly: its graph optimisation is at fault";
        reason.map(|reason| if is_found { reason + finding } else { reason })
    }

    /// The end of what a step printed. A log is of the last execution of its name, which may be another than this one: then it is left out.
    fn last_words(&self, id: StepId) -> Option<String> {
        let path = self.context.store.log_path(&self.name(id));
        let written = path.metadata().ok()?.modified().ok()?;
        let record = self.record(id)?;
        if !(-SLACK..=record.seconds + SLACK).contains(&record.seconds_until(written)?) {
            return None;
        }
        let words = tail(&path, LINES);
        let last = words
            .char_indices()
            .rev()
            .nth(LETTERS - 1)
            .map_or(&*words, |(at, _)| &words[at..]);
        (!last.trim().is_empty()).then(|| without_secrets(last).into_owned())
    }

    fn flaky(&self) -> Option<StepId> {
        self.planned
            .chain
            .iter()
            .copied()
            .find(|id| self.of(*id).outcome == Outcome::Flaky)
    }

    fn stage(&self, at: StepId) -> String {
        let is_made =
            self.of(self.planned.judge).outcome.is_made() && self.failed_round().is_none();
        let at = if is_made {
            self.flaky().unwrap_or(at)
        } else {
            at
        };
        // A verdict is reported as the stage of the run that it judges.
        let stage = if at == self.planned.judge {
            Stage::Run
        } else {
            self.context.plan.step(at).stage
        };
        stage.word().to_owned()
    }

    fn fallback_result(
        &self,
        fallback: &PlannedFallback,
        after: &[&PlannedFallback],
    ) -> FallbackResult {
        let tried = |id: StepId, name: &str| {
            let result = self.of(id);
            Tried {
                name: name.to_owned(),
                status: result.outcome,
                reason: result.reason.clone(),
            }
        };
        let mut all = vec![tried(self.planned.judge, &self.planned.case.name)];
        all.extend(
            after
                .iter()
                .map(|other| tried(other.judge, &other.case.name)),
        );
        // A smaller batch takes less time, which says nothing of its cost. Figures of emulators and software drivers are
        // not compared either.
        let run = self.context.plan.step(self.planned.run);
        let is_comparable =
            fallback.batch.is_none() && !is_stand_in(self.context, run.run().backend.name);
        let known = is_comparable
            .then(|| known_median(self.context, &run.name))
            .flatten();
        let median = self.measure(fallback.run).and_then(stats::median);
        FallbackResult {
            name: fallback.case.name.clone(),
            batch: fallback.batch,
            step: self.name(fallback.run),
            tried: all,
            slowdown: median
                .zip(known.as_ref())
                .map(|(own, (real, _))| own / real),
            against: known.map(|(_, date)| date),
        }
    }

    /// The generated test is the reproducer of its cell, as soon as there is something for it to load; before that it is
    /// the step at which the cell ended.
    fn repro(&self, at: StepId) -> Option<String> {
        let Self {
            context, planned, ..
        } = *self;
        if self.of(planned.run).outcome == Outcome::SkipUnavailable {
            return None;
        }
        if at != planned.run && at != planned.judge {
            return Some(reproducer(
                &context.options.again(),
                &self.context.plan.step(at).name,
            ));
        }
        let file = crate::step::test_file_name(&planned.case.model, &planned.case.name);
        let step = self.context.plan.step(planned.run);
        let provision = context.provision.with(step.toolchain.as_ref());
        let python = provision
            .env(crate::step::test_env(step.run()))
            .ok()?
            .python;
        let variables = step
            .kind
            .requires(step)
            .into_iter()
            .flat_map(|needed| provision.variables(needed));
        let variables: String = variables
            .map(|variable| format!("{} ", shell::word(&variable)))
            .collect();
        let env = if variables.is_empty() { "" } else { "env " };
        // From where the user stands, if it lies there.
        let here = std::env::current_dir().unwrap_or_default();
        let python = python.strip_prefix(&here).unwrap_or(&python).display();
        Some(format!(
            "{env}{variables}{python} {}/tests/{file}",
            context.options.settings.out_dir.display()
        ))
    }
}

/// The moment when the step at which a case ended failed, if that was in an earlier run. The verdict may be older than
/// the run: equal outputs of another case were judged before this one's were `measured`. Then the time of the
/// measurement counts.
fn known_since(end: &StepResult, measured: Option<&Record>) -> Option<String> {
    let record = end.record.as_deref().filter(|_| end.failed_before)?;
    let measured = measured
        .map(|record| record.started.clone())
        .unwrap_or_default();
    Some(record.started.clone().max(measured))
}

fn expected(expect: &Expect) -> Expected {
    Expected {
        status: expected_outcome(expect.status),
        stage: expect.stage.map(|stage| stage.word().to_owned()),
        reason: expect.rule.reason.clone(),
        since: expect.since.clone(),
        cause: expect.fault.cause.map(|cause| cause.word().to_owned()),
        url: expect.fault.url.clone(),
        signature: expect.fault.signature.clone(),
        strict: expect.strict,
    }
}

/// Whether an emulator or a software driver stands in for the hardware of a backend.
fn is_stand_in(context: &Context<'_>, backend: &str) -> bool {
    let found = context
        .inventory
        .iter()
        .find(|known| known.name == backend && known.available);
    found.is_some_and(|found| {
        found
            .devices
            .iter()
            .all(|device| device.kind != DeviceKind::Hardware)
    })
}

/// The newest figure that the requested target itself has given on this machine, in milliseconds, and its date.
fn known_median(context: &Context<'_>, step: &str) -> Option<(f64, String)> {
    let records = context.store.history(step, MEMORY).ok()?;
    let is_real =
        |record: &Record| record.outcome.is_made() && record.host == context.host.report.name;
    records.into_iter().filter(is_real).find_map(|record| {
        let median = stats::median(record.measure.as_ref()?)?;
        (median > 0.0).then_some((median, record.started))
    })
}

/// Failed steps that no case reports: those that a case rests on are reported by the case.
pub(super) fn failed_steps(plan: &Plan, results: &[StepResult]) -> BTreeSet<StepId> {
    let mut is_told = vec![false; results.len()];
    for planned in plan
        .cases
        .iter()
        .filter(|planned| results[planned.judge.0 as usize].how != How::NotNeeded)
    {
        let spare = |fallback: &PlannedFallback| {
            [
                Some(fallback.judge),
                results[fallback.judge.0 as usize].blamed,
            ]
        };
        let spare = planned.fallbacks.iter().flat_map(spare).flatten();
        for id in planned.chain.iter().copied().chain(spare) {
            is_told[id.0 as usize] = true;
        }
    }
    let untold = plan
        .ids()
        .filter(|id| results[id.0 as usize].outcome.is_failure() && !is_told[id.0 as usize]);
    untold
        .map(|id| results[id.0 as usize].blamed.unwrap_or(id))
        .collect()
}

/// Steps of the user's own that passed after failures, in this run or in the one whose result is used.
pub(super) fn flaky_steps(context: &Context<'_>, results: &[StepResult]) -> Vec<FlakyStep> {
    let is_own = |id: &StepId| {
        results[id.0 as usize].outcome == Outcome::Flaky
            && context.plan.step(*id).stage == Stage::Command
    };
    let told = |id: StepId| {
        let result = &results[id.0 as usize];
        FlakyStep {
            step: context.plan.step(id).name.clone(),
            reason: result.reason.clone(),
            executed: result.record.as_ref().map(|record| record.started.clone()),
            cached: result.how == How::Hit,
            attempts: result
                .record
                .as_deref()
                .map(|record| record.attempts.clone())
                .unwrap_or_default(),
        }
    };
    context.plan.ids().filter(is_own).map(told).collect()
}
