//! Which part of a spec a command is about: steps by name, what differs from a git revision, one part of several.
//!
//! The part becomes a plan of its own, so that everything after it, pages included, knows of nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::figures::plural;
use crate::cli::affected::Affected;
use crate::cli::args::{ScopeArgs, SpecArgs};
use crate::cli::half::Ask;
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace};
use crate::exec;
use crate::matrix::{Case, Partition};
use crate::plan::{Plan, PlannedCase};
use crate::record::Outcome;
use crate::step::StepId;

/// How many affected steps are told with their reasons.
const TOLD: usize = 12;

pub(super) struct Asked<'a> {
    pub(super) spec: &'a SpecArgs,
    pub(super) scope: &'a ScopeArgs,
    /// Globs of `--step` and `--rerun`.
    pub(super) steps: &'a [String],
    pub(super) rerun: &'a [String],
    /// Whether what is needed to settle the cases is installed.
    pub(super) installs: bool,
}

pub(super) struct Scoped {
    pub(super) project: Project,
    /// None means everything.
    pub(super) wanted: Option<BTreeSet<StepId>>,
    pub(super) rerun: BTreeSet<StepId>,
    /// `failed` was named: failures that stand are met again too.
    pub(super) rerun_failed: bool,
    /// Steps whose failure is not tried again.
    pub(super) stands: BTreeSet<StepId>,
    /// What part it is, for pages; None for the whole, and for steps chosen by name, which make no page.
    pub(super) label: Option<String>,
    /// Why nothing is left to do, where that is so: this is no failure, because nothing was asked for.
    pub(super) nothing: Option<String>,
}

impl ScopeArgs {
    fn is_whole(&self) -> bool {
        self.affected.is_none() && self.partition.is_none()
    }
}

impl Asked<'_> {
    /// Loads the spec and takes the part of it that is asked for.
    pub(super) fn load(&self, workplace: &Workplace, printer: &Printer) -> anyhow::Result<Scoped> {
        let ask = if self.installs { Ask::Installing(printer) } else { Ask::Installed };
        let project = Project::load_here(workplace, self.spec, ask)?;
        tell_chosen(&project.plan, printer);
        let rerun = chosen(&project, workplace, self.rerun)?;
        let mut steps = if self.steps.is_empty() { None } else { Some(chosen(&project, workplace, self.steps)?) };
        if let Some(steps) = &mut steps {
            // Whoever asks for a run wants to know what it is worth.
            let is_run = |planned: &&PlannedCase| steps.contains(&planned.run);
            let verdicts: Vec<_> = project.plan.cases.iter().filter(is_run).map(|planned| planned.judge).collect();
            steps.extend(verdicts);
        }
        let stands = BTreeSet::new();
        let rerun_failed = self.steps.iter().chain(self.rerun).any(|word| word == "failed");
        let mut scoped = Scoped { project, wanted: steps, rerun, rerun_failed, stands, label: None, nothing: None };
        if scoped.wanted.as_ref().is_some_and(BTreeSet::is_empty) {
            scoped.nothing = {
                let word = if self.steps.iter().any(|word| word == "flaky") { "ended so" } else { "failed" };
                Some(format!("no step {word} last time: nothing to run"))
            };
        }
        if self.scope.is_whole() || scoped.nothing.is_some() {
            return Ok(scoped);
        }
        self.narrow(scoped, workplace, printer)
    }

    fn narrow(&self, mut scoped: Scoped, workplace: &Workplace, printer: &Printer) -> anyhow::Result<Scoped> {
        let plan = &scoped.project.plan;
        let with_report = scoped.wanted.as_ref().is_none_or(|wanted| wanted.contains(&plan.report));
        let mut wanted = scoped.wanted.clone().unwrap_or_else(|| exec::usually_wanted(plan).collect());
        wanted.remove(&plan.report);
        let mut excluded: BTreeMap<String, &str> =
            plan.excluded.iter().map(|e| (e.case.id(), e.reason.as_str())).collect();
        let mut labels = Vec::new();
        if let Some(base) = &self.scope.affected {
            let affected = Affected::since(base, &self.spec.spec, &scoped.project, &workplace.store)?;
            affected.notes.iter().for_each(|note| printer.note(&format!("note: {note}")));
            wanted.retain(|id| affected.steps.contains_key(id));
            excluded.retain(|case, reason| !affected.excludes(case, reason));
            if wanted.is_empty() {
                scoped.nothing = Some(format!("nothing differs from {}: nothing to run", affected.base));
            } else {
                tell(&affected, plan, &wanted, printer);
            }
            labels.push(format!("affected since {}", affected.base));
        }
        if let Some(partition) = &self.scope.partition {
            take_part(partition, plan, &mut wanted, &mut excluded);
            if wanted.is_empty() && scoped.nothing.is_none() {
                scoped.nothing = Some(format!("partition {partition} holds no case and no command: nothing to run"));
            }
            labels.push(format!("partition {partition}"));
        }
        let narrowed = plan.narrowed(&wanted, &|case| excluded.contains_key(case));
        // The test of a case belongs to it, although it may not differ itself.
        let tests = narrowed.cases.iter().map(|planned| planned.test).filter(|_| scoped.wanted.is_none());
        let report = with_report.then_some(narrowed.report);
        let moved = |ids: &BTreeSet<StepId>| {
            ids.iter().filter_map(|id| narrowed.find(&plan.step(*id).name)).collect::<BTreeSet<_>>()
        };
        let wanted = moved(&wanted).into_iter().chain(tests).chain(report).collect();
        scoped.rerun = moved(&scoped.rerun);
        scoped.wanted = Some(wanted);
        scoped.label = Some(labels.join(", "));
        scoped.project.plan = narrowed;
        Ok(scoped)
    }
}

/// Steps by glob, and `failed` and `flaky`: those whose last execution did not pass, or only at a later attempt.
fn chosen(project: &Project, workplace: &Workplace, globs: &[String]) -> anyhow::Result<BTreeSet<StepId>> {
    let (ended, globs): (Vec<_>, Vec<_>) =
        globs.iter().cloned().partition(|glob| matches!(glob.as_str(), "failed" | "flaky"));
    let mut found = project.steps(&globs)?;
    if !ended.is_empty() {
        let (failed, flaky) = (ended.iter().any(|word| word == "failed"), ended.iter().any(|word| word == "flaky"));
        let is_meant = |outcome: Outcome| (failed && outcome.is_failure()) || (flaky && outcome == Outcome::Flaky);
        let plan = &project.plan;
        for id in plan.ids() {
            let last = workplace.store.latest(&plan.step(id).name)?;
            if last.is_some_and(|record| is_meant(record.outcome)) {
                found.insert(id);
            }
        }
    }
    Ok(found)
}

fn tell_chosen(plan: &Plan, printer: &Printer) {
    let told = |case: &Case| case.choices().into_iter().map(|(_, why)| why).collect::<Vec<_>>().join("; ");
    let chosen: Vec<_> = plan.cases.iter().map(|planned| (&planned.case, told(&planned.case))).collect();
    let mut chosen: Vec<_> = chosen.into_iter().filter(|(_, why)| !why.is_empty()).collect();
    // What holds for all precisions and sizes is said once.
    chosen.dedup_by(|(a, why), (b, same)| (&a.model, &a.target, why) == (&b.model, &b.target, same));
    for (case, why) in chosen.iter().take(TOLD) {
        printer.note(&format!("{} on {}: {why}", case.model, case.target));
    }
    if chosen.len() > TOLD {
        printer.note(&format!("and {} more: the report says why", chosen.len() - TOLD));
    }
}

fn tell(affected: &Affected, plan: &Plan, wanted: &BTreeSet<StepId>, printer: &Printer) {
    let count = affected.steps.len();
    let noun = plural(count, "step differs", "steps differ");
    printer.note(&format!("{count} {noun} from {}, {} of them asked for", affected.base, wanted.len()));
    for (id, why) in affected.steps.iter().take(TOLD) {
        printer.note(&format!("  {}: {why}", plan.step(*id).name));
    }
    if count > TOLD {
        printer.note(&format!("  and {} more", count - TOLD));
    }
}

/// Leaves one part of what is wanted. A case goes as a whole, its run and its test; other steps go by their names.
fn take_part<T>(partition: &Partition, plan: &Plan, wanted: &mut BTreeSet<StepId>, excluded: &mut BTreeMap<String, T>) {
    let of_cases: BTreeMap<StepId, String> = plan
        .cases
        .iter()
        .flat_map(|planned| [planned.test, planned.run, planned.judge].map(|step| (step, planned.case.id())))
        .collect();
    let unit = |id: &StepId| of_cases.get(id).map_or(plan.step(*id).name.as_str(), String::as_str);
    let excluded_ids: Vec<String> = excluded.keys().cloned().collect();
    let all = wanted.iter().map(unit).chain(excluded_ids.iter().map(String::as_str)).collect();
    let mine = partition.pick(&all);
    wanted.retain(|id| mine.contains(unit(id)));
    excluded.retain(|case, _| mine.contains(case.as_str()));
}
