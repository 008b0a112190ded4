//! The part of a spec that a command is about: steps by name, what differs from a git revision, one part of several.
//!
//! The part becomes a plan of its own, so that everything after it, pages included, knows of nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::figures::plural;
use crate::exec::{self, Options};
use crate::matrix::{Case, Fallback};
use crate::plan::{Plan, PlannedCase};
use crate::record::Outcome;
use crate::session::affected::Affected;
use crate::session::part::Part;
use crate::session::{Ask, Project, Request, Session, Tell};
use crate::step::StepId;

/// How many affected steps are listed with their reasons.
const LISTED: usize = 12;

/// A plan, and what of it is to be done.
pub struct Planned {
    pub project: Project,
    /// The options of those who look and change nothing, with what of the plan is to be done.
    pub options: Options,
    pub(super) fallback: Fallback,
    /// Not of steps chosen by name: they are no report of anything.
    pub(super) has_pages: bool,
    /// Why nothing is left to do, where that is so: this is no failure, because nothing was requested.
    pub nothing: Option<String>,
}

impl Session {
    /// Loads the spec and takes the part of it that is requested.
    pub fn plan(&self, request: &Request, ask: Ask<'_>, tell: Tell<'_>) -> anyhow::Result<Planned> {
        let project = self.project(request, ask)?;
        list_chosen(&project.plan, tell);
        let mut rerun = chosen(&project, self, &request.rerun)?;
        if request.anew {
            rerun.extend(timed(&project.plan));
        }
        let mut steps = if request.steps.is_empty() {
            None
        } else {
            Some(chosen(&project, self, &request.steps)?)
        };
        if let Some(steps) = &mut steps {
            // Whoever asks for a run wants to know what it is worth.
            let is_run = |planned: &&PlannedCase| steps.contains(&planned.run);
            let verdicts: Vec<_> = project
                .plan
                .cases
                .iter()
                .filter(is_run)
                .map(|planned| planned.judge)
                .collect();
            steps.extend(verdicts);
        }
        let nothing = steps.as_ref().is_some_and(BTreeSet::is_empty).then(|| {
            let word = if request.steps.iter().any(|word| word == "flaky") {
                "ended so"
            } else {
                "failed"
            };
            format!("no step {word} last time: nothing to run")
        });
        let options = Options {
            wanted: steps,
            rerun,
            rerun_failed: request
                .steps
                .iter()
                .chain(&request.rerun)
                .any(|word| word == "failed"),
            max_age: request.max_age.clone(),
            scope: request.part(),
            ..project.idle_options()
        };
        let fallback = request.fallback;
        let has_pages = request.steps.is_empty();
        let planned = Planned {
            project,
            options,
            fallback,
            has_pages,
            nothing,
        };
        let is_part = request.affected.is_some() || request.partition.is_some();
        if is_part && planned.nothing.is_none() {
            narrow(planned, self, request, tell)
        } else {
            Ok(planned)
        }
    }
}

fn narrow(
    mut planned: Planned,
    session: &Session,
    request: &Request,
    tell: Tell<'_>,
) -> anyhow::Result<Planned> {
    let plan = &planned.project.plan;
    let mut wanted = planned
        .options
        .wanted
        .clone()
        .unwrap_or_else(|| exec::usually_wanted(plan).collect());
    let mut excluded: BTreeMap<String, &str> = plan
        .excluded
        .iter()
        .map(|e| (e.case.id(), e.reason.as_str()))
        .collect();
    let mut labels = Vec::from_iter(planned.options.scope.take());
    if let Some(base) = &request.affected {
        let affected = Affected::since(base, &request.spec, &planned.project, &session.store)?;
        affected
            .notes
            .iter()
            .for_each(|note| tell(&format!("note: {note}")));
        wanted.retain(|id| affected.steps.contains_key(id));
        excluded.retain(|case, reason| !affected.excludes(case, reason));
        if wanted.is_empty() {
            planned.nothing = Some(format!(
                "nothing differs from {}: nothing to run",
                affected.base
            ));
        } else {
            list_affected(&affected, plan, &wanted, tell);
        }
        labels.push(format!("affected since {}", affected.base));
    }
    if let Some(partition) = &request.partition {
        let part = Part::of(partition, plan, request.durations.as_deref())?;
        part.take(plan, &mut wanted, &mut excluded);
        if wanted.is_empty() && planned.nothing.is_none() {
            planned.nothing = Some(format!(
                "partition {partition} holds no case and no command: nothing to run"
            ));
        }
        labels.push(part.label());
    }
    let narrowed = plan.narrowed(&wanted, &|case| excluded.contains_key(case));
    // The test of a case belongs to it, although it may not differ itself.
    let tests = narrowed
        .cases
        .iter()
        .map(|planned| planned.test)
        .filter(|_| planned.options.wanted.is_none());
    let moved = |ids: &BTreeSet<StepId>| {
        ids.iter()
            .filter_map(|id| narrowed.find(&plan.step(*id).name))
            .collect::<BTreeSet<_>>()
    };
    let wanted = moved(&wanted).into_iter().chain(tests).collect();
    planned.options.rerun = moved(&planned.options.rerun);
    planned.options.wanted = Some(wanted);
    planned.options.scope = Some(labels.join(", "));
    planned.project.plan = narrowed;
    Ok(planned)
}

/// Steps by glob, and `failed` and `flaky`: those whose last execution did not pass, or only at a later attempt.
fn chosen(
    project: &Project,
    session: &Session,
    globs: &[String],
) -> anyhow::Result<BTreeSet<StepId>> {
    let (ended, globs): (Vec<_>, Vec<_>) = globs
        .iter()
        .cloned()
        .partition(|glob| matches!(glob.as_str(), "failed" | "flaky"));
    let mut found = project.steps(&globs)?;
    if !ended.is_empty() {
        let failed = ended.iter().any(|word| word == "failed");
        let flaky = ended.iter().any(|word| word == "flaky");
        let is_meant = |outcome: Outcome| {
            (failed && outcome.is_failure()) || (flaky && outcome == Outcome::Flaky)
        };
        let plan = &project.plan;
        for id in plan.ids() {
            let last = session.store.latest(&plan.step(id).name)?;
            if last.is_some_and(|record| is_meant(record.outcome)) {
                found.insert(id);
            }
        }
    }
    Ok(found)
}

fn list_chosen(plan: &Plan, tell: Tell<'_>) {
    let reasons = |case: &Case| {
        case.choices()
            .into_iter()
            .map(|(_, why)| why)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let chosen: Vec<_> = plan
        .cases
        .iter()
        .map(|planned| (&planned.case, reasons(&planned.case)))
        .collect();
    let mut chosen: Vec<_> = chosen
        .into_iter()
        .filter(|(_, why)| !why.is_empty())
        .collect();
    // What holds for all precisions and sizes is listed once.
    chosen
        .dedup_by(|(a, why), (b, same)| (&a.model, &a.target, why) == (&b.model, &b.target, same));
    for (case, why) in chosen.iter().take(LISTED) {
        tell(&format!("{} on {}: {why}", case.model, case.target));
    }
    if chosen.len() > LISTED {
        tell(&format!(
            "and {} more: the report says why",
            chosen.len() - LISTED
        ));
    }
}

fn list_affected(affected: &Affected, plan: &Plan, wanted: &BTreeSet<StepId>, tell: Tell<'_>) {
    let count = affected.steps.len();
    let noun = plural(count, "step differs", "steps differ");
    tell(&format!(
        "{count} {noun} from {}, {} of them asked for",
        affected.base,
        wanted.len()
    ));
    for (id, why) in affected.steps.iter().take(LISTED) {
        tell(&format!("  {}: {why}", plan.step(*id).name));
    }
    if count > LISTED {
        tell(&format!("  and {} more", count - LISTED));
    }
}

fn timed(plan: &Plan) -> impl Iterator<Item = StepId> {
    plan.ids()
        .filter(|id| plan.step(*id).kind.is_timed(plan.step(*id)))
}

impl Planned {
    /// Whether nothing that is to be done is timed.
    pub fn measures_nothing(&self) -> bool {
        let is_wanted = |id: StepId| {
            self.options
                .wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&id))
        };
        !timed(&self.project.plan).any(is_wanted)
    }
}
