//! `orch blame` and `orch run --blame`: what makes cases wrong. Each search is a step that is added to the plan: it is performed like any other, and
//! a second request finds it in the store. The records of the cases stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::figures::counted;
use crate::base::{Bug, Digest, Loc, Precision, fs as bfs};
use crate::cases::{self, Finished};
use crate::event::Listener;
use crate::exec::{self, Context, Options, StepResult};
use crate::matrix::{Facet, Query};
use crate::plan::{Plan, PlannedCase};
use crate::record::Outcome;
use crate::report::{CaseResult, ReportDoc};
use crate::session::one_case::maker_of;
use crate::session::{Ask, Planned, Project, Request, Session, Settings, Tell, UsageError, usage};
use crate::step::blame::{BlameParams, FINDING, Mode, REPRO, is_searched, step_name};
use crate::step::blame_export::{BlameExportParams, is_export};
use crate::step::{
    BLAME, BLAME_EXPORT, Inputs, JudgeParams, Source, Stage, Step, StepId, StepKind as _,
};
use crate::store::{LaidAs, Scratch};

pub use crate::step::blame::{Choice, Finding, Module, Pass, Rounding, Verdict};

/// The folder of what shows the faults, in that for generated tests and pages.
const FOLDER: &str = "blame";
/// How much longer a search may take than a run of the case.
const LONGER: u64 = 10;

/// The cases of which the cause is wanted.
pub struct Suspects<'a> {
    /// Globs of cases; none means all.
    pub globs: &'a [String],
    /// Whether only those count that the runtime computed wrongly, refused or died by when they ran last.
    pub only_wrong: bool,
}

/// The answers of searches, or why there is none, by the place of the case among the suspects.
type Answers = BTreeMap<usize, Result<Found, String>>;

/// What was found out about a case.
pub struct Blamed {
    pub case: String,
    /// The model's row in a spec.
    pub row: Option<Loc>,
    /// The finding, or why there is none.
    pub answer: Result<Found, String>,
}

impl Blamed {
    fn of(plan: &Plan, case: &PlannedCase, answer: Result<Found, String>) -> Self {
        let facts = plan.model_facts.get(&case.case.model);
        Self {
            case: case.case.id(),
            row: facts.map(|facts| facts.row.clone()),
            answer,
        }
    }
}

pub struct Found {
    pub finding: Finding,
    /// The folder that shows it without orch, where there is one.
    pub repro: Option<PathBuf>,
}

impl Session {
    /// Finds out what makes each of these cases wrong.
    pub fn blame(
        &self,
        request: &Request,
        suspects: &Suspects<'_>,
        settings: &Settings,
        (listener, tell): (&dyn Listener, Tell<'_>),
    ) -> anyhow::Result<Vec<Blamed>> {
        let mut request = request.clone();
        if !suspects.globs.is_empty() {
            let query = Query::any_of(Facet::Case, suspects.globs);
            request.selection.queries.push(query);
        }
        let planned = self.plan(&request, Ask::Installing(tell), tell)?;
        let chosen = self.chosen(&planned, suspects, listener)?;
        let (plan, _) = planned.project.plan.extended(vec![]);
        let host = &self.host.computing;
        let mut answers = Answers::new();
        let mut searches = Vec::new();
        for (at, suspect) in chosen.iter().enumerate() {
            match search(&plan, suspect, host)? {
                Ok(step) => searches.push((at, step)),
                Err(why) => _ = answers.insert(at, Err(why)),
            }
        }
        if let ([suspect], Some(Err(why))) = (&chosen[..], answers.get(&0)) {
            let id = suspect.case.case.id();
            return Err(UsageError(format!("nothing can be found out about `{id}`: {why}")).into());
        }
        if !searches.is_empty() {
            let count = counted(searches.len(), "case");
            tell(&format!("{count}: looking for the part that is wrong"));
        }
        let how = (settings, listener);
        let (planned, found) = self.performed(planned, (&plan, &chosen), &searches, how)?;
        answers.extend(found);
        let mut exports = Vec::new();
        for (at, first) in &searches {
            let suspect = &chosen[*at];
            if first.kind.name() == BLAME.name()
                && let Some(answer) = answers.get(at)
                && suspect.may_be_exported_wrongly(answer)
                && let Some(export) = export_of(&plan, suspect.case.run)?
            {
                let made = answer.is_ok().then_some(export);
                exports.push((
                    *at,
                    export_search(&plan, &suspect.case, export, made, host)?,
                ));
            }
        }
        if !exports.is_empty() {
            let count = counted(exports.len(), "case");
            tell(&format!(
                "{count}: looking for the module whose export is wrong"
            ));
            let (_, found) = self.performed(planned, (&plan, &chosen), &exports, how)?;
            for (at, answer) in found {
                let is_more = |found: &Found| found.finding.verdict != Verdict::NotReproduced;
                // That the exporter is right about each module says nothing against the first answer.
                if answer.as_ref().is_ok_and(is_more) {
                    answers.insert(at, answer);
                }
            }
        }
        let mut blamed = Vec::new();
        for (at, suspect) in chosen.iter().enumerate() {
            let answer = answers.remove(&at);
            let answer = answer.context(Bug::new("a case has no answer"))?;
            blamed.push(Blamed::of(&plan, &suspect.case, answer));
        }
        Ok(blamed)
    }

    /// Performs searches, each with the place of its case among the suspects, and gives their answers by these places.
    fn performed(
        &self,
        mut planned: Planned,
        (plan, chosen): (&Plan, &[Suspect]),
        searches: &[(usize, Step)],
        (settings, listener): (&Settings, &dyn Listener),
    ) -> anyhow::Result<(Planned, Answers)> {
        let steps = searches.iter().map(|(_, step)| step.clone()).collect();
        let (extended, added) = plan.extended(steps);
        planned.project.plan = extended;
        planned.options.wanted = Some(added.iter().copied().collect::<BTreeSet<_>>());
        planned.has_pages = false;
        let run = self.run(planned, settings, listener, &|_| {})?;
        let scratch = self.store.scratch()?;
        let mut answers = BTreeMap::new();
        for ((at, _), id) in searches.iter().zip(added) {
            let result = &run.finished.results[id.0 as usize];
            let answer = self.answer(result, &chosen[*at].case, (&scratch, settings))?;
            answers.insert(*at, answer);
        }
        Ok((run.planned, answers))
    }

    /// Finds out what makes the failed cases of a run wrong, with the run's own settings. The report has the findings
    /// afterwards.
    pub(super) fn blame_failed(
        &self,
        context: &Context<'_>,
        finished: &mut Finished,
    ) -> anyhow::Result<Vec<Blamed>> {
        let plan = context.plan;
        let chosen: Vec<_> = all_suspects(plan, &finished.doc)
            .filter(|suspect| suspect.failure.is_some())
            .collect();
        let searches = self.searches(plan, &chosen)?;
        let (extended, added) = plan.extended(steps(&searches));
        let options = Options {
            wanted: Some(added.iter().copied().collect()),
            // What the run has just executed is not executed once more.
            rerun: BTreeSet::new(),
            rerun_failed: false,
            ..context.options.clone()
        };
        let mut results = Vec::new();
        if !added.is_empty() {
            let mut ended = exec::run(&Context {
                plan: &extended,
                options: &options,
                ..*context
            })?;
            finished.interrupted |= ended.interrupted;
            finished.met_bug |= ended.met_bug;
            results = ended.results.split_off(plan.steps.len());
        }
        let results: Vec<_> = results.iter().collect();
        let settings = &context.options.settings;
        let blamed = self.answers(plan, chosen, searches, (&results, settings))?;
        let seconds = finished.doc.summary.seconds;
        finished.doc = cases::report_doc(context, &finished.results, seconds);
        Ok(blamed)
    }

    /// Adds the searches that a name of steps means, such as `blame:bert:cpu-fp32`, to a project: no spec has them. Of one case
    /// that cannot be searched, the error says why.
    pub fn with_searches(
        &self,
        mut project: Project,
        name: &str,
        listener: &dyn Listener,
    ) -> anyhow::Result<Project> {
        if !is_search(name) {
            return Ok(project);
        }
        let plan = &project.plan;
        let held = self.held(&project, &project.idle_options(), listener)?;
        let chosen: Vec<_> = all_suspects(plan, &held).collect();
        let searches = self.searches(plan, &chosen)?;
        for (suspect, search) in chosen.iter().zip(&searches) {
            let case = suspect.case.case.id();
            if let Err(why) = search
                && step_name(&case) == name
            {
                usage!("nothing can be found out about `{case}`: {why}");
            }
        }
        project.plan = plan.extended(steps(&searches)).0;
        Ok(project)
    }

    /// The search for each suspect, or why there can be none.
    fn searches(&self, plan: &Plan, chosen: &[Suspect]) -> anyhow::Result<Vec<Search>> {
        chosen
            .iter()
            .map(|suspect| search(plan, suspect, &self.host.computing))
            .collect()
    }

    /// What each search came to. `results` are those of the steps, in the order of the suspects that have one.
    fn answers(
        &self,
        plan: &Plan,
        chosen: Vec<Suspect>,
        searches: Vec<Search>,
        (results, settings): (&[&StepResult], &Settings),
    ) -> anyhow::Result<Vec<Blamed>> {
        let scratch = self.store.scratch()?;
        let mut results = results.iter();
        let mut blamed = Vec::new();
        for (Suspect { case, .. }, search) in chosen.iter().zip(searches) {
            let answer = match search {
                Err(why) => Err(why),
                Ok(_) => {
                    let result = results.next().context(Bug::new("a search has no step"))?;
                    self.answer(result, case, (&scratch, settings))?
                }
            };
            blamed.push(Blamed::of(plan, case, answer));
        }
        Ok(blamed)
    }

    /// The cases of the plan that are suspect, each with how it failed when it ran last.
    fn chosen(
        &self,
        planned: &Planned,
        suspects: &Suspects<'_>,
        listener: &dyn Listener,
    ) -> anyhow::Result<Vec<Suspect>> {
        let held = self.held(&planned.project, &planned.options, listener)?;
        let all = all_suspects(&planned.project.plan, &held);
        Ok(all
            .filter(|suspect| !suspects.only_wrong || suspect.failure.is_some())
            .collect())
    }

    /// What a search came to, or why it has no finding.
    fn answer(
        &self,
        result: &StepResult,
        case: &PlannedCase,
        place: (&Scratch, &Settings),
    ) -> anyhow::Result<Result<Found, String>> {
        let ended = || format!("the search ended as {}", result.outcome.label());
        match result.output() {
            Some(tree) => Ok(Ok(self.found(&tree, case, place)?)),
            None => Ok(Err(result.reason.clone().unwrap_or_else(ended))),
        }
    }

    /// Reads a finding from its tree, and hands out the folder that shows it.
    fn found(
        &self,
        tree: &Digest,
        case: &PlannedCase,
        (scratch, settings): (&Scratch, &Settings),
    ) -> anyhow::Result<Found> {
        let name = case.case.id();
        let folder = scratch.dir("finding")?;
        bfs::make_empty(&folder)?;
        self.store.lay_out(tree, &folder, LaidAs::Copies)?;
        let left = || Bug::new("a search that succeeded left no finding");
        let text = std::fs::read(folder.join(FINDING)).with_context(left)?;
        let finding = serde_json::from_slice(&text).with_context(left)?;
        let repro = Some(folder.join(REPRO)).filter(|folder| folder.is_dir());
        Ok(Found {
            finding,
            repro: repro
                .map(|made| hand_out(&made, &settings.out_dir, &name))
                .transpose()?,
        })
    }
}

/// How a runtime failed a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Its outputs are wrong.
    Wrong,
    /// What it was to load is wrong.
    WrongFile,
    /// The runtime refused to run it, or ended.
    AtRun,
    /// The runtime's converter refused it, or ended.
    AtConversion,
}

impl Failure {
    /// How a case failed, whether that was expected or not; None if it did not, or by nothing that windows could show.
    fn of(case: &CaseResult) -> Option<Self> {
        let expected = case.expected.as_ref().map(|expected| expected.status);
        let ended = expected
            .filter(|_| case.status == Outcome::Xfail)
            .unwrap_or(case.status);
        match ended {
            Outcome::Numerics if case.stage.as_deref() == Some(Stage::Convert.word()) => {
                Some(Self::WrongFile)
            }
            Outcome::Numerics => Some(Self::Wrong),
            Outcome::Fail | Outcome::Crash | Outcome::SkipUnsupported => {
                match Stage::named(case.stage.as_deref()?)? {
                    Stage::Run => Some(Self::AtRun),
                    Stage::Convert => Some(Self::AtConversion),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

struct Suspect {
    case: PlannedCase,
    /// None where it did not fail when it ran last, or did not run.
    failure: Option<Failure>,
}

/// The step that searches for what makes a case wrong, or why none can.
type Search = Result<Step, String>;

/// All cases of a plan, each with how it failed by a report.
fn all_suspects(plan: &Plan, doc: &ReportDoc) -> impl Iterator<Item = Suspect> {
    let failures: BTreeMap<String, Failure> = doc
        .cases
        .iter()
        .filter_map(|case| Some((case.case.clone(), Failure::of(case)?)))
        .collect();
    plan.cases.iter().map(move |case| Suspect {
        case: case.clone(),
        failure: failures.get(&case.case.id()).copied(),
    })
}

fn steps(searches: &[Search]) -> Vec<Step> {
    let found = searches.iter().filter_map(|search| search.as_ref().ok());
    found.cloned().collect()
}

/// Whether a name means searches, which no spec has: `blame:bert:cpu-fp32`, `blame:*`.
pub fn is_search(name: &str) -> bool {
    name.starts_with(&step_name(""))
}

impl Suspect {
    /// Whether an answer leaves open which part of the model the exporter gets wrong.
    fn may_be_exported_wrongly(&self, answer: &Result<Found, String>) -> bool {
        match answer {
            Ok(found) => found.finding.verdict == Verdict::File,
            // The export may have failed, so that there was no graph to search.
            Err(_) => matches!(self.failure, None | Some(Failure::AtConversion)),
        }
    }
}

/// The failed cases of a report of which `orch blame` may find the cause.
pub fn suspects(doc: &ReportDoc) -> Vec<&str> {
    let may_be = |case: &&CaseResult| {
        case.is_failure()
            && matches!(Failure::of(case), Some(Failure::Wrong | Failure::AtRun))
            && case
                .runtime
                .as_deref()
                .is_some_and(|runtime| is_searched(runtime, &case.requested_device))
    };
    let wrong = doc.cases.iter().filter(may_be);
    wrong.map(|case| case.case.as_str()).collect()
}

/// The step that searches for what makes a case wrong, or why none can.
fn search(plan: &Plan, suspect: &Suspect, host: &str) -> anyhow::Result<Search> {
    let case = &suspect.case;
    let mode = match suspect.failure {
        None | Some(Failure::Wrong | Failure::WrongFile) => Mode::Values,
        Some(Failure::AtRun | Failure::AtConversion) => Mode::Refusal,
    };
    let run = plan.step(case.run);
    if let Some(export) = export_of(plan, case.run)? {
        let is_loaded = export == maker_of(run, "artefact")?;
        if suspect.failure == Some(Failure::WrongFile)
            || (suspect.failure == Some(Failure::AtConversion) && is_loaded)
        {
            return Ok(Ok(export_search(plan, case, export, None, host)?));
        }
    }
    let judge = plan.step(case.judge);
    let JudgeParams { tolerance, .. } = judge.params.parse()?;
    let params = match BlameParams::of(run, mode, tolerance, host) {
        Ok(params) => params,
        Err(why) => return Ok(Err(why)),
    };
    let mut artefact = maker_of(run, "artefact")?;
    if suspect.failure == Some(Failure::AtConversion) {
        // The graph that the runtime refuses is what its converter reads.
        let read = plan.dependencies(artefact).next();
        artefact = read.context(Bug::new("a conversion reads nothing"))?;
    }
    let mut inputs: Inputs = vec![
        ("artefact".into(), Source::Step(artefact)),
        ("reference".into(), Source::Step(maker_of(judge, "model")?)),
    ];
    // What is loaded is the file itself, or was converted from one.
    let sources = plan.step(artefact).dependencies().enumerate();
    inputs.extend(sources.map(|(at, id)| (format!("source-{at}").into(), Source::Step(id))));
    // What rounding makes is compared with the case's own outputs.
    if run.run().precision != Precision::Fp32 {
        inputs.push(("result".into(), Source::Step(case.run)));
    }
    let name = step_name(&case.case.id());
    let params = serde_json::to_value(params)?;
    let timeout = run.timeout_seconds * LONGER;
    Ok(Ok(Step {
        toolchain: run.toolchain.clone(),
        ..Step::new(name, Stage::Judge, &BLAME, params, inputs, timeout)
    }))
}

/// The export of the PyTorch model that a run loads, or of which that was converted.
fn export_of(plan: &Plan, run: StepId) -> anyhow::Result<Option<StepId>> {
    let mut at = Some(maker_of(plan.step(run), "artefact")?);
    while let Some(id) = at {
        if is_export(plan.step(id)) {
            return Ok(Some(id));
        }
        at = plan.dependencies(id).next();
    }
    Ok(None)
}

/// The step that searches for the module that an export gets wrong. `made` is the export where it made a file.
fn export_search(
    plan: &Plan,
    case: &PlannedCase,
    export: StepId,
    made: Option<StepId>,
    host: &str,
) -> anyhow::Result<Step> {
    let JudgeParams { tolerance, .. } = plan.step(case.judge).params.parse()?;
    let model = Source::Step(maker_of(plan.step(export), "model")?);
    // What the case read when it failed stands under this name, by which the finding is known to be of it.
    let mut inputs: Inputs = vec![(
        "artefact".into(),
        made.map_or_else(|| model.clone(), Source::Step),
    )];
    if made.is_some() {
        inputs.push(("model".into(), model));
    }
    let export = plan.step(export);
    Ok(Step::new(
        step_name(&case.case.id()),
        Stage::Judge,
        &BLAME_EXPORT,
        serde_json::to_value(BlameExportParams::of(export, tolerance, host))?,
        inputs,
        export.timeout_seconds * LONGER,
    ))
}

/// Copies the files to a folder that the user finds; those of an earlier time are replaced.
fn hand_out(made: &Path, out_dir: &Path, case: &str) -> anyhow::Result<PathBuf> {
    let to = out_dir.join(FOLDER).join(case.replace([':', '/'], "_"));
    std::fs::create_dir_all(&to).with_context(|| format!("failed to make `{}`", to.display()))?;
    for name in bfs::files_below(made)? {
        let content = std::fs::read(made.join(&name))?;
        bfs::write_atomic(&to.join(&name), &content)
            .with_context(|| format!("failed to write `{}`", to.join(&name).display()))?;
    }
    Ok(to)
}
