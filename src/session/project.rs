//! A spec's plan, and the files that it came from.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::base::figures::counted;
use crate::base::{glob, suggest};
use crate::exec::Options;
use crate::matrix::{AUTO, Matrix, Selection};
use crate::plan::{self, Clock, Plan};
use crate::session::half::{self, Ask};
use crate::session::{Request, Session, Sweep, UsageError, auto, usage};
use crate::spec::{SourceFile, Spec, SpecErrors};
use crate::step::{Stage, StepId};

pub struct Project {
    pub plan: Plan,
    pub name: String,
    /// The folder whose files commands may read, absolute: the current one, or the spec's if that lies elsewhere.
    root: PathBuf,
    /// Every YAML file that was read.
    pub files: Vec<SourceFile>,
    /// The runs of it that are timed.
    pub(super) clock: Clock,
    /// Sizes that replace the spec's.
    pub(super) sweep: Sweep,
    /// What its cases are depends on what devices answered.
    pub(super) probes: bool,
}

/// The folder of the project of a spec.
fn root(spec: &Path) -> PathBuf {
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let here = real(std::env::current_dir().unwrap_or_default());
    let spec = real(here.join(spec));
    match spec.parent() {
        Some(folder) if !spec.starts_with(&here) => folder.to_owned(),
        _ => here,
    }
}

impl Project {
    /// Loads the project as it is on every host: cases of targets with `half` at each precision that it may come to.
    pub fn load(request: &Request) -> anyhow::Result<Self> {
        Self::of(request, None, |_| request.clock())
    }

    /// [`Self::load`] for those who look for its results on this host: they are timed where they are here.
    pub fn load_here(request: &Request, session: &Session) -> anyhow::Result<Self> {
        Self::of(request, None, |spec| clock(spec, request, session))
    }

    pub(super) fn of(
        request: &Request,
        here: Option<(&Session, Ask<'_>)>,
        clock: impl FnOnce(&Spec) -> Clock,
    ) -> anyhow::Result<Self> {
        let mut spec = spec(&request.spec)?;
        request.sweep.apply(&mut spec);
        let clock = clock(&spec);
        let spec = &spec;
        if request.chooses() && here.is_none() {
            let hint = "hint: name the targets instead of `-t auto`";
            usage!("this command knows no host to choose a target for\n  {hint}");
        }
        let mut selection: Selection = request.selection.clone();
        let matrix = Matrix::with(spec, &selection.targets);
        matrix
            .each_expectation_counts(spec)
            .map_err(|e| UsageError(e.to_string()))?;
        selection.targets.retain(|target| target != AUTO);
        let mut matrix = matrix
            .select(spec, &selection)
            .map_err(|e| UsageError(e.to_string()))?;
        let probes = matrix.asks_for_half(spec);
        if let Some((session, ask)) = here {
            half::resolve_half(&mut matrix, spec, session, ask);
            if request.chooses() {
                auto::choose(&mut matrix, spec, session);
            }
        }
        let plan = plan::build_with(spec, &matrix, request.fallback, &clock);
        let plan = plan.map_err(|e| UsageError(e.to_string()))?;
        let sweep = request.sweep.clone();
        Ok(Self {
            plan,
            clock,
            sweep,
            name: request.spec.display().to_string(),
            root: root(&request.spec),
            files: spec.files.clone(),
            probes,
        })
    }

    /// Options for commands that only read the store.
    pub fn idle_options(&self) -> Options {
        Options {
            jobs: 1,
            memory: u64::MAX,
            spec: self.name.clone(),
            project: self.root.clone(),
            routing: crate::session::away::usual_routing(),
            ..Options::default()
        }
    }

    /// Steps by glob; one that names nothing is an error, with the nearest name.
    pub fn steps(&self, globs: &[String]) -> anyhow::Result<BTreeSet<StepId>> {
        let mut found = BTreeSet::new();
        for pattern in globs {
            let chosen = self.matching(pattern);
            if chosen.is_empty() {
                let other = match pattern.as_str() {
                    "all" => "`'*'` names them all",
                    _ => "`orch plan --all` lists the steps",
                };
                let hint = suggest::hint_or(pattern, self.plan.names(), other);
                usage!("no step is called `{pattern}`\n  hint: {hint}");
            }
            found.extend(chosen);
        }
        Ok(found)
    }

    pub(super) fn matching(&self, pattern: &str) -> Vec<StepId> {
        let plan = &self.plan;
        let stages = [
            Stage::Generate,
            Stage::Convert,
            Stage::Run,
            Stage::Judge,
            Stage::Command,
        ];
        if let Some(stage) = stages.into_iter().find(|stage| stage.word() == pattern) {
            return plan
                .ids()
                .filter(|id| plan.step(*id).stage == stage)
                .collect();
        }
        if let Some(case) = pattern.strip_prefix("case:") {
            let named = plan
                .cases
                .iter()
                .filter(|planned| glob::matches(case, &planned.case.id()));
            return named.map(|planned| planned.run).collect();
        }
        plan.ids()
            .filter(|id| glob::matches(pattern, &plan.step(*id).name))
            .collect()
    }
}

impl Session {
    /// The project for this host: `half` of targets is resolved, and `-t auto` chooses one target for each case.
    pub fn project(&self, request: &Request, ask: Ask<'_>) -> anyhow::Result<Project> {
        Project::of(request, Some((self, ask)), |spec| {
            clock(spec, request, self)
        })
    }
}

fn clock(spec: &Spec, request: &Request, session: &Session) -> Clock {
    request
        .clock()
        .on(session.inventory_for(!spec.models.is_empty()))
}

pub fn spec(path: &Path) -> anyhow::Result<Spec> {
    let usage_error = |e: SpecErrors| {
        UsageError(format!(
            "{} has {}\n\n{e}\n",
            path.display(),
            counted(e.0.len(), "error")
        ))
    };
    Ok(Spec::load(path).map_err(usage_error)?)
}
